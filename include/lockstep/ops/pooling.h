// Windows over the last dimensions: pools.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

struct PoolOptions {
  Shape kernel;
  Shape stride = {};       ///< empty: the kernel
  Shape padding = {0};     ///< at most half the kernel; never wins a maximum
  Shape dilation = {1};    ///< max pools only
  bool ceil_mode = false;
  bool count_include_pad = true;  ///< average pools only
};
/// input [N, C, H, W] or [C, H, W] (1-d: one dimension less).
LOCKSTEP_API Tensor max_pool1d(const Operand& input, const PoolOptions& options);
LOCKSTEP_API Tensor max_pool2d(const Operand& input, const PoolOptions& options);
LOCKSTEP_API Tensor avg_pool1d(const Operand& input, const PoolOptions& options);
LOCKSTEP_API Tensor avg_pool2d(const Operand& input, const PoolOptions& options);
LOCKSTEP_API Tensor adaptive_avg_pool2d(const Operand& input, const Shape& output_size);

}  // namespace v0
}  // namespace lockstep
