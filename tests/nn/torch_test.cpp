// Layers and their gradients as PyTorch computes them in f64 (tests/data/layers.safetensors), and equal bits on every
// device.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>

#include <lockstep/autograd.h>
#include <lockstep/io.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using Inputs = std::vector<Tensor>;
using Call = std::function<Tensor(const Inputs&)>;
/// Makes the layer in `root` and says how it is called.
using Make = std::function<Call(nn::Module& root)>;

const io::TensorMap& recorded() {
  static const io::TensorMap tensors = io::load_safetensors(test::repository_data("layers.safetensors")).tensors;
  return tensors;
}

// Layers live as long as their call.
template <typename LayerType, typename... Arguments>
std::shared_ptr<LayerType> hold(nn::Module& root, Arguments... rest) {
  return std::make_shared<LayerType>(root, "layer", rest...);
}

// The layer of one input.
template <typename LayerType, typename... Arguments> Make one(Arguments... arguments) {
  return [=](nn::Module& root) -> Call {
    const auto layer = hold<LayerType>(root, arguments...);
    return [layer](const Inputs& x) { return (*layer)(x[0]); };
  };
}

// Of several inputs.
template <typename LayerType, typename Function, typename... Arguments>
Make with(Function call, Arguments... arguments) {
  return [=](nn::Module& root) -> Call {
    const auto layer = hold<LayerType>(root, arguments...);
    return [layer, call](const Inputs& x) { return call(*layer, x); };
  };
}

Tensor flat(const std::vector<Tensor>& parts) {
  std::vector<Tensor> lines;
  for (const Tensor& part : parts) lines.push_back(part.reshape({-1}));
  return cat(lines, 0);
}
const auto two = [](const auto& layer, const Inputs& x) { return layer(x[0], x[1]); };
const auto recurrent = [](const auto& layer, const Inputs& x) {
  const RecurrentResult result = x.size() == 1 ? layer(x[0]) : layer(x[0], x[1]);
  return flat({result.output, result.hidden});
};
const auto long_memory = [](const nn::LSTM& layer, const Inputs& x) {
  const LstmResult result = x.size() == 1 ? layer(x[0]) : layer(x[0], LstmState{x[1], x[2]});
  return flat({result.output, result.hidden, result.cell});
};
Tensor later(Device device) {
  return triu(ones({5, 5}, {DType::f32, device}), 1).to(DType::boolean);
}
Tensor padding(Device device) {
  return Tensor::from<bool>({false, false, false, false, true, false, false, true, true, true}, {2, 5}, device);
}
Make ctc(std::vector<std::int64_t> inputs, std::vector<std::int64_t> targets, CtcOptions options) {
  const nn::CTCLoss loss{options};
  return with<nn::LogSoftmax>(
      [=](const nn::LogSoftmax& layer, const Inputs& x) { return loss(layer(x[0]), x[1], inputs, targets); }, 2);
}

