// Recurrent layers and cells, with PyTorch's parameter names (weight_ih_l0, weight_hh_l0_reverse, ...). Parameters
// start uniform within 1 / sqrt(hidden_size).
#pragma once

#include <optional>
#include <vector>

#include <lockstep/nn/module.h>
#include <lockstep/ops/recurrent.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

enum class RnnNonlinearity : std::uint8_t { tanh, relu };

struct RecurrentLayerOptions {
  std::int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;  ///< x and output are [N, L, ...] instead of [L, N, ...]; states are not affected
  double dropout = 0;        ///< of every layer's output but the last one's, in training
  bool bidirectional = false;
  RnnNonlinearity nonlinearity = RnnNonlinearity::tanh;  ///< of RNN; LSTM and GRU throw ValueError for another
};

/// What RNN, LSTM and GRU share: the parameters of all layers and directions.
class LOCKSTEP_API RecurrentLayer : public Module {
 public:
  /// Of one layer in one direction.
  struct Weights {
    Parameter input, hidden, input_bias, hidden_bias;
  };
  /// Layer 0 forward, layer 0 backward (if bidirectional), layer 1 forward, ...
  const std::vector<Weights>& weights() const { return weights_; }

 protected:
  /// Throws ValueError unless there is a layer, hidden_size is positive, dropout is a probability, and the nonlinearity
  /// is tanh where there are gates.
  RecurrentLayer(Module& parent, std::string name, std::int64_t gates, std::int64_t input_size,
                 std::int64_t hidden_size, const RecurrentLayerOptions& options);

  /// Whether layers have to run one by one, for what is dropped between them.
  bool drops() const;
  std::int64_t layers() const { return options_.num_layers; }
  RecurrentOptions options() const { return {options_.bidirectional, options_.batch_first}; }
  /// Of all layers, or of one.
  std::vector<RecurrentWeights> tensors() const;
  std::vector<RecurrentWeights> tensors(std::int64_t layer) const;
  /// The layer's part of a state of all layers.
  std::optional<Tensor> part(const std::optional<Tensor>& state, std::int64_t layer) const;
  Tensor dropped(const Tensor& output, std::int64_t layer) const;

 private:
  std::int64_t directions() const { return options_.bidirectional ? 2 : 1; }
  RecurrentLayerOptions options_;
  std::vector<Weights> weights_;
};

/// x [L, N, input_size], initial state [layers * directions, N, hidden_size] or none for zeros. The result is the one
/// of ops/recurrent.h.  PyTorch: nn.LSTM.
class LOCKSTEP_API LSTM : public RecurrentLayer {
 public:
  LSTM(Module& parent, std::string name, std::int64_t input_size, std::int64_t hidden_size,
       const RecurrentLayerOptions& options = {})
      : RecurrentLayer(parent, std::move(name), 4, input_size, hidden_size, options) {}
  LSTM(std::int64_t input_size, std::int64_t hidden_size, const RecurrentLayerOptions& options = {})
      : LSTM(no_parent(), {}, input_size, hidden_size, options) {}
  LstmResult forward(const Operand& x, const std::optional<LstmState>& initial = std::nullopt) const;
  LstmResult operator()(const Operand& x, const std::optional<LstmState>& initial = std::nullopt) const {
    return forward(x, initial);
  }
};

/// PyTorch: nn.GRU.
class LOCKSTEP_API GRU : public RecurrentLayer {
 public:
  GRU(Module& parent, std::string name, std::int64_t input_size, std::int64_t hidden_size,
      const RecurrentLayerOptions& options = {})
      : RecurrentLayer(parent, std::move(name), 3, input_size, hidden_size, options) {}
  GRU(std::int64_t input_size, std::int64_t hidden_size, const RecurrentLayerOptions& options = {})
      : GRU(no_parent(), {}, input_size, hidden_size, options) {}
  RecurrentResult forward(const Operand& x, const std::optional<Tensor>& initial = std::nullopt) const;
  RecurrentResult operator()(const Operand& x, const std::optional<Tensor>& initial = std::nullopt) const {
    return forward(x, initial);
  }
};

