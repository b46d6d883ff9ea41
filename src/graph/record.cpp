#include "graph/record.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/backend.h"
#include "core/call.h"
#include "core/pool.h"
#include "graph/away.h"
#include "graph/capture_watch.h"
#include "graph/check.h"
#include "graph/recording.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Values made of nothing but sources are not forced by a flush (initial weights that a checkpoint replaces are never
// computed); but a chain of them must not grow without bound.
constexpr int kMaxSourceDepth = 64;

std::atomic<std::uint64_t> next_id{0};

thread_local NodeWatch watch = nullptr;

// Whether a value that is made of sources alone counts as one: each of its elements is made of a few of theirs.
bool chains(const Primitive& op) {
  switch (form_of(op)) {
    case Form::source:
    case Form::view:
    case Form::elementwise: return traits_of(op).reads_anywhere == 0;
    case Form::given:
    case Form::rows:
    case Form::contraction:
    case Form::irregular: return false;
  }
  return false;
}

// Kernels decode blocks where a primitive's traits say so, at places that a view selects; fill values have no place.
void check_packed(const Primitive& op, std::size_t position, const NodeRef& input) {
  if (!reads_packed(op, position)) fail_packed(input, "is not read as this operand");
  const auto* view = std::get_if<ViewOf>(&op);
  if (view != nullptr && !view->view.bounds.empty()) fail_packed(input, "has no views with fill values");
}

// Storage-only types allow what moves elements and nothing else, and packed elements few primitives. The op rules
// refuse most with more to say; nothing gets past here.
void check_elements(const Primitive& op, const Inputs& inputs, DType dtype) {
  const auto check = [&](DType type) {
    if (is_storage_only(type) && results_of(op) != Results::moved) check_computes(type, {});
  };
  check(dtype);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    check(inputs[i]->dtype);
    if (inputs[i]->encoding != Encoding::dense) check_packed(op, i, inputs[i]);
  }
}

// Views are never computed themselves: what counts is the value behind them.
const Node* value_behind(const NodeRef& input) {
  const bool is_view = input != nullptr && std::holds_alternative<ViewOf>(input->op);
  return is_view ? input->inputs[0].get() : input.get();
}

// All are there at once when the op is recorded.
void bring_inputs(const Inputs& inputs) {
  bool any = false;
  for (const NodeRef& input : inputs) any = any || (input != nullptr && is_away(*value_behind(input)));
  if (!any) return;
  std::vector<const Node*> values;
  for (const NodeRef& input : inputs) {
    if (input != nullptr) values.push_back(value_behind(input));
  }
  bring(values);
}

}  // namespace

void fail_packed(const NodeRef& node, std::string_view what) {
  const Tensor tensor = Access::from_handle(std::make_shared<Handle>(node));
  fail<DTypeError>(fmt::format("a tensor packed as {} {}", name_of(node->encoding), what), {{"packed", tensor}},
                   "make it dense, dequantize(tensor); only products, on their right, and gathers read packed tensors");
}

NodeRef make_node(Primitive op, Inputs inputs, const Shape& shape, DType dtype, Device device,
                  std::shared_ptr<const IndexStory> story) {
  check_elements(op, inputs, dtype);
  if (dtype == DType::f64 && !is_host(device) && !backend_of(device).holds(dtype)) {
    fail<DTypeError>(fmt::format("{} cannot hold f64: it has no doubles, or inexact ones", device.to_string()), {},
                     "use f32, or another device; the CPU holds f64");
  }
  if (any_away.load(std::memory_order_acquire) && form_of(op) != Form::view) bring_inputs(inputs);
  auto node = make_pooled<Node>();
  node->op = std::move(op);
  node->inputs = std::move(inputs);
  node->shape = shape;
  node->dtype = dtype;
  node->device = device;
  node->story = std::move(story);
  const Call& call = call_now();
  node->where = call.site;
  node->name = call.op;
  node->id = next_id.fetch_add(1, std::memory_order_relaxed);
  const Form form = form_of(node->op);
  if (form == Form::view) node->encoding = node->inputs[0]->encoding;
  bool from_sources = form == Form::source || !node->inputs.empty();
  int depth = 0;
  for (const NodeRef& input : node->inputs) {
    const Node* const value = value_behind(input);
    if (value == nullptr || value->ready.load(std::memory_order_acquire)) {
      from_sources = from_sources && value == nullptr;
      continue;
    }
    depth = std::max(depth, value->depth.load(std::memory_order_relaxed) + 1);
    from_sources = from_sources && input->source;
  }
  node->depth.store(depth, std::memory_order_relaxed);
  node->source = from_sources && chains(node->op) && depth < kMaxSourceDepth;
  const bool is_work = form != Form::given && form != Form::view;
  if (is_work && !node->source) enter_window(node);
  if (is_work && watch != nullptr && is_float(dtype)) watch(node);
  record_node(node);
  capture_node(node);
  return node;
}

Tensor away_tensor(const std::shared_ptr<Keeper>& keeper, const Shape& shape, DType dtype, Device device) {
  NodeRef node = make_node(Data{}, {}, shape, dtype, device);
  keep_away(node, keeper);
  return Access::tensor(std::move(node));
}

bool looks_at_new_nodes() {
  return watch != nullptr;
}

NodeWatch set_node_watch(NodeWatch other) {
  return std::exchange(watch, other);
}

Tensor Access::tensor(NodeRef node) {
  const Device device = node->device;
  Tensor tensor;
  tensor.handle_ = make_pooled<Handle>(std::move(node));
  flush_if_full(device);
  return tensor;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
