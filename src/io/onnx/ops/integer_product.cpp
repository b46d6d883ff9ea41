#include "io/onnx/ops/integer_product.h"

#include <algorithm>

#include <lockstep/ops.h>

#include "graph/check.h"
#include "graph/ops/contraction.h"
#include "io/onnx/ops/quantized.h"
#include "io/onnx/plan.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// What unsigned bytes lose to be signed ones.
constexpr int kSignOfByte = 128;

bool is_per_column(const Tensor& zero, std::int64_t columns) {
  return zero.numel() == 1 || (zero.rank() == 1 && zero.size(0) == columns);
}

}  // namespace

bool has_byte_form(const Tensor& weight, const Tensor& zero) {
  if (weight.rank() != 2 || (weight.dtype() != DType::i8 && weight.dtype() != DType::u8)) return false;
  return !zero.defined() || is_per_column(zero, weight.size(1));
}

ByteWeight byte_weight(const Tensor& weight, const Tensor& zero) {
  return {.bytes = weight,
          .sums = sum(weight, 0).to(DType::i32),
          .zero = zero.defined() ? along(zero.to(DType::i32), 1, 0) : Tensor()};
}

bool is_zero(const Call& call, std::size_t input) {
  if (!call.has(input)) return true;
  const HostArray* const known = call.value(input).host();
  return known != nullptr &&
         std::all_of(known->integers.begin(), known->integers.end(), [](std::int64_t number) { return number == 0; });
}

// Sums wrap at 32 bits, so zero points may be taken off behind them:
// Σ (a - za)(b - zb) = Σ a b - za Σ b - zb Σ (a - za).
// Bytes are multiplied by bytes of the other sign: weights stay as they are, inputs become signed ones where need be.
Tensor times_bytes(const Tensor& a, const Tensor& zero, const ByteWeight& weight) {
  const CallScope call("matmul", a);
  check<ShapeError>(a.shape().back() == weight.bytes.size(0), "the weight has other rows than the input has columns",
                    {{"a", a}, {"weight", weight.bytes}});
  const bool flips = weight.bytes.dtype() == DType::u8;
  const Tensor multiplied = flips ? bitwise_xor(a, kSignOfByte).bitcast(DType::i8) : a;
  Tensor product = graph::batched_matmul(multiplied, weight.bytes);
  Tensor of_rows = zero.defined() ? along(zero.to(DType::i32), a.rank(), -2) : Tensor();
  const Tensor above = zero.defined() ? sub(a.to(DType::i32), of_rows) : a.to(DType::i32);
  if (flips) of_rows = zero.defined() ? sub(of_rows, kSignOfByte) : full({}, -kSignOfByte, {DType::i32, a.device()});
  if (of_rows.defined()) product = sub(product, mul(of_rows, weight.sums));
  if (!weight.zero.defined()) return product;
  return sub(product, mul(sum(above, -1, true).to(DType::i32), weight.zero));
}

Tensor integer_product(const Call& call, const Tensor& a, const Tensor& a_zero, std::size_t weight, std::size_t zero) {
  const Tensor b = call.input(weight);
  const Tensor b_zero = is_zero(call, zero) ? Tensor() : call.input(zero);
  const bool fixed = call.is_fixed(weight) && (!b_zero.defined() || call.is_fixed(zero));
  if (!fixed || a.dtype() != DType::u8 || a.rank() < 2 || !has_byte_form(b, b_zero) || a.shape().back() != b.size(0)) {
    return matmul(centred(a, a_zero, -2), centred_weight(call, weight, zero, -1));
  }
  std::vector<Tensor> sources = {b};
  if (b_zero.defined()) sources.push_back(b_zero);
  const std::vector<Tensor> made = call.planned().derived->of(sources, [&] {
    const ByteWeight of_weight = byte_weight(b, b_zero);
    std::vector<Tensor> all = {of_weight.sums};
    if (b_zero.defined()) all.push_back(of_weight.zero);
    return all;
  });
  return times_bytes(a, a_zero, {b, made[0], b_zero.defined() ? made[1] : Tensor()});
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
