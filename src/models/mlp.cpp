#include <lockstep/models/mlp.h>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

std::int64_t checked(std::int64_t classes, std::int64_t features) {
  if (classes < 1 || features < 1) {
    throw ValueError(fmt::format("MLP: {} classes, {} features: it takes at least one of each", classes, features));
  }
  return features;
}

}  // namespace

MLP::MLP(std::int64_t classes, std::int64_t features)
    : fc1(*this, "fc1", checked(classes, features), 256), fc3(*this, "fc3", 128, classes) {}

Tensor MLP::forward(const Operand& x) const {
  const CallScope call(x.site());
  const Tensor y = relu(fc1(x.tensor().flatten(1)));
  return fc3(relu(fc2(y)));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
