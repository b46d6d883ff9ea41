// The rows of ops.def that PyTorch has under one name, and the other elementwise ops.
#include <algorithm>
#include <iterator>
#include <string_view>

#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Tensors call_gelu(Arguments& a) {
  const std::string form = a.text("approximate", "none");
  if (form != "none" && form != "tanh") throw Unsupported("approximate " + form);
  return {form == "none" ? gelu(a[0]) : gelu_tanh(a[0])};
}

Tensors call_leaky_relu(Arguments& a) {
  return {leaky_relu(a[0], a.real("negative_slope", 0.01))};
}

Tensors call_where(Arguments& a) {
  return {where(a[0], a[1], a[2])};
}

Tensors call_to(Arguments& a) {
  return {a[0].to(parse_dtype(a.text("dtype", "")))};
}

Tensors call_pow(Arguments& a) {
  if (a.has("exponent")) return {pow(a[0], a.real("exponent", 1))};
  return {pow(a[0], a[1])};
}

// Ops with attributes, and those that are more than a row.
constexpr RecordedOp kOwnOps[] = {
    {"bitwise_not", kComputes, unary<bitwise_not>},
    {"gelu", kComputes, call_gelu},
    {"leaky_relu", kComputes, call_leaky_relu},
    {"pow", kComputes, call_pow},
    {"silu", kComputes, unary<silu>},
    {"to", kComputes, call_to},
    {"where", kMoves, call_where},
};

constexpr RecordedOp kRows[] = {
#define RECORDED_1(name) unary<name>
#define RECORDED_2(name) binary<name>
#define RECORDED_COMPUTES(name, arity, torch) {#torch, kComputes, RECORDED_##arity(name)},
#define RECORDED_SELECTS(name, arity, torch) {#torch, kMoves, RECORDED_##arity(name)},
#define RECORDED_OWN(name, arity, torch)
#define ROW(name, arity, kind, types, cost, domain, call, torch, ...) RECORDED_##call(name, arity, torch)
#include "kernels/ops.def"
#undef ROW
#undef RECORDED_OWN
#undef RECORDED_SELECTS
#undef RECORDED_COMPUTES
#undef RECORDED_2
#undef RECORDED_1
};

std::vector<RecordedOp> all_ops() {
  std::vector<RecordedOp> result(std::begin(kOwnOps), std::end(kOwnOps));
  std::copy_if(std::begin(kRows), std::end(kRows), std::back_inserter(result),
               [](const RecordedOp& op) { return op.name != std::string_view("NONE"); });
  return result;
}

}  // namespace

std::span<const RecordedOp> elementwise_ops() {
  static const std::vector<RecordedOp> ops = all_ops();
  return ops;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
