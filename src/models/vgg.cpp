#include <lockstep/models/vgg.h>

namespace lockstep {
inline namespace v0 {
namespace models {

namespace {

// What the classifier takes, whatever the picture's size.
constexpr std::int64_t kVggSide = 7;

}  // namespace

VGG::VGG(std::int64_t classes, const VGGOptions& options) {
  std::int64_t channels = 3;
  for (const std::int64_t out : options.channels) {
    if (out == VGGOptions::kPool) {
      features.add<nn::MaxPool2d>(2);
      continue;
    }
    features.add<nn::Conv2d>(channels, out, Shape{3}, nn::ConvLayerOptions{.padding = {1}});
    features.add<nn::ReLU>();
    channels = out;
  }
  classifier.add<nn::Linear>(channels * kVggSide * kVggSide, options.hidden);
  classifier.add<nn::ReLU>();
  classifier.add<nn::Dropout>(0.5);
  classifier.add<nn::Linear>(options.hidden, options.hidden);
  classifier.add<nn::ReLU>();
  classifier.add<nn::Dropout>(0.5);
  classifier.add<nn::Linear>(options.hidden, classes);
}

Tensor VGG::forward(const Operand& x) const {
  const CallScope call(x.site());
  return classifier(adaptive_avg_pool2d(features(x), {kVggSide}).flatten(1));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
