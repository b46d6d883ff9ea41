// Losses over classes: nll_loss and cross_entropy. The scores of the right classes are gathered, never one-hot
// products.
#include <fmt/format.h>

#include "graph/ops/loss.h"
#include "graph/ops/normalization.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// Scores or log-probabilities with their classes as dimension 1 (0 for a single sample).
struct Classes {
  Tensor x;                      ///< in the working dtype
  std::optional<Tensor> weight;  ///< [C, 1, ...]: broadcasts along the classes
  DType dtype = DType::f32;
  int dim = 1;
  std::int64_t count = 0;
};

Classes check_classes(const char* op, const Operand& input, const Operand& target, const ClassLossOptions& options) {
  const CallSite site = input.site();
  std::vector<Shown> shown{{"input", input}, {"target", target}};
  if (options.weight) shown.emplace_back("weight", *options.weight);
  for (const Shown& operand : shown) {
    if (operand.tensor == nullptr) {
      fail<ValueError>(op, fmt::format("{} must be a tensor", operand.label), shown, "make the scalar a tensor", site);
    }
  }
  check_same_device(op, shown, site);
  check_float(op, shown[0], site);
  Classes result;
  result.dtype = input.tensor().dtype();
  if (input.tensor().rank() == 0) fail<ShapeError>(op, "input must be [N, C, ...] or [C]", shown, "", site);
  result.dim = input.tensor().rank() == 1 ? 0 : 1;
  result.count = input.tensor().shape()[result.dim];
  result.x = cast(input.tensor(), wide(result.dtype), site);
  if (options.weight) {
    const Tensor weight =
        parameter(op, "weight", *options.weight, input.tensor(), {result.count}, result.x.dtype(), site);
    Shape shape = Shape::filled(input.tensor().rank() - result.dim, 1);
    shape[0] = result.count;
    result.weight = weight.reshape(shape, site);
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    fail<ValueError>(op, fmt::format("label_smoothing {} is not between 0 and 1", options.label_smoothing), shown, "",
                     site);
  }
  return result;
}

Tensor sum_over(const Tensor& x, int dim, CallSite site) {
  const std::uint32_t mask = 1u << dim;
  return drop_dims(reduce(ReduceOp::sum, x, mask, site), mask, false, site);
}

Tensor total_of(const Tensor& x, CallSite site) {
  return reduced(x, Reduction::sum, site);
}

// The loss of classes by their indices, from log-probabilities.
Tensor by_index(const char* op, const Classes& classes, const Operand& target, const ClassLossOptions& options) {
  const CallSite site = target.site();
  const Tensor& given = target.tensor();
  const std::vector<Shown> shown{{"input", classes.x}, {"target", given}};
  if (given.dtype() != DType::i64 && given.dtype() != DType::i32) {
    fail<DTypeError>(op, "target must hold classes as i64 or i32", shown, "cast it with .to(DType::i64)", site);
  }
  Shape expected = classes.x.shape();
  expected.erase(classes.dim);
  if (given.shape() != expected) {
    fail<ShapeError>(op, fmt::format("target must have shape {}", expected.to_string()), shown, "", site);
  }
  const Tensor index = given.unsqueeze(classes.dim, site);
  // The comparison takes the scalar in the target's type: a class that i32 cannot hold is in no such target.
  const bool representable =
      given.dtype() == DType::i64 || options.ignore_index == static_cast<std::int32_t>(options.ignore_index);
  const std::int64_t ignored = representable ? options.ignore_index : -100;
  const Tensor counts = ne(index, ignored);
  const Tensor safe = where(counts, index, 0);
  Tensor losses = neg(gather(classes.x, classes.dim, safe, site, op));
  Tensor weights;
  if (classes.weight) {
    Shape like = classes.x.shape();
    weights = gather(classes.weight->expand(like, site), classes.dim, safe, site, op);
    losses = losses * weights;
  }
  losses = where(counts, losses, 0);
  weights = classes.weight ? where(counts, weights, 0) : cast(counts, classes.x.dtype(), site);
  const double smoothing = options.label_smoothing;
  if (smoothing > 0) {
    Tensor all = neg(classes.weight ? classes.x * *classes.weight : classes.x);
    const std::uint32_t mask = 1u << classes.dim;
    all = where(counts, reduce(ReduceOp::sum, all, mask, site), 0);
    if (options.reduction == Reduction::mean) {
      const Tensor weight = total_of(weights, site);
      const Tensor exact = total_of(losses, site) / weight;
      const Tensor uniform = total_of(all, site) / weight;
      return exact * (1 - smoothing) + uniform * (smoothing / static_cast<double>(classes.count));
    }
    losses = losses * (1 - smoothing) + all * (smoothing / static_cast<double>(classes.count));
  }
  if (options.reduction == Reduction::none) return losses.squeeze(classes.dim, site);
  const Tensor total = total_of(losses, site);
  return options.reduction == Reduction::sum ? total : total / total_of(weights, site);
}

}  // namespace

Tensor nll_loss(const Operand& input, const Operand& target, const ClassLossOptions& options) {
  const Classes classes = check_classes("nll_loss", input, target, options);
  if (options.label_smoothing != 0) {
    fail<ValueError>("nll_loss", "has no label smoothing", {{"input", input}}, "use cross_entropy", input.site());
  }
  return cast(by_index("nll_loss", classes, Operand(target.tensor(), input.site()), options), classes.dtype,
              input.site());
}

Tensor cross_entropy(const Operand& input, const Operand& target, const ClassLossOptions& options) {
  const char* const op = "cross_entropy";
  const CallSite site = input.site();
  Classes classes = check_classes(op, input, target, options);
  classes.x = log_softmax(Operand(classes.x, site), classes.dim);
  if (!is_float(target.tensor().dtype())) {
    return cast(by_index(op, classes, Operand(target.tensor(), site), options), classes.dtype, site);
  }
  const std::vector<Shown> shown{{"input", input}, {"target", target}};
  check_same_dtype(op, shown, site);
  if (target.tensor().shape() != input.tensor().shape()) {
    fail<ShapeError>(op, "a target of probabilities must have input's shape", shown,
                     "classes by their index are i64 tensors", site);
  }
  Tensor t = cast(target.tensor(), classes.x.dtype(), site);
  const double smoothing = options.label_smoothing;
  if (smoothing > 0) t = t * (1 - smoothing) + smoothing / static_cast<double>(classes.count);
  Tensor terms = classes.x * t;
  if (classes.weight) terms = terms * *classes.weight;
  Tensor losses = neg(sum_over(terms, classes.dim, site));
  return cast(reduced(losses, options.reduction, site), classes.dtype, site);
}

}  // namespace v0
}  // namespace lockstep
