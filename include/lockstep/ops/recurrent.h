// Recurrent cells and layers, with weights in PyTorch's layout.
//
// All tensors have one float dtype (DTypeError) and one device; shapes that do not fit are ShapeErrors. f16 and bf16
// compute in f32 through all steps and layers and round each result once. docs/numerics.md section 7 has the order.
#pragma once

#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// Of one cell with input size I and hidden size H; G is 1 (rnn), 3 (gru: reset, update, new) or 4 (lstm: input,
/// forget, cell, output). Biases are both there or both absent.
struct RecurrentWeights {
  Tensor input;                                      ///< weight_ih [G * H, I]
  Tensor hidden;                                     ///< weight_hh [G * H, H]
  std::optional<Tensor> input_bias = std::nullopt;   ///< bias_ih [G * H]
  std::optional<Tensor> hidden_bias = std::nullopt;  ///< bias_hh [G * H]
};

/// What an LSTM remembers: h and c.
struct LstmState {
  Tensor hidden;
  Tensor cell;
};
/// x [N, I], states [N, H] (or without N): i, f, g, o = sigmoid, sigmoid, tanh, sigmoid of the gates;
/// c' = f * c + i * g, h' = o * tanh(c').  PyTorch: lstm_cell.
LOCKSTEP_API LstmState lstm_cell(const Operand& x, const LstmState& state, const RecurrentWeights& weights);
/// x [N, I], h [N, H] (or without N): n = tanh(x_n + r * h_n); h' = n + z * (h - n).  PyTorch: gru_cell.
LOCKSTEP_API Tensor gru_cell(const Operand& x, const Tensor& h, const RecurrentWeights& weights);
/// h' = tanh(gates).  PyTorch: rnn_tanh_cell.
LOCKSTEP_API Tensor rnn_tanh_cell(const Operand& x, const Tensor& h, const RecurrentWeights& weights);
/// h' = relu(gates).  PyTorch: rnn_relu_cell.
LOCKSTEP_API Tensor rnn_relu_cell(const Operand& x, const Tensor& h, const RecurrentWeights& weights);

struct RecurrentOptions {
  bool bidirectional = false;
  bool batch_first = false;  ///< x and output are [N, L, ...] instead of [L, N, ...]
};
/// `output` [L, N, D * H], D directions; the states after the last step [layers * D, N, H], also for batch_first.
struct LstmResult {
  Tensor output;
  Tensor hidden;
  Tensor cell;
};
/// The same of cells that remember h alone.
struct RecurrentResult {
  Tensor output;
  Tensor hidden;
};
/// Layers of cells: x [L, N, I], or [L, I] for a single sequence (then nothing has N). `weights` as PyTorch numbers
/// them: layer 0 forward, layer 0 backward (if bidirectional), layer 1 forward, ... Absent initial states [layers * D,
/// N, H] are zeros. The inputs' share of all steps is one contraction per layer.  PyTorch: nn.LSTM.
LOCKSTEP_API LstmResult lstm(const Operand& x, const std::vector<RecurrentWeights>& weights,
                             const std::optional<LstmState>& initial = std::nullopt,
                             const RecurrentOptions& options = {});
/// PyTorch: nn.GRU.
LOCKSTEP_API RecurrentResult gru(const Operand& x, const std::vector<RecurrentWeights>& weights,
                                 const std::optional<Tensor>& initial = std::nullopt,
                                 const RecurrentOptions& options = {});
/// PyTorch: nn.RNN(nonlinearity='tanh').
LOCKSTEP_API RecurrentResult rnn_tanh(const Operand& x, const std::vector<RecurrentWeights>& weights,
                                      const std::optional<Tensor>& initial = std::nullopt,
                                      const RecurrentOptions& options = {});
/// PyTorch: nn.RNN(nonlinearity='relu').
LOCKSTEP_API RecurrentResult rnn_relu(const Operand& x, const std::vector<RecurrentWeights>& weights,
                                      const std::optional<Tensor>& initial = std::nullopt,
                                      const RecurrentOptions& options = {});

}  // namespace v0
}  // namespace lockstep
