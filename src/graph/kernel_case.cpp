// Kernel cases: taken from a window, run on a device.
#include "graph/kernel_case.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>

#include "graph/record.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Takes values of a window one by one, what they read before themselves.
class CaseTaker {
 public:
  CaseTaker(const Window& window, const std::function<std::optional<Bytes>(int)>& given)
      : window_(window), given_(given), places_(window.nodes.size(), -1) {}

  int take(int entry, bool is_result) {
    int& place = places_[static_cast<std::size_t>(entry)];
    if (place >= 0) return place;
    const Node& node = *window_.nodes[static_cast<std::size_t>(entry)];
    KernelCase::Value value{.op = Data{},
                            .shape = node.shape,
                            .dtype = node.dtype,
                            .encoding = Encoding::dense,
                            .operands = {},
                            .data = {}};
    std::optional<Bytes> bytes = is_result ? std::nullopt : given_(entry);
    if (bytes) {
      value.encoding = node.encoding;
      value.data = std::move(*bytes);
    } else {
      value.op = node.op;
      const std::span<const int> operands = window_.operands(static_cast<std::size_t>(entry));
      for (std::size_t i = 0; i < operands.size(); ++i) {
        KernelCase::Operand operand;
        if (operands[i] >= 0) operand.value = take(operands[i], false);
        const auto* view = operands[i] < 0 ? nullptr : std::get_if<ViewOf>(&node.inputs[i]->op);
        if (view != nullptr) operand.view = view->view;
        value.operands.push_back(std::move(operand));
      }
    }
    work.values.push_back(std::move(value));
    return place = static_cast<int>(work.values.size()) - 1;
  }

  KernelCase work;

 private:
  const Window& window_;
  const std::function<std::optional<Bytes>(int)>& given_;
  std::vector<int> places_;
};

}  // namespace

KernelCase case_of(const Window& window, std::span<const int> results,
                   const std::function<std::optional<Bytes>(int entry)>& given) {
  CaseTaker taker(window, given);
  std::vector<int> order(results.begin(), results.end());
  std::sort(order.begin(), order.end());  // a result may read another one
  for (const int entry : order) taker.take(entry, true);
  for (const int entry : results)
    taker.work.results.push_back({static_cast<std::size_t>(taker.take(entry, true)), {}, {}});
  return std::move(taker.work);
}

std::vector<Bytes> compute_case(const KernelCase& work, Device device) {
  const NoGrad no_grad;
  const CallScope call("replay", CallSite("", 0));
  std::vector<NodeRef> nodes;
  std::vector<Tensor> held;
  for (const KernelCase::Value& value : work.values) {
    if (std::holds_alternative<Data>(value.op)) {
      held.push_back(
          value.encoding == Encoding::dense
              ? Tensor::from_bytes(value.data.data(), value.data.size(), value.shape, value.dtype, device)
              : Tensor::from_blocks(value.data.data(), value.data.size(), value.shape, value.encoding, device));
      nodes.push_back(Access::node(held.back()));
      continue;
    }
    Inputs inputs;
    for (const KernelCase::Operand& operand : value.operands) {
      NodeRef input = operand.value < 0 ? nullptr : nodes[static_cast<std::size_t>(operand.value)];
      if (operand.view) {
        const Shape shape = operand.view->shape;
        const DType dtype = input->dtype;
        input = make_node(ViewOf{*operand.view}, {std::move(input)}, shape, dtype, device);
      }
      inputs.push_back(std::move(input));
    }
    nodes.push_back(make_node(value.op, std::move(inputs), value.shape, value.dtype, device));
  }
  std::vector<Tensor> results;
  for (const KernelCase::Result& result : work.results) results.push_back(Access::tensor(nodes[result.value]));
  nodes.clear();
  std::vector<Bytes> bytes;
  for (const Tensor& result : results) {
    Bytes& own = bytes.emplace_back(static_cast<std::size_t>(result.numel()) * size_of(result.dtype()));
    result.read_bytes(own.data());
  }
  return bytes;
}

std::optional<CaseDifference> compare_results(const KernelCase& work, std::span<const Bytes> expected,
                                              std::span<const Bytes> actual) {
  for (std::size_t i = 0; i < work.results.size(); ++i) {
    const std::optional<ElementDifference> found =
        first_difference(work.values[work.results[i].value].dtype, expected[i], actual[i]);
    if (found) return CaseDifference{.result = i, .element = *found, .refusal = {}};
  }
  return std::nullopt;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
