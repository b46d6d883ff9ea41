// Operators of com.microsoft with small integers: what the quantisers of ONNX Runtime and Hugging Face's Optimum write.
#include <lockstep/ops.h>

#include "io/onnx/model.h"
#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"
#include "io/onnx/ops/integer_product.h"
#include "io/onnx/ops/quantized.h"
#include "io/onnx/plan.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// Integers times the product of their factors' scales; `b_scale` has one number, or one a column.
Tensor scaled_product(const Tensor& product, const Tensor& a_scale, const Tensor& b_scale) {
  const Tensor columns = b_scale.numel() == 1 ? b_scale.reshape({}) : b_scale;
  return mul(product.to(DType::f32), mul(a_scale.reshape({}), columns));
}

// a, b, b's scale, b's zero point, a bias.
std::vector<Tensor> dynamic_quantize_matmul(const Call& call) {
  const Quantised a = quantised_by_range(call, call.input(0));
  Tensor y = scaled_product(integer_product(call, a.values, a.zero, 1, 3), a.scale, call.input(2));
  if (call.has(4)) y = add(y, call.input(4));
  return {y};
}

// a, b, their scales, their zero points, a bias.
std::vector<Tensor> matmul_integer_to_float(const Call& call) {
  Tensor y = scaled_product(integer_product(call, call.input(0), call.optional_input(4), 1, 5), call.input(2),
                            call.input(3));
  if (call.has(6)) y = add(y, call.input(6));
  return {y};
}

// a, its scale and zero point, b, its scales and zero points, a bias in steps of the product, the result's scale and
// zero point; without these the result is of floats.
std::vector<Tensor> quantised_gemm(const Call& call) {
  Tensor a = centred(call.input(0), call.input(2), 0);
  Tensor b = call.integer("transB", 0) != 0 ? call.input(3).transpose(0, 1) : call.input(3);
  b = centred(b, call.input(5), 1);
  if (call.integer("transA", 0) != 0) a = a.transpose(0, 1);
  Tensor sums = matmul(a, b);
  if (call.has(6)) sums = add(sums, call.input(6));
  Tensor factor = mul(call.input(1).reshape({}), along(call.input(4), 2, 1));
  if (const float alpha = call.number("alpha", 1); alpha != 1) factor = mul(factor, alpha);
  const Tensor y = mul(sums.to(DType::f32), factor);
  return {call.has(7) ? quantised_by(call, y, call.input(7), call.optional_input(8)) : y};
}

// Input `i` with its scale and zero point behind it, as floats.
Tensor numbers_of(const Call& call, std::size_t i) {
  return dequantised(call.input(i), call.input(i + 1), call.optional_input(i + 2));
}

template <Tensor (*Function)(const Operand&, const Operand&)> std::vector<Tensor> qlinear_binary(const Call& call) {
  return {
      quantised_by(call, Function(numbers_of(call, 0), numbers_of(call, 3)), call.input(6), call.optional_input(7))};
}

std::vector<Tensor> requantised(const Call& call, const Tensor& y) {
  return {quantised_by(call, y, call.input(3), call.optional_input(4))};
}
std::vector<Tensor> qlinear_sigmoid(const Call& call) {
  return requantised(call, sigmoid(numbers_of(call, 0)));
}
std::vector<Tensor> qlinear_leaky_relu(const Call& call) {
  return requantised(call, leaky_relu(numbers_of(call, 0), call.number("alpha", 0.01f)));
}
std::vector<Tensor> qlinear_softmax(const Call& call) {
  const Tensor x = numbers_of(call, 0);
  const int axis = axis_of(call, call.integer("axis", -1), x.rank());
  if (call.integer("opset") >= 13) return requantised(call, softmax(x, axis));
  Dims dims;
  for (int d = axis; d < x.rank(); ++d) dims.push_back(d);
  return requantised(call, softmax(x, dims));
}
// The sum of integers is exact; one factor makes it steps of the result.
std::vector<Tensor> qlinear_global_average(const Call& call) {
  const Tensor x = centred(call.input(0), call.optional_input(2), 0);
  Dims dims;
  std::int64_t count = 1;
  const int first = call.integer("channels_last", 0) != 0 ? 1 : 2;
  for (int d = first; d < first + x.rank() - 2; ++d) {
    dims.push_back(d);
    count *= x.size(d);
  }
  const Tensor total = sum(x, dims, true).to(DType::f32);
  const Tensor factor = div(call.input(1).reshape({}), mul(call.input(3).reshape({}), static_cast<double>(count)));
  const Tensor zero = call.optional_input(4);
  return {quantised(call, mul(total, factor), zero.defined() ? zero.reshape({}) : zero,
                    zero.defined() ? zero.dtype() : DType::u8)};
}
std::vector<Tensor> qlinear_reduce_mean(const Call& call) {
  const Tensor x = numbers_of(call, 0);
  Dims dims = dims_of(axes_of(call, call.integers("axes"), x.rank()));
  for (int d = 0; call.integers("axes").empty() && d < x.rank(); ++d) dims.push_back(d);
  return requantised(call, mean(x, dims, call.integer("keepdims", 1) != 0));
}

