// CheckFinite: computes each value of floats as it is recorded, and says where a NaN or an infinity comes from.
#include <bit>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/autograd.h>
#include <lockstep/check_finite.h>
#include <lockstep/ops.h>

#include "core/call.h"
#include "graph/check.h"
#include "graph/module_watch.h"
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

// "operand 0 in [-2, 4]"; of values that are not finite, those that are.
std::string range_of(std::size_t position, const Tensor& given) {
  if (is_storage_only(given.dtype()) || given.dtype() == DType::boolean || given.numel() == 0) return {};
  const Tensor values = (is_float(given.dtype()) ? dequantize(given) : given)
                            .to(is_float(given.dtype()) ? DType::f32 : DType::i64)
                            .flatten();
  const auto shown = [&](const Tensor& value) {
    return value.dtype() == DType::f32 ? fmt::format("{:.6g}", value.item<float>())
                                       : fmt::format("{}", value.item<std::int64_t>());
  };
  return fmt::format("operand {} in [{}, {}]", position, shown(amin(values, {0})), shown(amax(values, {0})));
}

bool has_infinite_scalar(const Node& node) {
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i] != nullptr) continue;
    const std::uint64_t bits = parameter_of(node.op, static_cast<int>(i)).bits;
    const bool finite = node.dtype == DType::f64
                            ? std::isfinite(std::bit_cast<double>(bits))
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
  std::vector<std::string> ranges;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Contents contents = contents_of(operands[i]);
    given.nan = given.nan || contents.nan;
    given.infinity = given.infinity || contents.infinity;
    shown.emplace_back(fmt::format("operand {}", i), operands[i]);
    if (std::string range = range_of(i, operands[i]); !range.empty()) ranges.push_back(std::move(range));
  }
  const bool makes_nan = found.nan && !given.nan;
  const bool makes_infinity = found.infinity && !given.infinity && !given.nan && !infinite_scalar;
  if (!makes_nan && !makes_infinity) return;
  // Of a composition, or of a gradient, the step.
  const std::string step = name_of(node->op);
  const bool is_step = node->name != step || call_now().gradient;
  const std::string& module = module_now();
  fail<ValueError>(
      fmt::format("{}the result holds {}, the operands hold none{}{}{}", is_step ? "in its " + step + " " : "",
                  makes_nan ? "NaN" : "an infinity", module.empty() ? "" : ", in module " + module,
                  ranges.empty() ? "" : ": ", fmt::join(ranges, ", ")),
      shown, "look at the operands' values here");
}

}  // namespace
}  // namespace graph

CheckFinite::CheckFinite() : before_(graph::set_node_watch(graph::check_finite) != nullptr) {
  graph::ask_for_modules(true);
}
CheckFinite::~CheckFinite() {
  graph::ask_for_modules(false);
  graph::set_node_watch(before_ ? graph::check_finite : nullptr);
}

}  // namespace v0
}  // namespace lockstep
