// Recurrent cells, and layers that run them step by step (docs/numerics.md section 7).
#include <fmt/format.h>

#include <lockstep/ops/recurrent.h>

#include <algorithm>

#include "backends/backend.h"
#include "graph/autocast.h"
#include "graph/kernel_watch.h"
#include "graph/numerics.h"
#include "graph/ops/contraction.h"
#include "graph/ops/recurrent.h"
#include "graph/recording.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

bool graph::may_be_whole(Device device) {
  return !is_recording() && !is_watched() && backend_of(device).has_recurrence();
}

namespace {

using Kind = RecurrentCell;

// The state of one cell or direction; `cell` only for an LSTM.
struct State {
  Tensor hidden;
  Tensor cell;
};

// A projection x [..., in] * weight^T + bias in the working dtype, without checks.
Tensor project(const Tensor& x, const Tensor& weight, const std::optional<Tensor>& bias) {
  Tensor y = batched_matmul(x, weight.transpose(0, 1));
  if (bias) y = y + *bias;
  return y;
}

Tensor gate(const Tensor& gates, std::int64_t number, std::int64_t hidden) {
  return gates.narrow(-1, number * hidden, hidden);
}

// The next state from the input's share of the gates [N, G * H] and the state before.
State advance(Kind kind, const Tensor& from_input, const State& state, const RecurrentWeights& weights) {
  const Tensor from_hidden = project(state.hidden, weights.hidden, weights.hidden_bias);
  const std::int64_t size = state.hidden.shape().back();
  if (kind == Kind::gru) {
    const Tensor both = from_input + from_hidden;
    const Tensor reset = sigmoid(gate(both, 0, size));
    const Tensor keep = sigmoid(gate(both, 1, size));
    const Tensor fresh = tanh(gate(from_input, 2, size) + reset * gate(from_hidden, 2, size));
    return {fresh + keep * (state.hidden - fresh), {}};
  }
  const Tensor gates = from_input + from_hidden;
  if (kind == Kind::rnn_tanh) return {tanh(gates), {}};
  if (kind == Kind::rnn_relu) return {relu(gates), {}};
  const Tensor in = sigmoid(gate(gates, 0, size));
  const Tensor forget = sigmoid(gate(gates, 1, size));
  const Tensor fresh = tanh(gate(gates, 2, size));
  const Tensor out = sigmoid(gate(gates, 3, size));
  const Tensor cell = forget * state.cell + in * fresh;
  return {out * tanh(cell), cell};
}

// Checked weights of one cell, in the working dtype.
RecurrentWeights checked(Kind kind, const Tensor& x, std::int64_t features, const RecurrentWeights& weights,
                         const std::string& which) {
  std::vector<Shown> shown{{"input", x}, {"weight_ih" + which, weights.input}, {"weight_hh" + which, weights.hidden}};
  if (weights.input_bias) shown.emplace_back("bias_ih" + which, *weights.input_bias);
  if (weights.hidden_bias) shown.emplace_back("bias_hh" + which, *weights.hidden_bias);
  check_same_device(shown);
  check_same_dtype(shown);
  const Shape& hidden = weights.hidden.shape();
  const std::int64_t rows = gates_of(kind) * (hidden.rank() == 2 ? hidden[1] : 0);
  if (hidden.rank() != 2 || hidden[0] != rows || weights.input.shape() != Shape{rows, features}) {
    fail<ShapeError>(
        fmt::format("weights must be [{0} * hidden, {1}] and [{0} * hidden, hidden]", gates_of(kind), features), shown);
  }
  for (const auto* bias : {&weights.input_bias, &weights.hidden_bias}) {
    if (*bias && (*bias)->shape() != Shape{rows}) {
      fail<ShapeError>(fmt::format("biases must have shape [{}]", rows), shown);
    }
  }
  const DType working = wide(x.dtype());
  const auto as_working = [&](const std::optional<Tensor>& bias) -> std::optional<Tensor> {
    return bias ? std::optional(cast(*bias, working)) : std::nullopt;
  };
  return {cast(weights.input, working), cast(weights.hidden, working), as_working(weights.input_bias),
          as_working(weights.hidden_bias)};
}

Tensor checked_state(const char* label, const Tensor& x, const Tensor& state, const Shape& shape) {
  const std::vector<Shown> shown{{"input", x}, {label, state}};
  check_same_device(shown);
  check_same_dtype(shown);
  if (state.shape() != shape) {
    fail<ShapeError>(fmt::format("{} must have shape {}", label, shape.to_string()), shown);
  }
  return cast(state, wide(x.dtype()));
}

const Tensor& checked_input(const Operand& x, int least, int most) {
  check_defined({{"input", x}});
  if (x.is_scalar()) fail<ValueError>("needs a tensor operand", {{"input", x}});
  check_float({"input", x});
  if (x.tensor().rank() < least || x.tensor().rank() > most) {
    fail<ShapeError>(fmt::format("input must have {} or {} dimensions", least, most), {{"input", x}});
  }
  return x.tensor();
}

State one_step(Kind kind, const Operand& operand, const Tensor& hidden, const Tensor* cell,
               const RecurrentWeights& weights) {
  const Tensor& x = checked_input(operand, 1, 2);
  const InnerNumerics inner(x.dtype());
  const RecurrentWeights w = checked(kind, x, x.shape().back(), weights, "");
  Shape shape = x.shape();
  shape[shape.rank() - 1] = w.hidden.shape()[1];
  State state{checked_state("hidden state", x, hidden, shape), {}};
  if (cell != nullptr) state.cell = checked_state("cell state", x, *cell, shape);
  Tensor row = cast(x, wide(x.dtype()));
  const bool vector = x.rank() == 1;
  if (vector) {
    row = row.unsqueeze(0);
    state.hidden = state.hidden.unsqueeze(0);
    if (cell != nullptr) state.cell = state.cell.unsqueeze(0);
  }
  State next = advance(kind, project(row, w.input, w.input_bias), state, w);
  const auto finish = [&](const Tensor& value) { return cast(vector ? value.squeeze(0) : value, x.dtype()); };
  next.hidden = finish(next.hidden);
  if (cell != nullptr) next.cell = finish(next.cell);
  return next;
}

// One direction of a layer: its weights, what the inputs give its gates in all steps, and the state, the initial one or
// the last.
struct Way {
  RecurrentWeights weights;
  Tensor inputs;
  State state;
};

// A layer is one kernel (RecurrenceKernel) where no gradient is wanted, its form of the weights is kept or enough steps
// are worth it, and a direction's weights stay in the second cache of one core.
constexpr std::int64_t kLeastSteps = 4;
constexpr std::int64_t kMostWeights = 1 << 17;

bool suits_whole(DType given, const Way& way) {
  const RecurrentWeights& weights = way.weights;
  const bool traced = is_tracing({&way.inputs, &weights.hidden, &way.state.hidden}) ||
                      (weights.hidden_bias && is_tracing({&*weights.hidden_bias})) ||
                      (way.state.cell.defined() && is_tracing({&way.state.cell}));
  const Node& base = *read(weights.hidden).base;
  const bool pays = way.inputs.size(0) >= (base.ready ? 1 : kLeastSteps) && weights.hidden.numel() <= kMostWeights;
  return pays && !traced && base.encoding == Encoding::dense && way.inputs.dtype() == DType::f32 &&
         (given == DType::f32 || current_numerics() == Numerics::exact) && may_be_whole(way.inputs.device());
}

// The hidden states of all directions, each at its place; the states of the ways become the last ones.
Tensor all_steps(Kind kind, std::vector<Way>& ways) {
  std::vector<Tensor> operands;
  for (const Way& way : ways) {
    const RecurrentWeights& weights = way.weights;
    // Nothing is added by -0.
    const Tensor bias = weights.hidden_bias ? *weights.hidden_bias
                                            : full({weights.hidden.size(0)}, -0.0, {DType::f32, way.inputs.device()});
    for (const Tensor& operand : {way.inputs, weights.hidden, bias, way.state.hidden}) operands.push_back(operand);
    if (way.state.cell.defined()) operands.push_back(way.state.cell);
  }
  const auto direction = ways.size() == 2 ? Recur::Direction::both : Recur::Direction::forward;
  const Tensor states = recur({kind, direction}, operands);
  const std::int64_t steps = ways[0].inputs.size(0);
  const std::int64_t size = ways[0].state.hidden.shape().back();
  for (std::size_t d = 0; d < ways.size(); ++d) {
    const Tensor own = states.narrow(2, static_cast<std::int64_t>(d) * size, size);
    ways[d].state.hidden = own.select(0, d == 1 ? 0 : steps - 1);
    if (ways[d].state.cell.defined()) ways[d].state.cell = own.select(0, steps);
  }
  return states.narrow(0, 0, steps);
}

// The same as a graph of the steps.
Tensor step_by_step(Kind kind, std::vector<Way>& ways) {
  const Tensor& first = ways[0].inputs;
  const std::int64_t steps = first.size(0);
  const std::int64_t size = ways[0].state.hidden.shape().back();
  const auto directions = static_cast<std::int64_t>(ways.size());
  Tensor output = zeros({steps, first.size(1), directions * size}, {first.dtype(), first.device()});
  for (std::int64_t direction = 0; direction < directions; ++direction) {
    Way& way = ways[static_cast<std::size_t>(direction)];
    for (std::int64_t i = 0; i < steps; ++i) {
      const std::int64_t step = direction == 0 ? i : steps - 1 - i;
      way.state = advance(kind, way.inputs.select(0, step), way.state, way.weights);
      const View region = View::contiguous(output.shape()).sliced(0, step, 1, 1).sliced(2, direction * size, 1, size);
      output = update(output, region, way.state.hidden.unsqueeze(0));
    }
  }
  return output;
}

struct Layers {
  Tensor output;
  Tensor hidden;
  Tensor cell;
};

// `self` with the part of dimension `dim` from `start` on replaced by `part`.
Tensor with_part(const Tensor& self, int dim, std::int64_t start, const Tensor& part) {
  const View region = View::contiguous(self.shape()).sliced(dim, start, 1, part.shape()[dim]);
  return update(self, region, part);
}

Layers layers(Kind kind, const Operand& operand, const std::vector<RecurrentWeights>& weights,
              const std::optional<Tensor>& hidden, const std::optional<Tensor>& cell, const RecurrentOptions& options) {
  const Tensor& given = checked_input(operand, 2, 3);
  const InnerNumerics inner(given.dtype());
  const std::size_t directions = options.bidirectional ? 2 : 1;
  if (weights.empty() || weights.size() % directions != 0) {
    fail<ValueError>(fmt::format("{} sets of weights do not make layers of {}", weights.size(), directions),
                     {{"input", given}}, "pass one per layer and direction");
  }
  const bool single = given.rank() == 2;
  Tensor x = cast(given, wide(given.dtype()));
  if (single) {
    x = x.unsqueeze(1);
  } else if (options.batch_first) {
    x = x.transpose(0, 1);
  }
  const std::int64_t batch = x.shape()[1];
  if (weights[0].hidden.defined() && weights[0].hidden.rank() != 2) {
    fail<ShapeError>("weight_hh must be [gates * hidden, hidden]", {{"weight_hh", weights[0].hidden}});
  }
  check_defined({{"weight_hh", weights[0].hidden}});
  const std::int64_t size = weights[0].hidden.shape()[1];
  const auto cells = static_cast<std::int64_t>(weights.size());
  const TensorOptions working{x.dtype(), x.device()};
  const auto start_of = [&](const char* label, const std::optional<Tensor>& state) {
    if (!state) return zeros({cells, batch, size}, working);
    const Shape shape = single ? Shape{cells, size} : Shape{cells, batch, size};
    return checked_state(label, given, *state, shape).reshape({cells, batch, size});
  };
  const Tensor first_hidden = start_of("initial hidden state", hidden);
  const Tensor first_cell = kind == Kind::lstm ? start_of("initial cell state", cell) : Tensor();

  Layers result;
  result.hidden = zeros({cells, batch, size}, working);
  if (kind == Kind::lstm) result.cell = result.hidden;
  for (std::size_t layer = 0; layer < weights.size() / directions; ++layer) {
    std::vector<Way> ways;
    for (std::size_t direction = 0; direction < directions; ++direction) {
      const std::size_t number = layer * directions + direction;
      const std::string which = fmt::format("_l{}{}", layer, direction == 1 ? "_reverse" : "");
      RecurrentWeights w = checked(kind, given, x.shape()[2], weights[number], which);
      if (w.hidden.shape()[1] != size) {
        fail<ShapeError>("all layers must have one hidden size", {{"weight_hh" + which, w.hidden}});
      }
      const Tensor inputs = project(x, w.input, w.input_bias);
      State state{first_hidden.select(0, static_cast<std::int64_t>(number)), {}};
      if (kind == Kind::lstm) state.cell = first_cell.select(0, static_cast<std::int64_t>(number));
      ways.push_back({std::move(w), inputs, state});
    }
    const auto suits = [&](const Way& way) { return suits_whole(given.dtype(), way); };
    if (std::all_of(ways.begin(), ways.end(), suits)) {
      x = all_steps(kind, ways);
    } else {
      x = step_by_step(kind, ways);
    }
    for (std::size_t direction = 0; direction < directions; ++direction) {
      const auto number = static_cast<std::int64_t>(layer * directions + direction);
      const State& last = ways[direction].state;
      result.hidden = with_part(result.hidden, 0, number, last.hidden.unsqueeze(0));
      if (kind == Kind::lstm) result.cell = with_part(result.cell, 0, number, last.cell.unsqueeze(0));
    }
  }
  if (single) {
    x = x.squeeze(1);
    result.hidden = result.hidden.squeeze(1);
    if (kind == Kind::lstm) result.cell = result.cell.squeeze(1);
  } else if (options.batch_first) {
    x = x.transpose(0, 1);
  }
  result.output = cast(x, given.dtype());
  result.hidden = cast(result.hidden, given.dtype());
  if (kind == Kind::lstm) result.cell = cast(result.cell, given.dtype());
  return result;
}

}  // namespace

