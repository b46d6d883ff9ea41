// The network of YOLOv8: a backbone, a pyramid that goes down and up again, and a head on three of its levels.
#include <array>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/models/yolo.h>

#include "models/vision_layers.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace yolo {  // not unnamed: members of a named class

const nn::BatchNormOptions kYoloNorm{.eps = 1e-3, .momentum = 0.03};
constexpr std::int64_t kBins = 16;  // of the distribution of each side's distance
constexpr std::array<std::int64_t, 3> kStrides{8, 16, 32};

// A convolution, a batch norm and SiLU: keys conv and bn.
class YoloConv : public nn::Layer {
 public:
  YoloConv(nn::Module& parent, std::string name, std::int64_t in, std::int64_t out, std::int64_t kernel = 1,
           std::int64_t stride = 1)
      : Layer(parent, std::move(name)),
        conv(*this, "conv", in, out, {kernel}, {.stride = {stride}, .padding = {kernel / 2}, .bias = false}),
        bn(*this, "bn", out, kYoloNorm) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    return silu(bn(conv(x)));
  }

 private:
  nn::Conv2d conv;
  nn::BatchNorm2d bn;
};

class Bottleneck : public nn::Layer {
 public:
  Bottleneck(nn::Module& parent, std::string name, std::int64_t channels, bool shortcut)
      : Layer(parent, std::move(name)),
        shortcut_(shortcut),
        cv1(*this, "cv1", channels, channels, 3),
        cv2(*this, "cv2", channels, channels, 3) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor y = cv2(cv1(x));
    return shortcut_ ? x.tensor() + y : y;
  }

 private:
  bool shortcut_;
  YoloConv cv1;
  YoloConv cv2;
};

// Half of the channels goes through bottlenecks, and the result of each is kept.
class C2f : public nn::Layer {
 public:
  C2f(nn::Module& parent, std::string name, std::int64_t in, std::int64_t out, std::int64_t depth, bool shortcut)
      : Layer(parent, std::move(name)),
        half_(out / 2),
        cv1(*this, "cv1", in, 2 * half_),
        cv2(*this, "cv2", (2 + depth) * half_, out) {
    for (std::int64_t i = 0; i < depth; ++i) m.add<Bottleneck>(half_, shortcut);
  }

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor both = cv1(x);
    std::vector<Tensor> parts{both.narrow(1, 0, half_), both.narrow(1, half_, half_)};
    for (std::size_t i = 0; i < m.size(); ++i) parts.push_back(m[i](parts.back()));
    return cv2(cat(parts, 1));
  }

 private:
  std::int64_t half_;
  YoloConv cv1;
  YoloConv cv2;
  nn::ModuleList<nn::Layer> m{*this, "m"};
};

// Maxima over windows of 5, 9 and 13 pixels, one after the other.
class Sppf : public nn::Layer {
 public:
  Sppf(nn::Module& parent, std::string name, std::int64_t channels)
      : Layer(parent, std::move(name)),
        cv1(*this, "cv1", channels, channels / 2),
        cv2(*this, "cv2", channels / 2 * 4, channels) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    std::vector<Tensor> parts{cv1(x)};
    for (int i = 0; i < 3; ++i) parts.push_back(max_pool2d(parts.back(), 5, {.stride = {1}, .padding = {2}}));
    return cv2(cat(parts, 1));
  }

 private:
  YoloConv cv1;
  YoloConv cv2;
};

// Boxes (cv2) and classes (cv3) of three levels.
class DetectHead : public nn::Module {
 public:
  DetectHead(nn::Module& parent, std::string name, const std::array<std::int64_t, 3>& channels, std::int64_t classes)
      : Module(parent, std::move(name)), dfl_conv(dfl, "conv", kBins, 1, {1}, {.bias = false}) {
    const std::int64_t of_boxes = std::max<std::int64_t>({16, channels[0] / 4, 4 * kBins});
    const std::int64_t of_classes = std::max(channels[0], std::min<std::int64_t>(classes, 100));
    for (const std::int64_t in : channels) {
      add_branch(cv2, in, of_boxes, 4 * kBins);
      add_branch(cv3, in, of_classes, classes);
    }
    dfl_conv.weight.set(arange(kBins).to(DType::f32).reshape({1, kBins, 1, 1}));
  }

