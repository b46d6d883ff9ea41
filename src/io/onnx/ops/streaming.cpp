// Operators that carry a state from call to call: linear attention, and the causal convolution in front of it.
#include <lockstep/ops.h>

#include <cmath>

#include "io/onnx/operators.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// [N, T, heads * E] as [N, heads, T, E].
Tensor in_heads(const Call& call, const Tensor& x, std::int64_t heads) {
  call.require(x.rank() == 3 && heads > 0 && x.size(2) % heads == 0, "the heads do not divide the last dimension");
  return x.unflatten(-1, {heads, -1}).transpose(1, 2).to(DType::f32);
}

// What the state is multiplied by at each position, [N, heads, T, 1 or E].
Tensor decay_of(const Call& call, std::int64_t heads, std::int64_t features) {
  const Tensor decay = call.input(4);
  const std::int64_t width = decay.shape().back();
  call.require(width == heads || width == heads * features, "decay has neither one number a head nor one a feature");
  return exp(in_heads(call, decay, heads));
}

// The recurrence of the specification, position by position, in f32.
std::vector<Tensor> linear_attention(const Call& call) {
  const std::string_view rule = call.text("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta";
  const bool corrects = rule == "delta" || rule == "gated_delta";
  call.require(gated == call.has(4), "decay belongs to the gated rules, and to them alone");
  call.require(corrects == call.has(5), "beta belongs to the delta rules, and to them alone");
  const std::int64_t heads = call.integer("kv_num_heads");
  const Tensor key = in_heads(call, call.input(1), heads);
  const Tensor value = in_heads(call, call.input(2), heads);
  const std::int64_t shared = heads > 0 ? call.integer("q_num_heads") / heads : 0;
  call.require(shared > 0 && shared * heads == call.integer("q_num_heads"),
               "the heads of the keys do not divide those of the queries");
  const Tensor query = in_heads(call, call.input(0), heads * shared);
  const std::int64_t features = key.size(3);
  call.require(query.size(3) == features && query.size(2) == key.size(2) && value.size(2) == key.size(2),
               "query, key and value do not fit");
  const Shape of_state{key.size(0), heads, features, value.size(3)};
  Tensor state = call.has(3) ? call.input(3).to(DType::f32) : zeros(of_state, {.device = call.device()});
  call.require(state.shape() == of_state, "past_state is not [N, heads, features of a key, of a value]");
  const Tensor decay = gated ? decay_of(call, heads, features) : Tensor();
  const Tensor beta = corrects ? in_heads(call, call.input(5), call.shape(5).back()) : Tensor();
  const double wanted = static_cast<double>(call.number("scale", 0));
  const double scale = wanted == 0 ? 1 / std::sqrt(static_cast<double>(features)) : wanted;
  std::vector<Tensor> read;
  for (std::int64_t t = 0; t < key.size(2); ++t) {
    const Tensor k = key.select(2, t).unsqueeze(-1);  // [N, heads, E, 1]
    Tensor v = value.select(2, t).unsqueeze(-2);      // [N, heads, 1, V]
    if (gated) state = state * decay.select(2, t).unsqueeze(-1);
    if (corrects) v = beta.select(2, t).unsqueeze(-1) * (v - matmul(k.transpose(-1, -2), state));
    state = state + k * v;
    const Tensor q = query.select(2, t).unflatten(1, {heads, shared});  // [N, heads, shared, E]
    read.push_back((matmul(q, state) * scale).flatten(1, 2));
  }
  const DType type = call.dtype_of_input(0);
  // [N, query's heads, T, V] to [N, T, ...]
  const Tensor y = stack(read, 2).transpose(1, 2).flatten(2, 3).to(type);
  return {y, state.to(call.has(3) ? call.dtype_of_input(3) : type)};
}

std::vector<Tensor> causal_convolution(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor& weight = call.input(1);
  call.require(x.rank() == 3 && weight.rank() == 3 && weight.size(0) == x.size(1) && weight.size(1) == 1,
               "the weight is not [channels, 1, length]");
  const std::int64_t kept = weight.size(2) - 1;
  const Tensor before =
      call.has(3) ? call.input(3) : zeros({x.size(0), x.size(1), kept}, {.dtype = x.dtype(), .device = call.device()});
  call.require(before.shape() == Shape({x.size(0), x.size(1), kept}), "past_state is not [N, channels, length - 1]");
  const Tensor all = cat({before, x}, 2);
  std::optional<Tensor> bias;
  if (call.has(2)) bias = call.input(2);
  Tensor y = conv1d(all, weight, bias, {.groups = x.size(1)});
  if (call.text("activation", "none") != "none") y = silu(y);
  return {y, all.narrow(2, x.size(2), kept)};
}

std::string check_activation(const NodeFacts& node) {
  const std::string_view name = node.text("activation", "none");
  return name == "none" || name == "silu" || name == "swish" ? "" : "activation=" + std::string(name);
}

std::string check_rule(const NodeFacts& node) {
  const std::string_view name = node.text("update_rule", "gated_delta");
  const bool known = name == "linear" || name == "gated" || name == "delta" || name == "gated_delta";
  return known ? "" : "update_rule=" + std::string(name);
}

constexpr Operator kStreamingOperators[] = {
    {.name = "LinearAttention", .since = 27, .run = linear_attention, .check = check_rule},
    {.name = "CausalConvWithState", .since = 27, .run = causal_convolution, .check = check_activation},
};

}  // namespace

std::span<const Operator> streaming_operators() {
  return kStreamingOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
