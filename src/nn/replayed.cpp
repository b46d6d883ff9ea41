#include <lockstep/nn/replayed.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "graph/module_watch.h"
#include "nn/replays.h"

namespace lockstep {
inline namespace v0 {
namespace nn {

struct Replayed::State {
  explicit State(const Layer& layer_) : layer(layer_) {
    for (const auto& [name, parameter] : layer.named_parameters()) weights.push_back(parameter);
    for (const auto& [name, buffer] : layer.named_buffers()) weights.push_back(buffer);
    for (const auto& [name, module] : layer.named_modules()) modules.push_back(module);
  }

  bool is_inference(const Tensor& input) const {
    const auto trains = [](const Module* module) { return module->training(); };
    return !graph::has_module_watch() && std::none_of(modules.begin(), modules.end(), trains) &&
           !looks_at_nodes({&input, 1}, weights);
  }

  const Layer& layer;
  std::vector<Cell> weights;
  std::vector<const Module*> modules;
  Replays replays;
};

Replayed::Replayed(const Layer& layer) : state_(std::make_unique<State>(layer)) {}
Replayed::~Replayed() = default;

Tensor Replayed::operator()(const Operand& x) const {
  State& state = *state_;
  if (x.is_scalar() || !x.tensor().defined()) return state.layer(x);
  const Tensor& input = x.tensor();
  if (!state.is_inference(input)) {
    state.replays.clear();
    return state.layer(x);
  }
  std::string kind;
  append_kind(kind, input);
  if (auto outputs = state.replays.run(state.weights, kind, {&input, 1})) return std::move(outputs->begin()->second);
  if (!state.replays.wants(kind)) return state.layer(x);
  input.eval();
  graph::Capture capture({input});
  Tensor output = state.layer(x);
  const Replays::Map outputs{{"output", output}};
  state.replays.keep(state.weights, std::move(kind), outputs, capture.finish(tensors_of(outputs)));
  return output;
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
