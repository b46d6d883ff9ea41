// Reads a tensor while its device goes on with what is recorded after it: a loop whose next step depends on what the
// host sees of this one only in the end, as decoding does, need not let the device wait.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <vector>

#include <lockstep/tensor.h>

#include "backends/side_work.h"
#include "graph/dense_data.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

class EarlyRead {
 public:
  /// Begins to compute the tensor, and to copy it. Throws as reading it does, but for bad indices.
  explicit EarlyRead(const Tensor& tensor);
  /// Waits for its elements, and where the device can, for nothing that was recorded later. Throws as reading it does.
  std::vector<std::byte> bytes();
  template <typename T> std::vector<T> to_vector() {
    const std::vector<std::byte> all = bytes();
    std::vector<T> values(all.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), all.data(), all.size());
    return values;
  }

 private:
  Tensor tensor_;
  NodeRef base_;                    ///< whose elements they are
  std::unique_ptr<HostCopy> copy_;  ///< null: it is read in the end
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
