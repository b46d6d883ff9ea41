// The ops on tensors. Names and meaning follow PyTorch; docs/numerics.md says what is computed to the bit.
//
// All ops check shapes, dtypes and devices at the call: ShapeError, DTypeError, DeviceError and ValueError name the
// operands, the fix and the caller. Broadcasting is NumPy's. There is no silent promotion between tensors of different
// dtypes; scalars take the type of the tensor beside them. f16 and bf16 compute in f32 and round once per op.
//
// One rule for arguments: what an op must have is positional, in PyTorch's order, with the dimensions that it is about
// (sum(x, 1)), the parameters that it may have (weight, bias) and the numbers that define the result (the ends of a
// range, a distribution's mean and deviation). Up to two settings may follow by position; where there are more, all
// stand in one options struct at the end, for designated initialisers: max_pool2d(x, 3, {.stride = 2}). A size or
// amount per dimension may be one number for all. The ops that are typed most are methods, too: x.sum(1).
#pragma once

#include <string>
#include <vector>

#include <lockstep/ops/activation.h>
#include <lockstep/ops/attention.h>
#include <lockstep/ops/contraction.h>
#include <lockstep/ops/creation.h>
#include <lockstep/ops/dropout.h>
#include <lockstep/ops/elementwise.h>
#include <lockstep/ops/encoding.h>
#include <lockstep/ops/image.h>
#include <lockstep/ops/indexing.h>
#include <lockstep/ops/loss.h>
#include <lockstep/ops/normalization.h>
#include <lockstep/ops/order.h>
#include <lockstep/ops/pointwise.h>
#include <lockstep/ops/pooling.h>
#include <lockstep/ops/recurrent.h>
#include <lockstep/ops/reduction.h>
#include <lockstep/ops/scan.h>
#include <lockstep/ops/shape.h>
#include <lockstep/ops/statistics.h>

namespace lockstep {
inline namespace v0 {

/// The kernels that reading these tensors would run now, one line each, e.g. "row[64x4096] max sub exp sum div".
LOCKSTEP_API std::vector<std::string> plan(const std::vector<Tensor>& tensors);

}  // namespace v0
}  // namespace lockstep