const std::map<std::string, Make>& cases() {
  using namespace nn;
  const auto bag = [](BagMode mode) { return one<EmbeddingBag>(6, 3, EmbeddingBagOptions{mode, 1}); };
  const auto bags = [](BagMode mode) {
    return with<EmbeddingBag>([](const EmbeddingBag& layer, const Inputs& x) { return layer.bags(x[0], x[1]); }, 6, 3,
                              EmbeddingBagOptions{.mode = mode});
  };
  const TransformerLayerOptions small{.dim_feedforward = 12, .dropout = 0};
  TransformerLayerOptions first = small;
  first.norm_first = true;
  TransformerLayerOptions encoder_first = first;
  encoder_first.activation = gelu;
  encoder_first.batch_first = true;
  TransformerLayerOptions no_bias = small;
  no_bias.bias = false;
  no_bias.batch_first = true;
  const auto attend = [](const MultiheadAttention& layer, const Inputs& x) { return layer(x[0], x[1], x[2]); };
  static const std::map<std::string, Make> all{
      {"bilinear", with<Bilinear>(two, 3, 4, 2)},
      {"embedding", one<Embedding>(6, 3, EmbeddingOptions{2})},
      {"embedding_bag_sum", bag(BagMode::sum)},
      {"embedding_bag_mean", bag(BagMode::mean)},
      {"embedding_bag_max", bag(BagMode::max)},
      {"embedding_bag_sum_offsets", bags(BagMode::sum)},
      {"embedding_bag_mean_offsets", bags(BagMode::mean)},
      {"embedding_bag_max_offsets", bags(BagMode::max)},
      {"embedding_bag_weights",
       with<EmbeddingBag>([](const EmbeddingBag& layer, const Inputs& x) { return layer.forward(x[0], x[1]); }, 6, 3,
                          EmbeddingBagOptions{.mode = BagMode::sum})},
      {"conv1d_circular",
       one<Conv1d>(2, 4, Shape{3}, ConvLayerOptions{.padding = {2}, .groups = 2, .padding_mode = PadMode::circular})},
      {"conv2d_same",
       one<Conv2d>(2, 3, Shape{3, 2}, ConvLayerOptions{.dilation = {2, 1}, .auto_padding = AutoPadding::same})},
      {"conv2d_reflect",
       one<Conv2d>(2, 3, Shape{3},
                   ConvLayerOptions{.stride = {2}, .padding = {1, 2}, .padding_mode = PadMode::reflect})},
      {"conv3d", one<Conv3d>(2, 4, Shape{1, 3, 2}, ConvLayerOptions{.stride = {1, 2, 1}, .padding = {1}, .groups = 2})},
      {"conv_transpose1d",
       one<ConvTranspose1d>(
           4, 2, Shape{3},
           ConvTransposeLayerOptions{.stride = {2}, .padding = {1}, .output_padding = {1}, .groups = 2})},
      {"conv_transpose2d",
       one<ConvTranspose2d>(2, 3, Shape{3, 2}, ConvTransposeLayerOptions{.stride = {2, 3}, .bias = false})},
      {"conv_transpose3d",
       one<ConvTranspose3d>(2, 2, Shape{2}, ConvTransposeLayerOptions{.stride = {2}, .padding = {1}, .dilation = {2}})},
      {"max_pool1d", one<MaxPool1d>(Shape{3}, PoolOptions{.stride = {2}, .padding = {1}})},
      {"max_pool2d", one<MaxPool2d>(Shape{2})},
      {"max_pool2d_overlapping",
       one<MaxPool2d>(
           Shape{3, 2}, PoolOptions{.stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}, .ceil_mode = true})},
      {"max_pool2d_ties", one<MaxPool2d>(Shape{3}, PoolOptions{.stride = {1}, .padding = {1}})},
      {"max_pool3d", one<MaxPool3d>(Shape{2}, PoolOptions{.stride = {1}})},
      {"avg_pool1d", one<AvgPool1d>(Shape{3}, PoolOptions{.stride = {2}, .padding = {1}})},
      {"avg_pool2d", one<AvgPool2d>(Shape{3}, PoolOptions{
                         .stride = {2}, .padding = {1}, .ceil_mode = true, .count_include_pad = false})},
      {"avg_pool3d", one<AvgPool3d>(Shape{2})},
      {"adaptive_avg_pool1d", one<AdaptiveAvgPool1d>(Shape{3})},
      {"adaptive_avg_pool2d", one<AdaptiveAvgPool2d>(Shape{3, -1})},
      {"adaptive_avg_pool3d", one<AdaptiveAvgPool3d>(Shape{1})},
      {"adaptive_max_pool1d", one<AdaptiveMaxPool1d>(Shape{4})},
      {"adaptive_max_pool2d", one<AdaptiveMaxPool2d>(Shape{2, 4})},
      {"adaptive_max_pool3d", one<AdaptiveMaxPool3d>(Shape{2})},
      {"batch_norm1d", one<BatchNorm1d>(3)},
      {"batch_norm2d", one<BatchNorm2d>(2, BatchNormOptions{.momentum = std::nullopt})},
      {"batch_norm3d", one<BatchNorm3d>(2, BatchNormOptions{.track_running_stats = false})},
      {"batch_norm2d_eval", one<BatchNorm2d>(2)},
      {"instance_norm1d", one<InstanceNorm1d>(3, InstanceNormOptions{.affine = true, .track_running_stats = true})},
      {"instance_norm2d", one<InstanceNorm2d>(3)},
      {"instance_norm3d", one<InstanceNorm3d>(2, InstanceNormOptions{.momentum = 0.3, .affine = true})},
      {"instance_norm2d_eval", one<InstanceNorm2d>(2, InstanceNormOptions{.track_running_stats = true})},
      {"group_norm", one<GroupNorm>(2, 4)},
      {"layer_norm", one<LayerNorm>(Shape{3, 4})},
      {"rms_norm", one<RMSNorm>(Shape{4}, RMSNormOptions{1e-5})},
      {"relu", one<ReLU>()},
      {"relu6", one<ReLU6>()},
      {"leaky_relu", one<LeakyReLU>(0.1)},
      {"prelu", one<PReLU>(3)},
      {"elu", one<ELU>(0.7)},
      {"selu", one<SELU>()},
      {"celu", one<CELU>(1.5)},
      {"gelu", one<GELU>()},
      {"gelu_tanh", one<GELU>(GELUOptions{true})},
      {"silu", one<SiLU>()},
      {"mish", one<Mish>()},
      {"softplus", one<Softplus>(2, 1)},
      {"softsign", one<Softsign>()},
      {"hardswish", one<Hardswish>()},
      {"hardsigmoid", one<Hardsigmoid>()},
      {"hardtanh", one<Hardtanh>(-0.5, 0.8)},
      {"tanh", one<Tanh>()},
      {"tanhshrink", one<Tanhshrink>()},
      {"sigmoid", one<Sigmoid>()},
      {"log_sigmoid", one<LogSigmoid>()},
      {"hardshrink", one<Hardshrink>()},
      {"softshrink", one<Softshrink>(0.3)},
      {"softmax", one<Softmax>(1)},
      {"log_softmax", one<LogSoftmax>(-1)},
      {"glu", one<GLU>(2)},
      {"rnn", with<RNN>(recurrent, 3, 4, RecurrentLayerOptions{.num_layers = 2})},
      {"rnn_relu",
       with<RNN>(recurrent, 3, 4, RecurrentLayerOptions{.bias = false, .batch_first = true, .nonlinearity = RnnNonlinearity::relu})},
      {"lstm", with<LSTM>(long_memory, 3, 4, RecurrentLayerOptions{.num_layers = 2, .bidirectional = true})},
      {"lstm_state", with<LSTM>(long_memory, 3, 4, RecurrentLayerOptions{.batch_first = true})},
      {"gru", with<GRU>(recurrent, 3, 4, RecurrentLayerOptions{.num_layers = 2, .bidirectional = true})},
      {"lstm_cell", with<LSTMCell>(
                        [](const LSTMCell& layer, const Inputs& x) {
                          const LstmState next = layer(x[0], {x[1], x[2]});
                          return flat({next.hidden, next.cell});
                        },
                        3, 4)},
      {"gru_cell", with<GRUCell>(two, 3, 4)},
      {"rnn_cell", with<RNNCell>(two, 3, 4, true, RnnNonlinearity::relu)},
      {"attention", with<MultiheadAttention>(attend, 8, 2)},
      {"attention_weights", with<MultiheadAttention>(
                                [](const MultiheadAttention& layer, const Inputs& x) {
                                  const auto result = layer.forward(x[0], x[1], x[2],
                                                                    {.key_padding_mask = padding(x[0].device())}, true);
                                  return flat({result.output, result.weights});
                                },
                                8, 2, MultiheadAttentionOptions{.batch_first = true})},
      {"attention_dims",
       with<MultiheadAttention>(attend, 8, 4, MultiheadAttentionOptions{.bias = false, .kdim = 3, .vdim = 5})},
      {"attention_masks", with<MultiheadAttention>(
                              [](const MultiheadAttention& layer, const Inputs& x) {
                                const Device device = x[0].device();
                                return layer(x[0], x[1], x[2],
                                             {.mask = later(device), .key_padding_mask = padding(device)});
                              },
                              8, 2, MultiheadAttentionOptions{.batch_first = true})},
      {"encoder_layer", one<TransformerEncoderLayer>(8, 2, small)},
      {"encoder_layer_first", with<TransformerEncoderLayer>(
                                  [](const TransformerEncoderLayer& layer, const Inputs& x) {
                                    const Device device = x[0].device();
                                    return layer(x[0], {.mask = later(device), .key_padding_mask = padding(device)});
                                  },
                                  8, 2, encoder_first)},
      {"decoder_layer",
       with<TransformerDecoderLayer>(
           [](const TransformerDecoderLayer& layer, const Inputs& x) { return layer(x[0], x[1], {.causal = true}); }, 8,
           2, small)},
      {"encoder", one<TransformerEncoder>(8, 2, 2, TransformerOptions{no_bias, true})},
      {"decoder", with<TransformerDecoder>(two, 8, 2, 2, TransformerOptions{first})},
      {"upsample_nearest", one<Upsample>(InterpolateOptions{.scale_factor = {2}})},
      {"upsample_bilinear",
       one<Upsample>(InterpolateOptions{.size = {5, 7}, .mode = Interpolation::bilinear, .align_corners = true})},
      {"pixel_shuffle", one<PixelShuffle>(2)},
      {"pixel_unshuffle", one<PixelUnshuffle>(2)},
      {"ctc_mean", ctc({9, 7, 8}, {4, 2, 3}, {})},
      {"ctc_none", ctc({9, 7, 8}, {4, 3, 0}, {.reduction = Reduction::none})},
      {"ctc_blank", ctc({9, 7, 4}, {3, 1, 3}, {.blank = 3, .reduction = Reduction::sum, .zero_infinity = true})},
  };
  return all;
}

