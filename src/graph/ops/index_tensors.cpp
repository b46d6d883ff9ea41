// Indexing by several tensors at once (NumPy's advanced indexing), and by masks. Masks become positions at the call.
#include <algorithm>

#include <fmt/format.h>

#include "graph/ops/indexing.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Positions where `mask` holds, in row-major order, one vector of coordinates per dimension.
std::vector<Tensor> places_of(const Tensor& mask, CallSite site) {
  const std::vector<std::uint8_t> held = [&] {
    const Tensor flags = cast(cast(mask, DType::boolean, site), DType::u8, site);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(flags.numel()));
    flags.read_bytes(bytes.data(), site);
    return bytes;
  }();
  std::vector<std::vector<std::int64_t>> coordinates(static_cast<std::size_t>(mask.rank()));
  for (std::size_t i = 0; i < held.size(); ++i) {
    if (held[i] == 0) continue;
    auto rest = static_cast<std::int64_t>(i);
    for (int d = mask.rank() - 1; d >= 0; --d) {
      coordinates[static_cast<std::size_t>(d)].push_back(rest % mask.shape()[d]);
      rest /= mask.shape()[d];
    }
  }
  std::vector<Tensor> result;
  for (const std::vector<std::int64_t>& axis : coordinates) {
    result.push_back(Tensor::from<std::int64_t>(axis, {static_cast<std::int64_t>(axis.size())}, mask.device(), site));
  }
  return result;
}

// Row-major positions over all dimensions where `mask` holds.
Tensor flat_places_of(const Tensor& mask, CallSite site) { return places_of(mask.reshape({-1}, site), site)[0]; }

// The elements that a list of indices means: the input with the indexed dimensions first, flattened to one, and the
// position in that for each selected slice.
struct Selection {
  Tensor input;          ///< [indexed..., rest...]
  Shape order;           ///< of the input's dimensions in `input`
  std::int64_t places = 1;
  Shape rest;            ///< sizes of the dimensions that are taken whole
  Tensor positions;      ///< i64, 1-d
  Shape selected;        ///< the shape the indices broadcast to
  int first = 0;         ///< where `selected` stands in the result's shape
};

// Checked by a gather, so that a bad index is found in its own tensor; negative ones count from the end.
Tensor checked_index(const char* op, const Tensor& index, std::int64_t size, CallSite site) {
  const Tensor wide_index = cast(index, DType::i64, site);
  const auto count = static_cast<double>(size);
  const Tensor from_end = where(bitwise_and(wide_index < 0, wide_index >= -count), wide_index + count, wide_index);
  const Tensor line = arange(0, count, 1, {.dtype = DType::i64, .device = index.device()}, site);
  const Tensor flat = from_end.reshape({-1}, site);
  return graph::gather(line, 0, flat, site, op).reshape(index.shape(), site);
}

Selection select(const char* op, const Operand& a, const std::vector<std::optional<Tensor>>& given, CallSite site) {
  Selection result;
  result.input = tensor_of(op, a);
  // One index per dimension: masks stand for as many as they have.
  std::vector<std::optional<Tensor>> indices;
  for (const std::optional<Tensor>& one : given) {
    if (!one) {
      indices.push_back(one);
      continue;
    }
    check_same_device(op, {{"input", result.input}, {"index", *one}}, site);
    if (one->dtype() != DType::boolean) {
      check_index(op, result.input, *one, site);
      indices.push_back(one);
      continue;
    }
    const int first = static_cast<int>(indices.size());
    bool fits = first + one->rank() <= result.input.rank() && one->rank() > 0;
    for (int d = 0; fits && d < one->rank(); ++d) fits = one->shape()[d] == result.input.shape()[first + d];
    if (!fits) {
      fail<IndexError>(op, "the mask does not have the sizes of the dimensions it selects from",
                       {{"input", result.input}, {"mask", *one}}, "", site);
    }
    for (Tensor& axis : places_of(*one, site)) indices.emplace_back(std::move(axis));
  }
  if (static_cast<int>(indices.size()) > result.input.rank()) {
    fail<IndexError>(op, fmt::format("{} indices for {} dimensions", indices.size(), result.input.rank()),
                     {{"input", result.input}}, "", site);
  }
  std::vector<Shown> shown;
  std::vector<int> dims;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    dims.push_back(static_cast<int>(i));
    shown.emplace_back(fmt::format("indices[{}]", i), *indices[i]);
  }
  if (dims.empty()) fail<ValueError>(op, "no index is given", {{"input", result.input}}, "give at least one tensor", site);
  result.selected = broadcast_shape(op, shown, site);
  const bool adjacent = dims.back() - dims.front() + 1 == static_cast<int>(dims.size());
  result.first = adjacent ? dims.front() : 0;

  for (const int d : dims) result.order.push_back(d);
  for (int d = 0; d < result.input.rank(); ++d) {
    if (std::find(dims.begin(), dims.end(), d) != dims.end()) continue;
    result.order.push_back(d);
    result.rest.push_back(result.input.shape()[d]);
  }
  for (const int d : dims) {
    const std::int64_t size = result.input.shape()[d];
    Tensor index = checked_index(op, *indices[static_cast<std::size_t>(d)], size, site).expand(result.selected, site);
    result.positions = result.places == 1 && !result.positions.defined()
                           ? index
                           : result.positions * static_cast<double>(size) + index;
    result.places *= size;
  }
  result.positions = result.positions.reshape({-1}, site);
  return result;
}

Shape with_front(std::int64_t front, const Shape& rest) {
  Shape shape = rest;
  shape.insert(0, front);
  return shape;
}

