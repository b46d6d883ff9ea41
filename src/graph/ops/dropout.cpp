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
bool passes(const char* op, const Operand& a, double p, bool training) {
  const Tensor& input = tensor_operand(op, a);
  check_float(op, {"input", input}, a.site());
  if (!(p >= 0 && p <= 1)) {
    fail<ValueError>(op, fmt::format("{} is not a probability", p), {{"input", a}}, "use a number from 0 to 1",
                     a.site());
  }
  return !training || p == 0;
}

Tensor masked(const Operand& a, double p, const Shape& mask, Generator* generator) {
  const CallSite site = a.site();
  const Tensor& input = a.tensor();
  if (p == 1) return zeros_like(input, site);
  const Tensor keep = random_keep(p, mask, input.device(), given_or_default(generator), site);
  const Tensor scaled = cast(input, wide(input.dtype()), site) * Operand(1 / (1 - p), site);
  return where(Operand(keep, site), Operand(cast(scaled, input.dtype(), site), site), Operand(0.0, site));
}

Tensor alpha_masked(const Operand& a, double p, const Shape& mask, Generator* generator) {
  const CallSite site = a.site();
  const Tensor& input = a.tensor();
  if (p == 1) return zeros_like(input, site);
  constexpr double kAlpha = 1.7580993408473766;  // selu's -limit: scale * alpha
  const double scale = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const double shift = kAlpha * scale * p;
  const Tensor keep = random_keep(p, mask, input.device(), given_or_default(generator), site);
  const Tensor kept = cast(input, wide(input.dtype()), site) * Operand(scale, site) + Operand(shift, site);
  return cast(where(Operand(keep, site), Operand(kept, site), Operand(shift - kAlpha * scale, site)), input.dtype(),
              site);
}

// [N, C, 1, ...]; without a batch [C, 1, ...].
Shape channel_mask(const char* op, const Tensor& input, int channel, CallSite site) {
  if (input.rank() <= channel) {
    fail<ShapeError>(op, "the input has no channels", {{"input", input}}, "give [N, C, ...]", site);
  }
  Shape mask = input.shape();
  for (int d = channel + 1; d < mask.rank(); ++d) mask[d] = 1;
  return mask;
}

Tensor spatial(const char* op, int dims, const Operand& a, double p, bool training, Generator* generator) {
  const Tensor& input = tensor_operand(op, a);
  if (input.rank() != dims + 1 && input.rank() != dims + 2) {
    fail<ShapeError>(op, fmt::format("the input must have {} or {} dimensions", dims + 1, dims + 2), {{"input", input}},
                     "give channels and positions, with or without a batch", a.site());
  }
  if (passes(op, a, p, training)) return input;
  return masked(a, p, channel_mask(op, input, input.rank() - dims - 1, a.site()), generator);
}

}  // namespace

Tensor dropout(const Operand& a, double p, bool training, Generator* generator) {
  if (passes("dropout", a, p, training)) return a.tensor();
  return masked(a, p, a.tensor().shape(), generator);
}

Tensor alpha_dropout(const Operand& a, double p, bool training, Generator* generator) {
  if (passes("alpha_dropout", a, p, training)) return a.tensor();
  return alpha_masked(a, p, a.tensor().shape(), generator);
}

Tensor feature_dropout(const Operand& a, double p, bool training, Generator* generator) {
  if (passes("feature_dropout", a, p, training)) return a.tensor();
  return masked(a, p, channel_mask("feature_dropout", a.tensor(), 1, a.site()), generator);
}

Tensor feature_alpha_dropout(const Operand& a, double p, bool training, Generator* generator) {
  if (passes("feature_alpha_dropout", a, p, training)) return a.tensor();
  return alpha_masked(a, p, channel_mask("feature_alpha_dropout", a.tensor(), 1, a.site()), generator);
}

Tensor dropout1d(const Operand& a, double p, bool training, Generator* generator) {
  return spatial("dropout1d", 1, a, p, training, generator);
}
Tensor dropout2d(const Operand& a, double p, bool training, Generator* generator) {
  return spatial("dropout2d", 2, a, p, training, generator);
}
Tensor dropout3d(const Operand& a, double p, bool training, Generator* generator) {
  return spatial("dropout3d", 3, a, p, training, generator);
}

}  // namespace v0
}  // namespace lockstep
