// Mamba: "Linear-Time Sequence Modeling with Selective State Spaces" (1), Gu and Dao, 2023, and "Transformers are SSMs"
// (2), Dao and Gu, 2024: position by position.
#include <fmt/format.h>

#include <lockstep/ops.h>

#include "models/language/families.h"
#include "models/language/mamba.h"
#include "models/language/mixers.h"
#include "models/language/states.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

enum MambaPlace : std::size_t { kInputs, kState, kMambaPlaces };

class Mamba final : public StateModel {
 public:
  explicit Mamba(const MambaConfig& config);

 protected:
  Tensor embed(const Tensor& ids) const override { return embedding(embedding_, ids); }
  Tensor run(std::size_t index, const Tensor& x, State& state, Tensor& aside) const override;
  Tensor logits(const Tensor& x) const override;

 private:
  struct Layer {
    Norm norm, gated_norm;
    Projection in, selected, step, out;
    CausalConvolution convolution;
    nn::Parameter decay, skip, step_bias;
  };
  Tensor decay_of(const Layer& layer) const { return config_.logarithms ? -exp(layer.decay) : Tensor(layer.decay); }
  Tensor mix1(const Layer& layer, const Tensor& x, State& state) const;
  Tensor mix2(const Layer& layer, const Tensor& x, State& state) const;

  MambaConfig config_;
  ParameterTree tree_{*this};
  nn::Parameter embedding_;
  std::vector<Layer> layers_;
  Norm norm_;
  Projection head_;
};

Mamba::Mamba(const MambaConfig& config)
    : StateModel(config.family, config.vocabulary, static_cast<std::size_t>(config.layers)), config_(config) {
  const bool second = config.version == 2;
  const NormConfig norm{.eps = config.eps};
  const char* decay = config.logarithms ? "A_log" : "A";
  const std::int64_t between = config.inner + (second ? 2 * config.groups * config.state : 0);
  embedding_ = tree_.matrix("backbone.embeddings.weight", {config.vocabulary, config.hidden});
  for (std::int64_t i = 0; i < config.layers; ++i) {
    const std::string path = fmt::format("backbone.layers.{}.", i);
    const std::string mixer = path + "mixer.";
    Layer& layer = layers_.emplace_back();
    layer.norm = Norm(tree_, path + "norm", config.hidden, norm);
    const std::int64_t wide = config.inner + (second ? between + config.heads : config.inner);
    layer.in = Projection(tree_, mixer + "in_proj", config.hidden, wide, config.bias);
    layer.convolution = CausalConvolution(tree_, mixer + "conv1d", between, config.kernel, config.convolution_bias);
    layer.out = Projection(tree_, mixer + "out_proj", config.inner, config.hidden, config.bias);
    if (second) {
      layer.decay = tree_.filled(mixer + decay, {config.heads}, 0);
      layer.skip = tree_.filled(mixer + "D", {config.heads}, 1);
      layer.step_bias = tree_.filled(mixer + "dt_bias", {config.heads}, 1);
      layer.gated_norm = Norm(tree_, mixer + "norm", config.inner, norm);
    } else {
      layer.decay = tree_.filled(mixer + decay, {config.inner, config.state}, 0);
      layer.skip = tree_.filled(mixer + "D", {config.inner}, 1);
      layer.selected = Projection(tree_, mixer + "x_proj", config.inner, config.step_rank + 2 * config.state, false);
      layer.step = Projection(tree_, mixer + "dt_proj", config.step_rank, config.inner, true);
    }
  }
  norm_ = Norm(tree_, "backbone.norm_f", config.hidden, norm);
  if (!config.tied) head_ = Projection(tree_, "lm_head", config.hidden, config.vocabulary, false);
}

Tensor Mamba::mix1(const Layer& layer, const Tensor& x, State& state) const {
  const std::vector<Tensor> halves = layer.in(x).chunk(2, -1);
  const Tensor input = silu(layer.convolution(halves[0], state[kInputs]));
  const std::vector<Tensor> parts =
      layer.selected(input).split(std::vector<std::int64_t>{config_.step_rank, config_.state, config_.state}, -1);
  const Tensor step = softplus(layer.step(parts[0]));
  const Tensor decay = decay_of(layer);
  if (!state[kState].defined()) {
    state[kState] = zeros({x.size(0), config_.inner, config_.state}, {.device = x.device()});
  }
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const Tensor dt = step.select(1, t).unsqueeze(-1);
    const Tensor added = dt * parts[1].select(1, t).unsqueeze(1) * input.select(1, t).unsqueeze(-1);
    state[kState] = exp(decay * dt) * state[kState] + added;
    outputs.push_back(matmul(state[kState], parts[2].select(1, t).unsqueeze(-1)).squeeze(-1));
  }
  const Tensor result = stack(outputs, 1) + input * Tensor(layer.skip);
  return layer.out(result * silu(halves[1]));
}

