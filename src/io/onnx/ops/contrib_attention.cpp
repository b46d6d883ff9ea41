// Attention as com.microsoft has it: what ONNX Runtime's transformer optimiser and its builder of language models
// write.
#include <lockstep/ops.h>

#include <algorithm>
#include <cmath>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"
#include "io/onnx/ops/integer_product.h"
#include "io/onnx/ops/quantized.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// Of the shape [N, heads, L, E] each.
struct Heads {
  Tensor query, key, value;
};

// [N, L, heads * E] as [N, heads, L, E], and back.
Tensor split_heads(const Call& call, const Tensor& x, std::int64_t heads) {
  call.require(x.rank() == 3 && heads > 0 && x.size(2) % heads == 0, "the heads do not divide the last dimension");
  return x.unflatten(-1, {heads, -1}).transpose(1, 2);
}
Tensor joined_heads(const Tensor& x) {
  return x.transpose(1, 2).flatten(2);
}

// Zeros for keys that a mask shows, a large negative number for others, [N, 1, L or 1, S]; nothing without a mask.
// A mask is 1 and 0 for every key (of every query), or the number of keys, or that and the first key.
Tensor mask_bias(const Call& call, std::size_t input, std::int64_t batch, std::int64_t keys) {
  if (!call.has(input)) return {};
  const Tensor& mask = call.input(input);
  const double hidden = call.number("mask_filter_value", -10000.0f);
  Tensor visible;
  if (mask.rank() == 1) {
    const Tensor key = arange(static_cast<double>(keys), {.dtype = DType::i64, .device = call.device()});
    const Tensor numbers = mask.to(DType::i64).reshape({-1, 1});
    call.require(mask.size(0) == batch || mask.size(0) == 2 * batch,
                 "a mask of numbers is not of the size of the batch");
    visible = lt(key, numbers.narrow(0, 0, batch));
    if (mask.size(0) == 2 * batch) visible = bitwise_and(visible, ge(key, numbers.narrow(0, batch, batch)));
    visible = visible.reshape({batch, 1, 1, keys});
  } else {
    call.require(mask.rank() == 2 || mask.rank() == 3, "a mask has one to three dimensions");
    visible = gt(mask, 0).unsqueeze(1);
    if (mask.rank() == 2) visible = visible.unsqueeze(1);
  }
  const Tensor zero = zeros({}, {.device = call.device()});
  return where(visible, zero, full_like(zero, hidden));
}

Tensor sum_of(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() ? add(a, b) : a.defined() ? a : b;
}

Tensor attend(const Call& call, const Heads& heads, const Tensor& bias, bool causal) {
  AttentionOptions options{.causal = causal, .alignment = CausalAlignment::bottom_right};
  if (bias.defined()) options.mask = bias.to(heads.query.dtype());
  if (const float scale = call.number("scale", 0); scale != 0) options.scale = scale;
  return joined_heads(scaled_dot_product_attention(heads.query, heads.key, heads.value, options));
}

// What Attention and QAttention share behind their product: x W + b is [N, L, query | key | value].
std::vector<Tensor> attention_of_product(const Call& call, const Tensor& product, std::size_t mask, std::size_t past,
                                         std::size_t bias) {
  const std::int64_t heads = call.integer("num_heads");
  call.require(product.rank() == 3, "the input is not [N, L, features]");
  std::vector<std::int64_t> sizes = call.integers("qkv_hidden_sizes");
  const std::int64_t width = product.size(2);
  if (sizes.empty()) sizes = {width / 3, width / 3, width / 3};
  call.require(sizes.size() == 3 && sizes[0] > 0 && sizes[1] > 0 && sizes[2] > 0 && sizes[0] <= width &&
                   sizes[1] <= width - sizes[0] && sizes[2] == width - sizes[0] - sizes[1],
               "the sizes of query, key and value are not those of the product");
  Heads parts{split_heads(call, product.narrow(2, 0, sizes[0]), heads),
              split_heads(call, product.narrow(2, sizes[0], sizes[1]), heads),
              split_heads(call, product.narrow(2, sizes[0] + sizes[1], sizes[2]), heads)};
  if (call.has(past)) {
    parts.key = cat({call.input(past).select(0, 0), parts.key}, 2);
    parts.value = cat({call.input(past).select(0, 1), parts.value}, 2);
  }
  Tensor all = mask_bias(call, mask, product.size(0), parts.key.size(2));
  if (bias != 0 && call.has(bias)) all = sum_of(all, call.input(bias));
  const Tensor y = attend(call, parts, all, call.integer("unidirectional", 0) != 0);
  return {y, call.wants(1) ? stack({parts.key, parts.value}, 0) : Tensor()};
}

