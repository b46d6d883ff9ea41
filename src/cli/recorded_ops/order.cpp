#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

int dim_or_last(Arguments& a) {
  return a.optional_dim("dim").value_or(-1);
}

Tensors both(const ValuesIndices& result) {
  return {result.values, result.indices};
}

Tensors call_sort(Arguments& a) {
  a.flag("stable");  // it always is
  return both(sort(a[0], dim_or_last(a), a.flag("descending")));
}

Tensors call_argsort(Arguments& a) {
  a.flag("stable");
  return {argsort(a[0], dim_or_last(a), a.flag("descending"))};
}

Tensors call_topk(Arguments& a) {
  return both(topk(a[0], a.integer("k"), dim_or_last(a), a.flag("largest", true)));
}

Tensors call_kthvalue(Arguments& a) {
  return both(kthvalue(a[0], a.integer("k"), dim_or_last(a), a.flag("keepdim")));
}

template <Unique (*op)(const Operand&)> Tensors different(Arguments& a) {
  const Unique result = op(a[0]);
  return {result.values, result.inverse, result.counts};
}

Tensors call_searchsorted(Arguments& a) {
  return {searchsorted(a[0], a[1], a.flag("right"))};
}

Tensors call_bucketize(Arguments& a) {
  return {bucketize(a[0], a[1], a.flag("right"))};
}

Tensors call_bincount(Arguments& a) {
  return {bincount(a[0], a.named("weights"), a.integer("minlength", 0))};
}

Tensors call_histc(Arguments& a) {
  return {histc(a[0], a.integer("bins", 100), a.real("min", 0), a.real("max", 0))};
}

constexpr RecordedOp kOrderOps[] = {
    {"argsort", kMoves, call_argsort},     {"bincount", kComputes, call_bincount},
    {"bucketize", kMoves, call_bucketize}, {"histc", kComputes, call_histc},
    {"kthvalue", kMoves, call_kthvalue},   {"searchsorted", kMoves, call_searchsorted},
    {"sort", kMoves, call_sort},           {"topk", kMoves, call_topk},
    {"unique", kMoves, different<unique>}, {"unique_consecutive", kMoves, different<unique_consecutive>},
};

}  // namespace

std::span<const RecordedOp> order_ops() {
  return kOrderOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
