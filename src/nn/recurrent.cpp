#include <lockstep/nn/recurrent.h>

#include <fmt/format.h>

#include <lockstep/nn/init.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

RecurrentLayer::RecurrentLayer(Module& parent, std::string name, std::int64_t gates, std::int64_t input_size,
                               std::int64_t hidden_size, const RecurrentLayerOptions& options)
    : Module(parent, std::move(name)), options_(options) {
  if (options.num_layers < 1 || hidden_size < 1) {
    throw ValueError(fmt::format("{}: {} layers of hidden size {}", path(), options.num_layers, hidden_size));
  }
  if (!(options.dropout >= 0 && options.dropout <= 1)) {
    throw ValueError(fmt::format("{}: {} is not a probability", path(), options.dropout));
  }
  if (gates > 1 && options.nonlinearity != RnnNonlinearity::tanh) {
    throw ValueError(
        fmt::format("{}: nonlinearity is an option of RNN; the gates of LSTM and GRU have theirs", path()));
  }
  const double bound = fan_in_bound(hidden_size);
  const std::int64_t rows = gates * hidden_size;
  for (std::int64_t layer = 0; layer < options.num_layers; ++layer) {
    const std::int64_t features = layer == 0 ? input_size : directions() * hidden_size;
    for (std::int64_t direction = 0; direction < directions(); ++direction) {
      const auto make = [&](const char* what, const Shape& shape) {
        return Parameter(*this, fmt::format("{}_l{}{}", what, layer, direction == 1 ? "_reverse" : ""),
                         uniform_init(shape, bound));
      };
      Weights weights;
      weights.input = make("weight_ih", {rows, features});
      weights.hidden = make("weight_hh", {rows, hidden_size});
      if (options.bias) {
        weights.input_bias = make("bias_ih", {rows});
        weights.hidden_bias = make("bias_hh", {rows});
      }
      weights_.push_back(std::move(weights));
    }
  }
}

bool RecurrentLayer::drops() const {
  return training() && options_.dropout > 0 && options_.num_layers > 1;
}

std::vector<RecurrentWeights> RecurrentLayer::tensors() const {
  std::vector<RecurrentWeights> result;
  for (const Weights& each : weights_) {
    result.push_back(
        {each.input.tensor(), each.hidden.tensor(), each.input_bias.optional(), each.hidden_bias.optional()});
  }
  return result;
}

std::vector<RecurrentWeights> RecurrentLayer::tensors(std::int64_t layer) const {
  const std::vector<RecurrentWeights> all = tensors();
  const auto first = all.begin() + static_cast<std::ptrdiff_t>(layer * directions());
  return {first, first + static_cast<std::ptrdiff_t>(directions())};
}

std::optional<Tensor> RecurrentLayer::part(const std::optional<Tensor>& state, std::int64_t layer) const {
  if (!state) return std::nullopt;
  return state->narrow(0, layer * directions(), directions());
}

Tensor RecurrentLayer::dropped(const Tensor& output, std::int64_t layer) const {
  return layer + 1 < options_.num_layers ? dropout(output, options_.dropout) : output;
}

namespace {

// Layers one by one: run(x, layer) gives a result with `output` and `hidden`.
template <typename Run, typename Drop>
RecurrentResult one_by_one(const Tensor& x, std::int64_t layers, Run run, Drop drop) {
  RecurrentResult result{x, {}};
  std::vector<Tensor> hidden;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const RecurrentResult step = run(result.output, layer);
    result.output = drop(step.output, layer);
    hidden.push_back(step.hidden);
  }
  result.hidden = cat(hidden, 0);
  return result;
}

}  // namespace

LstmResult LSTM::forward(const Operand& x, const std::optional<LstmState>& initial) const {
  if (!drops()) return lstm(x, tensors(), initial, options());
  const CallScope call("lstm", x);
  std::vector<Tensor> cells;
  const auto run = [&](const Operand& input, std::int64_t layer) {
    std::optional<LstmState> own;
    if (initial) own = LstmState{*part(initial->hidden, layer), *part(initial->cell, layer)};
    const LstmResult step = lstm(input, tensors(layer), own, options());
    cells.push_back(step.cell);
    return RecurrentResult{step.output, step.hidden};
  };
  const auto drop = [&](const Tensor& output, std::int64_t layer) { return dropped(output, layer); };
  const RecurrentResult all = one_by_one(x.tensor(), layers(), run, drop);
  return {all.output, all.hidden, cat(cells, 0)};
}

RecurrentResult GRU::forward(const Operand& x, const std::optional<Tensor>& initial) const {
  if (!drops()) return gru(x, tensors(), initial, options());
  const CallScope call("gru", x);
  const auto run = [&](const Operand& input, std::int64_t layer) {
    return gru(input, tensors(layer), part(initial, layer), options());
  };
  const auto drop = [&](const Tensor& output, std::int64_t layer) { return dropped(output, layer); };
  return one_by_one(x.tensor(), layers(), run, drop);
}

RecurrentResult RNN::forward(const Operand& x, const std::optional<Tensor>& initial) const {
  const bool is_tanh = nonlinearity_ == RnnNonlinearity::tanh;
  const auto op = is_tanh ? rnn_tanh : rnn_relu;
  if (!drops()) return op(x, tensors(), initial, options());
  const CallScope call(is_tanh ? "rnn_tanh" : "rnn_relu", x);
  const auto run = [&](const Operand& input, std::int64_t layer) {
    return op(input, tensors(layer), part(initial, layer), options());
  };
  const auto drop = [&](const Tensor& output, std::int64_t layer) { return dropped(output, layer); };
  return one_by_one(x.tensor(), layers(), run, drop);
}

RecurrentCell::RecurrentCell(Module& parent, std::string name, std::int64_t gates, std::int64_t input_size,
                             std::int64_t hidden_size, bool with_bias)
    : Module(parent, std::move(name)) {
  if (hidden_size < 1) throw ValueError(fmt::format("{}: hidden size {}", path(), hidden_size));
  const double bound = fan_in_bound(hidden_size);
  const std::int64_t rows = gates * hidden_size;
  weight_ih = Parameter(*this, "weight_ih", uniform_init({rows, input_size}, bound));
  weight_hh = Parameter(*this, "weight_hh", uniform_init({rows, hidden_size}, bound));
  if (!with_bias) return;
  bias_ih = Parameter(*this, "bias_ih", uniform_init({rows}, bound));
  bias_hh = Parameter(*this, "bias_hh", uniform_init({rows}, bound));
}

RecurrentWeights RecurrentCell::tensors() const {
  return {weight_ih.tensor(), weight_hh.tensor(), bias_ih.optional(), bias_hh.optional()};
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
