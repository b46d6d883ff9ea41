// RWKV 7: "RWKV-7 'Goose' with Expressive Dynamic State Evolution", Peng et al., 2025. Each head has a matrix from
// which every token takes away what it knew of its key, and to which it adds what it says.
#pragma once

#include "models/language/states.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct Rwkv7Config {
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t inner = 0;  ///< Of the feed-forward half.
  std::int64_t layers = 0;
  std::int64_t heads = 1;
  // Ranks of what is made of tokens in two steps: the decay, the rate of learning, the gate, the share of first values.
  std::int64_t decay_rank = 0;
  std::int64_t rate_rank = 0;
  std::int64_t gate_rank = 0;
  std::int64_t value_rank = 0;
  double eps = 1e-5;
  double group_eps = 64e-5;  ///< Of the norm of each head.
  bool norm_bias = true;
  bool norm_first = true;  ///< The embeddings have a norm.
};

/// With the names of flash-linear-attention, which published folders have.
class Rwkv7 final : public StateModel {
 public:
  explicit Rwkv7(const Rwkv7Config& config);

 protected:
  Tensor embed(const Tensor& ids) const override;
  Tensor run(std::size_t layer, const Tensor& x, State& state, Tensor& aside) const override;
  Tensor logits(const Tensor& x) const override;

 private:
  /// Two products, with something between them.
  struct LowRank {
    Projection down, up;
  };
  struct Layer {
    Norm before, first, second;
    nn::Parameter mix_receptance, mix_decay, mix_key, mix_value, mix_rate, mix_gate, feed_mix;
    nn::Parameter key_direction, key_rate, bonus;
    Projection receptance, key, value, output;
    LowRank decay, rate, gate, value_share;
    nn::Parameter group_weight, group_bias;
    Projection feed_key, feed_value;
  };
  /// `first_values` are those of the first layer, which makes them.
  Tensor attend(std::size_t index, const Tensor& x, State& state, Tensor& first_values) const;

  Rwkv7Config config_;
  ParameterTree tree_{*this};
  nn::Parameter embedding_;
  std::vector<Layer> layers_;
  Norm norm_;
  Projection head_;
};

std::unique_ptr<LanguageModel> create_rwkv7(const io::JsonFields& config);
/// Older folders have the six shares of the token before in one tensor, x_x [6, hidden]; these become x_r, x_w, x_k,
/// x_v, x_a, x_g.
void split_rwkv7_shares(io::TensorMap& tensors);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
