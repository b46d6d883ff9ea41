#include "cli/recorded_ops/families.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

Reduction reduction_of(Arguments& a) {
  const std::string text = a.text("reduction", "mean");
  if (text == "none") return Reduction::none;
  if (text == "sum") return Reduction::sum;
  if (text == "mean") return Reduction::mean;
  throw Unsupported("reduction " + text);
}

template <Tensor (*op)(const Operand&, const Operand&, Reduction)> Tensors distance(Arguments& a) {
  return {op(a[0], a[1], reduction_of(a))};
}

template <Tensor (*op)(const Operand&, const Operand&, const ClassLossOptions&)> Tensors classes(Arguments& a) {
  return {op(a[0], a[1],
             {.weight = a.named("weight"),
              .reduction = reduction_of(a),
              .ignore_index = a.integer("ignore_index", -100),
              .label_smoothing = a.real("label_smoothing", 0)})};
}

Tensors call_smooth_l1(Arguments& a) {
  return {smooth_l1_loss(a[0], a[1], reduction_of(a), a.real("beta", 1))};
}

Tensors call_huber(Arguments& a) {
  return {huber_loss(a[0], a[1], reduction_of(a), a.real("delta", 1))};
}

Tensors call_bce(Arguments& a) {
  return {binary_cross_entropy(a[0], a[1], {.weight = a.named("weight"), .reduction = reduction_of(a)})};
}

Tensors call_bce_logits(Arguments& a) {
  return {binary_cross_entropy_with_logits(
      a[0], a[1], {.weight = a.named("weight"), .reduction = reduction_of(a), .pos_weight = a.named("pos_weight")})};
}

Tensors call_kl_div(Arguments& a) {
  return {kl_div(a[0], a[1], reduction_of(a), a.flag("log_target"))};
}

Tensors call_cosine(Arguments& a) {
  return {cosine_embedding_loss(a[0], a[1], a[2], a.real("margin", 0), reduction_of(a))};
}

Tensors call_triplet(Arguments& a) {
  return {triplet_margin_loss(a[0], a[1], a[2],
                              {.margin = a.real("margin", 1),
                               .eps = a.real("eps", 1e-6),
                               .swap = a.flag("swap"),
                               .reduction = reduction_of(a)})};
}

Tensors call_ranking(Arguments& a) {
  return {margin_ranking_loss(a[0], a[1], a[2], a.real("margin", 0), reduction_of(a))};
}

constexpr RecordedOp kLossOps[] = {
    {"binary_cross_entropy", kComputes, call_bce},
    {"binary_cross_entropy_with_logits", kComputes, call_bce_logits},
    {"cosine_embedding_loss", kComputes, call_cosine},
    {"cross_entropy", kComputes, classes<cross_entropy>},
    {"huber_loss", kComputes, call_huber},
    {"kl_div", kComputes, call_kl_div},
    {"l1_loss", kComputes, distance<l1_loss>},
    {"margin_ranking_loss", kComputes, call_ranking},
    {"mse_loss", kComputes, distance<mse_loss>},
    {"nll_loss", kComputes, classes<nll_loss>},
    {"smooth_l1_loss", kComputes, call_smooth_l1},
    {"triplet_margin_loss", kComputes, call_triplet},
};

}  // namespace

std::span<const RecordedOp> loss_ops() {
  return kLossOps;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
