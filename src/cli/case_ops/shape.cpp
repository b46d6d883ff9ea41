#include "cli/case_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

template <Tensor (*op)(const std::vector<Tensor>&, int, CallSite)> Tensors joined(Arguments& a) {
  const std::vector<Tensor> tensors = a.all();
  return {op(tensors, a.has("dim") ? dim_of(a) : 0, {})};
}

Tensors call_pad(Arguments& a) {
  const std::string mode = a.text("mode", "constant");
  if (mode != "constant") throw Unsupported("mode " + mode);
  return {pad(a[0], a.sizes("pad", {}), a.real("value", 0))};
}

Tensors call_permute(Arguments& a) {
  return {a[0].permute(a.sizes("dims", {}))};
}

Tensors call_flip(Arguments& a) {
  return {a[0].flip(a.sizes("dims", {}))};
}

Tensors call_reshape(Arguments& a) {
  return {a[0].reshape(a.sizes("shape", {}))};
}

Tensors call_expand(Arguments& a) {
  return {a[0].expand(a.sizes("size", {}))};
}

Tensors call_transpose(Arguments& a) {
  const int first = dim_of(a, "dim0");
  return {a[0].transpose(first, dim_of(a, "dim1"))};
}

Tensors call_squeeze(Arguments& a) {
  return {a[0].squeeze(dim_of(a))};
}

Tensors call_unsqueeze(Arguments& a) {
  return {a[0].unsqueeze(dim_of(a))};
}

Tensors call_select(Arguments& a) {
  return {a[0].select(dim_of(a), a.integer("index"))};
}

Tensors call_narrow(Arguments& a) {
  return {a[0].narrow(dim_of(a), a.integer("start"), a.integer("length"))};
}

Tensors call_flatten(Arguments& a) {
  const int first = a.optional_dim("start_dim").value_or(0);
  return {a[0].flatten(first, a.optional_dim("end_dim").value_or(-1))};
}

constexpr CaseOp kOps[] = {
    {"cat", kMoves, joined<cat>},
    {"expand", kMoves, call_expand},
    {"flatten", kMoves, call_flatten},
    {"flip", kMoves, call_flip},
    {"narrow", kMoves, call_narrow},
    {"pad", kMoves, call_pad},
    {"permute", kMoves, call_permute},
    {"reshape", kMoves, call_reshape},
    {"select", kMoves, call_select},
    {"squeeze", kMoves, call_squeeze},
    {"stack", kMoves, joined<stack>},
    {"transpose", kMoves, call_transpose},
    {"unsqueeze", kMoves, call_unsqueeze},
};

}  // namespace

std::span<const CaseOp> shape_ops() { return kOps; }

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
