// CheckFinite: computes each value of floats as it is recorded, and says where a NaN or an infinity comes from.
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check_finite.h>
#include <lockstep/ops.h>

#include "core/call.h"
#include "graph/check.h"
#include "graph/record.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

struct Contents {
  bool nan = false;
  bool infinity = false;
};

Contents contents_of(const Tensor& given) {
  if (!is_float(given.dtype())) return {};
  const Tensor tensor = dequantize(given);
  return {.nan = any(isnan(tensor)).item<bool>(), .infinity = any(isinf(tensor)).item<bool>()};
}

bool has_infinite_scalar(const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != nullptr) continue;
    const std::uint64_t bits = parameter_of(node.op, static_cast<int>(i)).bits;
    const bool finite = node.dtype == DType::f64 ? std::isfinite(std::bit_cast<double>(bits))
                                                 : std::isfinite(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    if (!finite) return true;
  }
  return false;
}

// Throws ValueError if a NaN or an infinity comes from this node.
void check_finite(const NodeRef& node) {
  if (node->inputs.empty() || node->shape.numel() == 0) return;
  struct Unwatched {
    NodeWatch before = set_node_watch(nullptr);
    ~Unwatched() { set_node_watch(before); }
  } const unwatched;
  const NoGrad no_grad;
  // Computing drops the inputs of the node: they are held here.
  std::vector<Tensor> operands;
  for (const NodeRef& input : node->inputs) {
    if (input != nullptr) operands.push_back(Access::tensor(input));
  }
  const bool infinite_scalar = has_infinite_scalar(*node);
  const Tensor result = Access::tensor(node);
  const Contents found = contents_of(result);
  if (!found.nan && !found.infinity) return;
  Contents given;
  std::vector<Shown> shown;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Contents contents = contents_of(operands[i]);
    given.nan = given.nan || contents.nan;
    given.infinity = given.infinity || contents.infinity;
    shown.emplace_back(fmt::format("operand {}", i), operands[i]);
  }
  const bool makes_nan = found.nan && !given.nan;
  const bool makes_infinity = found.infinity && !given.infinity && !given.nan && !infinite_scalar;
  if (!makes_nan && !makes_infinity) return;
  // Of a composition, or of a gradient, the step.
  const std::string step = name_of(node->op);
  const bool is_step = node->name != step || call_now().gradient;
  fail<ValueError>(fmt::format("{}the result holds {}, the operands hold none", is_step ? "in its " + step + " " : "",
                               makes_nan ? "NaN" : "an infinity"),
                   shown, "look at the operands' values here");
}

}  // namespace
}  // namespace graph

CheckFinite::CheckFinite() : before_(graph::set_node_watch(graph::check_finite) != nullptr) {}
CheckFinite::~CheckFinite() { graph::set_node_watch(before_ ? graph::check_finite : nullptr); }

}  // namespace v0
}  // namespace lockstep
