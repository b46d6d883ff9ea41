#include "graph/node.h"

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/backend.h"
#include "core/call.h"
#include "core/pool.h"
#include "graph/check.h"
#include "graph/finite.h"
#include "graph/fusion.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Values made of nothing but sources are not forced by a flush (initial weights that a checkpoint replaces are never
// computed); but a chain of them must not grow without bound.
constexpr int kMaxSourceDepth = 64;

std::atomic<std::uint64_t> next_id{0};

// Whether it is more than a move of elements, which is all that storage-only types allow. The op rules refuse most of
// what is with more to say; nothing gets past here.
bool computes(const Primitive& op) {
  if (const auto* elementwise = std::get_if<Elementwise>(&op)) return info_of(elementwise->op).kind != OpKind::move;
  if (const auto* scatter = std::get_if<Scatter>(&op)) return scatter->op != ScatterOp::set;
  return std::holds_alternative<Reduce>(op) || std::holds_alternative<Contract>(op) ||
         std::holds_alternative<Scan>(op) || std::holds_alternative<Sort>(op) || std::holds_alternative<Cast>(op);
}

void check_storage_only(const Primitive& op, const Inputs& inputs, DType dtype) {
  const auto check = [&](DType type) {
    if (is_storage_only(type) && computes(op)) check_computes(type, {});
  };
  check(dtype);
  for (const NodeRef& input : inputs) {
    if (input != nullptr) check(input->dtype);
  }
}

}  // namespace

// Releasing a long chain recursively would overflow the stack: the destructor at the greatest depth allowed releases
// all that is left.
Node::~Node() {
  constexpr int kMostDepth = 64;
  static thread_local int level = 0;
  static thread_local std::vector<NodeRef>* releasing = nullptr;
  if (level < kMostDepth) {
    ++level;
    inputs.clear();
    --level;
  } else if (releasing != nullptr) {
    for (NodeRef& input : inputs) releasing->push_back(std::move(input));
  } else {
    std::vector<NodeRef> pending;
    for (NodeRef& input : inputs) pending.push_back(std::move(input));
    releasing = &pending;
    while (!pending.empty()) {
      const NodeRef last = std::move(pending.back());
      pending.pop_back();
    }
    releasing = nullptr;
  }
}

Tensor Access::tensor(NodeRef node) {
  const Device device = node->device;
  Tensor tensor;
  tensor.handle_ = make_pooled<Handle>(std::move(node));
  flush_if_full(device);
  return tensor;
}

NodeRef make_node(Primitive op, Inputs inputs, const Shape& shape, DType dtype, Device device) {
  check_storage_only(op, inputs, dtype);
  if (dtype == DType::f64 && !is_host(device) && !backend_of(device).holds(dtype)) {
    fail<DTypeError>(fmt::format("{} cannot hold f64: it has no doubles, or inexact ones", device.to_string()), {},
                     "use f32, or another device; the CPU holds f64");
  }
  auto node = make_pooled<Node>();
  node->op = std::move(op);
  node->inputs = std::move(inputs);
  node->shape = shape;
  node->dtype = dtype;
  node->device = device;
  const Call& call = call_now();
  node->where = call.site;
  node->name = call.op;
  node->id = next_id.fetch_add(1, std::memory_order_relaxed);
  bool from_sources = is_source(node->op) || !node->inputs.empty();
  for (const NodeRef& input : node->inputs) {
    // Views are never computed themselves: what counts is whether the value behind them is.
    const bool is_view = input != nullptr && std::holds_alternative<ViewOf>(input->op);
    const Node* const value = is_view ? input->inputs[0].get() : input.get();
    if (value == nullptr || value->ready.load(std::memory_order_acquire)) {
      from_sources = from_sources && value == nullptr;
      continue;
    }
    node->depth = std::max(node->depth, value->depth + 1);
    from_sources = from_sources && input->source;
  }
  const bool chains = !std::holds_alternative<Reduce>(node->op) && !std::holds_alternative<Contract>(node->op) &&
                      !std::holds_alternative<Gather>(node->op) && !is_irregular(node->op);
  node->source = from_sources && chains && node->depth < kMaxSourceDepth;
  const bool is_work = !std::holds_alternative<Data>(node->op) && !std::holds_alternative<ViewOf>(node->op);
  if (is_work && !node->source) enter_window(node);
  if (is_work && is_float(dtype)) check_finite(node);
  return node;
}

bool is_irregular(const Primitive& op) {
  return std::holds_alternative<Scatter>(op) || std::holds_alternative<Scan>(op) || std::holds_alternative<Sort>(op) ||
         std::holds_alternative<Update>(op);
}

Reading reading_of(const NodeRef& node) {
  if (const auto* view = std::get_if<ViewOf>(&node->op)) return {node->inputs[0], view->view};
  return {node, View::contiguous(node->shape)};
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
