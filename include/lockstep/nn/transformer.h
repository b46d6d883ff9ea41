// Attention with its projections, and the transformer layers made of it, with PyTorch's parameter names.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <lockstep/nn/dropout.h>
#include <lockstep/nn/linear.h>
#include <lockstep/nn/module.h>
#include <lockstep/nn/normalization.h>
#include <lockstep/nn/sequential.h>
#include <lockstep/ops/activation.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

/// What keys a query does not see. As in torch.nn, a bool mask is true where a key is hidden; a float mask is added to
/// the scores.
struct AttentionMasks {
  std::optional<Tensor> mask = std::nullopt;              ///< [L, S] or [N * heads, L, S].  PyTorch: attn_mask
  std::optional<Tensor> key_padding_mask = std::nullopt;  ///< [N, S], or [S] without a batch
  bool causal = false;                                    ///< query i sees keys up to i, also without a mask
};

struct MultiheadAttentionOptions {
  double dropout = 0;  ///< of the attention weights, in training
  bool bias = true;
  std::int64_t kdim = 0;  ///< features of the keys and of the values; 0: embed_dim
  std::int64_t vdim = 0;
  bool batch_first = false;
};

/// What attention gives.
struct MultiheadAttentionResult {
  Tensor output;
  Tensor weights;  ///< [N, L, S] (or [L, S]), the mean over the heads; defined if asked for
};

/// query [L, N, embed_dim], key [S, N, kdim], value [S, N, vdim] to [L, N, embed_dim]; with batch_first N comes first;
/// without a batch there is no N. A query that sees no key gives the output projection's bias. PyTorch:
/// nn.MultiheadAttention (without add_bias_kv and add_zero_attn).
class LOCKSTEP_API MultiheadAttention : public Module {
 public:
  /// Throws ValueError unless num_heads divides embed_dim and dropout is a probability.
  MultiheadAttention(Module& parent, std::string name, std::int64_t embed_dim, std::int64_t num_heads,
                     MultiheadAttentionOptions options = {});
  MultiheadAttention(std::int64_t embed_dim, std::int64_t num_heads, MultiheadAttentionOptions options = {})
      : MultiheadAttention(no_parent(), {}, embed_dim, num_heads, options) {}

  Tensor operator()(const Operand& query, const Operand& key, const Operand& value,
                    const AttentionMasks& masks = {}) const {
    return forward(query, key, value, masks).output;
  }
  /// With need_weights the scores exist as a whole, which costs memory.
  MultiheadAttentionResult forward(const Operand& query, const Operand& key, const Operand& value,
                                   const AttentionMasks& masks = {}, bool need_weights = false) const;

  Parameter in_proj_weight;  ///< [3 * embed_dim, embed_dim]; not defined where kdim or vdim differ from embed_dim
  Parameter q_proj_weight;   ///< [embed_dim, embed_dim], and so on, in that case
  Parameter k_proj_weight;
  Parameter v_proj_weight;
  Parameter in_proj_bias;  ///< [3 * embed_dim]; not defined without the option

 private:
  std::int64_t embed_dim_;
  std::int64_t num_heads_;
  double dropout_;
  bool batch_first_;

 public:
  Linear out_proj;
};

/// What stands between the two linear layers: an op such as relu, gelu or gelu_tanh, or a function of one's own.
using Activation = std::function<Tensor(const Operand& x)>;

struct TransformerLayerOptions {
  std::int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  Activation activation = relu;
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  ///< norms before attention and feed-forward, not behind
  bool bias = true;
};

/// Self-attention and a feed-forward network, each with a residual and a norm.  PyTorch: nn.TransformerEncoderLayer.
class LOCKSTEP_API TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(Module& parent, std::string name, std::int64_t d_model, std::int64_t num_heads,
                          const TransformerLayerOptions& options = {});
  TransformerEncoderLayer(std::int64_t d_model, std::int64_t num_heads, const TransformerLayerOptions& options = {})
      : TransformerEncoderLayer(no_parent(), {}, d_model, num_heads, options) {}
  Tensor forward(const Operand& x, const AttentionMasks& masks = {}) const;
  Tensor operator()(const Operand& x, const AttentionMasks& masks = {}) const { return forward(x, masks); }

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;

 private:
  Dropout dropout_, dropout1_, dropout2_;
  Activation activation_;
  bool norm_first_;
};

/// Self-attention, attention to `memory`, and a feed-forward network.  PyTorch: nn.TransformerDecoderLayer.
class LOCKSTEP_API TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(Module& parent, std::string name, std::int64_t d_model, std::int64_t num_heads,
                          const TransformerLayerOptions& options = {});
  TransformerDecoderLayer(std::int64_t d_model, std::int64_t num_heads, const TransformerLayerOptions& options = {})
      : TransformerDecoderLayer(no_parent(), {}, d_model, num_heads, options) {}
  Tensor forward(const Operand& x, const Tensor& memory, const AttentionMasks& masks = {},
                 const AttentionMasks& memory_masks = {}) const;
  Tensor operator()(const Operand& x, const Tensor& memory, const AttentionMasks& masks = {},
                    const AttentionMasks& memory_masks = {}) const {
    return forward(x, memory, masks, memory_masks);
  }

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;

 private:
  Dropout dropout_, dropout1_, dropout2_, dropout3_;
  Activation activation_;
  bool norm_first_;
};

struct TransformerOptions {
  TransformerLayerOptions layer = {};
  bool final_norm = false;  ///< a LayerNorm behind the last layer, named "norm"
};

/// `num_layers` encoder layers, each with initial values of its own.  PyTorch: nn.TransformerEncoder.
class LOCKSTEP_API TransformerEncoder : public Module {
 public:
  TransformerEncoder(Module& parent, std::string name, std::int64_t d_model, std::int64_t num_heads,
                     std::int64_t num_layers, const TransformerOptions& options = {});
  TransformerEncoder(std::int64_t d_model, std::int64_t num_heads, std::int64_t num_layers,
                     const TransformerOptions& options = {})
      : TransformerEncoder(no_parent(), {}, d_model, num_heads, num_layers, options) {}
  Tensor forward(const Operand& x, const AttentionMasks& masks = {}) const;
  Tensor operator()(const Operand& x, const AttentionMasks& masks = {}) const { return forward(x, masks); }

  ModuleList<TransformerEncoderLayer> layers;

 private:
  std::unique_ptr<LayerNorm> norm_;
};

/// PyTorch: nn.TransformerDecoder.
class LOCKSTEP_API TransformerDecoder : public Module {
 public:
  TransformerDecoder(Module& parent, std::string name, std::int64_t d_model, std::int64_t num_heads,
                     std::int64_t num_layers, const TransformerOptions& options = {});
  TransformerDecoder(std::int64_t d_model, std::int64_t num_heads, std::int64_t num_layers,
                     const TransformerOptions& options = {})
      : TransformerDecoder(no_parent(), {}, d_model, num_heads, num_layers, options) {}
  Tensor forward(const Operand& x, const Tensor& memory, const AttentionMasks& masks = {},
                 const AttentionMasks& memory_masks = {}) const;
  Tensor operator()(const Operand& x, const Tensor& memory, const AttentionMasks& masks = {},
                    const AttentionMasks& memory_masks = {}) const {
    return forward(x, memory, masks, memory_masks);
  }

  ModuleList<TransformerDecoderLayer> layers;

 private:
  std::unique_ptr<LayerNorm> norm_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
