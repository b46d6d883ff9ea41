// RWKV: "RWKV: Reinventing RNNs for the Transformer Era" (version 4) and "Eagle and Finch" (version 5), Peng et al.
#pragma once

#include "models/language/states.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct RwkvConfig {
  int version = 4;
  std::string family = "rwkv";
  std::int64_t vocabulary = 0;
  std::int64_t hidden = 0;
  std::int64_t attention = 0;  ///< Features of keys and values.
  std::int64_t inner = 0;      ///< Of the feed-forward half.
  std::int64_t layers = 0;
  std::int64_t heads = 1;  ///< Version 5.
  double eps = 1e-5;
  bool published = true;  ///< Names of transformers; else those of the original files.
};

class Rwkv final : public StateModel {
 public:
  explicit Rwkv(const RwkvConfig& config);

 protected:
  Tensor embed(const Tensor& ids) const override;
  Tensor run(std::size_t layer, const Tensor& x, State& state, Tensor& aside) const override;
  Tensor logits(const Tensor& x) const override;

 private:
  struct Layer {
    Norm before, first, second;
    nn::Parameter decay, bonus;
    nn::Parameter mix_key, mix_value, mix_receptance, mix_gate;
    Projection key, value, receptance, output, gate;
    nn::Parameter group_weight, group_bias;
    nn::Parameter feed_mix_key, feed_mix_receptance;
    Projection feed_key, feed_value, feed_receptance;
  };
  Tensor attend4(const Layer& layer, const Tensor& x, State& state) const;
  Tensor attend5(const Layer& layer, const Tensor& x, State& state) const;
  Tensor feed(const Layer& layer, const Tensor& x, State& state) const;

  RwkvConfig config_;
  ParameterTree tree_{*this};
  nn::Parameter embedding_;
  std::vector<Layer> layers_;
  Norm norm_;
  Projection head_;
};

/// A model of rwkv.cpp's own file format ("ggmf", version 101, f32 and f16), of RWKV 5. Throws FormatError.
std::unique_ptr<LanguageModel> load_rwkv_file(const os::FileBytes& file);
bool is_rwkv_file(const os::FileBytes& file);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
