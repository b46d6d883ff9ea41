#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

std::vector<RecurrentWeights> weights_of(Arguments& a, bool bidirectional) {
  std::vector<RecurrentWeights> weights;
  const std::int64_t layers = a.integer("num_layers", 1);
  a.integer("input_size", 0);
  a.integer("hidden_size", 0);
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    for (int direction = 0; direction < (bidirectional ? 2 : 1); ++direction) {
      const std::string which = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const std::optional<Tensor> input = a.named("weight_ih" + which);
      const std::optional<Tensor> hidden = a.named("weight_hh" + which);
      if (!input || !hidden) throw Unsupported("weights" + which);
      weights.push_back({*input, *hidden, a.named("bias_ih" + which), a.named("bias_hh" + which)});
    }
  }
  return weights;
}

RecurrentOptions options_of(Arguments& a) {
  return {.bidirectional = a.flag("bidirectional"), .batch_first = a.flag("batch_first")};
}

Tensors call_lstm(Arguments& a) {
  const RecurrentOptions options = options_of(a);
  std::optional<LstmState> initial;
  const std::optional<Tensor> h0 = a.named("h0");
  const std::optional<Tensor> c0 = a.named("c0");
  if (h0 && c0) initial = LstmState{*h0, *c0};
  const LstmResult result = lstm(a[0], weights_of(a, options.bidirectional), initial, options);
  return {result.output, result.hidden, result.cell};
}

template <RecurrentResult (*op)(const Operand&, const std::vector<RecurrentWeights>&, const std::optional<Tensor>&,
                                const RecurrentOptions&)>
Tensors layers(Arguments& a) {
  const RecurrentOptions options = options_of(a);
  const RecurrentResult result = op(a[0], weights_of(a, options.bidirectional), a.named("h0"), options);
  return {result.output, result.hidden};
}

RecurrentWeights cell_weights(Arguments& a) {
  const std::optional<Tensor> input = a.named("weight_ih");
  const std::optional<Tensor> hidden = a.named("weight_hh");
  if (!input || !hidden) throw Unsupported("no weights");
  return {*input, *hidden, a.named("bias_ih"), a.named("bias_hh")};
}

Tensors call_lstm_cell(Arguments& a) {
  const LstmState next = lstm_cell(a[0], {a[1], a[2]}, cell_weights(a));
  return {next.hidden, next.cell};
}

template <Tensor (*op)(const Operand&, const Tensor&, const RecurrentWeights&)> Tensors cell(Arguments& a) {
  return {op(a[0], a[1], cell_weights(a))};
}

constexpr RecordedOp kRecurrentOps[] = {
    {"gru", kComputes, layers<gru>},
    {"gru_cell", kComputes, cell<gru_cell>},
    {"lstm", kComputes, call_lstm},
    {"lstm_cell", kComputes, call_lstm_cell},
    {"rnn_relu", kComputes, layers<rnn_relu>},
    {"rnn_relu_cell", kComputes, cell<rnn_relu_cell>},
    {"rnn_tanh", kComputes, layers<rnn_tanh>},
    {"rnn_tanh_cell", kComputes, cell<rnn_tanh_cell>},
};

}  // namespace

std::span<const RecordedOp> recurrent_ops() {
  return kRecurrentOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