// The positions for every element of the selected slices, [selected, rest...].
Tensor spread_positions(const Selection& selection, CallSite site) {
  const std::int64_t count = selection.positions.numel();
  Shape column = Shape::filled(selection.rest.rank() + 1, 1);
  column[0] = count;
  return selection.positions.reshape(column, site).expand(with_front(count, selection.rest), site);
}

// The order that moves the selected dimensions of [selected..., rest...] to where they belong in the result.
Shape result_order(const Selection& selection) {
  const int selected = selection.selected.rank();
  Shape order;
  for (int d = 0; d < selection.first; ++d) order.push_back(selected + d);
  for (int d = 0; d < selected; ++d) order.push_back(d);
  for (int d = selection.first; d < selection.rest.rank(); ++d) order.push_back(selected + d);
  return order;
}

Shape inverse(const Shape& order) {
  Shape result = order;
  for (int d = 0; d < order.rank(); ++d) result[static_cast<int>(order[d])] = d;
  return result;
}

}  // namespace
}  // namespace graph

using namespace graph;

Tensor index(const Operand& a, const std::vector<std::optional<Tensor>>& indices) {
  const CallSite site = a.site();
  const Selection selection = select("index", a, indices, site);
  const Tensor source =
      selection.input.permute(Dims(selection.order), site).reshape(with_front(selection.places, selection.rest), site);
  Shape shape = selection.selected;
  for (const std::int64_t size : selection.rest) shape.push_back(size);
  check_shape("index", shape, source.dtype(), site);
  return graph::gather(source, 0, spread_positions(selection, site), site, "index")
      .reshape(shape, site)
      .permute(Dims(result_order(selection)), site);
}

Tensor index_put(const Operand& a, const std::vector<std::optional<Tensor>>& indices, const Operand& values,
                 bool accumulate) {
  const CallSite site = a.site();
  const Selection selection = select("index_put", a, indices, site);
  Shape shape = selection.selected;
  for (const std::int64_t size : selection.rest) shape.push_back(size);
  check_shape("index_put", shape, selection.input.dtype(), site);
  const Shape order = result_order(selection);
  Shape wanted = shape;
  for (int d = 0; d < shape.rank(); ++d) wanted[d] = shape[static_cast<int>(order[d])];
  Tensor given;
  if (values.is_scalar()) {
    given = full(wanted, values.scalar(), {.dtype = selection.input.dtype(), .device = selection.input.device()}, site);
  } else {
    check_same_device("index_put", {{"input", selection.input}, {"values", values}}, site);
    check_same_dtype("index_put", {{"input", selection.input}, {"values", values}}, site);
    given = values.tensor().expand(wanted, site);
  }
  const Shape flat = with_front(selection.places, selection.rest);
  const Tensor moved = selection.input.permute(Dims(selection.order), site);
  const Tensor sources =
      given.permute(Dims(inverse(order)), site).reshape(with_front(selection.positions.numel(), selection.rest), site);
  return graph::scatter(accumulate ? ScatterOp::add : ScatterOp::set, moved.reshape(flat, site), 0,
                        spread_positions(selection, site), sources, true, site, "index_put")
      .reshape(moved.shape(), site)
      .permute(Dims(inverse(selection.order)), site);
}

Tensor nonzero(const Operand& a) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("nonzero", a);
  const TensorOptions options{.dtype = DType::i64, .device = input.device()};
  if (input.rank() == 0) return zeros({input.to(DType::boolean, site).item<bool>(site) ? 1 : 0, 0}, options, site);
  return stack(places_of(input, site), 1, site);
}

Tensor masked_select(const Operand& a, const Tensor& mask) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("masked_select", a);
  const std::vector<Shown> shown{{"input", input}, {"mask", mask}};
  check_same_device("masked_select", shown, site);
  if (mask.dtype() != DType::boolean) {
    fail<DTypeError>("masked_select", "the mask must be a bool tensor", shown, "compare something, e.g. x > 0", site);
  }
  const Shape shape = broadcast_shape("masked_select", shown, site);
  const Tensor places = flat_places_of(mask.expand(shape, site), site);
  return graph::gather(input.expand(shape, site).reshape({-1}, site), 0, places, site, "masked_select");
}

Tensor masked_scatter(const Operand& a, const Tensor& mask, const Tensor& source) {
  const CallSite site = a.site();
  const Tensor& input = tensor_of("masked_scatter", a);
  const std::vector<Shown> shown{{"input", input}, {"mask", mask}, {"source", source}};
  check_same_device("masked_scatter", shown, site);
  check_same_dtype("masked_scatter", {{"input", input}, {"source", source}}, site);
  if (mask.dtype() != DType::boolean) {
    fail<DTypeError>("masked_scatter", "the mask must be a bool tensor", shown, "compare something, e.g. x > 0", site);
  }
  const Shape shape = broadcast_shape("masked_scatter", {{"input", input}, {"mask", mask}}, site);
  const Tensor places = flat_places_of(mask.expand(shape, site), site);
  if (places.numel() > source.numel()) {
    fail<ShapeError>("masked_scatter", fmt::format("the mask holds at {} places, the source has {} elements",
                                                   places.numel(), source.numel()),
                     shown, "", site);
  }
  const Tensor values = source.reshape({-1}, site).narrow(0, 0, places.numel(), site);
  return graph::scatter(ScatterOp::set, input.expand(shape, site).reshape({-1}, site), 0, places, values, true, site,
                        "masked_scatter")
      .reshape(shape, site);
}

}  // namespace v0
}  // namespace lockstep
