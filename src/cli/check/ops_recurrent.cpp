#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// A probe's shape is [steps, batch, inputs].
constexpr std::int64_t kHidden = 3;

RecurrentWeights weights(Probe& p, std::int64_t gates, std::int64_t inputs) {
  RecurrentWeights result{p.x({gates * kHidden, inputs}), p.x({gates * kHidden, kHidden})};
  if (p.variant() == 0) {
    result.input_bias = p.x({gates * kHidden});
    result.hidden_bias = p.x({gates * kHidden});
  }
  return result;
}

// Variants: one layer with biases, two layers without; both directions.
std::vector<RecurrentWeights> layers(Probe& p, std::int64_t gates) {
  std::vector<RecurrentWeights> result{weights(p, gates, p.size(2))};
  if (p.variant() == 1) result.push_back(weights(p, gates, kHidden));
  if (p.variant() == 2) result.push_back(weights(p, gates, p.size(2)));
  return result;
}
RecurrentOptions options(Probe& p) {
  return {.bidirectional = p.variant() == 2};
}

template <Tensor (*op)(const Operand&, const Tensor&, const RecurrentWeights&), int gates> Tensors cell(Probe& p) {
  const Tensor x = p.x({p.size(1), p.size(2)});
  const Tensor hidden = p.x({p.size(1), kHidden});
  return {op(x, hidden, weights(p, gates, p.size(2)))};
}

template <RecurrentResult (*op)(const Operand&, const std::vector<RecurrentWeights>&, const std::optional<Tensor>&,
                                const RecurrentOptions&),
          int gates>
Tensors layer(Probe& p) {
  const Tensor x = p.x();
  const RecurrentResult result = op(x, layers(p, gates), std::nullopt, options(p));
  return {result.output, result.hidden};
}

const CheckOp kRecurrentOps[] = {
    {"lstm_cell", Form::sequence, 2,
     [](Probe& p) -> Tensors {
       const Tensor x = p.x({p.size(1), p.size(2)});
       const LstmState before{p.x({p.size(1), kHidden}), p.x({p.size(1), kHidden})};
       const LstmState after = lstm_cell(x, before, weights(p, 4, p.size(2)));
       return {after.hidden, after.cell};
     }},
    {"gru_cell", Form::sequence, 2, cell<gru_cell, 3>},
    {"rnn_tanh_cell", Form::sequence, 2, cell<rnn_tanh_cell, 1>},
    {"rnn_relu_cell", Form::sequence, 2, cell<rnn_relu_cell, 1>},
    {"lstm", Form::sequence, 3,
     [](Probe& p) -> Tensors {
       const Tensor x = p.x();
       const LstmResult result = lstm(x, layers(p, 4), std::nullopt, options(p));
       return {result.output, result.hidden, result.cell};
     }},
    {"gru", Form::sequence, 3, layer<gru, 3>},
    {"rnn_tanh", Form::sequence, 3, layer<rnn_tanh, 1>},
    {"rnn_relu", Form::sequence, 3, layer<rnn_relu, 1>},
};

}  // namespace

std::span<const CheckOp> check_recurrent_ops() {
  return kRecurrentOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