// input, weight, bias, mask, past, bias of the scores.
std::vector<Tensor> microsoft_attention(const Call& call) {
  Tensor product = matmul(call.input(0), call.input(1));
  if (call.has(2)) product = add(product, call.input(2));
  return attention_of_product(call, product, 3, 4, 5);
}
// input, weight, bias, their scales, mask, their zero points, past.
std::vector<Tensor> quantised_attention(const Call& call) {
  const Tensor& weight_scale = call.input(4);
  const Tensor sums = integer_product(call, call.input(0), call.optional_input(6), 1, 7);
  const Tensor factor = mul(call.input(3).reshape({}), along(weight_scale, 1, 0));
  return attention_of_product(call, add(mul(sums.to(DType::f32), factor), call.input(2)), 5, 8, 0);
}
std::string check_packed_attention(const NodeFacts& node) {
  if (node.integer("do_rotary", 0) != 0) return "do_rotary";
  return node.integer("past_present_share_buffer", 0) != 0 ? "past_present_share_buffer" : "";
}

// query, key, value, bias, mask, bias of the scores, past key, past value.
std::vector<Tensor> multi_head_attention(const Call& call) {
  const std::int64_t heads = call.integer("num_heads");
  const Tensor& query = call.input(0);
  const Tensor bias = call.optional_input(3);
  std::int64_t used = 0;  // of the bias
  const auto biased = [&](const Tensor& x) {
    if (!bias.defined()) return x;
    const std::int64_t width = x.size(1) * x.size(3);
    call.require(bias.rank() == 1 && used + width <= bias.size(0), "the bias is not that of query, key and value");
    const Tensor part = bias.narrow(0, used, width).reshape({x.size(1), 1, x.size(3)});
    used += width;
    return add(x, part);
  };
  Heads parts;
  if (query.rank() == 5) {  // [N, L, heads, 3, E]
    call.require(query.size(3) == 3 && !call.has(1), "a query with key and value in it is [N, L, heads, 3, E]");
    const auto part = [&](std::int64_t i) { return query.select(3, i).transpose(1, 2); };
    parts = {part(0), part(1), part(2)};
  } else {
    const Tensor& key = call.input(1);
    parts.query = split_heads(call, query, heads);
    if (key.rank() == 5) {  // [N, S, heads, 2, E]
      call.require(key.size(3) == 2, "a key with the value in it is [N, S, heads, 2, E]");
      parts.key = key.select(3, 0).transpose(1, 2);
      parts.value = key.select(3, 1).transpose(1, 2);
    } else if (key.rank() == 4) {
      parts.key = key;
      parts.value = call.input(2);
    } else {
      parts.key = split_heads(call, key, heads);
      parts.value = split_heads(call, call.input(2), heads);
    }
  }
  parts.query = biased(parts.query);
  if (query.rank() == 5 || call.input(1).rank() != 4) {  // of keys that came in heads no bias is left
    parts.key = biased(parts.key);
    parts.value = biased(parts.value);
  }
  if (call.has(6)) parts.key = cat({call.input(6), parts.key}, 2);
  if (call.has(7)) parts.value = cat({call.input(7), parts.value}, 2);
  Tensor all = mask_bias(call, 4, query.size(0), parts.key.size(2));
  if (call.has(5)) all = sum_of(all, call.input(5));
  return {attend(call, parts, all, call.integer("unidirectional", 0) != 0), parts.key, parts.value};
}
std::string check_multi_head(const NodeFacts& node) {
  if (node.has(8) || node.has(9)) return "a cache that is written in place";
  return node.wants(3) ? "the scores as an output" : "";
}

