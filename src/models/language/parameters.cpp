#include "models/language/parameters.h"

#include <lockstep/ops.h>
#include <lockstep/random.h>

namespace lockstep {
inline namespace v0 {
namespace models {

nn::Module& ParameterTree::module(const std::string& path) {
  if (path.empty()) return *root_;
  auto found = modules_.find(path);
  if (found == modules_.end()) {
    const auto [parent, name] = place(path);
    found = modules_.emplace(path, std::make_unique<nn::Module>(*parent, name)).first;
  }
  return *found->second;
}

std::pair<nn::Module*, std::string> ParameterTree::place(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {root_, path};
  return {&module(path.substr(0, dot)), path.substr(dot + 1)};
}

nn::Parameter ParameterTree::parameter(const std::string& path, const Tensor& value) {
  const auto [owner, name] = place(path);
  return {*owner, name, value};
}

nn::Parameter ParameterTree::matrix(const std::string& path, const Shape& shape) {
  constexpr double kDeviation = 0.02;
  return parameter(path, normal(0, kDeviation, shape));
}

nn::Parameter ParameterTree::filled(const std::string& path, const Shape& shape, double value) {
  return parameter(path, full(shape, value));
}

nn::Buffer ParameterTree::buffer(const std::string& path, const Shape& shape) {
  const auto [owner, name] = place(path);
  return {*owner, name, zeros(shape)};
}

Projection::Projection(ParameterTree& tree, const std::string& path, std::int64_t in, std::int64_t out, bool bias,
                       bool transposed)
    : slot_(std::make_shared<ProjectionSlot>()), has_bias_(bias) {
  slot_->weight = tree.matrix(path + ".weight", transposed ? Shape{in, out} : Shape{out, in});
  slot_->in = in;
  slot_->out = out;
  slot_->transposed = transposed;
  tree.add_projection(path, slot_);
  if (bias) bias_ = tree.filled(path + ".bias", {out}, 0);
}

Tensor Projection::product(const Tensor& x) const {
  if (const ColumnPart* part = slot_->part.get()) {
    if (!has_bias_) return part->all_columns(linear(x, part->weight));
    return part->all_columns(linear(x, part->weight, Tensor(bias_).narrow(0, part->first(), part->count())));
  }
  const Tensor& weight = slot_->weight;
  const Tensor matrix = slot_->transposed ? weight.transpose(0, 1) : weight;
  return has_bias_ ? linear(x, matrix, Tensor(bias_)) : linear(x, matrix);
}

void Projection::give_to_one(bool here, Device device) {
  if (slot_ == nullptr) return;
  slot_->is_one_ranks = true;
  if (!here) take_away(slot_->weight, device);
}

Tensor Projection::operator()(const Tensor& x) const {
  const Tensor result = product(x);
  if (!slot_->down.defined()) return result;
  return result + linear(linear(x, slot_->down), slot_->up) * slot_->scale;
}

Norm::Norm(ParameterTree& tree, const std::string& path, std::int64_t features, const NormConfig& config)
    : config_(config), features_(path.empty() ? 0 : features) {
  if (path.empty()) return;
  if (config.weight) weight_ = tree.filled(path + ".weight", {features}, config.one_more ? 0 : 1);
  if (config.bias) bias_ = tree.filled(path + ".bias", {features}, 0);
}

Tensor Norm::operator()(const Tensor& x) const {
  if (features_ == 0) return x;
  std::optional<Tensor> weight;
  std::optional<Tensor> bias;
  if (config_.weight) weight = config_.one_more ? Tensor(weight_) + 1 : Tensor(weight_);
  if (config_.bias) bias = Tensor(bias_);
  if (config_.kind == NormKind::rms) return rms_norm(x, {features_}, weight, config_.eps);
  return layer_norm(x, {features_}, weight, bias, config_.eps);
}

Tensor activate(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::silu: return silu(x);
    case Activation::gelu: return gelu(x);
    case Activation::gelu_tanh: return gelu_tanh(x);
    case Activation::relu: return relu(x);
    case Activation::tanh: return tanh(x);
  }
  return x;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
