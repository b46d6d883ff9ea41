// Operators that change the dtype.
#include <lockstep/ops.h>

#include "io/onnx/model.h"
#include "io/onnx/operators.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

std::vector<Tensor> cast(const Call& call) {
  return {call.input(0).to(call.dtype("to", DType::f32))};
}
std::vector<Tensor> cast_like(const Call& call) {
  return {call.input(0).to(call.dtype_of_input(1))};
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

constexpr Operator kCastOperators[] = {
    // Until 5 the attribute is a text.
    {.name = "Cast", .since = 6, .run = cast, .check = check_type},
    {.name = "CastLike", .since = 15, .run = cast_like},
    {.name = "BitCast", .since = 26, .run = bit_cast, .check = check_type},
};

}  // namespace

std::span<const Operator> cast_operators() {
  return kCastOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
