// Losses as functions of predictions and targets.
//
// Predictions are floats (DTypeError); f16 and bf16 compute in f32 and round the result once. Shapes that do not fit
// are ShapeErrors. A class index outside its range is an IndexError when the loss is read. `mean` divides by the number
// of elements unless stated otherwise; all sums are R over the elements in row-major order.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// What a loss returns: a value per element, or their sum or mean as a scalar.
enum class Reduction : std::uint8_t { none, mean, sum };

/// (input - target)^2. Shapes broadcast.  PyTorch: mse_loss.
LOCKSTEP_API Tensor mse_loss(const Operand& input, const Operand& target, Reduction reduction = Reduction::mean);
/// |input - target|. Shapes broadcast.  PyTorch: l1_loss.
LOCKSTEP_API Tensor l1_loss(const Operand& input, const Operand& target, Reduction reduction = Reduction::mean);
/// d = |input - target|: 0.5 d^2 / beta below beta, d - 0.5 beta above; l1_loss for beta 0. ValueError for a negative
/// one. PyTorch: smooth_l1_loss.
LOCKSTEP_API Tensor smooth_l1_loss(const Operand& input, const Operand& target, Reduction reduction = Reduction::mean,
                                   double beta = 1);
/// d = |input - target|: 0.5 d^2 up to delta, delta (d - 0.5 delta) above. ValueError unless delta > 0.
/// PyTorch: huber_loss.
LOCKSTEP_API Tensor huber_loss(const Operand& input, const Operand& target, Reduction reduction = Reduction::mean,
                               double delta = 1);

/// For losses over classes.
struct ClassLossOptions {
  std::optional<Tensor> weight = std::nullopt;  ///< [C], per class
  Reduction reduction = Reduction::mean;
  std::int64_t ignore_index = -100;  ///< targets with this class do not count
  double label_smoothing = 0;        ///< from 0 to 1 (ValueError); cross_entropy only
};
/// -weight[target] * input[target], with log-probabilities input [N, C, ...] (or [C]) and classes target [N, ...] (or
/// []) as i64 or i32. `mean` divides by the sum of the weights that count (NaN if none does).  PyTorch: nll_loss.
LOCKSTEP_API Tensor nll_loss(const Operand& input, const Operand& target, const ClassLossOptions& options = {});
/// The same of log_softmax(input, 1) with scores. A float target of input's shape is a distribution over the classes;
/// then `mean` divides by N times the positions and ignore_index says nothing. With label_smoothing e the target is
/// (1 - e) of it and e of the uniform distribution.  PyTorch: cross_entropy.
LOCKSTEP_API Tensor cross_entropy(const Operand& input, const Operand& target, const ClassLossOptions& options = {});

struct CtcOptions {
  std::int64_t blank = 0;
  Reduction reduction = Reduction::mean;
  bool zero_infinity = false;  ///< 0 instead of infinity where no alignment exists
};
/// -log of the probability of the targets, summed over all alignments with blanks and repetitions. log_probs [T, N, C]
/// (or [T, C]) are logarithms of probabilities; targets are classes other than blank, i64 or i32: [N, S], of which the
/// first target_lengths[n] count, or all of them in a row. `mean` divides each loss by its target's length (at least 1),
/// then by N. The gradient is that of the formula, so only behind log_softmax does it equal PyTorch's; impossible targets
/// have none. ValueError for lengths that do not fit; a class outside C is an IndexError when the loss is read.
/// PyTorch: ctc_loss.
LOCKSTEP_API Tensor ctc_loss(const Operand& log_probs, const Tensor& targets,
                             const std::vector<std::int64_t>& input_lengths,
                             const std::vector<std::int64_t>& target_lengths, const CtcOptions& options = {});

/// For losses between pairs of probabilities and targets.
struct BinaryLossOptions {
  std::optional<Tensor> weight = std::nullopt;  ///< of each element; broadcasts
  Reduction reduction = Reduction::mean;
  std::optional<Tensor> pos_weight = std::nullopt;  ///< of positive targets; broadcasts; with_logits only
};
/// -weight * (target * log(input) + (1 - target) * log(1 - input)), logarithms not below -100. input in [0, 1] and
/// target have one shape. ValueError for a pos_weight.  PyTorch: binary_cross_entropy.
LOCKSTEP_API Tensor binary_cross_entropy(const Operand& input, const Operand& target,
                                         const BinaryLossOptions& options = {});
/// The same of sigmoid(input), safe for large scores; `pos_weight` multiplies the part of positive targets.
/// PyTorch: binary_cross_entropy_with_logits.
LOCKSTEP_API Tensor binary_cross_entropy_with_logits(const Operand& input, const Operand& target,
                                                     const BinaryLossOptions& options = {});

/// target * (log(target) - input), 0 where target is 0; with log_target exp(target) * (target - input). input has
/// log-probabilities; shapes broadcast.  PyTorch: kl_div. (batchmean: sum / N.)
LOCKSTEP_API Tensor kl_div(const Operand& input, const Operand& target, Reduction reduction = Reduction::mean,
                           bool log_target = false);

/// 1 - cos(a, b) where target is 1, max(0, cos(a, b) - margin) where it is -1. a and b [N, D] (or [D]), target [N] (or
/// []).  PyTorch: cosine_embedding_loss.
LOCKSTEP_API Tensor cosine_embedding_loss(const Operand& a, const Operand& b, const Operand& target, double margin = 0,
                                          Reduction reduction = Reduction::mean);
struct TripletMarginOptions {
  double margin = 1;
  double eps = 1e-6;
  bool swap = false;
  Reduction reduction = Reduction::mean;
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin), d = ||a - b + eps|| along the last dimension; with
/// `swap` the smaller of d(anchor, negative) and d(positive, negative). All [..., D].  PyTorch: triplet_margin_loss, p
/// = 2.
LOCKSTEP_API Tensor triplet_margin_loss(const Operand& anchor, const Operand& positive, const Operand& negative,
                                        const TripletMarginOptions& options = {});
/// max(0, -target * (a - b) + margin) with targets 1 or -1. Shapes broadcast.  PyTorch: margin_ranking_loss.
LOCKSTEP_API Tensor margin_ranking_loss(const Operand& a, const Operand& b, const Operand& target, double margin = 0,
                                        Reduction reduction = Reduction::mean);

}  // namespace v0
}  // namespace lockstep
