// Logic on tensors of any dtype, and equality within a tolerance.
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// Whether each element is not 0.
Tensor truth(const char* op, const char* label, const Operand& a, const Tensor* like, CallSite site) {
  check_defined(op, {{label, a}}, site);
  if (a.is_scalar()) {
    if (like == nullptr) fail<ValueError>(op, "needs a tensor operand", {{label, a}}, "make the scalar a tensor", site);
    return full({}, a.scalar() != 0 ? 1 : 0, {.dtype = DType::boolean, .device = like->device()}, site);
  }
  return a.tensor().dtype() == DType::boolean ? a.tensor() : ne(Operand(a.tensor(), site), Operand(0, site));
}

Tensor logical(const char* op, const Operand& a, const Operand& b, Tensor (*combine)(const Operand&, const Operand&)) {
  const CallSite site = a.site();
  check_same_device(op, {{"a", a}, {"b", b}}, site);
  const Tensor* const like = !a.is_scalar() ? &a.tensor() : !b.is_scalar() ? &b.tensor() : nullptr;
  const Tensor x = truth(op, "a", a, like, site);
  const Tensor y = truth(op, "b", b, like, site);
  return combine(Operand(x, site), Operand(y, site));
}

}  // namespace

Tensor logical_not(const Operand& a) {
  tensor_operand("logical_not", a);
  return eq(a, Operand(0, a.site()));
}
Tensor logical_and(const Operand& a, const Operand& b) {
  return logical("logical_and", a, b, &bitwise_and);
}
Tensor logical_or(const Operand& a, const Operand& b) {
  return logical("logical_or", a, b, &bitwise_or);
}
Tensor logical_xor(const Operand& a, const Operand& b) {
  return logical("logical_xor", a, b, &bitwise_xor);
}

Tensor isclose(const Operand& a, const Operand& b, const Tolerance& tolerance) {
  const Together types = together("isclose", {{"a", a}, {"b", b}}, a.site(), false);
  if (!(tolerance.relative >= 0) || !(tolerance.absolute >= 0)) {
    fail<ValueError>("isclose",
                     fmt::format("tolerances {} and {} must not be negative", tolerance.relative, tolerance.absolute),
                     {{"a", a}, {"b", b}}, "", a.site());
  }
  Tensor close = eq(a, b);
  const DType working = is_float(types.dtype) ? types.working : DType::f32;
  const Working x(a, working, types.site);
  const Working y(b, working, types.site);
  if (tolerance.equal_nan && is_float(types.dtype)) {
    const auto nan = [&](const Operand& operand) {
      if (!operand.is_scalar()) return isnan(operand);
      return full({}, std::isnan(operand.scalar()) ? 1 : 0, {.dtype = DType::boolean, .device = close.device()},
                  types.site);
    };
    close = bitwise_or(close, bitwise_and(nan(x), nan(y)));
  }
  if (tolerance.relative == 0 && tolerance.absolute == 0) return close;
  const Tensor difference = abs(sub(x, y));
  const Tensor within = b.is_scalar() ? le(difference, tolerance.absolute + std::abs(tolerance.relative * b.scalar()))
                                      : le(difference, abs(mul(y, tolerance.relative)) + tolerance.absolute);
  return bitwise_or(close, bitwise_and(isfinite(difference), within));
}

bool allclose(const Operand& a, const Operand& b, const Tolerance& tolerance) {
  return all(isclose(a, b, tolerance)).item<bool>(a.site());
}

bool equal(const Tensor& a, const Tensor& b, CallSite site) {
  const std::vector<Shown> shown{{"a", a}, {"b", b}};
  check_same_device("equal", shown, site);
  check_same_dtype("equal", shown, site);
  if (a.shape() != b.shape()) return false;
  return all(eq(Operand(a, site), Operand(b, site))).item<bool>(site);
}

}  // namespace v0
}  // namespace lockstep
