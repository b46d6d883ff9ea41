#include <algorithm>
#include <limits>
#include <optional>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

/// Variants: none, mean, sum, then those of the op with mean.
Reduction reduction_of(const Probe& p) {
  constexpr Reduction kReductions[] = {Reduction::none, Reduction::mean, Reduction::sum};
  return p.variant() < 3 ? kReductions[p.variant()] : Reduction::mean;
}

/// 1 and -1.
Tensor signs(Probe& p, const Shape& shape) {
  return where(p.mask(shape), ones(shape, p.options()), -1);
}

/// The shape of a row of the probe, which broadcasts.
Shape row_of(const Probe& p) {
  return p.rank() == 0 ? Shape{} : Shape{p.size(p.rank() - 1)};
}

template <typename Op> Tensors regression(Probe& p, Op op) {
  const Tensor input = p.x();
  return {op(input, p.x(p.variant() == 3 ? row_of(p) : p.shape()), reduction_of(p))};
}

/// Variants after the reductions: a weight, an ignored class, and smoothing where there is any.
ClassLossOptions class_options(Probe& p) {
  ClassLossOptions options{.reduction = reduction_of(p)};
  if (p.variant() >= 3) options.weight = p.positive({p.size(1)});
  if (p.variant() >= 4) options.ignore_index = 1;
  if (p.variant() == 5) options.label_smoothing = 0.25;
  return options;
}
Tensor classes(Probe& p) {
  return p.index({p.size(0), p.size(2)}, p.size(1));
}

const CheckOp kLossOps[] = {
    {"mse_loss", Form::elementwise, 4,
     [](Probe& p) -> Tensors {
       return regression(p, [](const Tensor& a, const Tensor& b, Reduction r) { return mse_loss(a, b, r); });
     }},
    {"l1_loss", Form::elementwise, 4,
     [](Probe& p) -> Tensors {
       return regression(p, [](const Tensor& a, const Tensor& b, Reduction r) { return l1_loss(a, b, r); });
     }},
    {"smooth_l1_loss", Form::elementwise, 5,
     [](Probe& p) -> Tensors {
       constexpr double kBetas[] = {1, 0.5, 0, 2, 1};
       const double beta = kBetas[p.variant()];
       return regression(p,
                         [=](const Tensor& a, const Tensor& b, Reduction r) { return smooth_l1_loss(a, b, r, beta); });
     }},
    {"huber_loss", Form::elementwise, 4,
     [](Probe& p) -> Tensors {
       const double delta = p.variant() == 0 ? 1 : 0.3;
       return regression(p, [=](const Tensor& a, const Tensor& b, Reduction r) { return huber_loss(a, b, r, delta); });
     }},
    {"kl_div", Form::elementwise, 5,
     [](Probe& p) -> Tensors {
       const Tensor input = p.x();
       if (p.variant() >= 3) return {kl_div(input, p.x(), reduction_of(p), p.variant() == 3)};
       return {kl_div(input, p.positive(p.shape()), reduction_of(p))};
     }},
    {"binary_cross_entropy", Form::elementwise, 4,
     [](Probe& p) -> Tensors {
       const Tensor input = sigmoid(p.x());
       const Tensor target = sigmoid(p.x());
       if (p.variant() < 3) return {binary_cross_entropy(input, target, {.reduction = reduction_of(p)})};
       return {binary_cross_entropy(input, target, {.weight = p.positive(row_of(p)), .reduction = reduction_of(p)})};
     }},
    {"binary_cross_entropy_with_logits", Form::elementwise, 5,
     [](Probe& p) -> Tensors {
       const Tensor input = p.x();
       const Tensor target = sigmoid(p.x());
       std::optional<Tensor> weight;
       std::optional<Tensor> pos_weight;
       if (p.variant() == 3) weight = p.positive(row_of(p));
       if (p.variant() == 4) pos_weight = p.positive(row_of(p));
       return {binary_cross_entropy_with_logits(
           input, target, {.weight = weight, .reduction = reduction_of(p), .pos_weight = pos_weight})};
     }},
    {"nll_loss", Form::signal, 5,
     [](Probe& p) -> Tensors {
       const Tensor input = p.x();
       const Tensor target = classes(p);
       return {nll_loss(input, target, class_options(p))};
     }},
    {"cross_entropy", Form::signal, 7,
     [](Probe& p) -> Tensors {
       const Tensor input = p.x();
       if (p.variant() == 6) return {cross_entropy(input, p.positive(p.shape()))};
       const Tensor target = classes(p);
       return {cross_entropy(input, target, class_options(p))};
     }},
    {"margin_ranking_loss", Form::elementwise, 3,
     [](Probe& p) -> Tensors {
       const Tensor a = p.x();
       const Tensor b = p.x();
       return {margin_ranking_loss(a, b, signs(p, p.shape()), p.variant() == 0 ? 0 : 0.5, reduction_of(p))};
     }},
    // A probe's shape is [N, D, anything].
    {"cosine_embedding_loss", Form::matrix, 3,
     [](Probe& p) -> Tensors {
       const Tensor a = p.x({p.size(0), p.size(1)});
       const Tensor b = p.x({p.size(0), p.size(1)});
       return {cosine_embedding_loss(a, b, signs(p, {p.size(0)}), p.variant() == 0 ? 0 : 0.25, reduction_of(p))};
     }},
    {"ctc_loss", Form::rows, 4,
     [](Probe& p) -> Tensors {
       // Targets of two classes beside the blank, of up to three places.
       constexpr std::int64_t kBatch = 2;
       constexpr std::int64_t kClasses = 3;
       const Tensor scores = p.x({std::max<std::int64_t>(p.shape().numel() % 9, 1), kBatch, kClasses});
       const Tensor targets = p.index({kBatch, 3}, kClasses - 1) + 1;
       const std::int64_t length = scores.size(0);
       return {ctc_loss(log_softmax(scores, 2), targets, {length, (length + 1) / 2}, {2, p.variant()},
                        {.reduction = reduction_of(p), .zero_infinity = p.variant() == 3})};
     }},
    {"triplet_margin_loss", Form::rows, 4,
     [](Probe& p) -> Tensors {
       const Tensor anchor = p.x();
       const Tensor positive = p.x();
       const Tensor negative = p.x();
       return {
           triplet_margin_loss(anchor, positive, negative, {.swap = p.variant() == 3, .reduction = reduction_of(p)})};
     }},
    {"cosine_similarity", Form::rows, 3,
     [](Probe& p) -> Tensors {
       const Tensor a = p.x();
       return {cosine_similarity(a, p.x(), p.dim())};
     }},
    {"pairwise_distance", Form::rows, 4,
     [](Probe& p) -> Tensors {
       constexpr double kNorms[] = {2, 1, 3, std::numeric_limits<double>::infinity()};
       const Tensor a = p.x();
       return {pairwise_distance(a, p.x(), kNorms[p.variant()], {.keepdim = p.variant() == 1})};
     }},
};

}  // namespace

std::span<const CheckOp> check_loss_ops() {
  return kLossOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
