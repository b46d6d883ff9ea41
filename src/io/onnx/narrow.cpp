#include "io/onnx/narrow.h"

#include <array>
#include <cstring>

#include <lockstep/ops.h>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

constexpr std::array<NarrowForm, 5> kForms = {{
    {4, DType::u8, 0, 15},   // u4
    {4, DType::i8, -8, 7},   // i4
    {4, DType::f32, -6, 6},  // f4e2m1
    {2, DType::u8, 0, 3},    // u2
    {2, DType::i8, -2, 1},   // i2
}};

// Of the codes of float4e2m1 without a sign: "OCP Microscaling Formats (MX) Specification", version 1.0.
constexpr std::array<float, 8> kFloat4 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

Tensor to_float4(const Tensor& x) {
  const Tensor size = clamp(abs(x), 0.0, 6.0);
  const Tensor quantum = where(lt(size, 2.0), 0.5, where(lt(size, 4.0), 1.0, full_like(size, 2.0)));
  const Tensor rounded = round(size / quantum) * quantum;
  return where(isnan(x), zeros_like(x), copysign(rounded, x));
}

}  // namespace

const NarrowForm& form_of(Narrow type) {
  LOCKSTEP_ASSERT(type != Narrow::none);
  return kForms[static_cast<std::size_t>(type) - 1];
}

std::vector<std::byte> unpacked(Narrow type, std::span<const std::byte> packed, std::size_t count) {
  const NarrowForm& form = form_of(type);
  const std::size_t in_byte = 8 / static_cast<std::size_t>(form.bits);
  LOCKSTEP_ASSERT(count <= packed.size() * in_byte);
  const unsigned codes = 1u << form.bits;
  std::vector<std::byte> elements(count * size_of(form.dtype));
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned shift = static_cast<unsigned>(i % in_byte) * static_cast<unsigned>(form.bits);
    const unsigned code = std::to_integer<unsigned>(packed[i / in_byte]) >> shift & (codes - 1);
    if (form.dtype == DType::f32) {
      const float number = code < 8 ? kFloat4[code] : -kFloat4[code - 8];
      std::memcpy(elements.data() + i * sizeof(number), &number, sizeof(number));
    } else {
      const bool negative = form.least < 0 && code >= codes / 2;
      elements[i] = static_cast<std::byte>(negative ? code - codes : code);  // the low bits: two's complement
    }
  }
  return elements;
}

Tensor to_narrow(const Tensor& x, Narrow type) {
  const NarrowForm& form = form_of(type);
  if (form.dtype == DType::f32) return to_float4(x.to(DType::f32));
  const Tensor wide = x.to(DType::i32);
  if (form.least == 0) return bitwise_and(wide, static_cast<int>(form.most)).to(form.dtype);
  const int above = 32 - form.bits;
  return shift_right(shift_left(wide, above), above).to(form.dtype);
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
