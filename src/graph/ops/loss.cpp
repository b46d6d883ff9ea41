// Losses over pairs of tensors: what is compared, element by element, and how the elements become one number.
#include <fmt/format.h>

#include <lockstep/ops/loss.h>

#include "graph/autocast.h"
#include "graph/ops/loss.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  const std::uint32_t all = (1u << losses.rank()) - 1u;
  Tensor total = drop_dims(reduce(ReduceOp::sum, losses, all), all, false);
  if (reduction == Reduction::mean) total = total / static_cast<double>(losses.numel());
  return total;
}

}  // namespace graph

using namespace graph;

namespace {

// Operands in the working dtype, checked: float tensors of one dtype on one device whose shapes broadcast.
class Compared {
 public:
  explicit Compared(std::vector<Shown> shown) : shown_(std::move(shown)) {
    for (const Shown& operand : shown_) {
      if (operand.tensor == nullptr) {
        fail<ValueError>(fmt::format("{} must be a tensor", operand.label), shown_, "make the scalar a tensor");
      }
    }
    check_same_device(shown_);
    check_same_dtype(shown_);
    check_float(shown_[0]);
    broadcast_shape(shown_);
  }

  Tensor operator[](std::size_t i) const { return cast(*shown_[i].tensor, wide(dtype())); }
  Tensor finish(const Tensor& losses, Reduction reduction) const { return cast(reduced(losses, reduction), dtype()); }
  void same_shapes(std::size_t count) const {
    for (std::size_t i = 1; i < count; ++i) {
      if (shown_[i].tensor->shape() == shown_[0].tensor->shape()) continue;
      fail<ShapeError>(fmt::format("{} and {} have different shapes", shown_[0].label, shown_[i].label), shown_);
    }
  }
  const std::vector<Shown>& shown() const { return shown_; }

 private:
  DType dtype() const { return shown_[0].tensor->dtype(); }
  std::vector<Shown> shown_;
};

}  // namespace

Tensor mse_loss(const Operand& input, const Operand& target, Reduction reduction) {
  const CallScope call("mse_loss", input);
  if (is_autocasting()) return with_autocast(DType::f32, mse_loss, input, target, reduction);
  const Compared of({{"input", input}, {"target", target}});
  const Tensor difference = of[0] - of[1];
  return of.finish(difference * difference, reduction);
}

Tensor l1_loss(const Operand& input, const Operand& target, Reduction reduction) {
  const CallScope call("l1_loss", input);
  if (is_autocasting()) return with_autocast(DType::f32, l1_loss, input, target, reduction);
  const Compared of({{"input", input}, {"target", target}});
  return of.finish(abs(of[0] - of[1]), reduction);
}

Tensor smooth_l1_loss(const Operand& input, const Operand& target, Reduction reduction, double beta) {
  const CallScope call("smooth_l1_loss", input);
  if (is_autocasting()) return with_autocast(DType::f32, smooth_l1_loss, input, target, reduction, beta);
  const Compared of({{"input", input}, {"target", target}});
  if (!(beta >= 0)) fail<ValueError>(fmt::format("beta {} is negative", beta), of.shown());
  const Tensor distance = abs(of[0] - of[1]);
  if (beta == 0) return of.finish(distance, reduction);
  return of.finish(where(distance < beta, distance * 0.5 * distance / beta, distance - 0.5 * beta), reduction);
}

Tensor huber_loss(const Operand& input, const Operand& target, Reduction reduction, double delta) {
  const CallScope call("huber_loss", input);
  if (is_autocasting()) return with_autocast(DType::f32, huber_loss, input, target, reduction, delta);
  const Compared of({{"input", input}, {"target", target}});
  if (!(delta > 0)) fail<ValueError>(fmt::format("delta {} is not positive", delta), of.shown());
  const Tensor distance = abs(of[0] - of[1]);
  return of.finish(where(distance <= delta, distance * 0.5 * distance, (distance - 0.5 * delta) * delta), reduction);
}

Tensor binary_cross_entropy(const Operand& input, const Operand& target, const BinaryLossOptions& options) {
  const CallScope call("binary_cross_entropy", input);
  if (is_autocasting()) return with_autocast(DType::f32, binary_cross_entropy, input, target, options);
  const std::optional<Tensor>& weight = options.weight;
  if (options.pos_weight) {
    fail<ValueError>("takes no pos_weight", {{"input", input}, {"pos_weight", *options.pos_weight}},
                     "use binary_cross_entropy_with_logits");
  }
  std::vector<Shown> shown{{"input", input}, {"target", target}};
  if (weight) shown.emplace_back("weight", *weight);
  const Compared of(std::move(shown));
  of.same_shapes(2);
  const auto logarithm = [](const Tensor& p) { return maximum(log(p), -100); };
  const Tensor p = of[0];
  const Tensor t = of[1];
  Tensor losses = (t - 1) * logarithm(1 - p) - t * logarithm(p);
  if (weight) losses = losses * of[2];
  return of.finish(losses, options.reduction);
}

