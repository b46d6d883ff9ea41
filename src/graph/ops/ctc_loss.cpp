// Connectionist temporal classification: the forward recursion over the time steps, in logarithms.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "graph/ops/loss.h"
#include "graph/ops/operand.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

constexpr const char* kCtc = "ctc_loss";
// The logarithm of a probability of zero: finite, so that gradients are; no alignment comes near.
constexpr double kNever = -1e30;

struct Lengths {
  std::vector<std::int64_t> input, target;
};

// Targets as [N, S], S the longest; shorter ones end with what does not matter.
Tensor padded_targets(const Tensor& targets, const Lengths& lengths, std::int64_t longest, const Tensor& log_probs,
                      CallSite site) {
  const std::vector<Shown> shown{{"log_probs", log_probs}, {"targets", targets}};
  const auto batch = static_cast<std::int64_t>(lengths.target.size());
  if (targets.rank() == 2 && targets.shape()[0] == batch && targets.shape()[1] >= longest) {
    return targets.narrow(1, 0, longest, site);
  }
  std::int64_t total = 0;
  for (const std::int64_t length : lengths.target) total += length;
  if (targets.rank() != 1 || targets.shape()[0] != total) {
    fail<ShapeError>(
        kCtc, fmt::format("targets must be [{}, S] with S at least {}, or all {} in a row", batch, longest, total),
        shown, "", site);
  }
  std::vector<std::int64_t> places;
  std::int64_t start = 0;
  for (const std::int64_t length : lengths.target) {
    for (std::int64_t s = 0; s < longest; ++s) places.push_back(s < length ? start + s : 0);
    start += length;
  }
  if (total == 0) return zeros({batch, longest}, {targets.dtype(), targets.device()}, site);
  return take(Operand(targets, site), Tensor::from(places, {batch, longest}, targets.device(), site));
}

void check_lengths(const char* what, const std::vector<std::int64_t>& lengths, std::int64_t batch, std::int64_t most,
                   const Tensor& log_probs, CallSite site) {
  bool fit = static_cast<std::int64_t>(lengths.size()) == batch;
  for (const std::int64_t length : lengths) fit = fit && length >= 0 && length <= most;
  if (!fit) {
    fail<ValueError>(kCtc, fmt::format("{} must be {} values from 0 to {}", what, batch, most),
                     {{"log_probs", log_probs}}, "", site);
  }
}

// log of the sum of e^x over several terms, which are finite.
Tensor log_sum(const std::vector<Tensor>& terms, CallSite site) {
  Tensor largest = untraced(terms[0]);
  for (std::size_t i = 1; i < terms.size(); ++i) largest = maximum(Operand(largest, site), untraced(terms[i]));
  Tensor total;
  for (const Tensor& term : terms) {
    const Tensor part = exp(Operand(sub(Operand(term, site), largest), site));
    total = total.defined() ? total + part : part;
  }
  return largest + log(Operand(total, site));
}

// Moved along the states by `by`.
Tensor shifted(const Tensor& states, std::int64_t by, CallSite site) {
  return pad(Operand(states, site), {by, -by}, kNever);
}

}  // namespace