void expect_near(const std::string& name, const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.shape(), expected.shape()) << name;
  if (!is_float(expected.dtype())) {
    EXPECT_BITS_EQ(actual, expected.to(actual.device()));
    return;
  }
  const std::vector<float> a = actual.to_vector<float>();
  const std::vector<float> e = expected.to_vector<float>();
  float largest = 1e-3f;
  for (const float value : e) largest = std::max(largest, std::abs(value));
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_LE(std::abs(a[i] - e[i]), 2e-5f * largest) << name << ", element " << i << ": " << a[i] << ", not " << e[i];
  }
}

// What a case gives on a device, by the names under which PyTorch's truth was recorded.
std::map<std::string, Tensor> results_of(const std::string& name, const Make& make, Device device) {
  const std::string prefix = name + "/";
  const auto find = [&](const std::string& key) {
    const auto found = recorded().find(prefix + key);
    return found == recorded().end() ? Tensor() : found->second;
  };
  nn::Module root;
  const Call call = make(root);
  nn::StateDict state;
  for (const auto& [key, value] : recorded()) {
    const std::string place = prefix + "state/";
    if (key.starts_with(place)) state.push_back("layer." + key.substr(place.size()), value);
  }
  root.load_state_dict(state);
  root.to(device);
  root.train(!name.ends_with("_eval"));
  Inputs inputs;
  for (int i = 0; find("in" + std::to_string(i)).defined(); ++i) {
    const Tensor value = find("in" + std::to_string(i)).to(device);
    inputs.push_back(is_float(value.dtype()) ? requires_grad(value) : value);
  }
  std::map<std::string, Tensor> results;
  const Tensor out = call(inputs);
  results["out"] = detach(out);
  if (const Tensor seed = find("seed"); seed.defined()) {
    backward(out, {.seed = seed.to(device)});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (is_tracked(inputs[i])) results["grad_in" + std::to_string(i)] = grad(inputs[i]);
    }
    for (const auto& [key, parameter] : root.named_parameters()) {
      results["grad/" + key.substr(6)] = parameter.grad();
    }
  }
  for (const auto& [key, buffer] : root.named_buffers()) results["after/" + key.substr(6)] = buffer.tensor();
  return results;
}