  Tensor operator()(const std::array<Tensor, 3>& levels) const {
    std::vector<Tensor> boxes;
    std::vector<Tensor> scores;
    std::vector<float> grid_x;
    std::vector<float> grid_y;
    std::vector<float> stride;
    for (std::size_t i = 0; i < levels.size(); ++i) {
      boxes.push_back(cv2[i](levels[i]).flatten(2));
      scores.push_back(cv3[i](levels[i]).flatten(2));
      for (std::int64_t y = 0; y < levels[i].size(2); ++y) {
        for (std::int64_t x = 0; x < levels[i].size(3); ++x) {
          grid_x.push_back(static_cast<float>(x) + 0.5f);
          grid_y.push_back(static_cast<float>(y) + 0.5f);
          stride.push_back(static_cast<float>(kStrides[i]));
        }
      }
    }
    const auto places = static_cast<std::int64_t>(stride.size());
    const Device device = levels[0].device();
    const Tensor centres =
        cat({Tensor::from(grid_x, {1, places}, device), Tensor::from(grid_y, {1, places}, device)}, 0);
    // The expected distance of each side: [N, 4, places].
    const Tensor bins = cat(boxes, 2).reshape({levels[0].size(0), 4, kBins, places}).transpose(1, 2);
    const Tensor distances = dfl_conv(softmax(bins, 1)).squeeze(1);
    const Tensor first = centres - distances.narrow(1, 0, 2);
    const Tensor last = centres + distances.narrow(1, 2, 2);
    const Tensor box = cat({(first + last) / 2, last - first}, 1) * Tensor::from(stride, {1, places}, device);
    return cat({box, sigmoid(cat(scores, 2))}, 1);
  }

 private:
  static void add_branch(nn::ModuleList<nn::Sequential>& list, std::int64_t in, std::int64_t hidden, std::int64_t out) {
    auto& branch = list.add<nn::Sequential>();
    branch.add<YoloConv>(in, hidden, 3);
    branch.add<YoloConv>(hidden, hidden, 3);
    branch.add<nn::Conv2d>(hidden, out, Shape{1});
  }

  nn::ModuleList<nn::Sequential> cv2{*this, "cv2"};
  nn::ModuleList<nn::Sequential> cv3{*this, "cv3"};
  nn::Module dfl{*this, "dfl"};
  nn::Conv2d dfl_conv;
};

std::int64_t yolo_channels(std::int64_t channels, const YoloV8Options& options) {
  const double scaled = static_cast<double>(std::min(channels, options.most_channels)) * options.width;
  return static_cast<std::int64_t>(std::ceil(scaled / 8)) * 8;
}

std::int64_t yolo_depth(std::int64_t blocks, const YoloV8Options& options) {
  return std::max<std::int64_t>(std::lround(static_cast<double>(blocks) * options.depth), 1);
}

const YoloV8Options& checked_yolo(const YoloV8Options& options) {
  const auto fits = [](double part) { return part > 0 && part <= 16; };
  if (!fits(options.depth) || !fits(options.width) || options.most_channels < 1 || options.most_channels > 1 << 16 ||
      options.classes < 1 || options.classes > 1 << 20) {
    throw ValueError(fmt::format("YoloV8: no network has depth {}, width {}, {} channels and {} classes", options.depth,
                                 options.width, options.most_channels, options.classes));
  }
  return options;
}

}  // namespace yolo

using namespace yolo;

YoloV8Options YoloV8Options::of(YoloSize size) {
  switch (size) {
    case YoloSize::n: return {.depth = 1.0 / 3, .width = 0.25};
    case YoloSize::s: return {.depth = 1.0 / 3, .width = 0.5};
    case YoloSize::m: return {.depth = 2.0 / 3, .width = 0.75, .most_channels = 768};
    case YoloSize::l: return {.depth = 1, .width = 1, .most_channels = 512};
    case YoloSize::x: return {.depth = 1, .width = 1.25, .most_channels = 512};
  }
  return {};
}

