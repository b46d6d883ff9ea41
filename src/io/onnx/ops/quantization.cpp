// Quantising and back, and the quantised product of ai.onnx; those of com.microsoft stand in contrib_quantized.cpp.
#include "io/onnx/ops/quantized.h"

#include <lockstep/ops.h>

#include "io/onnx/model.h"
#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"
#include "io/onnx/ops/integer_product.h"
#include "io/onnx/ops/unsigned.h"
#include "io/onnx/plan.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

struct IntegerRange {
  double least, most;
};
IntegerRange range_of(const Call& call, ElementType type) {
  if (type.narrow != Narrow::none) return {form_of(type.narrow).least, form_of(type.narrow).most};
  switch (type.dtype) {
    case DType::u8: return {0, 255};
    case DType::i8: return {-128, 127};
    case DType::i16: return {-32768, 32767};
    case DType::u16: return {0, 65535};
    default: call.unsupported("quantised to " + std::string(name_of(type.dtype)));
  }
}

// A scale or zero point beside `x`: for all, along an axis, or for blocks along it.
Tensor beside(const Call& call, const Tensor& x, const Tensor& parameter) {
  if (parameter.numel() == 1 && parameter.rank() <= 1) return parameter.reshape({});
  const int axis = axis_of(call, call.integer("axis", 1), x.rank());
  const std::int64_t block = call.integer("block_size", 0);
  if (block > 0) {
    const Tensor repeated = repeat_interleave(parameter, block, axis);
    return repeated.narrow(axis, 0, x.shape()[axis]);
  }
  call.require(parameter.rank() == 1, "a scale per axis must have one dimension");
  Shape shape = Shape::filled(x.rank(), 1);
  shape[axis] = parameter.shape()[0];
  return parameter.reshape(shape);
}

std::vector<Value> quantize_linear(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor zero = call.optional_input(2);
  ElementType type{zero.defined() ? zero.dtype() : DType::u8, call.value(2).narrow()};
  if (call.integer("output_dtype", 0) != 0) type = call.element_type("output_dtype", type);
  const Tensor scale = beside(call, x, call.input(1)).to(DType::f32);
  const Tensor quotient = div(x.to(DType::f32), scale);
  if (type.dtype == DType::f8e4m3 || type.dtype == DType::f8e5m2) {  // whose zero point is 0
    return {small_float(quotient, type.dtype, call.integer("saturate", 1) != 0)};
  }
  const Tensor point = zero.defined() ? beside(call, x, zero) : Tensor();
  if (type.narrow == Narrow::f4e2m1) {
    return {Value(to_narrow(point.defined() ? add(quotient, point) : quotient, type.narrow), type.narrow)};
  }
  return {Value(quantised(call, quotient, point, type), type.narrow)};
}

std::string check_output(const NodeFacts& node) {
  const std::int64_t type = node.integer("output_dtype", 0);
  const auto dtype = dtype_of(type);
  return type == 0 || (dtype && (!is_storage_only(*dtype) || is_stored_unsigned(*dtype)))
             ? ""
             : "output_dtype=" + name_of_type(type);
}
std::string check_quantise(const NodeFacts& node) {
  const auto type = element_type_of(node.integer("output_dtype", 0));
  return type && type->narrow != Narrow::none ? "" : check_output(node);
}

Narrow type_of_quantised(const NodeFacts& node, std::span<const Narrow> inputs) {
  if (node.integer("output_dtype", 0) != 0) return node.element_type("output_dtype", {}).narrow;
  return inputs.size() > 2 ? inputs[2] : Narrow::none;
}

std::vector<Tensor> dequantize_linear(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor& scale = call.input(1);
  const DType result = call.integer("output_dtype", 0) != 0 ? call.dtype("output_dtype", scale.dtype()) : scale.dtype();
  if (is_storage_only(x.dtype()) && !is_stored_unsigned(x.dtype())) {  // floats have no zero point but 0
    return {mul(computable(x), beside(call, x, scale).to(DType::f32)).to(result)};
  }
  const DType exact = is_float(x.dtype()) ? DType::f32 : DType::i32;  // float4e2m1 is in floats
  Tensor centred_x = cast_to(x, exact);
  if (call.has(2)) centred_x = sub(centred_x, cast_to(beside(call, x, call.input(2)), exact));
  return {mul(centred_x.to(DType::f32), beside(call, x, scale).to(DType::f32)).to(result)};
}

std::vector<Tensor> dynamic_quantize_linear(const Call& call) {
  const Quantised result = quantised_by_range(call, call.input(0));
  return {result.values, result.scale, result.zero};
}