Tensor Mamba::mix2(const Layer& layer, const Tensor& x, State& state) const {
  const std::int64_t size = config_.inner / config_.heads;
  const std::int64_t selected = config_.groups * config_.state;
  const std::vector<Tensor> parts =
      layer.in(x).split(std::vector<std::int64_t>{config_.inner, config_.inner + 2 * selected, config_.heads}, -1);
  const std::vector<Tensor> mixed = silu(layer.convolution(parts[1], state[kInputs]))
                                        .split(std::vector<std::int64_t>{config_.inner, selected, selected}, -1);
  const Tensor input = mixed[0].unflatten(-1, {config_.heads, size});
  // [N, L, groups, state] to one for each head.
  const auto per_head = [&](const Tensor& y) {
    const Tensor groups = y.unflatten(-1, {config_.groups, 1, config_.state});
    return groups.expand({-1, -1, -1, config_.heads / config_.groups, -1}).flatten(2, 3);
  };
  const Tensor from = per_head(mixed[1]);
  const Tensor to = per_head(mixed[2]);
  Tensor step = softplus(parts[2] + Tensor(layer.step_bias));
  step = maximum(step, config_.shortest_step);
  if (config_.longest_step > 0) step = minimum(step, config_.longest_step);
  const Tensor decay = decay_of(layer);
  if (!state[kState].defined()) {
    state[kState] = zeros({x.size(0), config_.heads, size, config_.state}, {.device = x.device()});
  }
  std::vector<Tensor> outputs;
  for (std::int64_t t = 0; t < x.size(1); ++t) {
    const Tensor dt = step.select(1, t);
    const Tensor added = (input.select(1, t) * dt.unsqueeze(-1)).unsqueeze(-1) * from.select(1, t).unsqueeze(-2);
    state[kState] = state[kState] * exp(dt * decay).unsqueeze(-1).unsqueeze(-1) + added;
    outputs.push_back(matmul(state[kState], to.select(1, t).unsqueeze(-1)).squeeze(-1));
  }
  const Tensor skipped = stack(outputs, 1) + input * Tensor(layer.skip).unsqueeze(-1);
  return layer.out(layer.gated_norm(skipped.flatten(-2, -1) * silu(parts[0])));
}

Tensor Mamba::run(std::size_t index, const Tensor& x, State& state, Tensor&) const {
  const Layer& layer = layers_[index];
  state.resize(kMambaPlaces);
  const Tensor input = layer.norm(x);
  return x + (config_.version == 1 ? mix1(layer, input, state) : mix2(layer, input, state));
}

Tensor Mamba::logits(const Tensor& x) const {
  const Tensor& embedding = embedding_;
  return config_.tied ? linear(norm_(x), embedding) : head_(norm_(x));
}

MambaConfig read_common_mamba(const io::JsonFields& config) {
  MambaConfig result;
  result.family = config.text("model_type");
  result.vocabulary = config.integer("vocab_size", 1, kMaxSize);
  result.hidden = config.integer("hidden_size", 1, kMaxSize);
  result.layers = config.integer("num_hidden_layers", 1, 1024);
  result.state = config.integer("state_size", 1, 65'536);
  result.kernel = config.integer_or("conv_kernel", 4, 2, 1024);
  result.inner = config.integer_or("intermediate_size", 2 * result.hidden, 1, kMaxSize);
  result.bias = config.flag_or("use_bias", false);
  result.convolution_bias = config.flag_or("use_conv_bias", true);
  result.eps = config.real_or("layer_norm_epsilon", 1e-5);
  if (config.text_or("hidden_act", "silu") != "silu") config.fail("hidden_act", "only silu is supported");
  return result;
}

}  // namespace

std::unique_ptr<LanguageModel> make_mamba(const MambaConfig& config) {
  return std::make_unique<Mamba>(config);
}

std::unique_ptr<LanguageModel> create_mamba(const io::JsonFields& config) {
  MambaConfig result = read_common_mamba(config);
  result.step_rank = config.integer_or("time_step_rank", (result.hidden + 15) / 16, 1, kMaxSize);
  result.tied = config.flag_or("tie_word_embeddings", true);
  return make_mamba(result);
}

std::unique_ptr<LanguageModel> create_mamba2(const io::JsonFields& config) {
  MambaConfig result = read_common_mamba(config);
  result.version = 2;
  result.heads = config.integer("num_heads", 1, 65'536);
  result.inner = result.heads * config.integer("head_dim", 1, 65'536);
  result.groups = config.integer_or("n_groups", 1, 1, result.heads);
  result.tied = config.flag_or("tie_word_embeddings", false);
  if (result.groups != 1) config.fail("n_groups", "only 1 is supported");
  if (config.has("time_step_limit")) {
    const nlohmann::json& limits = config.array("time_step_limit");
    if (limits.size() != 2 || !limits[0].is_number()) config.fail("time_step_limit", "is no pair of numbers");
    result.shortest_step = limits[0].get<double>();
    // Infinity has no number in JSON: what is none is no limit.
    if (limits[1].is_number()) result.longest_step = limits[1].get<double>();
  }
  return make_mamba(result);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
