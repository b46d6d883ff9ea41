// What one rank gives and gets in one collective: tensors on their way through an engine.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/tensor.h>

#include "backends/side_work.h"
#include "dist/engine.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

class Exchange {
 public:
  struct Given {
    int to;
    Tensor tensor;
  };
  struct Wanted {
    int from;
    Shape shape;
  };
  /// Computes what is given, and makes room for what comes, which has the dtype and device of `like`, as what is given
  /// has.
  Exchange(const Engine& engine, std::string call, const Tensor& like, std::vector<Given> given,
           std::vector<Wanted> wanted);

  /// By any one thread; what is given and what comes belongs to this meanwhile.
  void move(Engine& engine);
  /// What came, in the order of `wanted`.
  std::vector<Tensor> take();

 private:
  using Bytes = std::vector<std::byte>;

  std::string call_;
  Device device_;
  DType dtype_;
  bool is_direct_;  ///< the engine reads and writes the device's memory
  std::vector<Wanted> wanted_;
  std::vector<BufferRef> held_;
  std::vector<Bytes> host_given_;
  std::vector<Bytes> host_wanted_;
  std::vector<BufferRef> buffers_;  ///< of what comes, where no host_wanted_ is
  std::vector<Outgoing> outgoing_;
  std::vector<Incoming> incoming_;
  std::unique_ptr<WorkMark> mark_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
