// Tensors from nothing: constants and ranges.
#include <bit>
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "backends/backend.h"
#include "core/elements.h"
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace graph {

std::uint64_t element_bits(double value, DType dtype) {
  return visit_element(dtype, [&]<typename T>(std::type_identity<T>) -> std::uint64_t {
    if constexpr (std::is_same_v<T, Float16>) {
      return to_f16(static_cast<float>(value)).bits;
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      return to_bf16(static_cast<float>(value)).bits;
    } else if constexpr (std::is_same_v<T, float>) {
      return std::bit_cast<std::uint32_t>(static_cast<float>(value));
    } else if constexpr (std::is_same_v<T, double>) {
      return std::bit_cast<std::uint64_t>(value);
    } else if constexpr (std::is_integral_v<T>) {
      const auto bits = static_cast<std::uint64_t>(static_cast<std::int64_t>(value));
      return sizeof(T) == 8 ? bits : bits & ((std::uint64_t{1} << (8 * sizeof(T) % 64)) - 1);
    } else {
      static_assert(is_storage_only(dtype_of<T>()));
      return 0;  // these hold no number but 0, and ops that would need another refuse them
    }
  });
}

}  // namespace graph

Tensor full(const Shape& shape, double value, TensorOptions options, CallSite site) {
  check_shape("full", shape, options.dtype, site);
  backend_of(options.device);
  if (is_storage_only(options.dtype) && value == 0) {
    const std::vector<std::byte> bytes(static_cast<std::size_t>(shape.numel()) * size_of(options.dtype));
    return Tensor::from_bytes(bytes.data(), bytes.size(), shape, options.dtype, options.device, site);
  }
  // The element as it is stored, so that a half reads back what arithmetic sees.
  double rounded = value;
  visit_element(options.dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, Float16>) {
      rounded = static_cast<double>(to_f32(to_f16(static_cast<float>(value))));
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      rounded = static_cast<double>(to_f32(to_bf16(static_cast<float>(value))));
    } else {
      static_assert(!is_float(dtype_of<T>()) || std::is_floating_point_v<T>);  // encode_scalar rounds to those
    }
  });
  const Scalar scalar = encode_scalar("full", rounded, options.dtype, site);
  return Access::tensor(make_node(Full{scalar}, {}, shape, options.dtype, options.device, site));
}

Tensor zeros(const Shape& shape, TensorOptions options, CallSite site) {
  return full(shape, 0, options, site);
}
Tensor ones(const Shape& shape, TensorOptions options, CallSite site) {
  return full(shape, 1, options, site);
}

Tensor empty(const Shape& shape, TensorOptions options, CallSite site) {
  return full(shape, 0, options, site);
}

Tensor full_like(const Tensor& like, double value, DType dtype, CallSite site) {
  check_defined("full_like", {{"like", like}}, site);
  return full(like.shape(), value, {.dtype = dtype, .device = like.device()}, site);
}
Tensor full_like(const Tensor& like, double value, CallSite site) {
  check_defined("full_like", {{"like", like}}, site);
  return full_like(like, value, like.dtype(), site);
}
Tensor zeros_like(const Tensor& like, CallSite site) {
  return full_like(like, 0, site);
}
Tensor zeros_like(const Tensor& like, DType dtype, CallSite site) {
  return full_like(like, 0, dtype, site);
}
Tensor ones_like(const Tensor& like, CallSite site) {
  return full_like(like, 1, site);
}
Tensor ones_like(const Tensor& like, DType dtype, CallSite site) {
  return full_like(like, 1, dtype, site);
}
Tensor empty_like(const Tensor& like, CallSite site) {
  return full_like(like, 0, site);
}
Tensor empty_like(const Tensor& like, DType dtype, CallSite site) {
  return full_like(like, 0, dtype, site);
}

namespace {

// Made on the host in f64 and rounded once, so that devices without f64 get the same values.
Tensor from_host(const std::vector<double>& values, TensorOptions options, CallSite site) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return Tensor::from(values, shape, Device{}, site).to(options.dtype, site).to(options.device, site);
}

}  // namespace

Tensor arange(double start, double stop, double step, TensorOptions options, CallSite site) {
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step)) {
    fail<ValueError>("arange", fmt::format("no range from {} to {} in steps of {}", start, stop, step), {},
                     "use finite ends and a step other than 0", site);
  }
  const double count = std::ceil((stop - start) / step);
  if (count > 0x1p62) fail<ValueError>("arange", fmt::format("{} elements", count), {}, "", site);
  const Shape shape{count > 0 ? static_cast<std::int64_t>(count) : 0};
  check_shape("arange", shape, options.dtype, site);
  backend_of(options.device);
  if (!is_float(options.dtype)) {
    const Tensor position = Access::tensor(make_node(Iota{}, {}, shape, DType::i64, options.device, site));
    return cast(add(Operand(mul(position, Operand(step, site)), site), Operand(start, site)), options.dtype, site);
  }
  std::vector<double> values(static_cast<std::size_t>(shape[0]));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * step;
  return from_host(values, options, site);
}

Tensor arange(double stop, TensorOptions options, CallSite site) {
  return arange(0, stop, 1, options, site);
}

namespace {

void check_steps(const char* op, double start, double end, std::int64_t steps, TensorOptions options, CallSite site) {
  if (steps < 0 || !std::isfinite(start) || !std::isfinite(end)) {
    fail<ValueError>(op, fmt::format("no {} values from {} to {}", steps, start, end), {},
                     "use finite ends and a number of steps that is not negative", site);
  }
  check_shape(op, {steps}, options.dtype, site);
  backend_of(options.device);
}

// From the nearer end, so that both ends are exact and the values symmetric.
std::vector<double> evenly_spaced(double start, double end, std::int64_t steps) {
  std::vector<double> values(static_cast<std::size_t>(steps));
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const bool first_half = i < steps / 2 || steps == 1;
    values[static_cast<std::size_t>(i)] =
        first_half ? start + step * static_cast<double>(i) : end - step * static_cast<double>(steps - 1 - i);
  }
  return values;
}

}  // namespace

Tensor linspace(double start, double end, std::int64_t steps, TensorOptions options, CallSite site) {
  check_steps("linspace", start, end, steps, options, site);
  return from_host(evenly_spaced(start, end, steps), options, site);
}

Tensor logspace(double start, double end, std::int64_t steps, double base, TensorOptions options, CallSite site) {
  check_steps("logspace", start, end, steps, options, site);
  // The reference device has f64 and our own functions everywhere.
  const Tensor exponents = Tensor::from(evenly_spaced(start, end, steps), {steps}, Device{DeviceKind::cpu, 0}, site);
  return pow(Operand(base, site), Operand(exponents, site)).to(options.dtype, site).to(options.device, site);
}

}  // namespace v0
}  // namespace lockstep