TEST(Torch, EveryRecordedCaseIsRun) {
  std::set<std::string> names;
  for (const auto& [key, value] : recorded()) names.insert(key.substr(0, key.find('/')));
  for (const std::string& name : names) EXPECT_TRUE(cases().contains(name)) << name;
  EXPECT_EQ(names.size(), cases().size());
}

class TorchLayer : public testing::TestWithParam<std::string> {};

TEST_P(TorchLayer, AgreesWithPyTorchAndBetweenDevices) {
  const std::string name = GetParam();
  std::map<std::string, Tensor> first;
  for (const Device device : test_devices()) {
    std::map<std::string, Tensor> results = results_of(name, cases().at(name), device);
    if (first.empty()) {
      first = results;
      std::size_t compared = 0;
      for (const auto& [key, value] : recorded()) {
        if (!key.starts_with(name + "/")) continue;
        const std::string part = key.substr(name.size() + 1);
        if (part != "out" && !part.starts_with("grad") && !part.starts_with("after/")) continue;
        ASSERT_TRUE(results.contains(part)) << part;
        ASSERT_TRUE(results.at(part).defined()) << part;
        expect_near(part, results.at(part), value);
        ++compared;
      }
      EXPECT_GE(compared, 2u);
    }
    for (const auto& [key, value] : results) {
      if (!value.defined()) continue;
      EXPECT_BITS_EQ(value.to(Device{}), first.at(key).to(Device{})) << key;
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, make] : cases()) all.push_back(name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, TorchLayer, testing::ValuesIn(names()),
                         [](const testing::TestParamInfo<std::string>& each) { return each.param; });

}  // namespace
}  // namespace v0
}  // namespace lockstep
