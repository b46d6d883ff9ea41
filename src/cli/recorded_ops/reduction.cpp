#include <cmath>

#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

template <Tensor (*op)(const Operand&, const Dims&, bool, double)> Tensors deviation(Arguments& a) {
  return {op(a[0], Dims(a.sizes("dim", {})), a.flag("keepdim"), a.real("correction", 1))};
}

template <Tensor (*op)(const Operand&, std::optional<int>, bool)> Tensors position(Arguments& a) {
  return {op(a[0], a.optional_dim("dim"), a.flag("keepdim"))};
}

// p is a number, or the text "inf" or "-inf".
double norm_order(Arguments& a) {
  const std::string text = a.optional_text("p").value_or("");
  return text == "inf" ? INFINITY : text == "-inf" ? -INFINITY : a.real("p", 2);
}

Tensors call_norm(Arguments& a) {
  return {vector_norm(a[0], norm_order(a), Dims(a.sizes("dim", {})), a.flag("keepdim"))};
}

template <std::pair<Tensor, Tensor> (*op)(const Operand&, const Dims&, bool, double)> Tensors spread(Arguments& a) {
  const auto [first, second] = op(a[0], Dims(a.sizes("dim", {})), a.flag("keepdim"), a.real("correction", 1));
  return {first, second};
}

Tensors call_aminmax(Arguments& a) {
  const auto [first, second] = aminmax(a[0], Dims(a.sizes("dim", {})), a.flag("keepdim"));
  return {first, second};
}

template <ValuesIndices (*op)(const Operand&, int, bool)> Tensors along(Arguments& a) {
  const ValuesIndices result = op(a[0], dim_of(a), a.flag("keepdim"));
  return {result.values, result.indices};
}

template <ValuesIndices (*op)(const Operand&, int, bool), Tensor (*whole)(const Operand&)>
Tensors along_or_whole(Arguments& a) {
  if (!a.has("dim")) return {whole(a[0])};
  return along<op>(a);
}

template <ValuesIndices (*op)(const Operand&, int)> Tensors running(Arguments& a) {
  const ValuesIndices result = op(a[0], dim_of(a));
  return {result.values, result.indices};
}

QuantileMode interpolation_of(const std::string& name) {
  if (name == "linear") return QuantileMode::linear;
  if (name == "lower") return QuantileMode::lower;
  if (name == "higher") return QuantileMode::higher;
  if (name == "nearest") return QuantileMode::nearest;
  if (name == "midpoint") return QuantileMode::midpoint;
  throw Unsupported("interpolation " + name);
}

template <Tensor (*op)(const Operand&, const Operand&, std::optional<int>, bool, QuantileMode)>
Tensors call_quantile(Arguments& a) {
  const QuantileMode interpolation = interpolation_of(a.text("interpolation", "linear"));
  const bool keepdim = a.flag("keepdim");
  const std::optional<int> dim = a.optional_dim("dim");
  if (a.size() > 1) return {op(a[0], a[1], dim, keepdim, interpolation)};
  return {op(a[0], a.real("q", 0.5), dim, keepdim, interpolation)};
}

Tensors call_cosine_similarity(Arguments& a) {
  const std::optional<int> dim = a.optional_dim("dim");
  return {cosine_similarity(a[0], a[1], dim.value_or(1), a.real("eps", 1e-8))};
}

Tensors call_pairwise_distance(Arguments& a) {
  return {pairwise_distance(a[0], a[1], norm_order(a), {.eps = a.real("eps", 1e-6), .keepdim = a.flag("keepdim")})};
}

Tensors call_cdist(Arguments& a) {
  return {cdist(a[0], a[1], norm_order(a))};
}

Tensors call_diff(Arguments& a) {
  return {diff(a[0], static_cast<int>(a.integer("n", 1)), a.optional_dim("dim").value_or(-1),
               {.prepend = a.named("prepend"), .append = a.named("append")})};
}

constexpr RecordedOp kReductionOps[] = {
    {"all", kComputes, reduction<all>},
    {"amax", kMoves, reduction<amax>},
    {"amin", kMoves, reduction<amin>},
    {"aminmax", kMoves, call_aminmax},
    {"any", kComputes, reduction<any>},
    {"argmax", kComputes, position<argmax>},
    {"argmin", kComputes, position<argmin>},
    {"cdist", kComputes, call_cdist},
    {"cosine_similarity", kComputes, call_cosine_similarity},
    {"count_nonzero", kComputes, reduction<count_nonzero>},
    {"cummax", kMoves, running<cummax>},
    {"cummin", kMoves, running<cummin>},
    {"cumprod", kComputes, along_dim<cumprod>},
    {"cumsum", kComputes, along_dim<cumsum>},
    {"diff", kComputes, call_diff},
    {"log_softmax", kComputes, along_dim<log_softmax>},
    {"logcumsumexp", kComputes, along_dim<logcumsumexp>},
    {"logsumexp", kComputes, reduction<logsumexp>},
    {"max", kMoves, along_or_whole<max, max>},
    {"mean", kComputes, reduction<mean>},
    {"median", kMoves, along_or_whole<median, median>},
    {"min", kMoves, along_or_whole<min, min>},
    {"mode", kMoves, along<mode>},
    {"nanmean", kComputes, reduction<nanmean>},
    {"nanmedian", kMoves, along_or_whole<nanmedian, nanmedian>},
    {"nanquantile", kComputes, call_quantile<nanquantile>},
    {"nansum", kComputes, reduction<nansum>},
    {"norm", kComputes, call_norm},
    {"pairwise_distance", kComputes, call_pairwise_distance},
    {"prod", kComputes, reduction<prod>},
    {"quantile", kComputes, call_quantile<quantile>},
    {"softmax", kComputes, along_dim<softmax>},
    {"softmin", kComputes, along_dim<softmin>},
    {"std", kComputes, deviation<std>},
    {"std_mean", kComputes, spread<std_mean>},
    {"sum", kComputes, reduction<sum>},
    {"trace", kComputes, unary<trace>},
    {"var", kComputes, deviation<var>},
    {"var_mean", kComputes, spread<var_mean>},
};

}  // namespace

std::span<const RecordedOp> reduction_ops() {
  return kReductionOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