LstmState lstm_cell(const Operand& x, const LstmState& state, const RecurrentWeights& weights) {
  const CallScope call("lstm_cell", x);
  if (is_autocasting()) return with_autocast(autocast_dtype(), lstm_cell, x, state, weights);
  const State next = one_step(Kind::lstm, x, state.hidden, &state.cell, weights);
  return {next.hidden, next.cell};
}
Tensor gru_cell(const Operand& x, const Tensor& h, const RecurrentWeights& weights) {
  const CallScope call("gru_cell", x);
  if (is_autocasting()) return with_autocast(autocast_dtype(), gru_cell, x, h, weights);
  return one_step(Kind::gru, x, h, nullptr, weights).hidden;
}
Tensor rnn_tanh_cell(const Operand& x, const Tensor& h, const RecurrentWeights& weights) {
  const CallScope call("rnn_tanh_cell", x);
  if (is_autocasting()) return with_autocast(autocast_dtype(), rnn_tanh_cell, x, h, weights);
  return one_step(Kind::rnn_tanh, x, h, nullptr, weights).hidden;
}
Tensor rnn_relu_cell(const Operand& x, const Tensor& h, const RecurrentWeights& weights) {
  const CallScope call("rnn_relu_cell", x);
  if (is_autocasting()) return with_autocast(autocast_dtype(), rnn_relu_cell, x, h, weights);
  return one_step(Kind::rnn_relu, x, h, nullptr, weights).hidden;
}

