// The op rules of everything in ops.def: which dtypes go in, what comes out.
#include <algorithm>

#include <fmt/format.h>

#include "graph/autocast.h"
#include "graph/gradient_rules.h"
#include "graph/make.h"
#include "graph/memory_order.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

const char* const kLabels[3][3] = {{"input", "", ""}, {"a", "b", ""}, {"condition", "a", "b"}};

unsigned type_bit(DType dtype) {
  if (dtype == DType::boolean) return kTypeBool;
  switch (compute_type(dtype)) {
    case ComputeType::f32: return kTypeF32;
    case ComputeType::f64: return kTypeF64;
    case ComputeType::i32:
    case ComputeType::i64: break;
  }
  return kTypeInt;
}

[[noreturn]] void fail_dtype(const OpInfo& info, DType dtype, const Operands& shown) {
  std::string fix;
  if ((info.types & (kTypeF32 | kTypeF64)) != 0 && !is_float(dtype)) {
    fix = "cast the operands, e.g. a.to(DType::f32)";
  } else if ((info.types & kTypeInt) != 0) {
    fix = "cast the operands to an integer type";
  } else {
    fix = "cast the operands to bool, e.g. a.to(DType::boolean)";
  }
  fail<DTypeError>(fmt::format("does not take {}", name_of(dtype)), shown, fix);
}

// Those that a scope of autocast takes to f32 whatever their operands are: PyTorch's.
constexpr bool is_wide_in_autocast(Op op) {
  switch (op) {
    case Op::exp:
    case Op::expm1:
    case Op::log:
    case Op::log1p:
    case Op::log2:
    case Op::log10:
    case Op::pow:
    case Op::rsqrt:
    case Op::reciprocal:
    case Op::tan:
    case Op::asin:
    case Op::acos:
    case Op::sinh:
    case Op::cosh:
    case Op::erfinv: return true;
    default: return false;
  }
}

// Whether a scope of autocast takes the operands to f32: they differ, or the op asks for it.
bool widens(Op op, std::span<const Operand* const> operands) {
  std::vector<const Tensor*> tensors;
  for (std::size_t i = op == Op::where ? 1 : 0; i < operands.size(); ++i) {
    if (!operands[i]->is_scalar()) tensors.push_back(&operands[i]->tensor());
  }
  if (is_mixed(tensors)) return true;
  return is_wide_in_autocast(op) && !tensors.empty() && is_autocast(*tensors[0]) && tensors[0]->dtype() != DType::f32;
}

// The same op on operands in f32, outside of the scope.
Tensor widened_elementwise(Op op, std::span<const Operand* const> operands) {
  const AutocastExchange outside(DType::f32);
  const auto to = [&](std::size_t i) { return autocast(*operands[i], DType::f32); };  // a condition is bool, and stays
  if (operands.size() == 1) return elementwise(op, to(0));
  if (operands.size() == 2) return elementwise(op, to(0), to(1));
  return elementwise(op, to(0), to(1), to(2));
}

}  // namespace

Tensor elementwise(Op op, std::span<const Operand* const> operands) {
  const OpInfo& info = info_of(op);
  const CallScope call(info.name, *operands.front());
  if (is_autocasting() && widens(op, operands)) return widened_elementwise(op, operands);
  // What errors show is put together for them alone.
  const auto shown = [&] {
    std::vector<Shown> result;
    for (std::size_t i = 0; i < operands.size(); ++i)
      result.emplace_back(kLabels[operands.size() - 1][i], *operands[i]);
    return result;
  };
  const Tensor* any = nullptr;
  for (const Operand* const operand : operands) {
    if (operand->is_scalar()) continue;
    const Tensor& tensor = operand->tensor();
    if (!tensor.defined() || (any != nullptr && tensor.device() != any->device())) {
      check_same_device(shown());
    }
    any = &tensor;
  }

  const bool is_where = op == Op::where;
  if (is_where && (operands[0]->is_scalar() || operands[0]->tensor().dtype() != DType::boolean)) {
    fail<DTypeError>("the condition must be a bool tensor", shown(), "compare something, e.g. x > 0");
  }
  // The dtype of the values: the tensors', which agree; scalars follow.
  const Tensor* first = nullptr;
  for (std::size_t i = is_where ? 1 : 0; i < operands.size(); ++i) {
    if (operands[i]->is_scalar()) continue;
    if (first == nullptr) first = &operands[i]->tensor();
    if (operands[i]->tensor().dtype() != first->dtype()) {
      std::vector<Shown> values = shown();
      if (is_where) values.erase(values.begin());
      check_same_dtype(values);
    }
  }
  DType dtype = DType::f32;
  if (first != nullptr) {
    dtype = first->dtype();
  } else if (is_where) {
    if (operands[1]->integral() && operands[2]->integral()) dtype = DType::i64;
  } else {
    fail<ValueError>("needs a tensor operand", shown(), "make one of the scalars a tensor, e.g. full({}, 1.0)");
  }
  if (info.kind != OpKind::move && is_storage_only(dtype)) check_computes(dtype, shown());
  if ((info.types & type_bit(dtype)) == 0) fail_dtype(info, dtype, shown());

  Elementwise primitive{.op = op};
  Inputs inputs;
  Shape shape = any->shape();
  bool same_shapes = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i]->is_scalar()) {
      primitive.scalars[i] = encode_scalar(operands[i]->scalar(), dtype);
      inputs.push_back(nullptr);
      continue;
    }
    const Tensor& tensor = operands[i]->tensor();
    inputs.push_back(node_of(tensor));
    if (inputs[i]->shape == shape) continue;
    same_shapes = false;
    if (broadcast(shape, inputs[i]->shape) >= 0) broadcast_shape(shown());
  }
  if (!same_shapes) check_shape(shape, dtype);
  const DType result = info.kind == OpKind::comparison ? DType::boolean : dtype;
  return trace_elementwise(made_in_order(primitive, std::move(inputs), shape, result, any->device()), op, operands);
}

