#include "graph/check.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

std::string line_of(const Shown& shown) {
  if (shown.tensor == nullptr) return fmt::format("  {:<20} scalar {}\n", shown.label, shown.scalar);
  if (!shown.tensor->defined()) return fmt::format("  {:<20} undefined\n", shown.label);
  const std::string& name = shown.tensor->name();
  return fmt::format("  {:<20} {} {}  {}\n", name.empty() ? shown.label : name, name_of(shown.tensor->dtype()),
                     shown.tensor->shape().to_string(), shown.tensor->device().to_string());
}

std::string title_of(const Shown& shown) {
  const bool named = shown.tensor != nullptr && shown.tensor->defined() && !shown.tensor->name().empty();
  return named ? shown.tensor->name() : shown.label;
}

}  // namespace

std::string message(std::string_view op, std::string_view what, const Operands& operands, std::string_view fix,
                    CallSite site) {
  std::string text = fmt::format("{}: {}\n", op, what);
  for (const Shown& shown : operands) text += line_of(shown);
  if (!fix.empty()) text += fmt::format("  fix: {}\n", fix);
  text += fmt::format("  at {}:{}", site.file, site.line);
  return text;
}

void check_defined(std::string_view op, const Operands& operands, CallSite site) {
  for (const Shown& shown : operands) {
    if (shown.tensor != nullptr && !shown.tensor->defined()) {
      fail<ValueError>(op, fmt::format("{} is an undefined tensor", shown.label), operands,
                       "assign a tensor before use", site);
    }
  }
}

void check_same_device(std::string_view op, const Operands& operands, CallSite site) {
  check_defined(op, operands, site);
  const Shown* first = nullptr;
  for (const Shown& shown : operands) {
    if (shown.tensor == nullptr) continue;
    if (first == nullptr) {
      first = &shown;
    } else if (shown.tensor->device() != first->tensor->device()) {
      fail<DeviceError>(op, fmt::format("{} and {} are on different devices", first->label, shown.label), operands,
                        fmt::format("move one of them, e.g. {}.to(Device::parse(\"{}\")); Module::to moves a whole model",
                                    title_of(*first), shown.tensor->device().to_string()),
                        site);
    }
  }
}

void check_same_dtype(std::string_view op, const Operands& operands, CallSite site) {
  const Shown* first = nullptr;
  for (const Shown& shown : operands) {
    if (shown.tensor == nullptr) continue;
    if (first == nullptr) {
      first = &shown;
    } else if (shown.tensor->dtype() != first->tensor->dtype()) {
      fail<DTypeError>(op, fmt::format("{} and {} have different dtypes", first->label, shown.label), operands,
                       fmt::format("cast one of them, e.g. {}.to(DType::{})", title_of(shown),
                                   name_of(first->tensor->dtype())),
                       site);
    }
  }
}

void check_float(std::string_view op, const Shown& operand, CallSite site) {
  if (operand.tensor == nullptr || is_float(operand.tensor->dtype())) return;
  fail<DTypeError>(op, fmt::format("{} must be a float tensor", operand.label), {operand},
                   fmt::format("cast it, e.g. {}.to(DType::f32)", title_of(operand)), site);
}

void check_computes(std::string_view op, DType dtype, const Operands& operands, CallSite site) {
  if (!is_storage_only(dtype)) return;
  fail<DTypeError>(op, fmt::format("{} elements are stored and moved, but do not compute", name_of(dtype)), operands,
                   "read them (to_vector, read_bytes), convert them, and make a tensor of another type with Tensor::from",
                   site);
}

Shape broadcast_shape(std::string_view op, const Operands& operands, CallSite site) {
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
    while (result.rank() < shape.rank()) result.insert(0, 1);
    const int added = result.rank() - shape.rank();
    for (int d = 0; d < shape.rank(); ++d) {
      std::int64_t& size = result[d + added];
      if (size == 1) {
        size = shape[d];
      } else if (shape[d] != 1 && shape[d] != size) {
        fail<ShapeError>(op,
                         fmt::format("shapes do not broadcast: {} against {} in dimension {} of the result", size,
                                     shape[d], d + added),
                         operands, "sizes must be equal or 1, aligned at the last dimension", site);
      }
    }
  }
  return result;
}

int check_dim(std::string_view op, const Tensor& tensor, std::int64_t dim, CallSite site) {
  const int rank = tensor.rank();
  if (dim < -rank || dim >= rank) {
    fail<IndexError>(op, fmt::format("dimension {} does not exist", dim), {{"input", tensor}},
                     rank == 0 ? std::string("the tensor has no dimensions")
                               : fmt::format("use a dimension from {} to {}", -rank, rank - 1),
                     site);
  }
  return static_cast<int>(dim < 0 ? dim + rank : dim);
}

std::uint32_t check_dims(std::string_view op, const Tensor& tensor, const Dims& dims, CallSite site) {
  if (dims.empty()) return (1u << tensor.rank()) - 1u;
  std::uint32_t mask = 0;
  for (const std::int64_t given : dims) {
    if (tensor.rank() == 0 && (given == 0 || given == -1)) continue;  // as in PyTorch, a scalar has these
    const int dim = check_dim(op, tensor, given, site);
    if ((mask >> dim & 1u) != 0) {
      fail<ValueError>(op, fmt::format("dimension {} is listed twice", dim), {{"input", tensor}}, "", site);
    }
    mask |= 1u << dim;
  }
  return mask;
}

void check_shape(std::string_view op, const Shape& shape, DType dtype, CallSite site) {
  if (shape.rank() > kMaxRank) {
    fail<ShapeError>(op, fmt::format("shape {} has {} dimensions, tensors have at most {}", shape.to_string(),
                                     shape.rank(), kMaxRank),
                     {}, "", site);
  }
  std::int64_t bytes = static_cast<std::int64_t>(size_of(dtype));
  bool overflow = false;
  bool empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      fail<ShapeError>(op, fmt::format("shape {} has a negative size", shape.to_string()), {}, "", site);
    }
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(bytes, size, &bytes);
  }
  if (overflow && !empty) {
    fail<ShapeError>(op, fmt::format("shape {} of {} has more than 2^63 - 1 bytes", shape.to_string(), name_of(dtype)),
                     {}, "", site);
  }
}

Scalar encode_scalar(std::string_view op, double value, DType dtype, CallSite site) {
  if (is_storage_only(dtype)) {
    if (value != 0) check_computes(op, dtype, {}, site);
    return {};  // the zero of every type has no bits
  }
  switch (compute_type(dtype)) {
    case ComputeType::f32: return {std::bit_cast<std::uint32_t>(static_cast<float>(value))};
    case ComputeType::f64: return {std::bit_cast<std::uint64_t>(value)};
    default: break;
  }
  double low = 0;
  double high = 1;
  if (dtype != DType::boolean) {
    const int bits = static_cast<int>(size_of(dtype)) * 8;
    const bool is_unsigned = dtype == DType::u8 || dtype == DType::u32;
    low = is_unsigned ? 0.0 : -std::ldexp(1.0, bits - 1);
    high = std::ldexp(1.0, is_unsigned ? bits : bits - 1) - 1;  // i64: rounds up to 2^63, excluded below
  }
  if (!(value >= low && value <= high) || std::trunc(value) != value || value >= 0x1p63) {
    fail<DTypeError>(op, fmt::format("scalar {} is not a value of {}", value, name_of(dtype)), {},
                     "cast the tensor to a float type first, or use an integer in range", site);
  }
  return {static_cast<std::uint64_t>(static_cast<std::int64_t>(value))};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