LstmResult lstm(const Operand& x, const std::vector<RecurrentWeights>& weights, const std::optional<LstmState>& initial,
                const RecurrentOptions& options) {
  const CallScope call("lstm", x);
  if (is_autocasting()) return with_autocast(autocast_dtype(), lstm, x, weights, initial, options);
  const auto part = [&](Tensor LstmState::*member) {
    return initial ? std::optional<Tensor>((*initial).*member) : std::nullopt;
  };
  const Layers result = layers(Kind::lstm, x, weights, part(&LstmState::hidden), part(&LstmState::cell), options);
  return {result.output, result.hidden, result.cell};
}
RecurrentResult gru(const Operand& x, const std::vector<RecurrentWeights>& weights,
                    const std::optional<Tensor>& initial, const RecurrentOptions& options) {
  const CallScope call("gru", x);
  if (is_autocasting()) return with_autocast(autocast_dtype(), gru, x, weights, initial, options);
  const Layers result = layers(Kind::gru, x, weights, initial, std::nullopt, options);
  return {result.output, result.hidden};
}
RecurrentResult rnn_tanh(const Operand& x, const std::vector<RecurrentWeights>& weights,
                         const std::optional<Tensor>& initial, const RecurrentOptions& options) {
  const CallScope call("rnn_tanh", x);
  if (is_autocasting()) return with_autocast(autocast_dtype(), rnn_tanh, x, weights, initial, options);
  const Layers result = layers(Kind::rnn_tanh, x, weights, initial, std::nullopt, options);
  return {result.output, result.hidden};
}
RecurrentResult rnn_relu(const Operand& x, const std::vector<RecurrentWeights>& weights,
                         const std::optional<Tensor>& initial, const RecurrentOptions& options) {
  const CallScope call("rnn_relu", x);
  if (is_autocasting()) return with_autocast(autocast_dtype(), rnn_relu, x, weights, initial, options);
  const Layers result = layers(Kind::rnn_relu, x, weights, initial, std::nullopt, options);
  return {result.output, result.hidden};
}

}  // namespace v0
}  // namespace lockstep
