// What dtypes.def says of elements beyond the public header: their limits, and calls of a function for the C++ type
// that a dtype names.
#pragma once

#include <cstdint>
#include <type_traits>
#include <utility>

#include <lockstep/dtype.h>

namespace lockstep {
inline namespace v0 {

struct ElementLimits {
  int digits;              ///< binary: of integers without the sign, of floats with the implicit one
  double largest;          ///< finite; of i64 and u64 the double nearest to it, one above
  bool zeroes_subnormals;  ///< arithmetic reads subnormals as zero
};

namespace detail {
inline constexpr bool kept = false;
inline constexpr bool zero = true;
inline constexpr ElementLimits kElementLimits[] = {
#define LOCKSTEP_DTYPE(name, text, element, bytes, kind, use, word, compute, kernel, digits, largest, subnormals, ...) \
  {digits, largest, subnormals},
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
};
}  // namespace detail

constexpr const ElementLimits& limits_of(DType dtype) {
  return detail::kElementLimits[static_cast<std::size_t>(dtype)];
}

constexpr bool zeroes_subnormals(DType dtype) {
  return limits_of(dtype).zeroes_subnormals;
}

/// The largest and the lowest finite value; -largest for floats.
constexpr double largest_of(DType dtype) {
  return limits_of(dtype).largest;
}
constexpr double lowest_of(DType dtype) {
  switch (detail::row_of(dtype).kind) {
    case detail::DTypeKind::boolean:
    case detail::DTypeKind::unsigned_integer: return 0;
    case detail::DTypeKind::signed_integer: return -static_cast<double>(std::uint64_t{1} << limits_of(dtype).digits);
    case detail::DTypeKind::floating:
    case detail::DTypeKind::complex: break;
  }
  return -largest_of(dtype);
}

/// Of a float: the step from 1 to the next number.
constexpr double epsilon_of(DType dtype) {
  return 1 / static_cast<double>(std::uint64_t{1} << (limits_of(dtype).digits - 1));
}

/// Of a number that is no dtype. Out of line, so that loops which are compiled without exceptions can include this header.
[[noreturn]] void fail_dtype(DType dtype);

/// Calls function(std::type_identity<T>()) for the C++ type of a dtype's elements. `function` is compiled for every
/// row of dtypes.def, so that a new one has to be thought of there.
template <typename Function> decltype(auto) visit_element(DType dtype, Function&& function) {
  switch (dtype) {
#define LOCKSTEP_DTYPE(name, text, element, ...) \
  case DType::name:                              \
    return std::forward<Function>(function)(std::type_identity<element>());
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
  }
  fail_dtype(dtype);
}

}  // namespace v0
}  // namespace lockstep
