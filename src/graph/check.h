// Checks at the call, and the one place that formats what they say.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/tensor.h>

#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// An operand as an error shows it: under its given name, else under `label`.
struct Shown {
  std::string label;
  const Tensor* tensor = nullptr;  ///< absent: a scalar
  double scalar = 0;

  Shown(std::string operand_label, const Tensor& operand) : label(std::move(operand_label)), tensor(&operand) {}
  Shown(std::string operand_label, const Operand& operand)
      : label(std::move(operand_label)),
        tensor(operand.is_scalar() ? nullptr : &operand.tensor()),
        scalar(operand.is_scalar() ? operand.scalar() : 0) {}
};

/// Operands as checks take them: a list in braces, or a vector.
class Operands {
 public:
  Operands(std::initializer_list<Shown> operands) : Operands(std::data(operands), operands.size()) {}
  Operands(const std::vector<Shown>& operands) : Operands(operands.data(), operands.size()) {}
  const Shown* begin() const { return operands_; }
  const Shown* end() const { return operands_ + size_; }

 private:
  Operands(const Shown* operands, std::size_t size) : operands_(operands), size_(size) {}

  const Shown* operands_;
  std::size_t size_;
};

/// "op: what", a line per operand, "fix: ..." (unless empty), "at file:line".
std::string message(std::string_view op, std::string_view what, const Operands& operands, std::string_view fix,
                    CallSite site);

template <typename ErrorType>
[[noreturn]] void fail(std::string_view op, std::string_view what, const Operands& operands, std::string_view fix,
                       CallSite site) {
  throw ErrorType(message(op, what, operands, fix, site));
}

/// ValueError if a tensor operand is undefined.
void check_defined(std::string_view op, const Operands& operands, CallSite site);
/// Defined, and all tensors on one device.
void check_same_device(std::string_view op, const Operands& operands, CallSite site);
/// All tensors of one dtype.
void check_same_dtype(std::string_view op, const Operands& operands, CallSite site);
/// DTypeError unless the operand is a float tensor.
void check_float(std::string_view op, const Shown& operand, CallSite site);

/// DTypeError if `dtype` is storage-only (is_storage_only).
void check_computes(std::string_view op, DType dtype, const Operands& operands, CallSite site);

/// NumPy broadcasting. ShapeError names the operands.
Shape broadcast_shape(std::string_view op, const Operands& operands, CallSite site);
/// A dimension of `tensor`, counted from the end if negative. IndexError.
int check_dim(std::string_view op, const Tensor& tensor, std::int64_t dim, CallSite site);
/// The same for a dimension list; each dimension once. None: all dimensions. Bit d set: dimension d.
std::uint32_t check_dims(std::string_view op, const Tensor& tensor, const Dims& dims, CallSite site);
/// ShapeError unless the shape has at most kMaxRank dimensions, no negative size and fewer than 2^63 bytes.
void check_shape(std::string_view op, const Shape& shape, DType dtype, CallSite site);

/// The bits of a C++ scalar in the compute type of `dtype`. DTypeError if an integer type cannot hold it.
Scalar encode_scalar(std::string_view op, double value, DType dtype, CallSite site);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