Tensor ctc_loss(const Operand& operand, const Tensor& targets, const std::vector<std::int64_t>& input_lengths,
                const std::vector<std::int64_t>& target_lengths, const CtcOptions& options) {
  const CallSite site = operand.site();
  const Tensor& given = tensor_operand(kCtc, operand);
  const std::vector<Shown> shown{{"log_probs", operand}, {"targets", targets}};
  check_defined(kCtc, shown, site);
  check_same_device(kCtc, shown, site);
  check_float(kCtc, shown[0], site);
  if (targets.dtype() != DType::i64 && targets.dtype() != DType::i32) {
    fail<DTypeError>(kCtc, "targets must hold classes as i64 or i32", shown, "cast them with .to(DType::i64)", site);
  }
  if (given.rank() != 2 && given.rank() != 3) {
    fail<ShapeError>(kCtc, "log_probs must be [T, N, C] or [T, C]", shown, "", site);
  }
  const bool single = given.rank() == 2;
  Tensor log_probs = cast(given, wide(given.dtype()), site);
  if (single) log_probs = log_probs.unsqueeze(1, site);
  const std::int64_t steps = log_probs.shape()[0], batch = log_probs.shape()[1], classes = log_probs.shape()[2];
  if (options.blank < 0 || options.blank >= classes) {
    fail<ValueError>(kCtc, fmt::format("blank {} is none of the {} classes", options.blank, classes), shown, "", site);
  }
  check_lengths("input_lengths", input_lengths, batch, steps, given, site);
  check_lengths("target_lengths", target_lengths, batch, std::numeric_limits<std::int32_t>::max(), given, site);

  const std::int64_t longest =
      target_lengths.empty() ? 0 : *std::max_element(target_lengths.begin(), target_lengths.end());
  const Lengths lengths{input_lengths, target_lengths};
  Tensor labels = padded_targets(single && targets.rank() == 1 ? targets.unsqueeze(0, site) : targets, lengths, longest,
                                 given, site)
                      .to(DType::i64, site);
  // What stands behind a target's end may be anything.
  const TensorOptions integers{DType::i64, given.device()};
  const TensorOptions like{log_probs.dtype(), given.device()};
  const Tensor target_length = Tensor::from(target_lengths, {batch, 1}, given.device(), site);
  const Tensor places = arange(0, static_cast<double>(longest), 1, integers, site);
  labels = where(Operand(lt(Operand(places, site), target_length), site), labels, options.blank);
  // States: a blank, and after each label another.
  const std::int64_t states = 2 * longest + 1;
  const Tensor blanks = full({batch, longest, 1}, static_cast<double>(options.blank), integers, site);
  const Tensor pairs = cat({blanks, labels.unsqueeze(2, site)}, 2, site).reshape({batch, 2 * longest}, site);
  const Tensor last_blank = full({batch, 1}, static_cast<double>(options.blank), integers, site);
  const Tensor path = cat({pairs, last_blank}, 1, site);  // [N, states]
  // A label may follow the one before it at once, unless it is the same.
  const Tensor before = longest == 0 ? path : pad(Operand(path, site), {2, -2}, static_cast<double>(options.blank));
  const Tensor skips = bitwise_and(ne(Operand(path, site), options.blank), ne(Operand(path, site), before));
  const Tensor emitted =
      maximum(gather(log_probs, 2, path.unsqueeze(0, site).expand({steps, batch, states}, site), site, kCtc), kNever);

  const Tensor input_length = Tensor::from(input_lengths, {batch, 1}, given.device(), site);
  const Tensor first = eq(Operand(arange(0, static_cast<double>(states), 1, integers, site), site), 0);
  Tensor alpha = where(Operand(first, site), zeros({}, like, site), kNever).expand({batch, states}, site);
  for (std::int64_t t = 0; t < steps; ++t) {
    const Tensor two_back =
        longest == 0 ? full({}, kNever, like, site) : where(Operand(skips, site), shifted(alpha, 2, site), kNever);
    const Tensor one_back = longest == 0 ? full({}, kNever, like, site) : shifted(alpha, 1, site);
    const Tensor next = log_sum({alpha, one_back, two_back}, site) + emitted.select(0, t, site);
    alpha = where(Operand(gt(Operand(input_length, site), t), site), next, alpha);
  }
  const Tensor end = target_length * 2;
  const Tensor at_blank = gather(alpha, 1, end, site, kCtc);
  const Tensor at_label = where(Operand(gt(Operand(target_length, site), 0), site),
                                gather(alpha, 1, maximum(Operand(end - 1, site), 0), site, kCtc), kNever);
  const Tensor found = log_sum({at_blank, at_label}, site).squeeze(1, site);
  const double otherwise = options.zero_infinity ? 0.0 : std::numeric_limits<double>::infinity();
  Tensor losses = where(Operand(gt(Operand(found, site), kNever / 10), site), neg(Operand(found, site)), otherwise);
  if (options.reduction == Reduction::mean) {
    const Tensor divisor = maximum(Operand(target_length.squeeze(1, site), site), 1).to(losses.dtype(), site);
    losses = div(Operand(losses, site), divisor);
  }
  const bool keeps = options.reduction == Reduction::none;
  if (keeps && single) losses = losses.squeeze(0, site);
  return cast(keeps ? losses : reduced(losses, options.reduction, site), given.dtype(), site);
}

}  // namespace v0
}  // namespace lockstep
