// The primitives whose elements are at computed places or depend on their neighbours. What users call is made of these
// in indexing.cpp, order.cpp and scan.cpp, which check the operands.
#include "core/assert.h"
#include "graph/gradient_rules.h"
#include "graph/make.h"
#include "graph/ops/attention_fused.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

Tensor make(Primitive op, Inputs inputs, const Shape& shape, DType dtype,
            std::shared_ptr<const IndexStory> story = nullptr) {
  const Device device = inputs[0]->device;
  return Access::tensor(make_node(std::move(op), std::move(inputs), shape, dtype, device, std::move(story)));
}

std::shared_ptr<const IndexStory> story_of(const std::optional<GivenIndex>& given) {
  if (!given) return nullptr;
  return std::make_shared<const IndexStory>(
      IndexStory{given->label, Access::handle(given->table), given->index.shape()});
}

bool is_dense(const Reading& reading) {
  return reading.view.offset == 0 && reading.view.is_contiguous() &&
         reading.view.shape.numel() == reading.base->shape.numel();
}

}  // namespace

NodeRef widened_from(const NodeRef& value) {
  if (!std::holds_alternative<Cast>(value->op) || value->dtype != DType::f32) return nullptr;
  const std::unique_lock<std::mutex> lock = hold_pending(value->device);
  if (!lock.owns_lock() || value->ready.load(std::memory_order_acquire)) return nullptr;
  const NodeRef& from = value->inputs[0];
  return size_of(from->dtype) == 2 && is_dense(reading_of(from)) ? reading_of(from).base : nullptr;
}

Tensor gather(const Tensor& source, int dim, const Tensor& index, const std::optional<GivenIndex>& given,
              Failure failure) {
  LOCKSTEP_ASSERT(source.rank() == index.rank() && (index.dtype() == DType::i64 || index.dtype() == DType::i32));
  Reading reading = read(source);
  if (!reading.view.bounds.empty()) reading = read(stored(source));
  View view = reading.view;
  const Gather primitive{.source = {}, .stride = view.strides[dim], .size = view.shape[dim], .failure = failure};
  view.strides[dim] = 0;
  view.shape[dim] = index.shape()[dim];
  LOCKSTEP_ASSERT(view.shape == index.shape());
  Gather op = primitive;
  op.source = std::move(view);
  // What is read is widened, not the table.
  const NodeRef narrow = widened_from(reading.base);
  const NodeRef& table = narrow == nullptr ? reading.base : narrow;
  Tensor result = make(std::move(op), {table, node_of(index)}, index.shape(), table->dtype, story_of(given));
  if (narrow != nullptr) result = make(Cast{}, {node_of(result)}, index.shape(), source.dtype());
  return trace_gather(result, source, dim, index);
}

Tensor scatter(ScatterOp op, const Tensor& self, int dim, const Tensor& index, const Tensor& values, bool include_self,
               const std::optional<GivenIndex>& given) {
  LOCKSTEP_ASSERT(index.shape() == values.shape() && self.rank() == index.rank() && self.dtype() == values.dtype());
  const Tensor result = make(Scatter{op, dim, include_self}, {node_of(self), node_of(index), node_of(values)},
                             self.shape(), self.dtype(), story_of(given));
  return trace_scatter(result, op, self, dim, index, values, include_self);
}

Tensor scan(ScanOp op, const Tensor& a, int dim) {
  if (a.rank() == 0) return scan(op, a.reshape({1}), 0).reshape({});
  const bool positions = op == ScanOp::argmax || op == ScanOp::argmin;
  return trace_scan(make(Scan{op, dim}, {node_of(a)}, a.shape(), positions ? DType::i64 : a.dtype()), op, a, dim);
}

