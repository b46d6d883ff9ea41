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
  const CallScope call("full", site);
  check_shape(shape, options.dtype);
  backend_of(options.device);
  if (is_storage_only(options.dtype) && value == 0) {
    const std::vector<std::byte> bytes(static_cast<std::size_t>(shape.numel()) * size_of(options.dtype));
    return Tensor::from_bytes(bytes.data(), bytes.size(), shape, options.dtype, options.device);
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
  const Scalar scalar = encode_scalar(rounded, options.dtype);
  return Access::tensor(make_node(Full{scalar}, {}, shape, options.dtype, options.device));
}

Tensor zeros(const Shape& shape, TensorOptions options, CallSite site) {
  const CallScope call("zeros", site);
  return full(shape, 0, options);
}
Tensor ones(const Shape& shape, TensorOptions options, CallSite site) {
  const CallScope call("ones", site);
  return full(shape, 1, options);
}

Tensor empty(const Shape& shape, TensorOptions options, CallSite site) {
  const CallScope call("empty", site);
  return full(shape, 0, options);
}

Tensor full_like(const Tensor& like, double value, DType dtype, CallSite site) {
  const CallScope call("full_like", site);
  check_defined({{"like", like}});
  return full(like.shape(), value, {.dtype = dtype, .device = like.device()});
}
Tensor full_like(const Tensor& like, double value, CallSite site) {
  const CallScope call("full_like", site);
  check_defined({{"like", like}});
  return full_like(like, value, like.dtype());
}
Tensor zeros_like(const Tensor& like, CallSite site) {
  const CallScope call("zeros_like", site);
  return full_like(like, 0);
}
Tensor zeros_like(const Tensor& like, DType dtype, CallSite site) {
  const CallScope call("zeros_like", site);
  return full_like(like, 0, dtype);
}
Tensor ones_like(const Tensor& like, CallSite site) {
  const CallScope call("ones_like", site);
  return full_like(like, 1);
}
Tensor ones_like(const Tensor& like, DType dtype, CallSite site) {
  const CallScope call("ones_like", site);
  return full_like(like, 1, dtype);
}
Tensor empty_like(const Tensor& like, CallSite site) {
  const CallScope call("empty_like", site);
  return full_like(like, 0);
}
Tensor empty_like(const Tensor& like, DType dtype, CallSite site) {
  const CallScope call("empty_like", site);
  return full_like(like, 0, dtype);
}

namespace {

// Made on the host in f64 and rounded once, so that devices without f64 get the same values.
Tensor from_host(const std::vector<double>& values, TensorOptions options) {
  const Shape shape{static_cast<std::int64_t>(values.size())};
  return Tensor::from(values, shape, Device{}).to(options.dtype).to(options.device);
}

}  // namespace

Tensor arange(double start, double stop, double step, TensorOptions options, CallSite site) {
  const CallScope call("arange", site);
  if (step == 0 || !std::isfinite(start) || !std::isfinite(stop) || !std::isfinite(step)) {
    fail<ValueError>(fmt::format("no range from {} to {} in steps of {}", start, stop, step), {},
                     "use finite ends and a step other than 0");
  }
  const double count = std::ceil((stop - start) / step);
  if (count > 0x1p62) fail<ValueError>(fmt::format("{} elements", count));
  const Shape shape{count > 0 ? static_cast<std::int64_t>(count) : 0};
  check_shape(shape, options.dtype);
  backend_of(options.device);
  if (!is_float(options.dtype)) {
    const Tensor position = Access::tensor(make_node(Iota{}, {}, shape, DType::i64, options.device));
    return cast(add(mul(position, step), start), options.dtype);
  }
  std::vector<double> values(static_cast<std::size_t>(shape[0]));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = start + static_cast<double>(i) * step;
  return from_host(values, options);
}

Tensor arange(double stop, TensorOptions options, CallSite site) {
  const CallScope call("arange", site);
  return arange(0, stop, 1, options);
}

namespace {

void check_steps(double start, double end, std::int64_t steps, TensorOptions options) {
  if (steps < 0 || !std::isfinite(start) || !std::isfinite(end)) {
    fail<ValueError>(fmt::format("no {} values from {} to {}", steps, start, end), {},
                     "use finite ends and a number of steps that is not negative");
  }
  check_shape({steps}, options.dtype);
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
  const CallScope call("linspace", site);
  check_steps(start, end, steps, options);
  return from_host(evenly_spaced(start, end, steps), options);
}

Tensor logspace(double start, double end, std::int64_t steps, double base, TensorOptions options, CallSite site) {
  const CallScope call("logspace", site);
  check_steps(start, end, steps, options);
  // The reference device has f64 and our own functions everywhere.
  const Tensor exponents = Tensor::from(evenly_spaced(start, end, steps), {steps}, Device{DeviceKind::cpu, 0});
  return pow(base, exponents).to(options.dtype).to(options.device);
}

}  // namespace v0
}  // namespace lockstep
