// RNN, GRU and LSTM: as our own layers where these compute the same, else cell by cell.
#include <lockstep/ops.h>

#include <algorithm>
#include <array>
#include <functional>

#include "graph/make.h"
#include "graph/ops/recurrent.h"
#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"
#include "io/onnx/ops/integer_product.h"
#include "io/onnx/ops/quantized.h"
#include "io/onnx/plan.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

using Activation = Tensor (*)(const Operand&);

Activation find_activation(std::string_view name) {
  if (name == "Sigmoid") return sigmoid;
  if (name == "Tanh") return tanh;
  if (name == "Relu") return relu;
  return nullptr;
}

std::string check_activations(const NodeFacts& node) {
  for (const std::string& name : node.texts("activations")) {
    if (find_activation(name) == nullptr) return "activation " + name;
  }
  return "";
}
std::string check_recurrent(const NodeFacts& node) {
  if (std::string why = check_activations(node); !why.empty()) return why;
  if (node.version() < 7) return "this version is not supported";
  return "";
}

// What the three have in common: the arguments, with the sequence first.
struct Cells {
  Tensor x;  // [L, N, I]
  int directions = 1;
  std::int64_t hidden = 0;
  int gates = 1;
  bool batch_first = false;
  bool backwards = false;  // the only direction
  float clip = 0;
  std::vector<std::string> activations;  // for each direction
};
// What multiplies the inputs, and the hidden states, of one direction of an LSTM by their weights.
struct LstmProducts {
  std::function<Tensor(const Tensor&)> input, hidden;
};

Cells cells_of(const Call& call, int gates, std::int64_t hidden, std::vector<std::string> defaults) {
  Cells cells{.x = call.input(0), .hidden = hidden, .gates = gates};
  cells.batch_first = call.integer("layout", 0) != 0;
  if (cells.batch_first) cells.x = cells.x.transpose(0, 1);
  const std::string_view direction = call.text("direction", "forward");
  call.require(direction == "forward" || direction == "reverse" || direction == "bidirectional",
               "direction is unknown");
  cells.directions = direction == "bidirectional" ? 2 : 1;
  cells.backwards = direction == "reverse";
  cells.clip = call.number("clip", 0);
  cells.activations = call.texts("activations", std::move(defaults));
  const std::size_t each = cells.activations.size();
  if (!call.has_attribute("activations") && cells.directions == 2) {
    for (std::size_t i = 0; i < each; ++i) cells.activations.push_back(cells.activations[i]);
  }
  call.require(call.shape(1).rank() == 3 && call.shape(1)[0] == cells.directions,
               "the weights are not those of the directions");
  return cells;
}

// Of one direction.
Tensor part(const Call& call, std::size_t input, int direction) {
  return call.has(input) ? call.input(input).select(0, direction) : Tensor();
}
Tensor initial(const Call& call, const Cells& cells, std::size_t input, int direction) {
  if (!call.has(input))
    return zeros({cells.x.shape()[1], cells.hidden}, {.dtype = cells.x.dtype(), .device = call.device()});
  return call.input(input).select(cells.batch_first ? 1 : 0, direction);
}

// Gate blocks in another order.
Tensor reordered(const Tensor& t, std::int64_t hidden, std::span<const int> order, std::int64_t first = 0) {
  std::vector<Tensor> blocks;
  for (const int gate : order) blocks.push_back(t.narrow(0, first + gate * hidden, hidden));
  return cat(blocks, 0);
}

// Of one direction: for the input, for the hidden state, and where there are biases those of both.
std::vector<Tensor> reordered_weights(const Call& call, const Cells& cells, int direction, std::span<const int> order) {
  std::vector<Tensor> weights = {reordered(part(call, 1, direction), cells.hidden, order),
                                 reordered(part(call, 2, direction), cells.hidden, order)};
  if (call.has(3)) {
    const Tensor bias = part(call, 3, direction);
    weights.push_back(reordered(bias, cells.hidden, order));
    weights.push_back(reordered(bias, cells.hidden, order, cells.gates * cells.hidden));
  }
  return weights;
}