Tensor fourier(FourierKind kind, std::int64_t n, double scale, const Tensor& x, const Tensor& roots) {
  const FourierPlan plan(kind, n);
  LOCKSTEP_ASSERT(x.rank() == (plan.reads_pairs() ? 4 : 3) && x.size(1) == plan.inputs() &&
                  roots.numel() == plan.table);
  Shape shape{x.size(0), plan.outputs(), x.size(2)};
  if (plan.writes_pairs()) shape.push_back(2);
  return make(Fourier{kind, n, {element_bits(scale, x.dtype())}}, {node_of(x), node_of(roots)}, shape, x.dtype());
}

Tensor attend(Numerics numerics, const Tensor& query, const Tensor& key, const Tensor& value,
              std::optional<std::int64_t> behind, double scale) {
  const AttentionSizes sizes = attention_sizes(query.shape(), key.shape(), numerics);
  return make(Attend{.numerics = numerics,
                     .causal = behind.has_value(),
                     .behind = behind.value_or(0),
                     .scale = {element_bits(scale, DType::f32)}},
              {node_of(query), node_of(key), node_of(value)}, {sizes.made()}, query.dtype());
}

Tensor attend_masked(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, double scale) {
  const AttentionSizes sizes = attention_sizes(query.shape(), key.shape(), Numerics::exact);
  LOCKSTEP_ASSERT(sizes.rows == 1 && mask.shape() == Shape({sizes.batches, sizes.heads, sizes.rows, sizes.keys}) &&
                  mask.dtype() == DType::boolean);
  return make(Attend{.numerics = Numerics::exact,
                     .masked = true,
                     .finite_padding = FinitePadding::is_promised(),
                     .scale = {element_bits(scale, DType::f32)}},
              {node_of(query), node_of(key), node_of(value), node_of(mask)}, {sizes.made()}, query.dtype());
}

Tensor attend_gradients(Numerics numerics, const Tensor& query, const Tensor& key, const Tensor& value,
                        const Tensor& made, const Tensor& upstream, std::optional<std::int64_t> behind, double scale) {
  const AttentionSizes sizes = attention_sizes(query.shape(), key.shape(), numerics);
  LOCKSTEP_ASSERT(made.shape() == Shape{sizes.made()} && upstream.shape() == query.shape());
  return make(Attend{.numerics = numerics,
                     .gradients = true,
                     .causal = behind.has_value(),
                     .behind = behind.value_or(0),
                     .scale = {element_bits(scale, DType::f32)}},
              {node_of(query), node_of(key), node_of(value), node_of(made), node_of(upstream)}, {sizes.gradients()},
              query.dtype());
}

Tensor recur(const Recur& recur, std::span<const Tensor> operands) {
  LOCKSTEP_ASSERT(operands.size() == recur.operands() * recur.directions());
  Inputs inputs;
  for (const Tensor& operand : operands) inputs.push_back(node_of(operand));
  const Tensor& shares = operands[0];
  LOCKSTEP_ASSERT(shares.dtype() == DType::f32 && shares.rank() == 3);
  const std::int64_t size = shares.size(2) / gates_of(recur.cell);
  const Shape shape{shares.size(0) + (has_memory(recur.cell) ? 1 : 0), shares.size(1),
                    static_cast<std::int64_t>(recur.directions()) * size};
  return make(recur, std::move(inputs), shape, DType::f32);
}

Tensor sort_indices(const Tensor& a, int dim, bool descending) {
  if (a.rank() == 0) return full({}, 0, {.dtype = DType::i64, .device = a.device()});
  return make(Sort{dim, descending}, {node_of(a)}, a.shape(), DType::i64);
}

Tensor update(const Tensor& self, const View& region, const Tensor& values) {
  LOCKSTEP_ASSERT(region.shape == values.shape() && region.bounds.empty() && self.dtype() == values.dtype());
  const Reading reading = read(self);
  const NodeRef base = is_dense(reading) ? reading.base : node_of(stored(self));
  View near = region;
  near.offset = region.offset % Update::kAligned;
  const Update op{near, {static_cast<std::uint64_t>(region.offset - near.offset)}};
  return trace_update(make(op, {base, node_of(values)}, self.shape(), self.dtype()), self, region, values);
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
