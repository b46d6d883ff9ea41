#include "graph/check.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

#include "core/call.h"
#include "core/elements.h"

namespace lockstep {
inline namespace v0 {
namespace {

// The checks' own lines tell nothing.
constexpr CallSite kNowhere("", 0);

std::string line_of(const Shown& shown) {
  if (shown.tensor == nullptr) return fmt::format("  {:<20} scalar {}\n", shown.label, shown.scalar);
  if (!shown.tensor->defined()) return fmt::format("  {:<20} undefined\n", shown.label);
  const std::string& name = shown.tensor->name();
  return fmt::format("  {:<20} {} {}  {}\n", name.empty() ? shown.label : name,
                     type_text(shown.tensor->dtype(), shown.tensor->encoding()), shown.tensor->shape().to_string(),
                     shown.tensor->device().to_string());
}

std::string title_of(const Shown& shown) {
  const bool named = shown.tensor != nullptr && shown.tensor->defined() && !shown.tensor->name().empty();
  return named ? shown.tensor->name() : shown.label;
}

}  // namespace

std::string error_message(std::string_view what, const Operands& operands, std::string_view fix, CallSite here) {
  const Call* const call = current_call;
  std::string text;
  if (call != nullptr && call->op != nullptr)
    text = fmt::format("{}{}: ", call->gradient ? "gradient of " : "", call->op);
  text += fmt::format("{}\n", what);
  for (const Shown& shown : operands) text += line_of(shown);
  if (!fix.empty()) text += fmt::format("  fix: {}\n", fix);
  const CallSite site = call != nullptr ? call->site : here;
  if (site.line > 0) text += fmt::format("  at {}:{}", site.file, site.line);
  return text;
}

const Tensor& tensor_operand(const Operand& operand) {
  if (operand.is_scalar()) {
    fail<ValueError>("needs a tensor operand", {{"input", operand}}, "make the scalar a tensor, e.g. full({}, 1.0)",
                     kNowhere);
  }
  if (!operand.tensor().defined()) check_defined({{"input", operand}});
  return operand.tensor();
}

void check_defined(const Operands& operands) {
  for (const Shown& shown : operands) {
    if (shown.tensor != nullptr && !shown.tensor->defined()) {
      fail<ValueError>(fmt::format("{} is an undefined tensor", shown.label), operands, "assign a tensor before use",
                       kNowhere);
    }
  }
}

void check_same_device(const Operands& operands) {
  check_defined(operands);
  const Shown* first = nullptr;
  for (const Shown& shown : operands) {
    if (shown.tensor == nullptr) continue;
    if (first == nullptr) {
      first = &shown;
    } else if (shown.tensor->device() != first->tensor->device()) {
      fail<DeviceError>(
          fmt::format("{} and {} are on different devices", first->label, shown.label), operands,
          fmt::format("move one of them, e.g. {}.to(Device::parse(\"{}\")); Module::to moves a whole model",
                      title_of(*first), shown.tensor->device().to_string()),
          kNowhere);
    }
  }
}

void check_same_dtype(const Operands& operands) {
  const Shown* first = nullptr;
  for (const Shown& shown : operands) {
    if (shown.tensor == nullptr) continue;
    if (first == nullptr) {
      first = &shown;
    } else if (shown.tensor->dtype() != first->tensor->dtype()) {
      fail<DTypeError>(
          fmt::format("{} and {} have different dtypes", first->label, shown.label), operands,
          fmt::format("cast one of them, e.g. {}.to(DType::{})", title_of(shown), name_of(first->tensor->dtype())),
          kNowhere);
    }
  }
}

void check_float(const Shown& operand) {
  if (operand.tensor == nullptr || is_float(operand.tensor->dtype())) return;
  fail<DTypeError>(fmt::format("{} must be a float tensor", operand.label), {operand},
                   fmt::format("cast it, e.g. {}.to(DType::f32)", title_of(operand)), kNowhere);
}

int check_dim(const Tensor& tensor, std::int64_t dim) {
  const int rank = tensor.rank();
  if (dim < -rank || dim >= rank) {
    fail<IndexError>(fmt::format("dimension {} does not exist", dim), {{"input", tensor}},
                     rank == 0 ? std::string("the tensor has no dimensions")
                               : fmt::format("use a dimension from {} to {}", -rank, rank - 1),
                     kNowhere);
  }
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

namespace graph {

void check_computes(DType dtype, const Operands& operands) {
  if (!is_storage_only(dtype)) return;
  fail<DTypeError>(
      fmt::format("{} elements are stored and moved, but do not compute", name_of(dtype)), operands,
      "read them (to_vector, read_bytes), convert them, and make a tensor of another type with Tensor::from");
}

int broadcast(Shape& result, const Shape& shape) {
  while (result.rank() < shape.rank()) result.insert(0, 1);
  const int added = result.rank() - shape.rank();
  for (int d = 0; d < shape.rank(); ++d) {
    std::int64_t& size = result[d + added];
    if (size == 1) {
      size = shape[d];
    } else if (shape[d] != 1 && shape[d] != size) {
      return d + added;
    }
  }
  return -1;
}

Shape broadcast_shape(const Operands& operands) {
  Shape result;
  bool first = true;
  for (const Shown& shown : operands) {
    if (shown.tensor == nullptr) continue;
    const Shape& shape = shown.tensor->shape();
    if (first) {
      result = shape;
      first = false;
      continue;
    }
    if (const int d = broadcast(result, shape); d >= 0) {
      fail<ShapeError>(fmt::format("shapes do not broadcast: {} against {} in dimension {} of the result", result[d],
                                   shape[d - (result.rank() - shape.rank())], d),
                       operands, "sizes must be equal or 1, aligned at the last dimension");
    }
  }
  return result;
}

std::uint32_t check_dims(const Tensor& tensor, const Dims& dims) {
  if (dims.empty()) return (1u << tensor.rank()) - 1u;
  std::uint32_t mask = 0;
  for (const std::int64_t given : dims) {
    if (tensor.rank() == 0 && (given == 0 || given == -1)) continue;  // as in PyTorch, a scalar has these
    const int dim = check_dim(tensor, given);
    if ((mask >> dim & 1u) != 0) {
      fail<ValueError>(fmt::format("dimension {} is listed twice", dim), {{"input", tensor}});
    }
    mask |= 1u << dim;
  }
  return mask;
}

void check_shape(const Shape& shape, DType dtype) {
  if (shape.rank() > kMaxRank) {
    fail<ShapeError>(
        fmt::format("shape {} has {} dimensions, tensors have at most {}", shape.to_string(), shape.rank(), kMaxRank),
        {});
  }
  std::int64_t bytes = static_cast<std::int64_t>(size_of(dtype));
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      fail<ShapeError>(fmt::format("shape {} has a negative size", shape.to_string()), {});
    }
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(bytes, size, &bytes);
  }
  if (overflow && !empty) {
    fail<ShapeError>(fmt::format("shape {} of {} has more than 2^63 - 1 bytes", shape.to_string(), name_of(dtype)), {});
  }
}

Scalar encode_scalar(double value, DType dtype) {
  if (is_storage_only(dtype)) {
    if (value != 0) check_computes(dtype, {});
    return {};  // the zero of every type has no bits
  }
  switch (compute_type(dtype)) {
    case ComputeType::f32: return {std::bit_cast<std::uint32_t>(static_cast<float>(value))};
    case ComputeType::f64: return {std::bit_cast<std::uint64_t>(value)};
    case ComputeType::i32:
    case ComputeType::i64: break;
  }
  const bool in_range = value >= lowest_of(dtype) && value <= largest_of(dtype);
  if (!in_range || std::trunc(value) != value || value >= 0x1p63) {  // i64's largest is rounded to 2^63
    fail<DTypeError>(fmt::format("scalar {} is not a value of {}", value, name_of(dtype)), {},
                     "cast the tensor to a float type first, or use an integer in range");
  }
  return {static_cast<std::uint64_t>(static_cast<std::int64_t>(value))};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
