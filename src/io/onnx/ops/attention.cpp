// Attention and rotary positions, as ONNX has them from version 23 on.
#include <lockstep/ops.h>

#include <cmath>
#include <limits>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

constexpr double kMasked = -std::numeric_limits<double>::infinity();

// [N, L, heads * E] as [N, heads, L, E].
Tensor in_heads(const Call& call, const Tensor& x, std::string_view attribute) {
  if (x.rank() == 4) return x;
  const std::int64_t heads = call.integer(attribute);
  call.require(x.rank() == 3 && heads > 0 && x.shape()[2] % heads == 0, "the heads do not divide the last dimension");
  return x.reshape({x.shape()[0], x.shape()[1], heads, -1}).permute({0, 2, 1, 3});
}

// Zeros where a key may be seen, -infinity elsewhere, added to what the mask says: [..., L, S], or nothing.
Tensor bias_of(const Call& call, const Tensor& query, std::int64_t queries, std::int64_t keys) {
  const TensorOptions counted{.dtype = DType::i64, .device = call.device()};
  const Tensor zero = zeros({}, {.dtype = query.dtype(), .device = call.device()});
  const auto as_bias = [&](const Tensor& allowed) { return where(allowed, zero, full_like(zero, kMasked)); };
  Tensor bias;
  if (call.has(3)) {
    Tensor mask = call.input(3);
    const bool flags = mask.dtype() == DType::boolean;
    bias = flags ? as_bias(mask) : mask;
    const std::int64_t missing = keys - bias.shape().back();
    if (missing > 0) bias = pad(bias, {0, missing}, kMasked);
  }
  const auto restrict = [&](const Tensor& allowed) {
    bias = bias.defined() ? add(bias, as_bias(allowed)) : as_bias(allowed);
  };
  const Tensor key = arange(static_cast<double>(keys), counted);
  const Tensor lengths = call.has(6) ? call.input(6).to(DType::i64).reshape({-1, 1, 1, 1}) : Tensor();
  Tensor position = arange(static_cast<double>(queries), counted).reshape({queries, 1});
  if (call.has(4))
    position = add(position, static_cast<double>(call.shape(4)[2]));
  else if (lengths.defined())
    position = add(position, sub(lengths, static_cast<double>(queries)));
  if (call.integer("is_causal", 0) != 0) restrict(le(key, position));
  const std::int64_t left = call.integer("left_window_size", -1);
  const std::int64_t right = call.integer("right_window_size", -1);
  if (left >= 0) restrict(le(sub(position, key), static_cast<double>(left)));
  if (right >= 0) restrict(le(sub(key, position), static_cast<double>(right)));
  if (lengths.defined()) restrict(lt(key, lengths));
  return bias;
}

// Softmax in which a row that sees nothing is zeros.
Tensor guarded_softmax(const Tensor& scores, const Tensor& bias) {
  const Tensor weights = softmax(scores, -1);
  if (!bias.defined()) return weights;
  return where(eq(amax(bias, {-1}, true), kMasked), zeros_like(weights), weights);
}