Tensor binary_cross_entropy_with_logits(const Operand& input, const Operand& target, const BinaryLossOptions& options) {
  const CallScope call("binary_cross_entropy_with_logits", input);
  if (is_autocasting()) return with_autocast(DType::f32, binary_cross_entropy_with_logits, input, target, options);
  const std::optional<Tensor>& weight = options.weight;
  const std::optional<Tensor>& pos_weight = options.pos_weight;
  std::vector<Shown> shown{{"input", input}, {"target", target}};
  if (weight) shown.emplace_back("weight", *weight);
  if (pos_weight) shown.emplace_back("pos_weight", *pos_weight);
  const Compared of(std::move(shown));
  of.same_shapes(2);
  const Tensor x = of[0];
  const Tensor t = of[1];
  // -log(sigmoid(x)) = log(1 + exp(-|x|)) + max(-x, 0), whatever the size of x.
  const Tensor softplus_of_minus = log1p(exp(neg(abs(x)))) + maximum(neg(x), 0);
  Tensor losses;
  if (pos_weight) {
    const Tensor log_weight = (of[weight ? 3 : 2] - 1) * t + 1;
    losses = (1 - t) * x + log_weight * softplus_of_minus;
  } else {
    losses = (1 - t) * x + softplus_of_minus;
  }
  if (weight) losses = losses * of[2];
  return of.finish(losses, options.reduction);
}

Tensor kl_div(const Operand& input, const Operand& target, Reduction reduction, bool log_target) {
  const CallScope call("kl_div", input);
  if (is_autocasting()) return with_autocast(DType::f32, kl_div, input, target, reduction, log_target);
  const Compared of({{"input", input}, {"target", target}});
  const Tensor x = of[0];
  const Tensor t = of[1];
  if (log_target) return of.finish(exp(t) * (t - x), reduction);
  return of.finish(where(t == 0, 0, t * log(t)) - t * x, reduction);
}

Tensor cosine_embedding_loss(const Operand& a, const Operand& b, const Operand& target, double margin,
                             Reduction reduction) {
  const CallScope call("cosine_embedding_loss", a);
  if (is_autocasting()) return with_autocast(DType::f32, cosine_embedding_loss, a, b, target, margin, reduction);
  const Compared of({{"a", a}, {"b", b}});
  const std::vector<Shown> shown{{"a", a}, {"b", b}, {"target", target}};
  check_same_device(shown);
  of.same_shapes(2);
  const int rank = a.tensor().rank();
  if (rank < 1 || rank > 2 || target.is_scalar() || target.tensor().shape() != a.tensor().shape().slice(0, rank - 1)) {
    fail<ShapeError>("a and b must be [N, D] and target [N], or [D] and []", shown);
  }
  const Tensor x = of[0];
  const Tensor y = of[1];
  const std::uint32_t last = 1u << (rank - 1);
  const auto dot_of = [&](const Tensor& p, const Tensor& q) {
    return drop_dims(reduce(ReduceOp::dot, p, last, &q), last, false);
  };
  constexpr double kEpsilon = 1e-12;  // as PyTorch adds to each squared length
  const Tensor cosine = dot_of(x, y) / sqrt((dot_of(x, x) + kEpsilon) * (dot_of(y, y) + kEpsilon));
  const Tensor alike = target.tensor() == 1;
  const Tensor unlike = target.tensor() == -1;
  const Tensor losses = where(alike, 1 - cosine, 0) + where(unlike, maximum(cosine - margin, 0), 0);
  return of.finish(losses, reduction);
}

Tensor triplet_margin_loss(const Operand& anchor, const Operand& positive, const Operand& negative,
                           const TripletMarginOptions& options) {
  const CallScope call("triplet_margin_loss", anchor);
  if (is_autocasting()) return with_autocast(DType::f32, triplet_margin_loss, anchor, positive, negative, options);
  const Compared of({{"anchor", anchor}, {"positive", positive}, {"negative", negative}});
  of.same_shapes(3);
  const int rank = anchor.tensor().rank();
  if (rank < 1) fail<ShapeError>("operands need at least one dimension", of.shown());
  const std::uint32_t last = 1u << (rank - 1);
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    const Tensor difference = a - b + options.eps;
    return drop_dims(sqrt(reduce(ReduceOp::dot, difference, last, &difference)), last, false);
  };
  const Tensor near = distance(of[0], of[1]);
  Tensor far = distance(of[0], of[2]);
  if (options.swap) far = minimum(far, distance(of[1], of[2]));
  return of.finish(maximum(near - far + options.margin, 0), options.reduction);
}

Tensor margin_ranking_loss(const Operand& a, const Operand& b, const Operand& target, double margin,
                           Reduction reduction) {
  const CallScope call("margin_ranking_loss", a);
  if (is_autocasting()) return with_autocast(DType::f32, margin_ranking_loss, a, b, target, margin, reduction);
  const Compared of({{"a", a}, {"b", b}, {"target", target}});
  return of.finish(maximum(neg(of[2]) * (of[0] - of[1]) + margin, 0), reduction);
}

}  // namespace v0
}  // namespace lockstep
