#include <algorithm>
#include <iterator>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// A probe's shape is [m, k, n]; the weights hold whole blocks along their last dimension.
Tensor x(Probe& p, const Shape& shape) {
  const Tensor made = p.x(shape);
  return made.dtype() == DType::f64 ? made.to(DType::f32) : made;  // a slope's
}

constexpr Encoding kEncodings[] = {
#define ENCODING(name, ...) Encoding::name,
#define FLOATS(name, ...) ENCODING(name)
#define NARROW(name, ...) Encoding::name,
#include <lockstep/encodings.def>
#undef ENCODING
};

// Variants of each encoding: unpacked, also through views; a table; the right operand of linear, and of products as it lies.
constexpr int kOfOne = 5;
constexpr int kVariants = kOfOne * static_cast<int>(std::size(kEncodings));
Tensors unpack(Probe& p) {
  const Encoding encoding = kEncodings[p.variant() / kOfOne];
  const Tensor weight = p.packed({p.size(2), p.size(1)}, encoding);
  const std::int64_t k = weight.shape()[1];
  switch (p.variant() % kOfOne) {
    case 0:
      return {dequantize(weight), dequantize(weight.transpose(0, 1)),
              dequantize(weight.slice(1, {.start = 5, .step = 3})), dequantize(weight.flip({1}))};
    case 1: return {linear(x(p, {p.size(0), k}), weight)};
    case 2: return {matmul(x(p, {p.size(0), p.size(2)}), weight), matmul(x(p, {p.size(2)}), weight)};
    case 3: return {embedding(weight, p.index({3, 5}, p.size(2))), gather(weight, 1, p.index({p.size(2), 7}, k))};
    default: {
      const Tensor rows = p.packed({3, p.size(2), p.size(1)}, encoding);
      const std::int64_t cut = std::min<std::int64_t>(k, 7);  // views begin anywhere in a block
      return {matmul(x(p, {2, 1, p.size(0), k}), rows.transpose(1, 2)),
              matmul(x(p, {p.size(0), k - cut}), weight.narrow(1, cut, k - cut).transpose(0, 1))};
    }
  }
}

const CheckOp kEncodingOps[] = {{"dequantize", Form::matrix, kVariants, unpack}};

}  // namespace

std::span<const CheckOp> check_encoding_ops() {
  return kEncodingOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
