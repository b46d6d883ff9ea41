#include <lockstep/models/lenet.h>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

const LeNetOptions& checked(std::int64_t classes, const LeNetOptions& options) {
  if (classes < 1 || options.channels < 1 || options.height < 12 || options.width < 12) {
    throw ValueError(
        fmt::format("LeNet: {} classes, {} channels of {} x {}: it takes at least one of each, and 12 x 12", classes,
                    options.channels, options.height, options.width));
  }
  return options;
}

// Of one side after both convolutions, whose padding is 2 and 0, and pools.
std::int64_t pooled(std::int64_t side) {
  return (side / 2 - 4) / 2;
}

}  // namespace

LeNet::LeNet(std::int64_t classes, const LeNetOptions& options)
    : conv1(*this, "conv1", checked(classes, options).channels, 6, {5}, {.padding = {2}}),
      fc1(*this, "fc1", 16 * pooled(options.height) * pooled(options.width), 120),
      fc3(*this, "fc3", 84, classes) {}

Tensor LeNet::forward(const Operand& x) const {
  const CallScope call(x.site());
  Tensor y = max_pool2d(relu(conv1(x)), 2);
  y = max_pool2d(relu(conv2(y)), 2);
  y = relu(fc1(y.flatten(1)));
  return fc3(relu(fc2(y)));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
