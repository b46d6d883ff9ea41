// Operators that choose elements by computed places. Indices may be negative; what stands outside is found on the
// device and reported when a result is read.
#include <lockstep/ops.h>

#include <numeric>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

std::vector<Tensor> gather_of(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  const Shape& places = call.shape(1);
  if (call.value(1).host() != nullptr && places.rank() == 0) {
    const std::int64_t index = call.host_integer(1);
    return {x.select(axis, index < 0 ? index + x.shape()[axis] : index)};
  }
  const Tensor indices = plain_indices(call.input(1), x.shape()[axis]);
  Shape shape = x.shape().slice(0, axis);
  for (const std::int64_t size : places) shape.push_back(size);
  for (int d = axis + 1; d < x.rank(); ++d) shape.push_back(x.shape()[d]);
  return {index_select(x, axis, indices.reshape({-1})).reshape(shape)};
}

std::vector<Tensor> gather_elements(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  return {gather(x, axis, plain_indices(call.input(1), x.shape()[axis]))};
}

// The numbers of the elements (or slices) that tuples of indices name, in a tensor of these leading sizes.
Tensor linear_places(const Call& call, const Tensor& indices, const Shape& sizes, int first) {
  const auto count = static_cast<int>(indices.shape().back());
  call.require(first + count <= sizes.rank(), "the tuples of indices are longer than the rank");
  Tensor places =
      zeros(indices.shape().slice(0, indices.rank() - 1), {.dtype = DType::i64, .device = indices.device()});
  for (int k = 0; k < count; ++k) {
    const std::int64_t size = sizes[first + k];
    // An index outside of its dimension must not become one of the next: it is moved outside of the whole.
    const Tensor index = plain_indices(indices.select(-1, k), size);
    const Tensor inside = logical_and(ge(index, 0), lt(index, static_cast<double>(size)));
    const double outside = -0x1p52;
    places = where(inside, add(mul(places, static_cast<double>(size)), index), full_like(places, outside));
  }
  return places;
}

std::vector<Tensor> gather_nd(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor& indices = call.input(1);
  const std::int64_t batch = call.integer("batch_dims", 0);
  call.require(indices.rank() >= 1 && batch >= 0 && batch < indices.rank() && batch < x.rank(),
               "batch_dims is out of range");
  const int b = static_cast<int>(batch);
  const int k = static_cast<int>(indices.shape().back());
  call.require(b + k <= x.rank(), "the tuples of indices are longer than the rank");
  Tensor places = linear_places(call, indices, x.shape(), b);
  const std::int64_t each = x.shape().slice(b, b + k).numel();
  const std::int64_t batches = x.shape().slice(0, b).numel();
  if (b > 0) {
    const Tensor starts = mul(arange(static_cast<double>(batches), {.dtype = DType::i64, .device = call.device()}),
                              static_cast<double>(each));
    Shape shape = x.shape().slice(0, b);
    while (shape.rank() < places.rank()) shape.push_back(1);
    places = add(places, starts.reshape(shape));
  }
  Shape rows = {batches * each};
  Shape result = indices.shape().slice(0, indices.rank() - 1);
  for (int d = b + k; d < x.rank(); ++d) {
    rows.push_back(x.shape()[d]);
    result.push_back(x.shape()[d]);
  }
  return {index_select(x.reshape(rows), 0, places.reshape({-1})).reshape(result)};
}

Tensor scattered(const Call& call, const Tensor& x, int axis, const Tensor& places, const Tensor& updates) {
  const std::string_view how = call.text("reduction", "none");
  if (how == "none") return scatter(x, axis, places, updates);
  const ReduceMode mode = how == "add"   ? ReduceMode::sum
                          : how == "mul" ? ReduceMode::prod
                          : how == "max" ? ReduceMode::amax
                                         : ReduceMode::amin;
  return scatter_reduce(x, axis, places, updates, mode);
}

std::string check_reduction(const NodeFacts& node) {
  for (const std::string_view known : {"none", "add", "mul", "max", "min"}) {
    if (node.text("reduction", "none") == known) return "";
  }
  return "reduction=" + std::string(node.text("reduction", "none"));
}

std::vector<Tensor> scatter_elements(const Call& call) {
  const Tensor& x = call.input(0);
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  return {scattered(call, x, axis, plain_indices(call.input(1), x.shape()[axis]), call.input(2))};
}