// x [N, heads, L, E] turned by tables [positions, E / 2] at `positions` [N or 1, L].
Tensor turned(const Tensor& x, const Tensor& positions, const Tensor& cosine, const Tensor& sine, bool interleaved) {
  const std::int64_t half = cosine.size(-1);
  const auto at = [&](const Tensor& table) {
    return index_select(table, 0, positions.to(DType::i64).reshape({-1}))
        .reshape({positions.size(0), 1, positions.size(1), half});
  };
  const Tensor c = at(cosine);
  const Tensor s = at(sine);
  const Tensor front = x.narrow(3, 0, 2 * half);
  const Tensor a = interleaved ? front.slice(3, {.step = 2}) : front.narrow(3, 0, half);
  const Tensor b = interleaved ? front.slice(3, {.start = 1, .step = 2}) : front.narrow(3, half, half);
  const Tensor first = sub(mul(a, c), mul(b, s));
  const Tensor second = add(mul(a, s), mul(b, c));
  const Tensor y = interleaved ? stack({first, second}, -1).flatten(3) : cat({first, second}, 3);
  return 2 * half < x.size(3) ? cat({y, x.narrow(3, 2 * half, x.size(3) - 2 * half)}, 3) : y;
}

// first + 0, 1, ... of each row.
Tensor positions_from(const Call& call, const Tensor& first, std::int64_t length) {
  const Tensor steps = arange(static_cast<double>(length), {.dtype = DType::i64, .device = call.device()});
  return add(first.to(DType::i64).reshape({-1, 1}), steps);
}

// input, positions, tables of cosines and sines.
std::vector<Tensor> microsoft_rotary_embedding(const Call& call) {
  const Tensor& given = call.input(0);
  const std::int64_t stated = call.integer("rotary_embedding_dim", 0);
  const std::int64_t heads = call.integer("num_heads", 0);
  const Tensor& cosine = call.input(2);
  call.require(cosine.rank() == 2 && call.input(3).shape() == cosine.shape(),
               "the tables are not [positions, size / 2]");
  const std::int64_t width = 2 * cosine.size(1);
  call.require(stated == 0 || stated == width, "rotary_embedding_dim is not that of the tables");
  Tensor x = given;
  if (given.rank() == 3)
    x = split_heads(call, given, heads > 0 ? heads : given.size(2) / std::max<std::int64_t>(width, 1));
  call.require(x.rank() == 4 && width > 0 && width <= x.size(3), "the tables are wider than a head");
  const Tensor& given_positions = call.input(1);
  const Tensor positions = given_positions.numel() == 1 ? positions_from(call, given_positions, x.size(2))
                                                        : given_positions.reshape({given.size(0), -1});
  const Tensor y = turned(x, positions, cosine, call.input(3), call.integer("interleaved", 0) != 0);
  return {given.rank() == 3 ? joined_heads(y) : y};
}
std::string check_rotary(const NodeFacts& node) {
  if (node.number("scale", 1) != 1) return "scale";
  return node.integer("is_packed_batching", 0) != 0 ? "is_packed_batching" : "";
}

