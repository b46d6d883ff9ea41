// Losses over classes: nll_loss and cross_entropy. The scores of the right classes are gathered, never one-hot
// products.
#include <fmt/format.h>

#include "graph/autocast.h"
#include "graph/ops/loss.h"
#include "graph/ops/normalization.h"
#include "graph/ops/reduction.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// Log-probabilities, or scores with what makes them such, with their classes as dimension 1 (0 for a single sample).
struct Classes {
  Tensor x;                         ///< in the working dtype
  std::optional<ShiftedExp> parts;  ///< of scores
  std::optional<Tensor> weight;  ///< [C, 1, ...]: broadcasts along the classes
  DType dtype = DType::f32;
  int dim = 1;
  std::int64_t count = 0;
};

Classes check_classes(const Operand& input, const Operand& target, const ClassLossOptions& options) {
  std::vector<Shown> shown{{"input", input}, {"target", target}};
  if (options.weight) shown.emplace_back("weight", *options.weight);
  for (const Shown& operand : shown) {
    if (operand.tensor == nullptr) {
      fail<ValueError>(fmt::format("{} must be a tensor", operand.label), shown, "make the scalar a tensor");
    }
  }
  check_same_device(shown);
  check_float(shown[0]);
  Classes result;
  result.dtype = input.tensor().dtype();
  if (input.tensor().rank() == 0) fail<ShapeError>("input must be [N, C, ...] or [C]", shown);
  result.dim = input.tensor().rank() == 1 ? 0 : 1;
  result.count = input.tensor().shape()[result.dim];
  result.x = cast(input.tensor(), wide(result.dtype));
  if (options.weight) {
    const Tensor weight = parameter("weight", *options.weight, input.tensor(), {result.count}, result.x.dtype());
    Shape shape = Shape::filled(input.tensor().rank() - result.dim, 1);
    shape[0] = result.count;
    result.weight = weight.reshape(shape);
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    fail<ValueError>(fmt::format("label_smoothing {} is not between 0 and 1", options.label_smoothing), shown);
  }
  return result;
}

Tensor sum_over(const Tensor& x, int dim) {
  const std::uint32_t mask = 1u << dim;
  return drop_dims(reduce(ReduceOp::sum, x, mask), mask, false);
}

Tensor total_of(const Tensor& x) {
  return reduced(x, Reduction::sum);
}

// The log-probabilities at `index`.
Tensor at_index(const Classes& classes, const Tensor& index) {
  const Tensor x = gather(classes.x, classes.dim, index);
  return classes.parts ? x - classes.parts->shift - log(classes.parts->total) : x;
}

// The loss of classes by their indices.
Tensor by_index(const Classes& classes, const Operand& target, const ClassLossOptions& options) {
  const Tensor& given = target.tensor();
  const std::vector<Shown> shown{{"input", classes.x}, {"target", given}};
  if (given.dtype() != DType::i64 && given.dtype() != DType::i32) {
    fail<DTypeError>("target must hold classes as i64 or i32", shown, "cast it with .to(DType::i64)");
  }
  Shape expected = classes.x.shape();
  expected.erase(classes.dim);
  if (given.shape() != expected) {
    fail<ShapeError>(fmt::format("target must have shape {}", expected.to_string()), shown);
  }
  const Tensor index = given.unsqueeze(classes.dim);
  // The comparison takes the scalar in the target's type: a class that i32 cannot hold is in no such target.
  const bool representable =
      given.dtype() == DType::i64 || options.ignore_index == static_cast<std::int32_t>(options.ignore_index);
  const std::int64_t ignored = representable ? options.ignore_index : -100;
  const Tensor counts = ne(index, ignored);
  const Tensor safe = where(counts, index, 0);
  Tensor losses = neg(at_index(classes, safe));
  Tensor weights;
  if (classes.weight) {
    Shape like = classes.x.shape();
    weights = gather(classes.weight->expand(like), classes.dim, safe);
    losses = losses * weights;
  }
  losses = where(counts, losses, 0);
  weights = classes.weight ? where(counts, weights, 0) : cast(counts, classes.x.dtype());
  const double smoothing = options.label_smoothing;
  if (smoothing > 0) {
    Tensor all = neg(classes.weight ? classes.x * *classes.weight : classes.x);
    const std::uint32_t mask = 1u << classes.dim;
    all = where(counts, reduce(ReduceOp::sum, all, mask), 0);
    if (options.reduction == Reduction::mean) {
      const Tensor weight = total_of(weights);
      const Tensor exact = total_of(losses) / weight;
      const Tensor uniform = total_of(all) / weight;
      return exact * (1 - smoothing) + uniform * (smoothing / static_cast<double>(classes.count));
    }
    losses = losses * (1 - smoothing) + all * (smoothing / static_cast<double>(classes.count));
  }
  if (options.reduction == Reduction::none) return losses.squeeze(classes.dim);
  const Tensor total = total_of(losses);
  return options.reduction == Reduction::sum ? total : total / total_of(weights);
}

}  // namespace

Tensor nll_loss(const Operand& input, const Operand& target, const ClassLossOptions& options) {
  const CallScope call("nll_loss", input);
  if (is_autocasting()) return with_autocast(DType::f32, nll_loss, input, target, options);
  const Classes classes = check_classes(input, target, options);
  if (options.label_smoothing != 0) {
    fail<ValueError>("has no label smoothing", {{"input", input}}, "use cross_entropy");
  }
  return cast(by_index(classes, target.tensor(), options), classes.dtype);
}

Tensor cross_entropy(const Operand& input, const Operand& target, const ClassLossOptions& options) {
  const CallScope call("cross_entropy", input);
  if (is_autocasting()) return with_autocast(DType::f32, cross_entropy, input, target, options);
  const RecordsToTheEnd to_the_end;  // so that no flush stores what is widened here
  Classes classes = check_classes(input, target, options);
  const bool by_classes = !is_float(target.tensor().dtype());
  if (by_classes && options.label_smoothing == 0 && classes.x.numel() > 0) {
    // Those of the right classes alone: no log-probabilities are stored.
    classes.parts = shifted_exp(classes.x, 1u << classes.dim);
  } else {
    classes.x = log_softmax(classes.x, classes.dim);
  }
  if (by_classes) {
    return cast(by_index(classes, target.tensor(), options), classes.dtype);
  }
  const std::vector<Shown> shown{{"input", input}, {"target", target}};
  check_same_dtype(shown);
  if (target.tensor().shape() != input.tensor().shape()) {
    fail<ShapeError>("a target of probabilities must have input's shape", shown,
                     "classes by their index are i64 tensors");
  }
  Tensor t = cast(target.tensor(), classes.x.dtype());
  const double smoothing = options.label_smoothing;
  if (smoothing > 0) t = t * (1 - smoothing) + smoothing / static_cast<double>(classes.count);
  Tensor terms = classes.x * t;
  if (classes.weight) terms = terms * *classes.weight;
  Tensor losses = neg(sum_over(terms, classes.dim));
  return cast(reduced(losses, options.reduction), classes.dtype);
}

}  // namespace v0
}  // namespace lockstep
