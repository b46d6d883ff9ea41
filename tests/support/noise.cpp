#include "support/noise.h"

#include <cmath>
#include <string_view>
#include <vector>

#include <lockstep/ops.h>

namespace lockstep::test {
namespace {

bool has_noise(std::string_view key) {
  return !key.ends_with("num_batches_tracked");
}

// Multiples of 2^-23 in [-1, 1): FNV-1a of the name, then murmur's finaliser with the element's number.
std::vector<float> noise(std::string_view name, std::int64_t count) {
  std::uint32_t seed = 2166136261u;
  for (const char c : name) seed = (seed ^ static_cast<unsigned char>(c)) * 16777619u;
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t x = seed + static_cast<std::uint32_t>(i) * 0x9E3779B9u;
    x = (x ^ x >> 16) * 0x85EBCA6Bu;
    x = (x ^ x >> 13) * 0xC2B2AE35u;
    x ^= x >> 16;
    values.push_back(static_cast<float>(x >> 8) / 8388608.0f - 1.0f);
  }
  return values;
}

// A weight that keeps activations of the order of 1.
Tensor value_of(std::string_view name, const Shape& shape) {
  std::vector<float> values = noise(name, shape.numel());
  float offset = 0;
  float scale = 0.25f;
  if (name.ends_with("running_var") || (shape.rank() == 1 && name.ends_with("weight"))) {
    offset = 1;
  } else if (shape.rank() >= 2 && !name.ends_with("layer_scale")) {
    const std::int64_t fan_in = shape.numel() / shape[0];
    int bits = 0;
    while (fan_in >> bits != 0) ++bits;
    scale = std::ldexp(1.5f, -((bits - 1) / 2));
  }
  for (float& value : values) value = offset + scale * value;
  return Tensor::from(values, shape);
}

}  // namespace

void set_noise_weights(nn::Module& model) {
  nn::StateDict weights;
  for (const auto& [name, tensor] : model.state_dict()) {
    if (has_noise(name) && !name.ends_with("dfl.conv.weight")) weights.push_back(name, value_of(name, tensor.shape()));
  }
  model.load_state_dict(weights, {.strict = false});
  model.eval();
}

nlohmann::json keys_of(const nn::Module& model) {
  nlohmann::json keys = nlohmann::json::object();
  for (const auto& [name, tensor] : model.state_dict()) {
    if (has_noise(name)) keys[name] = std::vector<std::int64_t>(tensor.shape().begin(), tensor.shape().end());
  }
  return keys;
}

Tensor noise_picture(const Shape& shape) {
  return Tensor::from(noise("picture", shape.numel()), shape) * 2;
}

}  // namespace lockstep::test