// Of all directions; kept from run to run where no gradient is wanted of them.
std::vector<RecurrentWeights> weights_of(const Call& call, const Cells& cells, std::span<const int> order) {
  const auto make = [&] {
    std::vector<Tensor> all;
    for (int d = 0; d < cells.directions; ++d) {
      for (Tensor& weight : reordered_weights(call, cells, d, order)) all.push_back(std::move(weight));
    }
    return all;
  };
  std::vector<Tensor> sources;
  bool gradient = false;
  for (std::size_t i = 1; i <= 3; ++i) {
    if (!call.has(i)) continue;
    sources.push_back(call.input(i));
    gradient = gradient || part(call, i, 0).requires_grad();  // a view wants none under NoGrad
  }
  const std::vector<Tensor> all = gradient ? make() : call.planned().derived->of(sources, make);
  std::vector<RecurrentWeights> weights;
  const std::size_t each = call.has(3) ? 4 : 2;
  for (std::size_t at = 0; at < all.size(); at += each) {
    weights.push_back({.input = all[at], .hidden = all[at + 1]});
    if (each == 4) weights.back().input_bias = all[at + 2];
    if (each == 4) weights.back().hidden_bias = all[at + 3];
  }
  return weights;
}

// Our layers go forward, or both ways.
Tensor in_order(const Cells& cells, const Tensor& sequence) {
  return cells.backwards ? sequence.flip({0}) : sequence;
}

// Whether our layers compute this: no lengths, no clipping, the usual activations.
bool is_plain(const Call& call, const Cells& cells, std::span<const std::string_view> usual) {
  if (call.has(4) || cells.clip != 0 || call.integer("input_forget", 0) != 0) return false;
  for (std::size_t i = 0; i < cells.activations.size(); ++i) {
    if (cells.activations[i] != usual[i % usual.size()]) return false;
  }
  return true;
}

// y [L, N, D * H] and states [D, N, H] as the node wants them.
std::vector<Tensor> results_of(const Cells& cells, const Tensor& output, std::vector<Tensor> states) {
  const Shape& shape = output.shape();
  const Tensor y = output.reshape({shape[0], shape[1], cells.directions, cells.hidden});
  std::vector<Tensor> results = {cells.batch_first ? y.permute({1, 0, 2, 3}) : y.permute({0, 2, 1, 3})};
  for (const Tensor& state : states) results.push_back(cells.batch_first ? state.transpose(0, 1) : state);
  return results;
}

std::vector<std::optional<Tensor>> initial_states(const Call& call, const Cells& cells, std::size_t count) {
  std::vector<std::optional<Tensor>> states;
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Tensor> of_directions;
    for (int d = 0; d < cells.directions; ++d) of_directions.push_back(initial(call, cells, 5 + i, d));
    states.emplace_back(stack(of_directions, 0));
  }
  return states;
}

// One direction, cell by cell. `step` takes the input's share of the gates and the states, and gives the new ones.
template <typename Step>
Tensor run_cells(const Call& call, const Cells& cells, int direction, const Tensor& shares, std::vector<Tensor>& states,
                 const Step& step) {
  const std::int64_t length = cells.x.shape()[0];
  const bool backwards = cells.backwards || direction == 1;
  const Tensor lengths = call.has(4) ? call.input(4).to(DType::i64).reshape({-1, 1}) : Tensor();
  std::vector<Tensor> outputs(static_cast<std::size_t>(length));
  for (std::int64_t i = 0; i < length; ++i) {
    const std::int64_t t = backwards ? length - 1 - i : i;
    std::vector<Tensor> next = step(shares.select(0, t), states);
    Tensor output = next.front();
    if (lengths.defined()) {
      const Tensor lives = gt(lengths, static_cast<double>(t));
      output = where(lives, output, zeros_like(output));
      for (std::size_t k = 0; k < next.size(); ++k) next[k] = where(lives, next[k], states[k]);
    }
    states = std::move(next);
    outputs[static_cast<std::size_t>(t)] = output;
  }
  call.require(length > 0, "the sequence is empty");
  return stack(outputs, 0);
}

// All directions cell by cell, with `count` states. `times` gives the gates' share of the inputs of a direction, `make`
// its step.
template <typename Times, typename Make>
std::vector<Tensor> by_cells(const Call& call, const Cells& cells, std::size_t count, const Times& times,
                             const Make& make) {
  std::vector<Tensor> outputs;
  std::vector<std::vector<Tensor>> finals(count);
  for (int d = 0; d < cells.directions; ++d) {
    std::vector<Tensor> states;
    for (std::size_t i = 0; i < count; ++i) states.push_back(initial(call, cells, 5 + i, d));
    const Tensor bias = part(call, 3, d);
    Tensor shares = times(d);
    const std::int64_t rows = cells.gates * cells.hidden;
    if (bias.defined()) shares = add(shares, bias.narrow(0, 0, rows));
    outputs.push_back(
        run_cells(call, cells, d, shares, states, make(d, bias.defined() ? bias.narrow(0, rows, rows) : Tensor())));
    for (std::size_t i = 0; i < count; ++i) finals[i].push_back(states[i]);
  }
  std::vector<Tensor> states;
  for (const std::vector<Tensor>& list : finals) states.push_back(stack(list, 0));
  return results_of(cells, cat(outputs, -1), std::move(states));
}

