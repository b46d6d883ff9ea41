#include "graph/ops/attention_call.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

AttentionCall::AttentionCall(const Operand& given_query, const Operand& given_key, const Operand& given_value,
                             const AttentionOptions& given_options)
    : options(given_options) {
  shown = {{"query", given_query}, {"key", given_key}, {"value", given_value}};
  check_operands(shown);
  check_float(shown[0]);
  if (options.mask) {
    shown.emplace_back("mask", *options.mask);
    check_same_device(shown);
  }
  query = given_query.tensor();
  key = given_key.tensor();
  value = given_value.tensor();
  check_shapes();
  check_options();
  const std::int64_t features = query.shape().back();
  scale = options.scale.value_or(features == 0 ? 1.0 : 1.0 / std::sqrt(static_cast<double>(features)));
}

void AttentionCall::check_shapes() {
  const Shape& q = query.shape();
  const Shape& k = key.shape();
  const Shape& v = value.shape();
  if (q.rank() < 2 || k.rank() < 2 || v.rank() < 2) {
    fail<ShapeError>("query, key and value need at least two dimensions", shown, "they are [..., H, L, E]");
  }
  if (q.back() != k.back()) {
    fail<ShapeError>(fmt::format("query has {} features, key {}", q.back(), k.back()), shown);
  }
  rows = q[q.rank() - 2];
  keys = k[k.rank() - 2];
  if (v[v.rank() - 2] != keys) {
    fail<ShapeError>(fmt::format("key has {} positions, value {}", keys, v[v.rank() - 2]), shown);
  }
  Shape lead_q = q.slice(0, q.rank() - 2);
  Shape lead_k = k.slice(0, k.rank() - 2);
  Shape lead_v = v.slice(0, v.rank() - 2);
  if (options.enable_gqa) {
    const bool heads = !lead_q.empty() && !lead_k.empty() && !lead_v.empty() && lead_k.back() == lead_v.back() &&
                       lead_k.back() > 0 && lead_q.back() % lead_k.back() == 0;
    if (!heads) {
      fail<ShapeError>("the heads of key and value (dimension -3) must be equal and divide the query's", shown);
    }
    repeats = lead_q.back() / lead_k.back();
    lead_q[lead_q.rank() - 1] = lead_k.back();
  }
  lead = broadcast(broadcast(lead_q, lead_k), lead_v);
  if (lead.rank() > 4) {
    fail<ShapeError>(fmt::format("{} dimensions before the positions are too many", lead.rank()), shown,
                     "merge batch dimensions with reshape");
  }
  // [lead..., repeats, L, E], [lead..., S, E], [lead..., S, V]
  Shape split = lead_q;
  split.push_back(repeats);
  split.push_back(rows);
  split.push_back(q.back());
  Shape full = lead;
  for (int d = split.rank() - 3; d < split.rank(); ++d) full.push_back(split[d]);
  query = change_view(query, [&](const View& view) -> std::optional<View> {
    std::optional<View> result = view.reshaped(split);
    if (result) *result = result->expanded(full);
    return result;
  });
  const auto expanded = [&](const Tensor& tensor) {
    Shape shape = lead;
    shape.push_back(tensor.shape()[tensor.rank() - 2]);
    shape.push_back(tensor.shape().back());
    return tensor.expand(shape);
  };
  key = expanded(key);
  value = expanded(value);
}

Shape AttentionCall::broadcast(const Shape& a, const Shape& b) const {
  Shape result = a.rank() >= b.rank() ? a : b;
  for (int i = 1; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::int64_t size_a = a[a.rank() - i];
    const std::int64_t size_b = b[b.rank() - i];
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      fail<ShapeError>(fmt::format("sizes {} and {} before the positions do not broadcast", size_a, size_b), shown,
                       options.enable_gqa ? "" : "fewer heads of key and value need enable_gqa");
    }
    result[result.rank() - i] = size_a == 1 ? size_b : size_a;
  }
  return result;
}

void AttentionCall::check_options() {
  if (options.window_left.value_or(0) < 0 || options.window_right.value_or(0) < 0) {
    fail<ValueError>("a window is negative", shown, "leave it out to see all keys on that side");
  }
  if (!(options.softcap >= 0)) {
    fail<ValueError>(fmt::format("softcap {} is negative", options.softcap), shown);
  }
  if (options.first_query) check_first_query();
  const std::int64_t aligned = options.alignment == CausalAlignment::bottom_right ? keys - rows : 0;
  const std::int64_t at = options.first_query.value_or(aligned);
  if (options.causal) behind = at;
  if (options.window_right) behind = std::min(behind.value_or(at + *options.window_right), at + *options.window_right);
  if (options.window_left) before = at - *options.window_left;
  if (!options.mask) return;
  const Tensor& given = *options.mask;
  if (given.dtype() != DType::boolean && given.dtype() != query.dtype() && given.dtype() != wide(query.dtype())) {
    fail<DTypeError>("mask must be bool or have the query's dtype", shown);
  }
  // [..., H, L, S] with H split into (heads of the key, repeats)
  Shape full = result_shape();
  full[full.rank() - 1] = keys;
  if (broadcast_shape({{"mask", given}, {"scores", zeros(full, {DType::boolean, given.device()})}}) != full) {
    fail<ShapeError>(fmt::format("mask does not broadcast to {}", full.to_string()), shown);
  }
  Shape split = lead;
  split.push_back(repeats);
  split.push_back(rows);
  split.push_back(keys);
  mask = change_view(given.expand(full), [&](const View& view) { return view.reshaped(split); });
}

void AttentionCall::check_first_query() {
  const std::int64_t first = *options.first_query;
  if (!options.causal && !options.window_right) {
    fail<ValueError>("first_query says which keys are behind a query, but nothing hides them", shown,
                     "set causal, or window_right");
  }
  if (first < 0 || first > keys || rows > keys - first) {
    fail<ValueError>(fmt::format("{} queries from position {} on do not fit {} keys", rows, first, keys), shown);
  }
}

Shape AttentionCall::joined_heads(std::int64_t last) const {
  Shape shape = lead;
  if (repeats != 1) shape[shape.rank() - 1] *= repeats;
  shape.push_back(rows);
  shape.push_back(last);
  return shape;
}

Shape AttentionCall::with_rows(std::int64_t last) const {
  Shape shape = lead;
  shape.push_back(repeats);
  shape.push_back(rows);
  shape.push_back(last);
  return shape;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