/// PyTorch: nn.RNN.
class LOCKSTEP_API RNN : public RecurrentLayer {
 public:
  RNN(Module& parent, std::string name, std::int64_t input_size, std::int64_t hidden_size,
      const RecurrentLayerOptions& options = {})
      : RecurrentLayer(parent, std::move(name), 1, input_size, hidden_size, options),
        nonlinearity_(options.nonlinearity) {}
  RNN(std::int64_t input_size, std::int64_t hidden_size, const RecurrentLayerOptions& options = {})
      : RNN(no_parent(), {}, input_size, hidden_size, options) {}
  RecurrentResult forward(const Operand& x, const std::optional<Tensor>& initial = std::nullopt) const;
  RecurrentResult operator()(const Operand& x, const std::optional<Tensor>& initial = std::nullopt) const {
    return forward(x, initial);
  }

 private:
  RnnNonlinearity nonlinearity_;
};

/// What the cells share: one step of one layer.
class LOCKSTEP_API RecurrentCell : public Module {
 public:
  Parameter weight_ih;  ///< [gates * hidden_size, input_size]
  Parameter weight_hh;  ///< [gates * hidden_size, hidden_size]
  Parameter bias_ih;    ///< Biases are not defined without the option.
  Parameter bias_hh;

 protected:
  RecurrentCell(Module& parent, std::string name, std::int64_t gates, std::int64_t input_size, std::int64_t hidden_size,
                bool bias);
  RecurrentWeights tensors() const;
};

/// x [N, input_size] and states [N, hidden_size], or without N.  PyTorch: nn.LSTMCell.
class LOCKSTEP_API LSTMCell : public RecurrentCell {
 public:
  LSTMCell(Module& parent, std::string name, std::int64_t input_size, std::int64_t hidden_size, bool bias = true)
      : RecurrentCell(parent, std::move(name), 4, input_size, hidden_size, bias) {}
  LSTMCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true)
      : LSTMCell(no_parent(), {}, input_size, hidden_size, bias) {}
  LstmState operator()(const Operand& x, const LstmState& state) const { return lstm_cell(x, state, tensors()); }
};

/// PyTorch: nn.GRUCell.
class LOCKSTEP_API GRUCell : public RecurrentCell {
 public:
  GRUCell(Module& parent, std::string name, std::int64_t input_size, std::int64_t hidden_size, bool bias = true)
      : RecurrentCell(parent, std::move(name), 3, input_size, hidden_size, bias) {}
  GRUCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true)
      : GRUCell(no_parent(), {}, input_size, hidden_size, bias) {}
  Tensor operator()(const Operand& x, const Tensor& hidden) const { return gru_cell(x, hidden, tensors()); }
};

/// PyTorch: nn.RNNCell.
class LOCKSTEP_API RNNCell : public RecurrentCell {
 public:
  RNNCell(Module& parent, std::string name, std::int64_t input_size, std::int64_t hidden_size, bool bias = true,
          RnnNonlinearity nonlinearity = RnnNonlinearity::tanh)
      : RecurrentCell(parent, std::move(name), 1, input_size, hidden_size, bias), nonlinearity_(nonlinearity) {}
  RNNCell(std::int64_t input_size, std::int64_t hidden_size, bool bias = true,
          RnnNonlinearity nonlinearity = RnnNonlinearity::tanh)
      : RNNCell(no_parent(), {}, input_size, hidden_size, bias, nonlinearity) {}
  Tensor operator()(const Operand& x, const Tensor& hidden) const {
    return nonlinearity_ == RnnNonlinearity::tanh ? rnn_tanh_cell(x, hidden, tensors())
                                                  : rnn_relu_cell(x, hidden, tensors());
  }

 private:
  RnnNonlinearity nonlinearity_;
};

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