// The result's scale and zero point, then parts with theirs.
std::vector<Tensor> qlinear_concat(const Call& call) {
  call.require(call.inputs() >= 5 && (call.inputs() - 2) % 3 == 0, "parts come with a scale and a zero point each");
  std::vector<Tensor> parts;
  for (std::size_t i = 2; i < call.inputs(); i += 3) parts.push_back(numbers_of(call, i));
  const int axis = axis_of(call, call.integer("axis"), parts.front().rank());
  return {quantised_by(call, cat(parts, axis), call.input(0), call.optional_input(1))};
}

// Integers of 4, 2 or 8 bits that share bytes, the first in the lowest bits: [..., bytes] to [..., bytes * 8 / bits].
Tensor unpacked(const Tensor& packed, std::int64_t bits) {
  const Tensor wide = packed.to(DType::i32);
  if (bits == 8) return wide;
  std::vector<Tensor> parts;
  for (std::int64_t shift = 0; shift < 8; shift += bits) {
    parts.push_back(bitwise_and(shift_right(wide, static_cast<double>(shift)), static_cast<double>((1 << bits) - 1)));
  }
  return stack(parts, -1).flatten(-2);
}

// The weight of MatMulNBits as floats, [N, K]: blocks of a row share a scale and perhaps a zero point.
Tensor weight_of_blocks(const Call& call, std::int64_t n, std::int64_t k, std::int64_t bits, std::int64_t block) {
  const std::int64_t blocks = (k + block - 1) / block;
  call.require(call.input(1).numel() == n * blocks * block * bits / 8,
               "the weight has not as many bytes as N, K and "
               "block_size say");
  call.require(call.input(2).numel() == n * blocks, "there is not one scale a block");
  const Tensor values = unpacked(call.input(1), bits).reshape({n, blocks, block});
  const Tensor scales = call.input(2).to(DType::f32).reshape({n, blocks, 1});
  Tensor weight;
  if (!call.has(3)) {
    weight = mul(sub(values, static_cast<double>(1 << (bits - 1))).to(DType::f32), scales);
  } else if (is_float(call.input(3).dtype())) {
    weight = mul(sub(values.to(DType::f32), call.input(3).to(DType::f32).reshape({n, blocks, 1})), scales);
  } else {
    const Tensor zeros = unpacked(call.input(3).reshape({n, -1}), bits).narrow(1, 0, blocks).unsqueeze(2);
    weight = mul(sub(values, zeros).to(DType::f32), scales);
  }
  return weight.flatten(1).narrow(1, 0, k).contiguous();
}

std::vector<Tensor> matmul_nbits(const Call& call) {
  const std::int64_t n = call.integer("N"), k = call.integer("K");
  const std::int64_t bits = call.integer("bits", 4), block = call.integer("block_size", 32);
  call.require(n > 0 && k > 0 && block >= 16 && (block & (block - 1)) == 0 && n <= (std::int64_t{1} << 32) &&
                   k <= (std::int64_t{1} << 32),
               "N, K or block_size is out of range");
  std::vector<Tensor> sources = {call.input(1), call.input(2)};
  if (call.has(3)) sources.push_back(call.input(3));
  const Tensor weight = call.planned().derived->of(
      sources, [&] { return std::vector<Tensor>{weight_of_blocks(call, n, k, bits, block)}; })[0];
  const Tensor& x = call.input(0);
  Tensor y = matmul(x.to(DType::f32), weight.transpose(0, 1));
  if (call.has(5)) y = add(y, call.input(5).to(DType::f32));
  return {y.to(x.dtype())};
}
std::string check_matmul_nbits(const NodeFacts& node) {
  const std::int64_t bits = node.integer("bits", 4);
  if (bits != 2 && bits != 4 && bits != 8) return "bits=" + std::to_string(bits);
  return node.has(4) ? "g_idx: rows in another order" : "";
}

constexpr Operator kContribQuantizedOperators[] = {
    {.domain = kMicrosoft, .name = "DynamicQuantizeMatMul", .run = dynamic_quantize_matmul},
    {.domain = kMicrosoft, .name = "MatMulIntegerToFloat", .run = matmul_integer_to_float},
    {.domain = kMicrosoft, .name = "QGemm", .run = quantised_gemm},
    {.domain = kMicrosoft, .name = "QLinearAdd", .run = qlinear_binary<add>},
    {.domain = kMicrosoft, .name = "QLinearMul", .run = qlinear_binary<mul>},
    {.domain = kMicrosoft, .name = "QLinearSigmoid", .run = qlinear_sigmoid},
    {.domain = kMicrosoft, .name = "QLinearLeakyRelu", .run = qlinear_leaky_relu},
    {.domain = kMicrosoft, .name = "QLinearSoftmax", .run = qlinear_softmax},
    {.domain = kMicrosoft, .name = "QLinearGlobalAveragePool", .run = qlinear_global_average},
    {.domain = kMicrosoft, .name = "QLinearReduceMean", .run = qlinear_reduce_mean},
    {.domain = kMicrosoft, .name = "QLinearConcat", .run = qlinear_concat},
    {.domain = kMicrosoft, .name = "MatMulNBits", .run = matmul_nbits, .check = check_matmul_nbits},
};

}  // namespace

std::span<const Operator> contrib_quantized_operators() {
  return kContribQuantizedOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
