#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Words of ops.def.
constexpr Domain ANY = Domain::any;
constexpr Domain POSITIVE = Domain::positive;
constexpr Domain INSIDE = Domain::inside;
constexpr Domain BEYOND = Domain::beyond;

const CheckOp kElementwiseOps[] = {
#define UNARY(name, domain) {#name, Form::elementwise, 1, unary<name>, domain},
#define BINARY(name, domain) {#name, Form::elementwise, kBinaryVariants, binary<name>, domain},
#define CHECKED_1(name, domain) UNARY(name, domain)
#define CHECKED_2(name, domain) BINARY(name, domain)
#define CHECKED_COMPUTES(name, arity, domain) CHECKED_##arity(name, domain)
#define CHECKED_SELECTS(name, arity, domain) CHECKED_##arity(name, domain)
#define CHECKED_OWN(name, arity, domain)
#define ROW(name, arity, kind, types, cost, domain, call, ...) CHECKED_##call(name, arity, domain)
#include "kernels/ops.def"
#undef ROW
#undef CHECKED_OWN
#undef CHECKED_SELECTS
#undef CHECKED_COMPUTES
#undef CHECKED_2
#undef CHECKED_1
    UNARY(square, ANY)
    UNARY(gelu, ANY)
    UNARY(gelu_tanh, ANY)
    UNARY(silu, ANY)
    UNARY(logical_not, ANY)
    UNARY(bitwise_not, ANY)
    BINARY(pow, ANY)
#undef UNARY
#undef BINARY
    {"leaky_relu", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {leaky_relu(p.x(), p.variant() == 0 ? 0.01 : -1.5)}; }},
    {"clamp", Form::elementwise, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 0) return {clamp(p.x(), 0, 1)};
       return {p.variant() == 1 ? clamp(p.x(), 1, std::nullopt) : clamp(p.x(), std::nullopt, 1)};
     }},
    {"where", Form::elementwise, 3,
     [](Probe& p) -> Tensors {
       const Tensor condition = p.mask(p.shape());
       if (p.variant() == 0) return {where(condition, p.x(), p.x())};
       return {p.variant() == 1 ? where(condition, p.x(), 1) : where(condition, 0, p.x())};
     }},
    {"masked_fill", Form::elementwise, 2,
     [](Probe& p) -> Tensors { return {masked_fill(p.x(), p.mask(p.shape()), p.variant())}; }},
    // Casts: a variant per dtype.
    {"to", Form::elementwise, kDTypeCount,
     [](Probe& p) -> Tensors { return {p.x().to(static_cast<DType>(p.variant()))}; }},
};

}  // namespace

std::span<const CheckOp> check_elementwise_ops() {
  return kElementwiseOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
