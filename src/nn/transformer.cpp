#include <lockstep/nn/transformer.h>

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/nn/init.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {
namespace {

const Tensor& input_of(const char* layer, const Operand& x) {
  const CallScope call(layer, x);
  return tensor_operand(x);
}

// A mask as a bias of the scores, in their dtype.
Tensor as_bias(const Tensor& mask, DType dtype) {
  if (mask.dtype() != DType::boolean) return mask.to(dtype);
  const Tensor shown = zeros({}, {dtype, mask.device()});
  return where(mask, -std::numeric_limits<double>::infinity(), shown);
}

}  // namespace

MultiheadAttention::MultiheadAttention(Module& parent, std::string name, std::int64_t embed_dim, std::int64_t num_heads,
                                       MultiheadAttentionOptions options)
    : Module(parent, std::move(name)),
      embed_dim_(embed_dim),
      num_heads_(num_heads),
      dropout_(options.dropout),
      batch_first_(options.batch_first),
      out_proj(*this, "out_proj", embed_dim, embed_dim, {.bias = options.bias}) {
  if (num_heads < 1 || embed_dim < 1 || embed_dim % num_heads != 0) {
    throw ValueError(fmt::format("{}: {} heads do not divide {} features", path(), num_heads, embed_dim));
  }
  if (!(dropout_ >= 0 && dropout_ <= 1)) throw ValueError(fmt::format("{}: {} is not a probability", path(), dropout_));
  const std::int64_t kdim = options.kdim == 0 ? embed_dim : options.kdim;
  const std::int64_t vdim = options.vdim == 0 ? embed_dim : options.vdim;
  if (kdim == embed_dim && vdim == embed_dim) {
    in_proj_weight = Parameter(*this, "in_proj_weight", init::xavier_uniform({3 * embed_dim, embed_dim}));
  } else {
    q_proj_weight = Parameter(*this, "q_proj_weight", init::xavier_uniform({embed_dim, embed_dim}));
    k_proj_weight = Parameter(*this, "k_proj_weight", init::xavier_uniform({embed_dim, kdim}));
    v_proj_weight = Parameter(*this, "v_proj_weight", init::xavier_uniform({embed_dim, vdim}));
  }
  if (!options.bias) return;
  in_proj_bias = Parameter(*this, "in_proj_bias", zeros({3 * embed_dim}));
  out_proj.bias.set(zeros({embed_dim}));
}

MultiheadAttentionResult MultiheadAttention::forward(const Operand& query, const Operand& key, const Operand& value,
                                                     const AttentionMasks& masks, bool need_weights) const {
  const CallScope call("MultiheadAttention", query);
  const std::vector<Shown> shown{{"query", query}, {"key", key}, {"value", value}};
  check_defined(shown);
  const int rank = tensor_operand(query).rank();
  if ((rank != 2 && rank != 3) || tensor_operand(key).rank() != rank || tensor_operand(value).rank() != rank) {
    fail<ShapeError>("query, key and value must have 3 dimensions, or 2 without a batch", shown);
  }
  // One product for all three where they are of one tensor.
  const bool self = in_proj_weight.defined() && &query.tensor() == &key.tensor() && &key.tensor() == &value.tensor();
  const Tensor joint = self ? linear(query, in_proj_weight, in_proj_bias.optional()) : Tensor();
  // [N, heads, length, features] of what is [L, N, E], [N, L, E] or [L, E].
  const auto project = [&](const Operand& x, std::int64_t number, const Parameter& own) {
    const std::int64_t first = number * embed_dim_;
    Tensor y;
    if (self) {
      y = joint.narrow(-1, first, embed_dim_);
    } else {
      std::optional<Tensor> bias;
      if (in_proj_bias.defined()) bias = in_proj_bias.tensor().narrow(0, first, embed_dim_);
      const bool packed = in_proj_weight.defined();
      y = linear(x, packed ? in_proj_weight.tensor().narrow(0, first, embed_dim_) : own.tensor(), bias);
    }
    if (rank == 2) {
      y = y.unsqueeze(0);
    } else if (!batch_first_) {
      y = y.transpose(0, 1);
    }
    return y.unflatten(2, {num_heads_, embed_dim_ / num_heads_}).transpose(1, 2);
  };
  const Tensor q = project(query, 0, q_proj_weight);
  const Tensor k = project(key, 1, k_proj_weight);
  const Tensor v = project(value, 2, v_proj_weight);
  const std::int64_t batch = q.shape()[0], queries = q.shape()[2], keys = k.shape()[2];
  if (k.shape()[0] != batch || v.shape()[0] != batch || v.shape()[2] != keys) {
    fail<ShapeError>("query, key and value must have one batch size, key and value one length", shown);
  }

  std::optional<Tensor> bias;
  if (masks.mask) {
    Tensor mask = as_bias(*masks.mask, q.dtype());
    if (mask.rank() == 3) mask = mask.unflatten(0, {-1, num_heads_});
    bias = mask;
  }
  if (masks.key_padding_mask) {
    Tensor padding = as_bias(*masks.key_padding_mask, q.dtype());
    if (padding.rank() == 1) padding = padding.unsqueeze(0);
    if (padding.shape() != Shape{batch, keys}) {
      fail<ShapeError>(fmt::format("key_padding_mask must be [{}, {}]", batch, keys),
                       {{"key", key}, {"key_padding_mask", *masks.key_padding_mask}});
    }
    padding = padding.reshape({batch, 1, 1, keys});
    bias = bias ? add(*bias, padding) : padding;
  }

  MultiheadAttentionResult result;
  Tensor heads;
  const bool drops = training() && dropout_ > 0;
  if (!need_weights && !drops) {
    heads = scaled_dot_product_attention(q, k, v, {.mask = bias, .causal = masks.causal});
  } else {
    const double scale = 1 / std::sqrt(static_cast<double>(embed_dim_ / num_heads_));
    Tensor scores = matmul(q, k.transpose(2, 3)) * scale;
    if (bias) scores = add(scores, *bias);
    if (masks.causal) {
      const TensorOptions options{DType::i64, q.device()};
      const Tensor later = gt(arange(0, static_cast<double>(keys), 1, options),
                              arange(0, static_cast<double>(queries), 1, options).unsqueeze(1));
      scores = where(later, -std::numeric_limits<double>::infinity(), scores);
    }
    // A query that sees no key attends to nothing.
    const Tensor lost = eq(amax(scores, {-1}, true), -std::numeric_limits<double>::infinity());
    Tensor weights = softmax(where(lost, 0.0, scores), -1);
    weights = where(lost, 0.0, weights);
    if (need_weights) result.weights = mean(weights, {1});
    if (drops) weights = dropout(weights, dropout_);
    heads = matmul(weights, v);
  }
  Tensor joined = heads.transpose(1, 2).flatten(2, 3);
  if (rank == 2) {
    joined = joined.squeeze(0);
    if (need_weights) result.weights = result.weights.squeeze(0);
  } else if (!batch_first_) {
    joined = joined.transpose(0, 1);
  }
  result.output = out_proj(joined);
  return result;
}

namespace {

Activation checked(const Module& layer, const Activation& activation) {
  if (!activation) throw ValueError(fmt::format("{}: the activation is empty", layer.path()));
  return activation;
}

MultiheadAttentionOptions attention_options(const TransformerLayerOptions& options) {
  return {.dropout = options.dropout, .bias = options.bias, .batch_first = options.batch_first};
}

LayerNormOptions norm_options(const TransformerLayerOptions& options) {
  return {.eps = options.layer_norm_eps, .bias = options.bias};
}

// x with a residual: the norm stands before `part`, or behind the sum.
template <typename Part>
Tensor with_residual(const Tensor& x, const LayerNorm& norm, const Dropout& drop, bool norm_first, Part part) {
  const Tensor y = drop(part(norm_first ? norm(x) : x));
  const Tensor total = add(x, y);
  return norm_first ? total : norm(total);
}

}  // namespace

TransformerEncoderLayer::TransformerEncoderLayer(Module& parent, std::string name, std::int64_t d_model,
                                                 std::int64_t num_heads, const TransformerLayerOptions& options)
    : Module(parent, std::move(name)),
      self_attn(*this, "self_attn", d_model, num_heads, attention_options(options)),
      linear1(*this, "linear1", d_model, options.dim_feedforward, {.bias = options.bias}),
      linear2(*this, "linear2", options.dim_feedforward, d_model, {.bias = options.bias}),
      norm1(*this, "norm1", {d_model}, norm_options(options)),
      norm2(*this, "norm2", {d_model}, norm_options(options)),
      dropout_(*this, "dropout", options.dropout),
      dropout1_(*this, "dropout1", options.dropout),
      dropout2_(*this, "dropout2", options.dropout),
      activation_(checked(*this, options.activation)),
      norm_first_(options.norm_first) {}

Tensor TransformerEncoderLayer::forward(const Operand& operand, const AttentionMasks& masks) const {
  const CallScope call(operand.site());
  Tensor x = input_of("TransformerEncoderLayer", operand);
  x = with_residual(x, norm1, dropout1_, norm_first_, [&](const Tensor& y) {
    const Operand self(y);
    return self_attn(self, self, self, masks);
  });
  return with_residual(x, norm2, dropout2_, norm_first_, [&](const Tensor& y) {
    const Tensor inner = activation_(linear1(y));
    return linear2(dropout_(inner));
  });
}

TransformerDecoderLayer::TransformerDecoderLayer(Module& parent, std::string name, std::int64_t d_model,
                                                 std::int64_t num_heads, const TransformerLayerOptions& options)
    : Module(parent, std::move(name)),
      self_attn(*this, "self_attn", d_model, num_heads, attention_options(options)),
      multihead_attn(*this, "multihead_attn", d_model, num_heads, attention_options(options)),
      linear1(*this, "linear1", d_model, options.dim_feedforward, {.bias = options.bias}),
      linear2(*this, "linear2", options.dim_feedforward, d_model, {.bias = options.bias}),
      norm1(*this, "norm1", {d_model}, norm_options(options)),
      norm2(*this, "norm2", {d_model}, norm_options(options)),
      norm3(*this, "norm3", {d_model}, norm_options(options)),
      dropout_(*this, "dropout", options.dropout),
      dropout1_(*this, "dropout1", options.dropout),
      dropout2_(*this, "dropout2", options.dropout),
      dropout3_(*this, "dropout3", options.dropout),
      activation_(checked(*this, options.activation)),
      norm_first_(options.norm_first) {}

Tensor TransformerDecoderLayer::forward(const Operand& operand, const Tensor& memory, const AttentionMasks& masks,
                                        const AttentionMasks& memory_masks) const {
  const CallScope call(operand.site());
  Tensor x = input_of("TransformerDecoderLayer", operand);
  x = with_residual(x, norm1, dropout1_, norm_first_, [&](const Tensor& y) {
    const Operand self(y);
    return self_attn(self, self, self, masks);
  });
  x = with_residual(x, norm2, dropout2_, norm_first_,
                    [&](const Tensor& y) { return multihead_attn(y, memory, memory, memory_masks); });
  return with_residual(x, norm3, dropout3_, norm_first_, [&](const Tensor& y) {
    const Tensor inner = activation_(linear1(y));
    return linear2(dropout_(inner));
  });
}

TransformerEncoder::TransformerEncoder(Module& parent, std::string name, std::int64_t d_model, std::int64_t num_heads,
                                       std::int64_t num_layers, const TransformerOptions& options)
    : Module(parent, std::move(name)), layers(*this, "layers") {
  for (std::int64_t i = 0; i < num_layers; ++i) layers.add(d_model, num_heads, options.layer);
  if (options.final_norm) {
    norm_ = std::make_unique<LayerNorm>(*this, "norm", Shape{d_model}, norm_options(options.layer));
  }
}

Tensor TransformerEncoder::forward(const Operand& operand, const AttentionMasks& masks) const {
  const CallScope call(operand.site());
  Tensor x = input_of("TransformerEncoder", operand);
  for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, masks);
  return norm_ ? (*norm_)(x) : x;
}

TransformerDecoder::TransformerDecoder(Module& parent, std::string name, std::int64_t d_model, std::int64_t num_heads,
                                       std::int64_t num_layers, const TransformerOptions& options)
    : Module(parent, std::move(name)), layers(*this, "layers") {
  for (std::int64_t i = 0; i < num_layers; ++i) layers.add(d_model, num_heads, options.layer);
  if (options.final_norm) {
    norm_ = std::make_unique<LayerNorm>(*this, "norm", Shape{d_model}, norm_options(options.layer));
  }
}

Tensor TransformerDecoder::forward(const Operand& operand, const Tensor& memory, const AttentionMasks& masks,
                                   const AttentionMasks& memory_masks) const {
  const CallScope call(operand.site());
  Tensor x = input_of("TransformerDecoder", operand);
  for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](x, memory, masks, memory_masks);
  return norm_ ? (*norm_)(x) : x;
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