// query, key, value, past key and value, how many keys each row has less 1, how many there are at most, tables of
// cosines and sines, positions, bias of the scores. Rows of a batch may have caches of different lengths.
std::vector<Tensor> group_query_attention(const Call& call) {
  const std::int64_t heads = call.integer("num_heads"), shared = call.integer("kv_num_heads");
  const Tensor& given = call.input(0);
  Heads all;
  if (call.has(1)) {
    all = {split_heads(call, given, heads), split_heads(call, call.input(1), shared),
           split_heads(call, call.input(2), shared)};
  } else {
    call.require(heads > 0 && shared > 0, "num_heads and kv_num_heads must be positive");
    const Tensor packed = split_heads(call, given, heads + 2 * shared);
    all = {packed.narrow(1, 0, heads), packed.narrow(1, heads, shared), packed.narrow(1, heads + shared, shared)};
  }
  const std::vector<std::int64_t> last = call.host_integers(5);
  const std::int64_t batch = given.size(0), length = given.size(1);
  const std::int64_t room = std::max(call.host_integer(6), call.has(3) ? call.input(3).size(2) : 0);
  call.require(std::ssize(last) == batch, "seqlens_k has not one number a row");
  const bool rotates = call.integer("do_rotary", 0) != 0;
  const std::int64_t window = call.integer("local_window_size", -1);
  std::vector<Tensor> outputs, keys, values;
  for (std::int64_t row = 0; row < batch; ++row) {
    const std::int64_t total = last[static_cast<std::size_t>(row)] + 1;
    // Prompts are filled up behind their end; what stands there is computed, and nobody reads it.
    const std::int64_t past = std::max<std::int64_t>(total - length, 0);
    call.require(total > 0 && total <= room && past <= (call.has(3) ? call.input(3).size(2) : 0),
                 "seqlens_k is not what the cache holds");
    Heads heads_of_row{all.query.narrow(0, row, 1), all.key.narrow(0, row, 1), all.value.narrow(0, row, 1)};
    if (rotates) {
      const Tensor positions =
          call.has(9) ? call.input(9).narrow(0, row, 1)
                      : (arange(static_cast<double>(length), {.dtype = DType::i64, .device = call.device()}) +
                         static_cast<double>(past))
                            .unsqueeze(0);
      const bool interleaved = call.integer("rotary_interleaved", 0) != 0;
      heads_of_row.query = turned(heads_of_row.query, positions, call.input(7), call.input(8), interleaved);
      heads_of_row.key = turned(heads_of_row.key, positions, call.input(7), call.input(8), interleaved);
    }
    if (past > 0) {
      heads_of_row.key = cat({call.input(3).narrow(0, row, 1).narrow(2, 0, past), heads_of_row.key}, 2);
      heads_of_row.value = cat({call.input(4).narrow(0, row, 1).narrow(2, 0, past), heads_of_row.value}, 2);
    }
    AttentionOptions options{
        .causal = true, .first_query = past, .enable_gqa = true, .softcap = call.number("softcap", 0)};
    if (const float scale = call.number("scale", 0); scale != 0) options.scale = scale;
    if (window > 0) options.window_left = window - 1;
    if (call.has(10)) {
      const Tensor& bias = call.input(10);
      options.mask = bias.narrow(0, bias.size(0) == 1 ? 0 : row, 1).narrow(3, 0, past + length).to(given.dtype());
    }
    outputs.push_back(
        joined_heads(scaled_dot_product_attention(heads_of_row.query, heads_of_row.key, heads_of_row.value, options)));
    const auto filled = [&](const Tensor& x) {
      return x.size(2) < room ? pad(x, {0, 0, 0, room - x.size(2)}) : x.narrow(2, 0, room);
    };
    keys.push_back(filled(heads_of_row.key));
    values.push_back(filled(heads_of_row.value));
  }
  return {cat(outputs, 0), cat(keys, 0), cat(values, 0)};
}
std::string check_group_query(const NodeFacts& node) {
  if (node.integer("smooth_softmax", 0) > 0 || node.has(11)) return "smooth_softmax or head_sink";
  if (node.has(12) || node.has(13)) return "a quantised cache";
  return node.wants(3) ? "the scores as an output" : "";
}

// ids, segments, tables of words, positions and segments, weight, bias, mask, positions.
std::vector<Tensor> embed_layer_normalization(const Call& call) {
  const Tensor& ids = call.input(0);
  call.require(ids.rank() == 2, "the words are not [N, L]");
  const std::int64_t length = ids.size(1);
  const auto rows = [&](std::size_t table, const Tensor& index) {
    Shape shape = index.shape();
    shape.push_back(call.input(table).size(1));
    return index_select(call.input(table), 0, index.to(DType::i64).reshape({-1})).reshape(shape);
  };
  const Tensor positions =
      call.has(8) ? call.input(8) : arange(static_cast<double>(length), {.dtype = DType::i64, .device = call.device()});
  Tensor x = add(rows(2, ids), rows(3, positions));
  if (call.has(4)) x = add(x, rows(4, call.has(1) ? call.input(1) : zeros_like(ids)));
  const Tensor y = layer_norm(x, {x.shape().back()}, call.input(5), call.input(6), call.number("epsilon", 1e-12f));
  const Tensor seen = call.has(7) ? sum(call.input(7).to(DType::i32), {1}).to(DType::i32)
                                  : zeros({ids.size(0)}, {.dtype = DType::i32, .device = call.device()});
  return {y, seen, x};
}

constexpr Operator kContribAttentionOperators[] = {
    {.domain = kMicrosoft, .name = "Attention", .run = microsoft_attention, .check = check_packed_attention},
    {.domain = kMicrosoft, .name = "QAttention", .run = quantised_attention, .check = check_packed_attention},
    {.domain = kMicrosoft, .name = "MultiHeadAttention", .run = multi_head_attention, .check = check_multi_head},
    {.domain = kMicrosoft, .name = "GroupQueryAttention", .run = group_query_attention, .check = check_group_query},
    {.domain = kMicrosoft, .name = "RotaryEmbedding", .run = microsoft_rotary_embedding, .check = check_rotary},
    {.domain = kMicrosoft, .name = "EmbedLayerNormalization", .run = embed_layer_normalization},
};

}  // namespace

std::span<const Operator> contrib_attention_operators() {
  return kContribAttentionOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
