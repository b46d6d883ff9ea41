// The names of element types. Conversions of Float16 and BFloat16: kernels/float16.cpp.
#include <lockstep/dtype.h>

#include <array>
#include <string>

#include <lockstep/error.h>

#include "core/assert.h"
#include "core/elements.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kNames = {
#define LOCKSTEP_DTYPE(name, text, ...) text,
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
};

}  // namespace

void fail_dtype(DType dtype) {
  const std::string number = "dtype " + std::to_string(static_cast<int>(dtype)) + " has a row";
  fail_invariant(number.c_str(), __FILE__, __LINE__);
}

std::string_view name_of(DType dtype) {
  return kNames[static_cast<std::size_t>(dtype)];
}

DType parse_dtype(std::string_view text) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == text) return static_cast<DType>(i);
  }
  std::string known;
  for (std::string_view name : kNames) known.append(" ").append(name);
  throw DTypeError("unknown dtype '" + std::string(text) + "'; known are" + known);
}

}  // namespace v0
}  // namespace lockstep
