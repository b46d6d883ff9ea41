#include <lockstep/nn/transformer.h>

#include <cmath>
#include <limits>

#include <fmt/format.h>

#include <lockstep/nn/init.h>
#include <lockstep/ops.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {
namespace nn {
namespace {

constexpr const char* kOp = "MultiheadAttention";

// A mask as a bias of the scores, in their dtype.
Tensor as_bias(const Tensor& mask, DType dtype, CallSite site) {
  if (mask.dtype() != DType::boolean) return mask.to(dtype, site);
  const Tensor shown = zeros({}, {dtype, mask.device()}, site);
  return where(Operand(mask, site), -std::numeric_limits<double>::infinity(), shown);
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
  const CallSite site = query.site();
  const std::vector<graph::Shown> shown{{"query", query}, {"key", key}, {"value", value}};
  graph::check_defined(kOp, shown, site);
  const int rank = graph::tensor_operand(kOp, query).rank();
  if ((rank != 2 && rank != 3) || graph::tensor_operand(kOp, key).rank() != rank ||
      graph::tensor_operand(kOp, value).rank() != rank) {
    graph::fail<ShapeError>(kOp, "query, key and value must have 3 dimensions, or 2 without a batch", shown, "", site);
  }
  // One product for all three where they are of one tensor.
  const bool self = in_proj_weight.defined() && &query.tensor() == &key.tensor() && &key.tensor() == &value.tensor();
  const Tensor joint = self ? linear(query, in_proj_weight, in_proj_bias.optional()) : Tensor();
  // [N, heads, length, features] of what is [L, N, E], [N, L, E] or [L, E].
  const auto project = [&](const Operand& x, std::int64_t number, const Parameter& own) {
    const std::int64_t first = number * embed_dim_;
    Tensor y;
    if (self) {
      y = joint.narrow(-1, first, embed_dim_, site);
    } else {
      std::optional<Tensor> bias;
      if (in_proj_bias.defined()) bias = in_proj_bias.tensor().narrow(0, first, embed_dim_, site);
      const bool packed = in_proj_weight.defined();
      y = linear(x, packed ? in_proj_weight.tensor().narrow(0, first, embed_dim_, site) : own.tensor(), bias);
    }
    if (rank == 2) {
      y = y.unsqueeze(0, site);
    } else if (!batch_first_) {
      y = y.transpose(0, 1, site);
    }
    return y.unflatten(2, {num_heads_, embed_dim_ / num_heads_}, site).transpose(1, 2, site);
  };
  const Tensor q = project(query, 0, q_proj_weight);
  const Tensor k = project(key, 1, k_proj_weight);
  const Tensor v = project(value, 2, v_proj_weight);
  const std::int64_t batch = q.shape()[0], queries = q.shape()[2], keys = k.shape()[2];
  if (k.shape()[0] != batch || v.shape()[0] != batch || v.shape()[2] != keys) {
    graph::fail<ShapeError>(kOp, "query, key and value must have one batch size, key and value one length", shown, "",
                            site);
  }

  std::optional<Tensor> bias;
  if (masks.mask) {
    Tensor mask = as_bias(*masks.mask, q.dtype(), site);
    if (mask.rank() == 3) mask = mask.unflatten(0, {-1, num_heads_}, site);
    bias = mask;
  }
  if (masks.key_padding_mask) {
    Tensor padding = as_bias(*masks.key_padding_mask, q.dtype(), site);
    if (padding.rank() == 1) padding = padding.unsqueeze(0, site);
    if (padding.shape() != Shape{batch, keys}) {
      graph::fail<ShapeError>(kOp, fmt::format("key_padding_mask must be [{}, {}]", batch, keys),
                              {{"key", key}, {"key_padding_mask", *masks.key_padding_mask}}, "", site);
    }
    padding = padding.reshape({batch, 1, 1, keys}, site);
    bias = bias ? add(Operand(*bias, site), padding) : padding;
  }

  MultiheadAttentionResult result;
  Tensor heads;
  const bool drops = training() && dropout_ > 0;
  if (!need_weights && !drops) {
    heads = scaled_dot_product_attention(Operand(q, site), k, v, {.mask = bias, .causal = masks.causal});
  } else {
    const double scale = 1 / std::sqrt(static_cast<double>(embed_dim_ / num_heads_));
    Tensor scores = matmul(Operand(q, site), k.transpose(2, 3, site)) * scale;
    if (bias) scores = add(Operand(scores, site), *bias);
    if (masks.causal) {
      const TensorOptions options{DType::i64, q.device()};
      const Tensor later = gt(Operand(arange(0, static_cast<double>(keys), 1, options, site), site),
                              arange(0, static_cast<double>(queries), 1, options, site).unsqueeze(1, site));
      scores = where(Operand(later, site), -std::numeric_limits<double>::infinity(), scores);
    }
    // A query that sees no key attends to nothing.
    const Tensor lost =
        eq(Operand(amax(Operand(scores, site), {-1}, true), site), -std::numeric_limits<double>::infinity());
    Tensor weights = softmax(Operand(where(Operand(lost, site), 0.0, scores), site), -1);
    weights = where(Operand(lost, site), 0.0, weights);
    if (need_weights) result.weights = mean(Operand(weights, site), {1});
    if (drops) weights = dropout(Operand(weights, site), dropout_);
    heads = matmul(Operand(weights, site), v);
  }
  Tensor joined = heads.transpose(1, 2, site).flatten(2, 3, site);
  if (rank == 2) {
    joined = joined.squeeze(0, site);
    if (need_weights) result.weights = result.weights.squeeze(0, site);
  } else if (!batch_first_) {
    joined = joined.transpose(0, 1, site);
  }
  result.output = out_proj(Operand(joined, site));
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
Tensor with_residual(const Tensor& x, const LayerNorm& norm, const Dropout& drop, bool norm_first, CallSite site,
                     Part part) {
  const Tensor y = drop(Operand(part(norm_first ? norm(Operand(x, site)) : x), site));
  const Tensor total = add(Operand(x, site), y);
  return norm_first ? total : norm(Operand(total, site));
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
  const CallSite site = operand.site();
  Tensor x = graph::tensor_operand("TransformerEncoderLayer", operand);
  x = with_residual(x, norm1, dropout1_, norm_first_, site, [&](const Tensor& y) {
    const Operand self(y, site);
    return self_attn(self, self, self, masks);
  });
  return with_residual(x, norm2, dropout2_, norm_first_, site, [&](const Tensor& y) {
    const Tensor inner = activation_(Operand(linear1(Operand(y, site)), site));
    return linear2(Operand(dropout_(Operand(inner, site)), site));
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
  const CallSite site = operand.site();
  Tensor x = graph::tensor_operand("TransformerDecoderLayer", operand);
  x = with_residual(x, norm1, dropout1_, norm_first_, site, [&](const Tensor& y) {
    const Operand self(y, site);
    return self_attn(self, self, self, masks);
  });
  x = with_residual(x, norm2, dropout2_, norm_first_, site,
                    [&](const Tensor& y) { return multihead_attn(Operand(y, site), memory, memory, memory_masks); });
  return with_residual(x, norm3, dropout3_, norm_first_, site, [&](const Tensor& y) {
    const Tensor inner = activation_(Operand(linear1(Operand(y, site)), site));
    return linear2(Operand(dropout_(Operand(inner, site)), site));
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
  const CallSite site = operand.site();
  Tensor x = graph::tensor_operand("TransformerEncoder", operand);
  for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](Operand(x, site), masks);
  return norm_ ? (*norm_)(Operand(x, site)) : x;
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
  const CallSite site = operand.site();
  Tensor x = graph::tensor_operand("TransformerDecoder", operand);
  for (std::size_t i = 0; i < layers.size(); ++i) x = layers[i](Operand(x, site), memory, masks, memory_masks);
  return norm_ ? (*norm_)(Operand(x, site)) : x;
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