// The inputs times their weights.
auto products_of(const Call& call, const Cells& cells) {
  return [&call, &cells](int d) { return matmul(cells.x, part(call, 1, d).transpose(0, 1)); };
}

Tensor clipped(const Tensor& x, float limit) {
  return limit > 0 ? clamp(x, -limit, limit) : x;
}
Tensor plus(const Tensor& a, const Tensor& b) {
  return b.defined() ? add(a, b) : a;
}

std::vector<Tensor> rnn(const Call& call) {
  const Cells cells = cells_of(call, 1, call.shape(2).back(), {"Tanh"});
  return by_cells(call, cells, 1, products_of(call, cells), [&](int d, const Tensor& bias) {
    return [&, bias, recurrent = part(call, 2, d).transpose(0, 1),
            f = find_activation(cells.activations[static_cast<std::size_t>(d)])](
               const Tensor& share, const std::vector<Tensor>& states) -> std::vector<Tensor> {
      return {f(clipped(plus(add(share, matmul(states[0], recurrent)), bias), cells.clip))};
    };
  });
}

std::vector<Tensor> gru_of(const Call& call) {
  const Cells cells = cells_of(call, 3, call.shape(2).back(), {"Sigmoid", "Tanh"});
  const bool before_reset = call.integer("linear_before_reset", 0) != 0;
  constexpr std::array<std::string_view, 2> kUsual = {"Sigmoid", "Tanh"};
  if (before_reset && is_plain(call, cells, kUsual)) {
    constexpr std::array kOrder = {1, 0, 2};  // z, r, h to r, z, n
    const std::vector<RecurrentWeights> weights = weights_of(call, cells, kOrder);
    const RecurrentResult result = gru(in_order(cells, cells.x), weights, initial_states(call, cells, 1)[0],
                                       {.bidirectional = cells.directions == 2});
    return results_of(cells, in_order(cells, result.output), {result.hidden});
  }
  return by_cells(call, cells, 1, products_of(call, cells), [&](int d, const Tensor& bias) {
    const std::int64_t h = cells.hidden;
    return [&, h, bias, before_reset, recurrent = part(call, 2, d).transpose(0, 1),
            f = find_activation(cells.activations[static_cast<std::size_t>(2 * d)]),
            g = find_activation(cells.activations[static_cast<std::size_t>(2 * d + 1)])](
               const Tensor& share, const std::vector<Tensor>& states) -> std::vector<Tensor> {
      const auto bias_of = [&](std::int64_t first, std::int64_t count) {
        return bias.defined() ? bias.narrow(0, first, count) : Tensor();
      };
      const Tensor zr =
          plus(add(share.narrow(1, 0, 2 * h), matmul(states[0], recurrent.narrow(1, 0, 2 * h))), bias_of(0, 2 * h));
      const Tensor z = f(clipped(zr.narrow(1, 0, h), cells.clip));
      const Tensor r = f(clipped(zr.narrow(1, h, h), cells.clip));
      const Tensor last = recurrent.narrow(1, 2 * h, h);
      const Tensor inner = before_reset ? mul(r, plus(matmul(states[0], last), bias_of(2 * h, h)))
                                        : plus(matmul(mul(r, states[0]), last), bias_of(2 * h, h));
      const Tensor n = g(clipped(add(share.narrow(1, 2 * h, h), inner), cells.clip));
      return {add(mul(rsub(z, 1.0), n), mul(z, states[0]))};
    };
  });
}

// The cells of an LSTM. `products` gives what multiplies a direction's inputs and hidden states by their weights.
std::vector<Tensor> lstm_cells(const Call& call, const Cells& cells, const std::function<LstmProducts(int)>& products) {
  const bool input_forget = call.integer("input_forget", 0) != 0;
  std::vector<LstmProducts> of_directions;
  for (int d = 0; d < cells.directions; ++d) of_directions.push_back(products(d));
  const auto at = [&](int d) -> const LstmProducts& { return of_directions[static_cast<std::size_t>(d)]; };
  const auto times = [&](int d) { return at(d).input(cells.x); };
  return by_cells(call, cells, 2, times, [&](int d, const Tensor& bias) {
    const auto activation = [&](int i) {
      return find_activation(cells.activations[static_cast<std::size_t>(3 * d + i)]);
    };
    return [&, bias, h = cells.hidden, product = at(d).hidden, peephole = part(call, 7, d), f = activation(0),
            g = activation(1),
            last = activation(2)](const Tensor& share, const std::vector<Tensor>& states) -> std::vector<Tensor> {
      const Tensor gates = plus(add(share, product(states[0])), bias);
      const auto gate = [&](int k, const Tensor& cell, int peep) {
        Tensor value = gates.narrow(1, k * h, h);
        if (peephole.defined() && peep >= 0) value = add(value, mul(peephole.narrow(0, peep * h, h), cell));
        return clipped(value, cells.clip);
      };
      const Tensor i = f(gate(0, states[1], 0));
      const Tensor forget = input_forget ? rsub(i, 1.0) : f(gate(2, states[1], 2));
      const Tensor cell = add(mul(forget, states[1]), mul(i, g(gate(3, states[1], -1))));
      const Tensor o = f(gate(1, cell, 1));
      return {mul(o, last(cell)), cell};
    };
  });
}

