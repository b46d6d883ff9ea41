// What a node makes of its weights alone, kept from run to run: the gates of an LSTM in the order that our layers take.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

class DerivedWeights {
 public:
  /// make(), which depends on `sources` alone. What it gave is kept once the same sources have come twice in a row, and
  /// as long as they do: a parameter that is changed is another value. Only for what needs no gradient. From any
  /// thread.
  std::vector<Tensor> of(const std::vector<Tensor>& sources, const std::function<std::vector<Tensor>()>& make);

 private:
  bool are_known(const std::vector<Tensor>& sources) const;

  std::mutex mutex_;
  std::vector<Tensor> sources_;
  std::vector<Tensor> values_;
};

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
