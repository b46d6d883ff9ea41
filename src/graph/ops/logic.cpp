// Logic on tensors of any dtype, and equality within a tolerance.
#include <cmath>

#include <fmt/format.h>

#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// Whether each element is not 0.
Tensor truth(const char* label, const Operand& a, const Tensor* like) {
  check_defined({{label, a}});
  if (a.is_scalar()) {
    if (like == nullptr) fail<ValueError>("needs a tensor operand", {{label, a}}, "make the scalar a tensor");
    return full({}, a.scalar() != 0 ? 1 : 0, {.dtype = DType::boolean, .device = like->device()});
  }
  return a.tensor().dtype() == DType::boolean ? a.tensor() : ne(a.tensor(), 0);
}

Tensor logical(const Operand& a, const Operand& b, Tensor (*combine)(const Operand&, const Operand&)) {
  check_same_device({{"a", a}, {"b", b}});
  const Tensor* const like = !a.is_scalar() ? &a.tensor() : !b.is_scalar() ? &b.tensor() : nullptr;
  const Tensor x = truth("a", a, like);
  const Tensor y = truth("b", b, like);
  return combine(x, y);
}

}  // namespace

Tensor logical_not(const Operand& a) {
  const CallScope call("logical_not", a);
  tensor_operand(a);
  return eq(a, 0);
}
Tensor logical_and(const Operand& a, const Operand& b) {
  const CallScope call("logical_and", a);
  return logical(a, b, &bitwise_and);
}
Tensor logical_or(const Operand& a, const Operand& b) {
  const CallScope call("logical_or", a);
  return logical(a, b, &bitwise_or);
}
Tensor logical_xor(const Operand& a, const Operand& b) {
  const CallScope call("logical_xor", a);
  return logical(a, b, &bitwise_xor);
}

Tensor isclose(const Operand& a, const Operand& b, const Tolerance& tolerance) {
  const CallScope call("isclose", a);
  const Promoted types = promote({{"a", a}, {"b", b}}, false);
  if (!(tolerance.relative >= 0) || !(tolerance.absolute >= 0)) {
    fail<ValueError>(fmt::format("tolerances {} and {} must not be negative", tolerance.relative, tolerance.absolute),
                     {{"a", a}, {"b", b}});
  }
  Tensor close = eq(a, b);
  const DType working = is_float(types.dtype) ? types.working : DType::f32;
  const Working x(a, working);
  const Working y(b, working);
  if (tolerance.equal_nan && is_float(types.dtype)) {
    const auto nan = [&](const Operand& operand) {
      if (!operand.is_scalar()) return isnan(operand);
      return full({}, std::isnan(operand.scalar()) ? 1 : 0, {.dtype = DType::boolean, .device = close.device()});
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
  const CallScope call("allclose", a);
  return all(isclose(a, b, tolerance)).item<bool>();
}

bool equal(const Tensor& a, const Tensor& b, CallSite site) {
  const CallScope call("equal", site);
  const std::vector<Shown> shown{{"a", a}, {"b", b}};
  check_same_device(shown);
  check_same_dtype(shown);
  if (a.shape() != b.shape()) return false;
  return all(eq(a, b)).item<bool>();
}

}  // namespace v0
}  // namespace lockstep