std::vector<Tensor> lstm_of(const Call& call) {
  const Cells cells = cells_of(call, 4, call.shape(2).back(), {"Sigmoid", "Tanh", "Tanh"});
  constexpr std::array<std::string_view, 3> kUsual = {"Sigmoid", "Tanh", "Tanh"};
  if (!call.has(7) && is_plain(call, cells, kUsual)) {
    constexpr std::array kOrder = {0, 2, 3, 1};  // i, o, f, c to i, f, g, o
    const std::vector<RecurrentWeights> weights = weights_of(call, cells, kOrder);
    const auto states = initial_states(call, cells, 2);
    const LstmResult result = lstm(in_order(cells, cells.x), weights, LstmState{*states[0], *states[1]},
                                   {.bidirectional = cells.directions == 2});
    return results_of(cells, in_order(cells, result.output), {result.hidden, result.cell});
  }
  return lstm_cells(call, cells, [&](int d) -> LstmProducts {
    return {[&call, d](const Tensor& x) { return matmul(x, part(call, 1, d).transpose(0, 1)); },
            [recurrent = part(call, 2, d).transpose(0, 1)](const Tensor& h) { return matmul(h, recurrent); }};
  });
}

// The operands of DynamicQuantizeLSTM's weights: integers, their scales, their zero points.
struct Int8Weights {
  std::size_t integers, scale, zero;
};
constexpr Int8Weights kOfInputs = {1, 8, 9};
constexpr Int8Weights kOfStates = {2, 10, 11};

// For each direction: those of the inputs, then those of the states where they are wanted.
std::vector<ByteWeight> byte_weights(const Call& call, const Cells& cells, bool of_states) {
  std::vector<Int8Weights> wanted = {kOfInputs};
  if (of_states) wanted.push_back(kOfStates);
  std::vector<Tensor> sources;
  for (const Int8Weights& weights : wanted) {
    sources.insert(sources.end(), {call.input(weights.integers), call.input(weights.zero)});
  }
  const auto make = [&](const Int8Weights& weights, int d) {
    const Tensor integers = part(call, weights.integers, d);
    const Tensor zero = is_zero(call, weights.zero) ? Tensor() : part(call, weights.zero, d);
    call.require(has_byte_form(integers, zero), "the weights are no matrices of bytes with zero points of their columns");
    return byte_weight(integers, zero);
  };
  const std::vector<Tensor> parts = call.planned().derived->of(sources, [&] {
    std::vector<Tensor> all;
    for (const Int8Weights& weights : wanted) {
      for (int d = 0; d < cells.directions; ++d) {
        const ByteWeight made = make(weights, d);
        all.push_back(made.sums);
        if (made.zero.defined()) all.push_back(made.zero);
      }
    }
    return all;
  });
  std::vector<ByteWeight> all;
  auto next = parts.begin();
  for (const Int8Weights& weights : wanted) {
    for (int d = 0; d < cells.directions; ++d) {
      ByteWeight& weight = all.emplace_back(ByteWeight{part(call, weights.integers, d), *next++, {}});
      if (!is_zero(call, weights.zero)) weight.zero = *next++;
    }
  }
  return all;
}
Tensor int8_product(const Quantised& x, const ByteWeight& weight, const Tensor& scale) {
  return mul(times_bytes(x.values, x.zero, weight).to(DType::f32), mul(x.scale, along(scale, 1, 0)));
}

// The states of a batch have one range, so one thread takes all of them; of many rows threads do better side by side.
constexpr std::int64_t kMostRowsOfOneThread = 16;

