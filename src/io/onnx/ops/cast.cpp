// Operators that change the dtype.
#include <lockstep/ops.h>

#include <cmath>

#include "io/onnx/model.h"
#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"
#include "io/onnx/ops/quantized.h"
#include "io/onnx/ops/unsigned.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// What an 8-bit float is made of: "FP8 Formats for Deep Learning", Micikevicius et al., 2022.
struct SmallFloat {
  int mantissa;  ///< bits of it
  int bias;
  double largest;
  int past_largest;  ///< the code of what is too large and may not become the largest
  int nan;
};
constexpr SmallFloat kE4m3{3, 7, 448, 0x7f, 0x7f};
constexpr SmallFloat kE5m2{2, 15, 57344, 0x7c, 0x7e};

Value converted(const Call& call, ElementType type) {
  const auto [to, narrow] = type;
  const Tensor& x = call.input(0);
  if (x.dtype() == to && narrow == call.value(0).narrow()) return {x, narrow};
  if (narrow != Narrow::none) {
    const DType through = is_float(to) ? DType::f32 : DType::i32;
    return {to_narrow(cast_to(computable(x), through), narrow), narrow};
  }
  const bool small = to == DType::f8e4m3 || to == DType::f8e5m2;
  if (!small) return cast_to(computable(x), to);
  return small_float(cast_to(computable(x), DType::f32), to, call.integer("saturate", 1) != 0);
}

std::vector<Value> cast(const Call& call) {
  return {converted(call, call.element_type("to", {}))};
}
std::vector<Value> cast_like(const Call& call) {
  return {converted(call, {call.dtype_of_input(1), call.value(1).narrow()})};
}
Narrow type_of_cast(const NodeFacts& node, std::span<const Narrow>) {
  return node.element_type("to", {}).narrow;
}
Narrow type_of_second(const NodeFacts&, std::span<const Narrow> inputs) {
  return inputs.size() > 1 ? inputs[1] : Narrow::none;
}
std::vector<Tensor> bit_cast(const Call& call) {
  const DType dtype = call.dtype("to", DType::f32);
  call.require(size_of(dtype) == size_of(call.dtype_of_input(0)), "the types differ in size");
  const Tensor& x = call.input(0);
  if (x.dtype() == DType::boolean || dtype == DType::boolean) return {x.to(dtype)};  // 0 and 1, also as bits
  return {x.bitcast(dtype)};
}

std::string check_type(const NodeFacts& node) {
  const std::int64_t type = node.integer("to", 0);
  const auto dtype = dtype_of(type);
  return dtype && !is_storage_only(*dtype) ? "" : "to=" + name_of_type(type);
}
std::string check_cast(const NodeFacts& node) {
  const auto type = element_type_of(node.integer("to", 0));
  return type && type->dtype != DType::complex64 ? "" : "to=" + name_of_type(node.integer("to", 0));
}

constexpr Operator kCastOperators[] = {
    // Until 5 the attribute is a text.
    {.name = "Cast",
     .since = 6,
     .run_values = cast,
     .check = check_cast,
     .narrow = NarrowInputs::taken,
     .narrow_output = type_of_cast},
    {.name = "CastLike",
     .since = 15,
     .run_values = cast_like,
     .narrow = NarrowInputs::taken,
     .narrow_output = type_of_second},
    {.name = "BitCast", .since = 26, .run = bit_cast, .check = check_type},
};

}  // namespace

Tensor small_float(const Tensor& x, DType dtype, bool saturate) {
  const SmallFloat& form = dtype == DType::f8e4m3 ? kE4m3 : kE5m2;
  const Tensor size = abs(x);
  const auto word = [](const Tensor& value) { return value.bitcast(DType::i32); };
  const int least = 1 - form.bias;  // the exponent of the smallest normal number
  const Tensor exponent = clamp(shift_right(word(size), 23) - 127, static_cast<double>(least), 126.0);
  const Tensor quantum = shift_left(exponent - form.mantissa + 127, 23).bitcast(DType::f32);
  const Tensor rounded = round(size / quantum) * quantum;
  const Tensor normal = shift_right(word(rounded), 23 - form.mantissa) - ((127 - form.bias) << form.mantissa);
  const Tensor subnormal = (rounded * std::ldexp(1.0, form.mantissa - least)).to(DType::i32);
  Tensor code = where(lt(rounded, std::ldexp(1.0, least)), subnormal, normal);
  const int beyond = saturate ? form.past_largest - 1 : form.past_largest;
  code = where(le(rounded, form.largest), code, beyond);
  code = where(isnan(x), form.nan, code);
  return bitwise_or(code, where(signbit(x), 128, zeros_like(code))).to(DType::u8).bitcast(dtype);
}

std::span<const Operator> cast_operators() {
  return kCastOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
