// Our own domain: what exported files name that ONNX has no operator for (export/own_functions.h).
#include <lockstep/ops.h>

#include "graph/make.h"
#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// The sum of a's elements times b's over `axes`, which stay with size 1.
std::vector<Tensor> sum_of_products(const Call& call) {
  const Tensor& a = call.input(0);
  const Tensor& b = call.input(1);
  call.require(a.shape() == b.shape() && a.dtype() == b.dtype(), "the factors are not of one shape and dtype");
  std::uint32_t dims = 0;
  for (const int axis : axes_of(call, call.required_integers("axes"), a.rank())) dims |= 1u << axis;
  const CallScope named("sum_of_products", a);
  return {graph::reduce(ReduceOp::dot, a, dims, &b)};
}

constexpr std::string_view kOwn = "lockstep";
constexpr Operator kOwnOperators[] = {
    {.domain = kOwn, .name = "Rsqrt", .run = unary<rsqrt>},
    {.domain = kOwn, .name = "Exp2", .run = unary<exp2>},
    {.domain = kOwn, .name = "Expm1", .run = unary<expm1>},
    {.domain = kOwn, .name = "Log1p", .run = unary<log1p>},
    {.domain = kOwn, .name = "Log2", .run = unary<log2>},
    {.domain = kOwn, .name = "Log10", .run = unary<log10>},
    {.domain = kOwn, .name = "Erfc", .run = unary<erfc>},
    {.domain = kOwn, .name = "Trunc", .run = unary<trunc>},
    {.domain = kOwn, .name = "Frac", .run = unary<frac>},
    {.domain = kOwn, .name = "Hypot", .run = binary<hypot>},
    {.domain = kOwn, .name = "LogAddExp", .run = binary<logaddexp>},
    {.domain = kOwn, .name = "XLogY", .run = binary<xlogy>},
    {.domain = kOwn, .name = "CopySign", .run = binary<copysign>},
    {.domain = kOwn, .name = "Atan2", .run = binary<atan2>},
    {.domain = kOwn, .name = "FloorDivide", .run = binary<floor_divide>},
    {.domain = kOwn, .name = "Remainder", .run = binary<remainder>},
    {.domain = kOwn, .name = "SumOfProducts", .run = sum_of_products},
};

}  // namespace

std::span<const Operator> own_operators() {
  return kOwnOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