std::vector<Tensor> scatter_nd(const Call& call) {
  const Tensor& x = call.input(0);
  const Tensor& indices = call.input(1);
  call.require(indices.rank() >= 1, "the indices have no dimensions");
  const int k = static_cast<int>(indices.shape().back());
  call.require(k <= x.rank(), "the tuples of indices are longer than the rank");
  const std::int64_t rest = x.shape().slice(k, x.rank()).numel();
  const Tensor flat = x.reshape({x.shape().slice(0, k).numel(), rest});
  const Tensor places = linear_places(call, indices, x.shape(), 0).reshape({-1, 1});
  const Tensor updates = call.input(2).reshape({places.shape()[0], rest});
  return {scattered(call, flat, 0, places.expand({places.shape()[0], rest}), updates).reshape(x.shape())};
}

std::vector<Tensor> one_hot_of(const Call& call) {
  const auto depth = static_cast<std::int64_t>(number_or(call, 1, 0));
  call.require(depth >= 1, "the depth must be positive");
  const Tensor& values = call.input(2);
  call.require(values.rank() == 1 && values.shape()[0] == 2, "the values must be two");
  const Tensor classes = plain_indices(call.input(0), depth);
  const int axis = axis_of(call, call.integer("axis", -1), classes.rank() + 1);
  Shape shape = Shape::filled(classes.rank() + 1, 1);
  shape[axis] = depth;
  const Tensor places =
      arange(static_cast<double>(depth), {.dtype = DType::i64, .device = call.device()}).reshape(shape);
  return {where(eq(classes.unsqueeze(axis), places), values.select(0, 1), values.select(0, 0))};
}

std::vector<Tensor> non_zero(const Call& call) {
  const Tensor& x = call.input(0);
  if (x.rank() == 0) return {nonzero(x.reshape({1})).slice(1, {0, 0}).transpose(0, 1)};
  return {nonzero(x).transpose(0, 1)};
}

std::vector<Tensor> compress(const Call& call) {
  const Tensor x = call.has_attribute("axis") ? call.input(0) : call.input(0).reshape({-1});
  const int axis = axis_of(call, call.integer("axis", 0), x.rank());
  const Tensor chosen = nonzero(call.input(1)).reshape({-1});
  return {index_select(x, axis, chosen)};
}

std::vector<Tensor> where_of(const Call& call) {
  return {where(call.input(0), call.input(1), call.input(2))};
}

// The first sequence_lens[b] elements of each sequence backwards.
std::vector<Tensor> reverse_sequence(const Call& call) {
  const Tensor& x = call.input(0);
  const std::int64_t time = call.integer("time_axis", 0);
  const std::int64_t batch = call.integer("batch_axis", 1);
  call.require(time + batch == 1 && (time == 0 || time == 1) && x.rank() >= 2, "the axes must be 0 and 1");
  const Tensor rows = time == 0 ? x.transpose(0, 1) : x;
  const std::int64_t steps = rows.shape()[1];
  const Tensor lengths = call.input(1).to(DType::i64).reshape({-1, 1});
  const Tensor places =
      arange(static_cast<double>(steps), {.dtype = DType::i64, .device = call.device()}).reshape({1, steps});
  const Tensor from = where(lt(places, lengths), sub(sub(lengths, places), 1), places);
  Shape shape = {rows.shape()[0], steps};
  for (int d = 2; d < rows.rank(); ++d) shape.push_back(1);
  const Tensor reversed = gather(rows, 1, from.reshape(shape).expand(rows.shape()));
  return {time == 0 ? reversed.transpose(0, 1) : reversed};
}

constexpr Operator kIndexingOperators[] = {
    {.name = "Gather", .run = gather_of},
    {.name = "GatherElements", .since = 11, .run = gather_elements},
    {.name = "GatherND", .since = 11, .run = gather_nd},
    {.name = "Scatter", .since = 9, .run = scatter_elements, .check = check_reduction},
    {.name = "ScatterElements", .since = 11, .run = scatter_elements, .check = check_reduction},
    {.name = "ScatterND", .since = 11, .run = scatter_nd, .check = check_reduction},
    {.name = "OneHot", .since = 9, .run = one_hot_of},
    {.name = "NonZero", .since = 9, .run = non_zero},
    {.name = "Compress", .since = 9, .run = compress},
    {.name = "Where", .since = 9, .run = where_of},
    {.name = "ReverseSequence", .since = 10, .run = reverse_sequence},
};

}  // namespace

std::span<const Operator> indexing_operators() {
  return kIndexingOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
