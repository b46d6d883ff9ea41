#include <lockstep/encoding.h>

#include <array>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::array kInfos = {
#define ENCODING(name, elements, bytes, first_half, halves, dtype, what) \
  EncodingInfo{#name, elements, bytes, first_half, halves, DType::dtype, what},
#define FLOATS(name, codes, elements, bytes, what) EncodingInfo{#name, elements, bytes, 0, 0, DType::f32, what},
#define NARROW(name, held, what) EncodingInfo{#name, 1, size_of(DType::held), 0, 0, DType::f32, what},
#include <lockstep/encodings.def>
#undef ENCODING
};

}  // namespace

const EncodingInfo& info_of(Encoding encoding) {
  LOCKSTEP_ASSERT(encoding != Encoding::dense);
  return kInfos[static_cast<std::size_t>(encoding) - 1];
}

std::string_view name_of(Encoding encoding) {
  return encoding == Encoding::dense ? std::string_view("dense") : info_of(encoding).name;
}

std::string type_text(DType dtype, Encoding encoding) {
  std::string text(name_of(dtype));
  if (encoding != Encoding::dense) text.append(" (").append(name_of(encoding)).append(")");
  return text;
}

}  // namespace v0
}  // namespace lockstep
