// Dropout: a mask of random words, and the scaling of what is kept.
#include <lockstep/ops/dropout.h>

#include <cmath>

#include <fmt/format.h>

#include "graph/ops/operand.h"
#include "graph/ops/random.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// Checks, and whether there is nothing to do.
bool passes(const Operand& a, double p, bool training) {
  const Tensor& input = tensor_operand(a);
  check_float({"input", input});
  if (!(p >= 0 && p <= 1)) {
    fail<ValueError>(fmt::format("{} is not a probability", p), {{"input", a}}, "use a number from 0 to 1");
  }
  return !training || p == 0;
}

Tensor masked(const Operand& a, double p, const Shape& mask, Generator* generator) {
  const Tensor& input = a.tensor();
  if (p == 1) return zeros_like(input);
  const Tensor keep = random_keep(p, mask, input.device(), given_or_default(generator));
  const Tensor scaled = cast(input, wide(input.dtype())) * (1 / (1 - p));
  return where(keep, cast(scaled, input.dtype()), 0.0);
}

Tensor alpha_masked(const Operand& a, double p, const Shape& mask, Generator* generator) {
  const Tensor& input = a.tensor();
  if (p == 1) return zeros_like(input);
  constexpr double kAlpha = 1.7580993408473766;  // selu's -limit: scale * alpha
  const double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const double shift = kAlpha * scale * p;
  const Tensor keep = random_keep(p, mask, input.device(), given_or_default(generator));
  const Tensor kept = cast(input, wide(input.dtype())) * scale + shift;
  return cast(where(keep, kept, shift - kAlpha * scale), input.dtype());
}

// [N, C, 1, ...]; without a batch [C, 1, ...].
Shape channel_mask(const Tensor& input, int channel) {
  if (input.rank() <= channel) {
    fail<ShapeError>("the input has no channels", {{"input", input}}, "give [N, C, ...]");
  }
  Shape mask = input.shape();
  for (int d = channel + 1; d < mask.rank(); ++d) mask[d] = 1;
  return mask;
}

Tensor spatial(int dims, const Operand& a, double p, bool training, Generator* generator) {
  const Tensor& input = tensor_operand(a);
  if (input.rank() != dims + 1 && input.rank() != dims + 2) {
    fail<ShapeError>(fmt::format("the input must have {} or {} dimensions", dims + 1, dims + 2), {{"input", input}},
                     "give channels and positions, with or without a batch");
  }
  if (passes(a, p, training)) return input;
  return masked(a, p, channel_mask(input, input.rank() - dims - 1), generator);
}

}  // namespace

Tensor dropout(const Operand& a, double p, bool training, Generator* generator) {
  const CallScope call("dropout", a);
  if (passes(a, p, training)) return a.tensor();
  return masked(a, p, a.tensor().shape(), generator);
}

Tensor alpha_dropout(const Operand& a, double p, bool training, Generator* generator) {
  const CallScope call("alpha_dropout", a);
  if (passes(a, p, training)) return a.tensor();
  return alpha_masked(a, p, a.tensor().shape(), generator);
}

Tensor feature_dropout(const Operand& a, double p, bool training, Generator* generator) {
  const CallScope call("feature_dropout", a);
  if (passes(a, p, training)) return a.tensor();
  return masked(a, p, channel_mask(a.tensor(), 1), generator);
}

Tensor feature_alpha_dropout(const Operand& a, double p, bool training, Generator* generator) {
  const CallScope call("feature_alpha_dropout", a);
  if (passes(a, p, training)) return a.tensor();
  return alpha_masked(a, p, channel_mask(a.tensor(), 1), generator);
}

Tensor dropout1d(const Operand& a, double p, bool training, Generator* generator) {
  const CallScope call("dropout1d", a);
  return spatial(1, a, p, training, generator);
}
Tensor dropout2d(const Operand& a, double p, bool training, Generator* generator) {
  const CallScope call("dropout2d", a);
  return spatial(2, a, p, training, generator);
}
Tensor dropout3d(const Operand& a, double p, bool training, Generator* generator) {
  const CallScope call("dropout3d", a);
  return spatial(3, a, p, training, generator);
}

}  // namespace v0
}  // namespace lockstep
