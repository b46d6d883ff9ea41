// Losses over classes.
#include <lockstep/ops.h>

#include <limits>

#include "io/onnx/operators.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

Tensor class_loss(const Call& call, const Tensor& log_probabilities) {
  ClassLossOptions options{.ignore_index = call.integer("ignore_index", std::numeric_limits<std::int64_t>::min())};
  if (call.has(2)) options.weight = call.input(2);
  const std::string_view reduction = call.text("reduction", "mean");
  call.require(reduction == "mean" || reduction == "sum" || reduction == "none", "the reduction is unknown");
  options.reduction = reduction == "mean" ? Reduction::mean : reduction == "sum" ? Reduction::sum : Reduction::none;
  return nll_loss(log_probabilities, call.input(1), options);
}

std::vector<Tensor> negative_log_likelihood(const Call& call) {
  return {class_loss(call, call.input(0))};
}
std::vector<Tensor> softmax_cross_entropy(const Call& call) {
  const Tensor log_probabilities = log_softmax(call.input(0), 1);
  return {class_loss(call, log_probabilities), log_probabilities};
}

constexpr Operator kLossOperators[] = {
    {.name = "NegativeLogLikelihoodLoss", .since = 12, .run = negative_log_likelihood},
    {.name = "SoftmaxCrossEntropyLoss", .since = 12, .run = softmax_cross_entropy},
};

}  // namespace

std::span<const Operator> loss_operators() {
  return kLossOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
