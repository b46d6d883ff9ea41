// What identifies weights as they are stored, without unpacking them.
#pragma once

#include <cstdint>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

/// As Tensor::hash; of a tensor packed in blocks that of the blocks' bytes, the same on every device.
std::uint64_t stored_hash(const Tensor& tensor);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