std::vector<Tensor> attention(const Call& call) {
  const Tensor query = in_heads(call, call.input(0), "q_num_heads");
  Tensor key = in_heads(call, call.input(1), "kv_num_heads");
  Tensor value = in_heads(call, call.input(2), "kv_num_heads");
  if (call.has(4)) key = cat({call.input(4), key}, 2);
  if (call.has(5)) value = cat({call.input(5), value}, 2);
  std::vector<Tensor> outputs = {Tensor(), key, value, Tensor()};
  const std::int64_t groups = query.shape()[1] / key.shape()[1];
  call.require(groups * key.shape()[1] == query.shape()[1], "the heads of the keys do not divide those of the queries");
  if (groups > 1) {
    key = repeat_interleave(key, groups, 1);
    value = repeat_interleave(value, groups, 1);
  }
  const double wanted = call.number("scale", 0);
  const double scale = wanted == 0 ? 1 / std::sqrt(static_cast<double>(query.shape()[3])) : wanted;
  const double softcap = call.number("softcap", 0);
  const Tensor bias = bias_of(call, query, query.shape()[2], key.shape()[2]);
  const std::int64_t mode = call.integer("qk_matmul_output_mode", 0);
  const bool narrow = query.dtype() == DType::f16 || query.dtype() == DType::bf16;
  Tensor y;
  if (softcap == 0 && !call.wants(3) && !narrow) {
    AttentionOptions options{.scale = scale};
    if (bias.defined()) options.mask = bias;
    y = scaled_dot_product_attention(query, key, value, options);
  } else {
    // The root of the scale goes to both sides, as the specification has it.
    const double part = std::sqrt(scale);
    Tensor scores = matmul(mul(query, part), mul(key, part).transpose(-1, -2));
    if (mode == 0) outputs[3] = scores;
    if (softcap > 0) scores = mul(tanh(div(scores, softcap)), softcap);
    if (mode == 1) outputs[3] = scores;
    if (bias.defined()) scores = add(scores, bias);
    if (mode == 2) outputs[3] = scores;
    const DType precision = call.dtype("softmax_precision", query.dtype());
    const Tensor weights = guarded_softmax(scores.to(precision), bias).to(query.dtype());
    if (mode == 3) outputs[3] = weights;
    y = matmul(weights, value);
  }
  if (call.shape(0).rank() == 3) y = y.permute({0, 2, 1, 3}).reshape({y.shape()[0], y.shape()[2], -1});
  outputs[0] = y;
  return outputs;
}

std::vector<Tensor> rotary_embedding(const Call& call) {
  const Tensor& given = call.input(0);
  Tensor x = given.rank() == 4 ? given.permute({0, 2, 1, 3}) : in_heads(call, given, "num_heads").permute({0, 2, 1, 3});
  Tensor cosine = call.input(1);
  Tensor sine = call.input(2);
  if (call.has(3)) {
    const Tensor& positions = call.input(3);
    Shape shape = positions.shape();
    shape.push_back(cosine.shape().back());
    const Tensor flat = positions.to(DType::i64).reshape({-1});
    cosine = index_select(cosine, 0, flat).reshape(shape);
    sine = index_select(sine, 0, flat).reshape(shape);
  }
  cosine = cosine.unsqueeze(2);
  sine = sine.unsqueeze(2);
  const std::int64_t width = x.shape()[3];
  const std::int64_t stated = call.integer("rotary_embedding_dim", 0);
  const std::int64_t turned = stated == 0 ? width : stated;
  call.require(turned > 0 && turned <= width && turned % 2 == 0, "rotary_embedding_dim does not fit");
  const Tensor rotated = x.narrow(3, 0, turned);
  const bool interleaved = call.integer("interleaved", 0) != 0;
  const Tensor a = interleaved ? rotated.slice(3, {.step = 2}) : rotated.narrow(3, 0, turned / 2);
  const Tensor b = interleaved ? rotated.slice(3, {.start = 1, .step = 2}) : rotated.narrow(3, turned / 2, turned / 2);
  const Tensor real = sub(mul(cosine, a), mul(sine, b));
  const Tensor imaginary = add(mul(sine, a), mul(cosine, b));
  Tensor y = interleaved ? stack({real, imaginary}, -1).reshape(rotated.shape()) : cat({real, imaginary}, 3);
  if (turned < width) y = cat({y, x.narrow(3, turned, width - turned)}, 3);
  return {given.rank() == 4 ? y.permute({0, 2, 1, 3}) : y.reshape(given.shape())};
}

constexpr Operator kAttentionOperators[] = {
    {.name = "Attention", .since = 23, .run = attention},
    {.name = "RotaryEmbedding", .since = 23, .run = rotary_embedding},
};

}  // namespace

std::span<const Operator> attention_operators() {
  return kAttentionOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
