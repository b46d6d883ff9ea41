#include <lockstep/models/squeezenet.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// Few channels, then many: half of them see one pixel, half its neighbours.
class Fire : public nn::Layer {
 public:
  Fire(nn::Module& parent, std::string name, std::int64_t in, std::int64_t squeezed, std::int64_t expanded)
      : Layer(parent, std::move(name)),
        squeeze(*this, "squeeze", in, squeezed, {1}),
        expand1x1(*this, "expand1x1", squeezed, expanded, {1}),
        expand3x3(*this, "expand3x3", squeezed, expanded, {3}, {.padding = {1}}) {}

  Tensor forward(const Operand& x) const override {
    const CallScope call(x.site());
    const Tensor y = relu(squeeze(x));
    return cat({relu(expand1x1(y)), relu(expand3x3(y))}, 1);
  }

 private:
  nn::Conv2d squeeze;
  nn::Conv2d expand1x1;
  nn::Conv2d expand3x3;
};

}  // namespace

SqueezeNet::SqueezeNet(std::int64_t classes) {
  const PoolOptions halve{.stride = 2, .ceil_mode = true};
  features.add<nn::Conv2d>(3, 64, Shape{3}, nn::ConvLayerOptions{.stride = {2}});
  features.add<nn::ReLU>();
  features.add<nn::MaxPool2d>(3, halve);
  features.add<Fire>(64, 16, 64);
  features.add<Fire>(128, 16, 64);
  features.add<nn::MaxPool2d>(3, halve);
  features.add<Fire>(128, 32, 128);
  features.add<Fire>(256, 32, 128);
  features.add<nn::MaxPool2d>(3, halve);
  features.add<Fire>(256, 48, 192);
  features.add<Fire>(384, 48, 192);
  features.add<Fire>(384, 64, 256);
  features.add<Fire>(512, 64, 256);

  classifier.add<nn::Dropout>(0.5);
  classifier.add<nn::Conv2d>(512, classes, Shape{1});
  classifier.add<nn::ReLU>();
  classifier.add<nn::AdaptiveAvgPool2d>(Shape{1});
}

Tensor SqueezeNet::forward(const Operand& x) const {
  const CallScope call(x.site());
  return classifier(features(x)).flatten(1);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
