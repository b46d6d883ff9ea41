// TinyViT: a stage of inverted residual convolutions, then three of attention in windows. Between stages a depthwise
// convolution with stride 2 (the last: 1) merges patches.
#include <cmath>
#include <map>
#include <optional>

#include <lockstep/check.h>
#include <lockstep/models/sam_image_encoder.h>

#include "models/sam/layers.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// A convolution and its batch norm: keys "c" and "bn".
class ConvBn : public nn::Layer {
 public:
  ConvBn(nn::Module& parent, std::string name, std::int64_t in, std::int64_t out, std::int64_t kernel,
         std::int64_t stride = 1, std::int64_t groups = 1)
      : Layer(parent, std::move(name)),
        c(*this, "c", in, out, {kernel},
          {.stride = {stride}, .padding = {kernel / 2}, .groups = groups, .bias = false}),
        bn(*this, "bn", out) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    return bn(c(x));
  }

 private:
  nn::Conv2d c;
  nn::BatchNorm2d bn;
};

// 1x1 to four times as many channels, 3x3 depthwise, 1x1 back, and a residual.
class MBConv : public nn::Layer {
 public:
  static constexpr std::int64_t kExpansion = 4;

  MBConv(nn::Module& parent, std::string name, std::int64_t channels)
      : Layer(parent, std::move(name)),
        conv1(*this, "conv1", channels, channels * kExpansion, 1),
        conv2(*this, "conv2", channels * kExpansion, channels * kExpansion, 3, 1, channels * kExpansion),
        conv3(*this, "conv3", channels * kExpansion, channels, 1) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    return gelu(conv3(gelu(conv2(gelu(conv1(x))))) + x.tensor());
  }

 private:
  ConvBn conv1;
  ConvBn conv2;
  ConvBn conv3;
};

class PatchMerging : public nn::Layer {
 public:
  PatchMerging(nn::Module& parent, std::string name, std::int64_t in, std::int64_t out, std::int64_t stride)
      : Layer(parent, std::move(name)),
        conv1(*this, "conv1", in, out, 1),
        conv2(*this, "conv2", out, out, 3, stride, out),
        conv3(*this, "conv3", out, out, 1) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    return conv3(gelu(conv2(gelu(conv1(x)))));
  }

 private:
  ConvBn conv1;
  ConvBn conv2;
  ConvBn conv3;
};

// Attention within windows of `size` x `size`, with a learned bias for every distance |dy|, |dx|.
class WindowAttention : public nn::Module {
 public:
  WindowAttention(nn::Module& parent, std::string name, std::int64_t channels, std::int64_t heads, std::int64_t size)
      : Module(parent, std::move(name)),
        heads_(heads),
        size_(size),
        norm(*this, "norm", {channels}),
        qkv(*this, "qkv", channels, 3 * channels),
        proj(*this, "proj", channels, channels),
        attention_biases(*this, "attention_biases", zeros({heads, size * size})) {
    sam::check_heads(path(), channels, heads);
  }

  // x [N, H, W, C], likewise the result.
  Tensor operator()(const Tensor& x) const {
    const Tensor windows = norm(sam::to_windows(x, size_));
    const Shape shape = windows.shape();
    const std::int64_t count = shape[0] * shape[1] * shape[2];
    const std::int64_t tokens = size_ * size_;
    const std::int64_t width = shape.back() / heads_;
    // The heads lie one after the other, each with its query, key and value.
    const Tensor all = qkv(windows.reshape({count, tokens, shape.back()}))
                           .reshape({count, tokens, heads_, 3 * width})
                           .permute({0, 2, 1, 3});
    const Tensor mixed = scaled_dot_product_attention(all.narrow(-1, 0, width), all.narrow(-1, width, width),
                                                      all.narrow(-1, 2 * width, width), {.mask = biases()});
    const Tensor joined = proj(mixed.permute({0, 2, 1, 3}).reshape({count, tokens, shape.back()}));
    return sam::from_windows(joined.reshape(shape), x.size(1), x.size(2));
  }

