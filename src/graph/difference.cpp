#include "graph/difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "core/elements.h"
#include "core/hash.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

std::uint64_t bits_of(std::span<const std::byte> element) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, element.data(), std::min(element.size(), sizeof(bits)));
  return bits;
}

// Floats of one type in their order; -0 and +0 are neighbours.
std::int64_t place_of(std::uint64_t bits, std::size_t bytes) {
  const std::uint64_t sign = std::uint64_t{1} << (8 * bytes - 1);
  const auto magnitude = static_cast<std::int64_t>(bits & (sign - 1));
  return (bits & sign) != 0 ? -magnitude - 1 : magnitude;
}

double number_of(DType dtype, std::span<const std::byte> element) {
  double value = 0;
  visit_element(dtype, [&]<typename T>(std::type_identity<T>) {
    T own;
    std::memcpy(&own, element.data(), sizeof(T));
    if constexpr (std::is_convertible_v<T, double>) {
      value = static_cast<double>(own);
    } else if constexpr (requires { to_f32(own); }) {
      value = to_f32(own);
    }
  });
  return value;
}

std::string text_of(DType dtype, std::span<const std::byte> element) {
  const std::string bits = fmt::format("0x{:0{}x}", bits_of(element), 2 * element.size());
  if (!is_float(dtype)) return fmt::format("{:.0f} ({})", number_of(dtype, element), bits);
  return fmt::format("{:.9g} ({})", number_of(dtype, element), bits);
}

// Element at byte `at`, and what it is compared with.
void note(ElementDifference& found, DType dtype, std::size_t at, std::span<const std::byte> one,
          std::span<const std::byte> other) {
  if (found.count++ > 0) return;
  const std::size_t bytes = one.size();
  found.position = static_cast<std::int64_t>(at / bytes);
  found.a = text_of(dtype, one);
  found.b = text_of(dtype, other);
  if (!is_float(dtype) || std::isnan(number_of(dtype, one)) || std::isnan(number_of(dtype, other))) return;
  const std::int64_t here = place_of(bits_of(one), bytes);
  const std::int64_t there = place_of(bits_of(other), bytes);
  found.ulps = here > there ? static_cast<std::uint64_t>(here) - static_cast<std::uint64_t>(there)
                            : static_cast<std::uint64_t>(there) - static_cast<std::uint64_t>(here);
}

}  // namespace

std::optional<ElementDifference> first_difference(DType dtype, std::span<const std::byte> a, std::span<const std::byte> b) {
  if (a.empty() || std::memcmp(a.data(), b.data(), a.size()) == 0) return std::nullopt;
  const std::size_t bytes = size_of(dtype);
  ElementDifference found;
  for (std::size_t at = 0; at < a.size(); at += bytes) {
    const std::span<const std::byte> one = a.subspan(at, bytes);
    const std::span<const std::byte> other = b.subspan(at, bytes);
    if (std::memcmp(one.data(), other.data(), bytes) == 0) continue;
    if (hash_elements(dtype, one) == hash_elements(dtype, other)) continue;
    note(found, dtype, at, one, other);
  }
  return found.count == 0 ? std::nullopt : std::optional(found);
}

std::optional<ElementDifference> first_outside(DType dtype, std::span<const std::byte> a,
                                               std::span<const std::byte> low, std::span<const std::byte> b,
                                               std::span<const std::byte> high) {
  const std::size_t bytes = size_of(dtype);
  const double smallest = dtype == DType::f16 ? 0x1p-14 : dtype == DType::f64 ? 0x1p-1022 : 0x1p-126;
  ElementDifference found;
  for (std::size_t at = 0; at < a.size(); at += bytes) {
    const std::span<const std::byte> one = a.subspan(at, bytes);
    const auto value = [&](std::span<const std::byte> of) { return number_of(dtype, of.subspan(at, bytes)); };
    const double ends[] = {value(low), value(b), value(high)};
    bool right = false;
    if (is_float(dtype)) {
      const auto [least, most] = std::minmax({ends[0], ends[1], ends[2]});
      right =
          !std::isfinite(ends[0] + ends[1] + ends[2]) || (value(a) >= least - smallest && value(a) <= most + smallest);
    } else {
      for (const auto& end : {low, b, high}) right = right || std::memcmp(one.data(), &end[at], bytes) == 0;
    }
    if (!right) note(found, dtype, at, one, b.subspan(at, bytes));
  }
  return found.count == 0 ? std::nullopt : std::optional(found);
}

Shape index_of(std::int64_t position, const Shape& shape) {
  Shape index = shape;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    index[d] = position % shape[d];
    position /= shape[d];
  }
  return index;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
