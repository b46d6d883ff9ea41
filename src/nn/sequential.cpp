#include <lockstep/nn/sequential.h>

#include <fmt/format.h>

#include <lockstep/check.h>

namespace lockstep {
inline namespace v0 {
namespace nn {

void detail::check_maker(bool made, const Module& module) {
  if (made) return;
  throw ValueError(
      fmt::format("clone: {} was constructed from arguments that cannot be copied\n  fix: construct the copy "
                  "with its modules, and call become",
                  module.path().empty() ? "a module" : module.path()));
}

void Sequential::add_missing(const Module& other) {
  const auto* const twin = dynamic_cast<const Sequential*>(&other);
  for (std::size_t i = size(); twin != nullptr && i < twin->size(); ++i) {
    detail::check_maker(static_cast<bool>(twin->makers_[i]), *twin->layers_[i]);
    layers_.push_back(twin->makers_[i](*this, std::to_string(i)));
    makers_.push_back(twin->makers_[i]);
  }
}

Layer& Sequential::operator[](std::size_t index) const {
  if (index >= layers_.size()) throw IndexError(fmt::format("{}: layer {} of {}", path(), index, layers_.size()));
  return *layers_[index];
}

Tensor Sequential::forward(const Operand& x) const {
  Tensor value = [&] {
    const CallScope call("Sequential", x);
    return tensor_operand(x);
  }();
  // Not within a call: layers may be the user's, whose ops name their own lines.
  for (const std::unique_ptr<Layer>& layer : layers_) value = layer->forward(Operand(value, x.site()));
  return value;
}

Tensor Identity::forward(const Operand& x) const {
  const CallScope call("Identity", x);
  return tensor_operand(x);
}

Tensor Flatten::forward(const Operand& x) const {
  const CallScope call("flatten", x);
  return tensor_operand(x).flatten(first_dim_, last_dim_);
}

Tensor Unflatten::forward(const Operand& x) const {
  const CallScope call("unflatten", x);
  return tensor_operand(x).unflatten(dim_, sizes_);
}

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
