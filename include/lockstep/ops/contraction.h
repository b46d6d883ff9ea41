// Products and convolutions: sums of products in the order of docs/numerics.md section 6.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// PyTorch: matmul, with its rules for vectors and batches. Integers return i32 (i64 from i64), wrapping.
LOCKSTEP_API Tensor matmul(const Operand& a, const Operand& b);
/// x * weight^T + bias.  x [..., in], weight [out, in], bias [out].
LOCKSTEP_API Tensor linear(const Operand& x, const Operand& weight, const std::optional<Tensor>& bias = std::nullopt);

/// One value for all spatial dimensions, or one per dimension.
struct ConvOptions {
  Shape stride = {1};
  Shape padding = {0};
  Shape dilation = {1};
  std::int64_t groups = 1;
};
/// input [N, C, L], weight [O, C/groups, K], bias [O].
LOCKSTEP_API Tensor conv1d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias = std::nullopt,
                           const ConvOptions& options = {});
/// input [N, C, H, W], weight [O, C/groups, KH, KW], bias [O].
LOCKSTEP_API Tensor conv2d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias = std::nullopt,
                           const ConvOptions& options = {});
/// input [N, C, D, H, W], weight [O, C/groups, KD, KH, KW], bias [O].
LOCKSTEP_API Tensor conv3d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias = std::nullopt,
                           const ConvOptions& options = {});

}  // namespace v0
}  // namespace lockstep
