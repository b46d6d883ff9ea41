#include <limits>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

constexpr QuantileMode kModes[] = {QuantileMode::linear, QuantileMode::lower, QuantileMode::higher,
                                   QuantileMode::nearest, QuantileMode::midpoint};
// Variants: each mode along a dimension, three shares at once, one of all elements.
constexpr int kQuantileVariants = 7;

using Quantile = Tensor (*)(const Operand&, const Operand&, std::optional<int>, bool, QuantileMode);
template <Quantile op> Tensors shares(Probe& p) {
  const Tensor a = p.x();
  if (p.variant() == 6) return {op(a, 0.75, std::nullopt, false, QuantileMode::linear)};
  if (p.variant() == 5) return {op(a, p.positive({3}) * 0.25, p.dim(), true, QuantileMode::linear)};
  return {op(a, 0.3, p.dim(), p.variant() % 2 == 1, kModes[p.variant()])};
}

const CheckOp kStatisticsOps[] = {
    {"median", Form::rows, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 2) return {median(p.x())};
       return both(median(p.x(), p.dim(), p.variant() == 1));
     }},
    {"nanmedian", Form::rows, 3,
     [](Probe& p) -> Tensors {
       if (p.variant() == 2) return {nanmedian(p.x())};
       return both(nanmedian(p.x(), p.dim(), p.variant() == 1));
     }},
    {"mode", Form::rows, 3, [](Probe& p) { return both(mode(p.x(), p.dim(), p.variant() == 1)); }},
    {"quantile", Form::rows, kQuantileVariants, shares<quantile>},
    {"nanquantile", Form::rows, kQuantileVariants, shares<nanquantile>},
    {"cdist", Form::matrix, 5,
     [](Probe& p) -> Tensors {
       constexpr double kPowers[] = {2, 1, std::numeric_limits<double>::infinity(), 0, 3};
       const Tensor rows = p.x({p.size(0), p.size(1)});
       return {cdist(rows, p.x({p.size(2), p.size(1)}), kPowers[p.variant()])};
     }},
};

}  // namespace

std::span<const CheckOp> check_statistics_ops() {
  return kStatisticsOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
