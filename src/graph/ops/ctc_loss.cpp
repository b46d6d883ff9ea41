// Connectionist temporal classification: the forward recursion over the time steps, in logarithms.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "graph/autocast.h"
#include "graph/ops/loss.h"
#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// The logarithm of a probability of zero: finite, so that gradients are; no alignment comes near.
constexpr double kNever = -1e30;

struct Lengths {
  std::vector<std::int64_t> input, target;
};

// Targets as [N, S], S the longest; shorter ones end with what does not matter.
Tensor padded_targets(const Tensor& targets, const Lengths& lengths, std::int64_t longest, const Tensor& log_probs) {
  const std::vector<Shown> shown{{"log_probs", log_probs}, {"targets", targets}};
  const auto batch = static_cast<std::int64_t>(lengths.target.size());
  if (targets.rank() == 2 && targets.shape()[0] == batch && targets.shape()[1] >= longest) {
    return targets.narrow(1, 0, longest);
  }
  std::int64_t total = 0;
  for (const std::int64_t length : lengths.target) total += length;
  if (targets.rank() != 1 || targets.shape()[0] != total) {
    fail<ShapeError>(
        fmt::format("targets must be [{}, S] with S at least {}, or all {} in a row", batch, longest, total), shown);
  }
  std::vector<std::int64_t> places;
  std::int64_t start = 0;
  for (const std::int64_t length : lengths.target) {
    for (std::int64_t s = 0; s < longest; ++s) places.push_back(s < length ? start + s : 0);
    start += length;
  }
  if (total == 0) return zeros({batch, longest}, {targets.dtype(), targets.device()});
  return take(targets, Tensor::from(places, {batch, longest}, targets.device()));
}

void check_lengths(const char* what, const std::vector<std::int64_t>& lengths, std::int64_t batch, std::int64_t most,
                   const Tensor& log_probs) {
  bool fit = static_cast<std::int64_t>(lengths.size()) == batch;
  for (const std::int64_t length : lengths) fit = fit && length >= 0 && length <= most;
  if (!fit) {
    fail<ValueError>(fmt::format("{} must be {} values from 0 to {}", what, batch, most), {{"log_probs", log_probs}});
  }
}

// log of the sum of e^x over several terms, which are finite.
Tensor log_sum(const std::vector<Tensor>& terms) {
  Tensor largest = untraced(terms[0]);
  for (std::size_t i = 1; i < terms.size(); ++i) largest = maximum(largest, untraced(terms[i]));
  Tensor total;
  for (const Tensor& term : terms) {
    const Tensor part = exp(sub(term, largest));
    total = total.defined() ? total + part : part;
  }
  return largest + log(total);
}

// Moved along the states by `by`.
Tensor shifted(const Tensor& states, std::int64_t by) {
  return pad(states, {by, -by}, kNever);
}

}  // namespace

Tensor ctc_loss(const Operand& operand, const Tensor& targets, const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths, const CtcOptions& options) {
  const CallScope call("ctc_loss", operand);
  if (is_autocasting()) {
    return with_autocast(DType::f32, ctc_loss, operand, targets, input_lengths, target_lengths, options);
  }
  const Tensor& given = tensor_operand(operand);
  const std::vector<Shown> shown{{"log_probs", operand}, {"targets", targets}};
  check_defined(shown);
  check_same_device(shown);
  check_float(shown[0]);
  if (targets.dtype() != DType::i64 && targets.dtype() != DType::i32) {
    fail<DTypeError>("targets must hold classes as i64 or i32", shown, "cast them with .to(DType::i64)");
  }
  if (given.rank() != 2 && given.rank() != 3) {
    fail<ShapeError>("log_probs must be [T, N, C] or [T, C]", shown);
  }
  const bool single = given.rank() == 2;
  Tensor log_probs = cast(given, wide(given.dtype()));
  if (single) log_probs = log_probs.unsqueeze(1);
  const std::int64_t steps = log_probs.shape()[0], batch = log_probs.shape()[1], classes = log_probs.shape()[2];
  if (options.blank < 0 || options.blank >= classes) {
    fail<ValueError>(fmt::format("blank {} is none of the {} classes", options.blank, classes), shown);
  }
  check_lengths("input_lengths", input_lengths, batch, steps, given);
  check_lengths("target_lengths", target_lengths, batch, std::numeric_limits<std::int32_t>::max(), given);

  const std::int64_t longest =
      target_lengths.empty() ? 0 : *std::max_element(target_lengths.begin(), target_lengths.end());
  const Lengths lengths{input_lengths, target_lengths};
  Tensor labels =
      padded_targets(single && targets.rank() == 1 ? targets.unsqueeze(0) : targets, lengths, longest, given)
          .to(DType::i64);
  // What stands behind a target's end may be anything.
  const TensorOptions integers{DType::i64, given.device()};
  const TensorOptions like{log_probs.dtype(), given.device()};
  const Tensor target_length = Tensor::from(target_lengths, {batch, 1}, given.device());
  const Tensor places = arange(0, static_cast<double>(longest), 1, integers);
  labels = where(lt(places, target_length), labels, options.blank);
  // States: a blank, and after each label another.
  const std::int64_t states = 2 * longest + 1;
  const Tensor blanks = full({batch, longest, 1}, static_cast<double>(options.blank), integers);
  const Tensor pairs = cat({blanks, labels.unsqueeze(2)}, 2).reshape({batch, 2 * longest});
  const Tensor last_blank = full({batch, 1}, static_cast<double>(options.blank), integers);
  const Tensor path = cat({pairs, last_blank}, 1);  // [N, states]
  // A label may follow the one before it at once, unless it is the same.
  const Tensor before = longest == 0 ? path : pad(path, {2, -2}, static_cast<double>(options.blank));
  const Tensor skips = bitwise_and(ne(path, options.blank), ne(path, before));
  const Tensor emitted = maximum(gather(log_probs, 2, path.unsqueeze(0).expand({steps, batch, states})), kNever);

  const Tensor input_length = Tensor::from(input_lengths, {batch, 1}, given.device());
  const Tensor first = eq(arange(0, static_cast<double>(states), 1, integers), 0);
  Tensor alpha = where(first, zeros({}, like), kNever).expand({batch, states});
  for (std::int64_t t = 0; t < steps; ++t) {
    const Tensor two_back = longest == 0 ? full({}, kNever, like) : where(skips, shifted(alpha, 2), kNever);
    const Tensor one_back = longest == 0 ? full({}, kNever, like) : shifted(alpha, 1);
    const Tensor next = log_sum({alpha, one_back, two_back}) + emitted.select(0, t);
    alpha = where(gt(input_length, t), next, alpha);
  }
  const Tensor end = target_length * 2;
  const Tensor at_blank = gather(alpha, 1, end);
  const Tensor at_label = where(gt(target_length, 0), gather(alpha, 1, maximum(end - 1, 0)), kNever);
  const Tensor found = log_sum({at_blank, at_label}).squeeze(1);
  const double otherwise = options.zero_infinity ? 0.0 : std::numeric_limits<double>::infinity();
  Tensor losses = where(gt(found, kNever / 10), neg(found), otherwise);
  if (options.reduction == Reduction::mean) {
    const Tensor divisor = maximum(target_length.squeeze(1), 1).to(losses.dtype());
    losses = div(losses, divisor);
  }
  const bool keeps = options.reduction == Reduction::none;
  if (keeps && single) losses = losses.squeeze(0);
  return cast(keeps ? losses : reduced(losses, options.reduction), given.dtype());
}

}  // namespace v0
}  // namespace lockstep
