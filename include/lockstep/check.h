// Checks at the call, and the one place that formats what they say: for the library, and for layers, optimisers and ops
// of your own. An error names the call that the thread is in (CallScope, lockstep/error.h):
//
//   gated: input must be a matrix
//     input                f32 [2, 3, 4]  cpu
//     fix: flatten it
//     at net.cpp:41
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// An operand as an error shows it: under the tensor's name, else under `label`. Refers to the operand.
struct Shown {
  std::string label;
  const Tensor* tensor = nullptr;  ///< absent: a scalar
  double scalar = 0;

  Shown(std::string operand_label, const Tensor& operand) : label(std::move(operand_label)), tensor(&operand) {}
  Shown(std::string operand_label, const Operand& operand)
      : label(std::move(operand_label)),
        tensor(operand.is_scalar() ? nullptr : &operand.tensor()),
        scalar(operand.is_scalar() ? operand.scalar() : 0) {}
  template <typename Number>
    requires(std::is_arithmetic_v<Number>)
  Shown(std::string operand_label, Number number)
      : label(std::move(operand_label)), scalar(static_cast<double>(number)) {}
};

/// Operands as checks take them: a list in braces, or a vector.
class Operands {
 public:
  Operands() = default;
  Operands(std::initializer_list<Shown> operands) : Operands(std::data(operands), operands.size()) {}
  Operands(const std::vector<Shown>& operands) : Operands(operands.data(), operands.size()) {}
  const Shown* begin() const { return operands_; }
  const Shown* end() const { return operands_ + size_; }

 private:
  Operands(const Shown* operands, std::size_t size) : operands_(operands), size_(size) {}

  const Shown* operands_ = nullptr;
  std::size_t size_ = 0;
};

/// "op: what", a line per operand, "fix: ..." (unless empty), "at file:line". `here`: what to name outside of all
/// calls.
LOCKSTEP_API std::string error_message(std::string_view what, const Operands& operands, std::string_view fix,
                                       CallSite here);

/// Throws the error, e.g. fail<ShapeError>("input must be a matrix", {{"input", x}}, "flatten it").
template <typename ErrorType>
[[noreturn]] void fail(std::string_view what, const Operands& operands = {}, std::string_view fix = {},
                       CallSite here = {}) {
  throw ErrorType(error_message(what, operands, fix, here));
}

/// The same unless `holds`.
template <typename ErrorType>
void check(bool holds, std::string_view what, const Operands& operands = {}, std::string_view fix = {},
           CallSite here = {}) {
  if (!holds) fail<ErrorType>(what, operands, fix, here);
}

/// The operand's tensor. ValueError if it is a scalar or undefined.
LOCKSTEP_API const Tensor& tensor_operand(const Operand& operand);

/// ValueError if a tensor operand is undefined.
LOCKSTEP_API void check_defined(const Operands& operands);
/// Defined, and all tensors on one device (DeviceError).
LOCKSTEP_API void check_same_device(const Operands& operands);
/// DTypeError unless all tensors are of one dtype.
LOCKSTEP_API void check_same_dtype(const Operands& operands);
/// DTypeError unless the operand is a float tensor.
LOCKSTEP_API void check_float(const Shown& operand);
/// A dimension of `tensor`, counted from the end if negative. IndexError if it has none of that number.
LOCKSTEP_API int check_dim(const Tensor& tensor, std::int64_t dim);

}  // namespace v0
}  // namespace lockstep