Tensor cast(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  for (const DType end : {tensor.dtype(), dtype}) check_computes(end, {{"input", tensor}});
  // Back to what was widened.
  const Reading reading = reading_of(node_of(tensor));
  if (const NodeRef narrow = widened_from(reading.base);
      narrow != nullptr && narrow->dtype == dtype && results_of(narrow->op) == Results::computed) {
    return trace_cast(view_tensor(narrow, reading.view, dtype), tensor);
  }
  return trace_cast(made_in_order(Cast{}, {node_of(tensor)}, tensor.shape(), dtype, tensor.device()), tensor);
}

}  // namespace graph

}  // namespace v0

using graph::elementwise;

// The public ops of the rows that are called as they are. Their names are qualified, so that one without a declaration
// for users does not compile.
#define UNARY(name)                   \
  Tensor v0::name(const Operand& a) { \
    return elementwise(Op::name, a);  \
  }
#define BINARY(name)                                    \
  Tensor v0::name(const Operand& a, const Operand& b) { \
    return elementwise(Op::name, a, b);                 \
  }
#define DEFINED_1(name) UNARY(name)
#define DEFINED_2(name) BINARY(name)
#define DEFINED_COMPUTES(name, arity) DEFINED_##arity(name)
#define DEFINED_SELECTS(name, arity) DEFINED_##arity(name)
#define DEFINED_OWN(name, arity)
#define ROW(name, arity, kind, types, cost, domain, call, ...) DEFINED_##call(name, arity)
#include "kernels/ops.def"
#undef ROW
#undef DEFINED_OWN
#undef DEFINED_SELECTS
#undef DEFINED_COMPUTES
#undef DEFINED_2
#undef DEFINED_1
#undef UNARY
#undef BINARY

inline namespace v0 {

Tensor gelu(const Operand& a) {
  const CallScope call("gelu", a);
  return elementwise(Op::gelu_erf, a);
}

// The scalar exponents that PyTorch treats as other ops, with the results of those: pow(-inf, 0.5) is NaN.
Tensor pow(const Operand& a, const Operand& b) {
  const CallScope call("pow", a);
  if (graph::is_autocasting()) {
    return graph::with_autocast(
        DType::f32, [](const auto&... with) { return pow(with...); }, a, b);
  }
  const bool of_float = !a.is_scalar() && is_float(a.tensor().dtype());
  if (of_float && b.is_scalar()) {
    if (b.scalar() == 2) return elementwise(Op::mul, a, a);
    if (b.scalar() == 0.5) return elementwise(Op::sqrt, a);
    if (b.scalar() == -0.5) return elementwise(Op::rsqrt, a);
    if (b.scalar() == -1) return elementwise(Op::reciprocal, a);
  }
  return elementwise(Op::pow, a, b);
}

Tensor bitwise_not(const Operand& a) {
  const CallScope call("bitwise_not", a);
  const bool of_bool = !a.is_scalar() && a.tensor().dtype() == DType::boolean;
  return elementwise(of_bool ? Op::logical_not : Op::bitwise_not, a);
}

Tensor where(const Operand& condition, const Operand& b, const Operand& c) {
  return elementwise(Op::where, condition, b, c);
}

}  // namespace v0
}  // namespace lockstep