// Inputs: a, its scale and zero point, b, its scale and zero point, the result's scale and zero point.
std::vector<Tensor> qlinear_matmul(const Call& call) {
  const Tensor product = integer_product(call, call.input(0), call.input(2), 3, 5);
  const auto scale_of = [&](std::size_t i, bool rows) {
    const Tensor scale = call.input(i).to(DType::f32);
    return scale.numel() == 1 ? scale.reshape({}) : rows && scale.rank() == 1 ? scale.unsqueeze(-1) : scale;
  };
  const Tensor factor = div(mul(scale_of(1, true), scale_of(4, false)), scale_of(6, false));
  const Tensor zero = call.input(7);
  return {
      quantised(call, mul(product.to(DType::f32), factor), zero.numel() == 1 ? zero.reshape({}) : zero, zero.dtype())};
}

constexpr Operator kQuantizationOperators[] = {
    {.name = "QuantizeLinear",
     .since = 10,
     .run_values = quantize_linear,
     .check = check_quantise,
     .narrow = NarrowInputs::taken,
     .narrow_output = type_of_quantised},
    {.name = "DequantizeLinear",
     .since = 10,
     .run = dequantize_linear,
     .check = check_output,
     .narrow = NarrowInputs::taken},
    {.name = "DynamicQuantizeLinear", .since = 11, .run = dynamic_quantize_linear},
    {.name = "QLinearMatMul", .since = 10, .run = qlinear_matmul},
    {.domain = kMicrosoft,
     .name = "QuantizeLinear",
     .run_values = quantize_linear,
     .check = check_quantise,
     .narrow = NarrowInputs::taken,
     .narrow_output = type_of_quantised},
    {.domain = kMicrosoft,
     .name = "DequantizeLinear",
     .run = dequantize_linear,
     .check = check_output,
     .narrow = NarrowInputs::taken},
};

}  // namespace

Tensor along(const Tensor& parameter, int rank, int dim) {
  if (parameter.numel() == 1) return parameter.reshape({});
  if (parameter.rank() != 1 || rank < 2) return parameter;
  Shape shape = Shape::filled(rank, 1);
  shape[dim < 0 ? dim + rank : dim] = parameter.shape()[0];
  return parameter.reshape(shape);
}

Tensor centred(const Tensor& x, const Tensor& zero, int dim) {
  const DType wide = size_of(x.dtype()) == 1 ? DType::i16 : DType::i32;
  const Tensor values = x.to(wide);
  return zero.defined() ? sub(values, along(zero.to(wide), x.rank(), dim)) : values;
}

Tensor centred_weight(const Call& call, std::size_t input, std::size_t zero, int dim) {
  const auto make = [&] {
    return std::vector<Tensor>{centred(call.input(input), call.optional_input(zero), dim).contiguous()};
  };
  if (!call.is_fixed(input) || (call.has(zero) && !call.is_fixed(zero))) return make()[0];
  std::vector<Tensor> sources = {call.input(input)};
  if (call.has(zero)) sources.push_back(call.input(zero));
  return call.planned().derived->of(sources, make)[0];
}

Tensor dequantised(const Tensor& x, const Tensor& scale, const Tensor& zero) {
  return mul(centred(x, zero, 0).to(DType::f32), scale.reshape({}));
}

Tensor quantised(const Call& call, const Tensor& quotient, const Tensor& zero, ElementType type) {
  const IntegerRange range = range_of(call, type);
  const Tensor moved = zero.defined() ? add(round(quotient), cast_to(zero, quotient.dtype())) : round(quotient);
  return cast_to(clamp(moved, range.least, range.most), type.dtype);
}

Tensor quantised_by(const Call& call, const Tensor& x, const Tensor& scale, const Tensor& zero) {
  const Tensor point = zero.defined() ? zero.reshape({}) : zero;
  return quantised(call, div(x, scale.reshape({})), point, zero.defined() ? zero.dtype() : DType::u8);
}

Quantised quantised_by_range(const Call& call, const Tensor& x) {
  const Tensor most = maximum(max(x), 0);
  const Tensor least = minimum(min(x), 0);
  const Tensor range = sub(most, least);
  const Tensor scale = where(eq(range, 0), ones_like(range), div(range, 255));
  const Tensor zero = clamp(round(div(neg(least), scale)), 0.0, 255.0).to(DType::u8);
  return {quantised(call, div(x, scale), zero, DType::u8), scale, zero};
}

std::span<const Operator> quantization_operators() {
  return kQuantizationOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