// Numbers are the layers' places in the original's list, where layers without weights count too.
struct YoloV8::Parts {
  Parts(nn::Module& model, const YoloV8Options& o, const std::array<std::int64_t, 5>& c)
      : conv0(model, "0", 3, c[0], 3, 2),
        conv1(model, "1", c[0], c[1], 3, 2),
        block2(model, "2", c[1], c[1], yolo_depth(3, o), true),
        conv3(model, "3", c[1], c[2], 3, 2),
        block4(model, "4", c[2], c[2], yolo_depth(6, o), true),
        conv5(model, "5", c[2], c[3], 3, 2),
        block6(model, "6", c[3], c[3], yolo_depth(6, o), true),
        conv7(model, "7", c[3], c[4], 3, 2),
        block8(model, "8", c[4], c[4], yolo_depth(3, o), true),
        pool9(model, "9", c[4]),
        block12(model, "12", c[4] + c[3], c[3], yolo_depth(3, o), false),
        block15(model, "15", c[3] + c[2], c[2], yolo_depth(3, o), false),
        conv16(model, "16", c[2], c[2], 3, 2),
        block18(model, "18", c[2] + c[3], c[3], yolo_depth(3, o), false),
        conv19(model, "19", c[3], c[3], 3, 2),
        block21(model, "21", c[3] + c[4], c[4], yolo_depth(3, o), false),
        head22(model, "22", {c[2], c[3], c[4]}, o.classes) {}

  YoloConv conv0, conv1;
  C2f block2;
  YoloConv conv3;
  C2f block4;
  YoloConv conv5;
  C2f block6;
  YoloConv conv7;
  C2f block8;
  Sppf pool9;
  C2f block12, block15;
  YoloConv conv16;
  C2f block18;
  YoloConv conv19;
  C2f block21;
  DetectHead head22;
};

YoloV8::YoloV8(const YoloV8Options& options) : options_(checked_yolo(options)) {
  std::array<std::int64_t, 5> channels{};
  for (std::size_t i = 0; i < channels.size(); ++i) channels[i] = yolo_channels(std::int64_t{64} << i, options_);
  parts_ = std::make_unique<Parts>(model, options_, channels);
}

YoloV8::~YoloV8() = default;

Tensor YoloV8::forward(const Operand& x) const {
  const CallScope call("YoloV8", x);
  const Shape& shape = tensor_operand(x).shape();
  const bool fits =
      shape.rank() == 4 && shape[1] == 3 && shape[2] >= 32 && shape[3] >= 32 && shape[2] % 32 + shape[3] % 32 == 0;
  check<ShapeError>(fits, "pictures must be [N, 3, H, W] with H and W multiples of 32", {{"input", x}});
  const auto upsampled = [](const Tensor& y) { return interpolate(y, {.scale_factor = {2, 2}}); };
  const Parts& p = *parts_;
  const Tensor level3 = p.block4(p.conv3(p.block2(p.conv1(p.conv0(x)))));
  const Tensor level4 = p.block6(p.conv5(level3));
  const Tensor level5 = p.pool9(p.block8(p.conv7(level4)));
  const Tensor down4 = p.block12(cat({upsampled(level5), level4}, 1));
  const Tensor out3 = p.block15(cat({upsampled(down4), level3}, 1));
  const Tensor out4 = p.block18(cat({p.conv16(out3), down4}, 1));
  const Tensor out5 = p.block21(cat({p.conv19(out4), level5}, 1));
  return p.head22({out3, out4, out5});
}

std::unique_ptr<YoloV8> YoloV8::load(const nn::StateDict& weights, Device device, CallSite site) {
  const CallScope call("YoloV8::load", site);
  const Tensor* first = weights.find("model.0.conv.weight");
  const Tensor* last = weights.find("model.22.cv3.0.2.weight");
  const bool known =
      first != nullptr && first->rank() == 4 && last != nullptr && last->rank() == 4 && last->size(0) > 0;
  if (!known) {
    fail<ValueError>("these are no weights of YOLOv8: there is no model.0.conv.weight, or no model.22.cv3.0.2.weight",
                     {},
                     "give the state dict of the detection model (its .pt holds a whole Python object: save "
                     "model.model.state_dict() with safetensors)");
  }
  if (weights.find("model.0.bn.weight") == nullptr) {
    fail<ValueError>("the batch norms of these weights were folded into the convolutions", {},
                     "save the state dict before the model is fused");
  }
  std::unique_ptr<YoloV8> found;
  for (const YoloSize size : {YoloSize::n, YoloSize::s, YoloSize::m, YoloSize::l, YoloSize::x}) {
    YoloV8Options options = YoloV8Options::of(size);
    if (yolo_channels(64, options) != first->size(0)) continue;
    options.classes = last->size(0);
    found = std::make_unique<YoloV8>(options);
    break;
  }
  if (found == nullptr) {
    fail<ValueError>(fmt::format("no size of YOLOv8 begins with {} channels", first->size(0)), {},
                     "n, s, m, l, x have 16, 32, 48, 64, 80");
  }
  found->load_state_dict(weights, {});
  found->eval();
  found->to(device);
  return found;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