bool is_one_kernel(const Call& call, const Cells& cells) {
  constexpr std::array<std::string_view, 3> kUsual = {"Sigmoid", "Tanh", "Tanh"};
  const Tensor& weight = call.input(kOfStates.integers);
  const Tensor& zero = call.input(kOfStates.zero);
  bool traced = false;
  for (const std::size_t i : {0, 3, 5, 6, 8, 10}) {
    if (!call.has(i)) continue;
    traced = traced || graph::is_tracing({&call.input(i)});
  }
  return !traced && !call.has(7) && is_plain(call, cells, kUsual) && cells.x.dtype() == DType::f32 &&
         cells.x.size(0) > 0 && cells.x.size(1) <= kMostRowsOfOneThread &&
         (weight.dtype() == DType::u8 || weight.dtype() == DType::i8) && zero.dtype() == weight.dtype() &&
         graph::may_be_whole(call.device());
}

// `shares`: what the inputs give the gates of each direction.
std::vector<Tensor> int8_lstm(const Call& call, const Cells& cells, const std::vector<Tensor>& shares) {
  using Direction = graph::Recur::Direction;
  const std::int64_t rows = 4 * cells.hidden;
  const auto for_gates = [&](const Tensor& parameter) { return along(parameter, 1, 0).expand({rows}); };
  std::vector<Tensor> operands;
  for (int d = 0; d < cells.directions; ++d) {
    const Tensor bias = part(call, 3, d);
    operands.push_back(shares[static_cast<std::size_t>(d)]);
    operands.push_back(part(call, kOfStates.integers, d));
    // Nothing is added by -0.
    operands.push_back(bias.defined() ? bias.narrow(0, rows, rows) : full({rows}, -0.0, {DType::f32, call.device()}));
    operands.push_back(initial(call, cells, 5, d));
    operands.push_back(initial(call, cells, 6, d));
    operands.push_back(for_gates(part(call, kOfStates.scale, d)));
    operands.push_back(for_gates(part(call, kOfStates.zero, d)));
  }
  const Direction direction = cells.directions == 2 ? Direction::both
                              : cells.backwards     ? Direction::reverse
                                                    : Direction::forward;
  const CallScope named("lstm", cells.x);
  const Tensor states = graph::recur({RecurrentCell::int8_lstm, direction}, operands);
  const std::int64_t steps = cells.x.size(0);
  std::vector<Tensor> hidden;
  std::vector<Tensor> memory;
  for (int d = 0; d < cells.directions; ++d) {
    const Tensor own = states.narrow(2, d * cells.hidden, cells.hidden);
    hidden.push_back(own.select(0, cells.backwards || d == 1 ? 0 : steps - 1));
    memory.push_back(own.select(0, steps));
  }
  return results_of(cells, states.narrow(0, 0, steps), {stack(hidden, 0), stack(memory, 0)});
}

// Of com.microsoft: the weights are integers, [directions, features, gates], and what they are multiplied by is made
// integers of its own range: all inputs at once, the hidden states of a batch in every step.
std::vector<Tensor> dynamic_quantize_lstm(const Call& call) {
  call.require(call.shape(2).rank() == 3, "the recurrent weights are not [directions, features, gates]");
  const Cells cells = cells_of(call, 4, call.shape(2)[1], {"Sigmoid", "Tanh", "Tanh"});
  const Quantised inputs = quantised_by_range(call, cells.x);
  const bool whole = is_one_kernel(call, cells);
  const std::vector<ByteWeight> weights = byte_weights(call, cells, !whole);
  const auto times = [&](int d) {
    return int8_product(inputs, weights[static_cast<std::size_t>(d)], part(call, kOfInputs.scale, d));
  };
  if (whole) {
    std::vector<Tensor> shares;
    for (int d = 0; d < cells.directions; ++d) {
      const Tensor bias = part(call, 3, d);
      shares.push_back(plus(times(d), bias.defined() ? bias.narrow(0, 0, 4 * cells.hidden) : bias));
    }
    return int8_lstm(call, cells, shares);
  }
  return lstm_cells(call, cells, [&](int d) -> LstmProducts {
    return {[&times, d](const Tensor&) { return times(d); },
            [&call, weight = weights[static_cast<std::size_t>(cells.directions + d)],
             scale = part(call, kOfStates.scale, d)](const Tensor& h) {
              return int8_product(quantised_by_range(call, h), weight, scale);
            }};
  });
}

constexpr Operator kRecurrentOperators[] = {
    {.name = "RNN", .run = rnn, .check = check_recurrent},
    {.name = "GRU", .run = gru_of, .check = check_recurrent},
    {.name = "LSTM", .run = lstm_of, .check = check_recurrent},
    {.domain = kMicrosoft, .name = "DynamicQuantizeLSTM", .run = dynamic_quantize_lstm, .check = check_activations},
};

}  // namespace

std::span<const Operator> recurrent_operators() {
  return kRecurrentOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