 private:
  // [heads, tokens, tokens]. Distances are numbered in row-major order, since the first row of keys meets them all.
  Tensor biases() const {
    std::vector<std::int64_t> numbers;
    for (std::int64_t query = 0; query < size_ * size_; ++query) {
      for (std::int64_t key = 0; key < size_ * size_; ++key) {
        const std::int64_t dy = std::abs(query / size_ - key / size_);
        const std::int64_t dx = std::abs(query % size_ - key % size_);
        numbers.push_back(dy * size_ + dx);
      }
    }
    const Shape shape{static_cast<std::int64_t>(numbers.size())};
    const Tensor index = Tensor::from(numbers, shape, attention_biases.device());
    return index_select(attention_biases, 1, index).reshape({heads_, size_ * size_, size_ * size_});
  }

  std::int64_t heads_;
  std::int64_t size_;
  nn::LayerNorm norm;
  nn::Linear qkv;
  nn::Linear proj;
  nn::Parameter attention_biases;
};

class FeedForward : public nn::Layer {
 public:
  FeedForward(nn::Module& parent, std::string name, std::int64_t channels)
      : Layer(parent, std::move(name)),
        norm(*this, "norm", {channels}),
        fc1(*this, "fc1", channels, 4 * channels),
        fc2(*this, "fc2", 4 * channels, channels) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    return fc2(gelu(fc1(norm(x))));
  }

 private:
  nn::LayerNorm norm;
  nn::Linear fc1;
  nn::Linear fc2;
};

// Attention, a depthwise convolution, and a feed-forward network. x [N, C, H, W].
class AttentionBlock : public nn::Layer {
 public:
  AttentionBlock(nn::Module& parent, std::string name, std::int64_t channels, std::int64_t heads, std::int64_t window)
      : Layer(parent, std::move(name)),
        attn(*this, "attn", channels, heads, window),
        local_conv(*this, "local_conv", channels, channels, 3, 1, channels),
        mlp(*this, "mlp", channels) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor tokens = x.tensor().permute({0, 2, 3, 1});
    const Tensor attended = tokens + attn(tokens);
    const Tensor local = local_conv(attended.permute({0, 3, 1, 2})).permute({0, 2, 3, 1});
    return (local + mlp(local)).permute({0, 3, 1, 2});
  }

 private:
  WindowAttention attn;
  ConvBn local_conv;
  FeedForward mlp;
};

// Blocks, and the merging of patches behind them.
class Stage : public nn::Layer {
 public:
  using Layer::Layer;

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    Tensor y = x.tensor();
    for (std::size_t i = 0; i < blocks.size(); ++i) y = blocks[i](y);
    return downsample ? (*downsample)(y) : y;
  }

  nn::ModuleList<nn::Layer> blocks{*this, "blocks"};
  std::optional<PatchMerging> downsample;
};

}  // namespace

SamTinyViT::SamTinyViT(nn::Module& parent, std::string name, std::int64_t out_channels,
                       const SamTinyViTOptions& options)
    : Layer(parent, std::move(name)),
      norm_head(*this, "norm_head", {options.channels[3]}),
      head(*this, "head", options.channels[3], options.classes) {
  const auto& channels = options.channels;
  seq.add<ConvBn>(3, channels[0] / 2, 3, 2);
  seq.add<nn::GELU>();
  seq.add<ConvBn>(channels[0] / 2, channels[0], 3, 2);
  for (std::size_t i = 0; i < channels.size(); ++i) {
    auto& stage = layers.add<Stage>();
    for (std::int64_t block = 0; block < options.depths[i]; ++block) {
      if (i == 0) {
        stage.blocks.add<MBConv>(channels[i]);
      } else {
        stage.blocks.add<AttentionBlock>(channels[i], options.heads[i], options.windows[i]);
      }
    }
    if (i + 1 < channels.size())
      stage.downsample.emplace(stage, "downsample", channels[i], channels[i + 1], i < 2 ? 2 : 1);
  }
  sam::build_neck(neck, channels[3], out_channels);
}

Tensor SamTinyViT::forward(const Operand& x) const {
  const CallScope call("SamTinyViT", x);
  const Shape& shape = tensor_operand(x).shape();
  const bool fits =
      shape.rank() == 4 && shape[1] == 3 && shape[2] >= 16 && shape[3] >= 16 && shape[2] % 16 + shape[3] % 16 == 0;
  check<ShapeError>(fits, "pictures must be [N, 3, H, W] with H and W multiples of 16", {{"input", x}});
  Tensor y = seq(x);
  for (std::size_t i = 0; i < layers.size(); ++i) y = layers[i](y);
  return neck(y);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
