// Indexing by several tensors at once (NumPy's advanced indexing), and by masks. Masks become positions at the call.
#include <algorithm>

#include <fmt/format.h>

#include "graph/ops/indexing.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Positions where `mask` holds, in row-major order, one vector of coordinates per dimension.
std::vector<Tensor> places_of(const Tensor& mask) {
  const std::vector<std::uint8_t> held = [&] {
    const Tensor flags = cast(cast(mask, DType::boolean), DType::u8);
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(flags.numel()));
    flags.read_bytes(bytes.data());
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
    result.push_back(Tensor::from<std::int64_t>(axis, {static_cast<std::int64_t>(axis.size())}, mask.device()));
  }
  return result;
}

// Row-major positions over all dimensions where `mask` holds.
Tensor flat_places_of(const Tensor& mask) {
  return places_of(mask.reshape({-1}))[0];
}

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
Tensor checked_index(const Tensor& input, const Tensor& index, std::int64_t size) {
  const Tensor wide_index = cast(index, DType::i64);
  const auto count = static_cast<double>(size);
  const Tensor from_end = where(bitwise_and(wide_index < 0, wide_index >= -count), wide_index + count, wide_index);
  const Tensor line = arange(0, count, 1, {.dtype = DType::i64, .device = index.device()});
  const Tensor flat = from_end.reshape({-1});
  return graph::gather(line, 0, flat, GivenIndex{"input", input, index}).reshape(index.shape());
}

Selection select(const Operand& a, const std::vector<std::optional<Tensor>>& given) {
  Selection result;
  result.input = tensor_of(a);
  // One index per dimension: masks stand for as many as they have.
  std::vector<std::optional<Tensor>> indices;
  for (const std::optional<Tensor>& one : given) {
    if (!one) {
      indices.push_back(one);
      continue;
    }
    check_same_device({{"input", result.input}, {"index", *one}});
    if (one->dtype() != DType::boolean) {
      check_index(result.input, *one);
      indices.push_back(one);
      continue;
    }
    const int first = static_cast<int>(indices.size());
    bool fits = first + one->rank() <= result.input.rank() && one->rank() > 0;
    for (int d = 0; fits && d < one->rank(); ++d) fits = one->shape()[d] == result.input.shape()[first + d];
    if (!fits) {
      fail<IndexError>("the mask does not have the sizes of the dimensions it selects from",
                       {{"input", result.input}, {"mask", *one}});
    }
    for (Tensor& axis : places_of(*one)) indices.emplace_back(std::move(axis));
  }
  if (static_cast<int>(indices.size()) > result.input.rank()) {
    fail<IndexError>(fmt::format("{} indices for {} dimensions", indices.size(), result.input.rank()),
                     {{"input", result.input}});
  }
  std::vector<Shown> shown;
  std::vector<int> dims;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    if (!indices[i]) continue;
    dims.push_back(static_cast<int>(i));
    shown.emplace_back(fmt::format("indices[{}]", i), *indices[i]);
  }
  if (dims.empty()) fail<ValueError>("no index is given", {{"input", result.input}}, "give at least one tensor");
  result.selected = broadcast_shape(shown);
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
    Tensor index = checked_index(result.input, *indices[static_cast<std::size_t>(d)], size).expand(result.selected);
    result.positions = result.places == 1 && !result.positions.defined()
                           ? index
                           : result.positions * static_cast<double>(size) + index;
    result.places *= size;
  }
  result.positions = result.positions.reshape({-1});
  return result;
}

Shape with_front(std::int64_t front, const Shape& rest) {
  Shape shape = rest;
  shape.insert(0, front);
  return shape;
}

// The positions for every element of the selected slices, [selected, rest...].
Tensor spread_positions(const Selection& selection) {
  const std::int64_t count = selection.positions.numel();
  Shape column = Shape::filled(selection.rest.rank() + 1, 1);
  column[0] = count;
  return selection.positions.reshape(column).expand(with_front(count, selection.rest));
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
  const CallScope call("index", a);
  const Selection selection = select(a, indices);
  const Tensor source =
      selection.input.permute(Dims(selection.order)).reshape(with_front(selection.places, selection.rest));
  Shape shape = selection.selected;
  for (const std::int64_t size : selection.rest) shape.push_back(size);
  check_shape(shape, source.dtype());
  return graph::gather(source, 0, spread_positions(selection)).reshape(shape).permute(Dims(result_order(selection)));
}

Tensor index_put(const Operand& a, const std::vector<std::optional<Tensor>>& indices, const Operand& values,
                 bool accumulate) {
  const CallScope call("index_put", a);
  const Selection selection = select(a, indices);
  Shape shape = selection.selected;
  for (const std::int64_t size : selection.rest) shape.push_back(size);
  check_shape(shape, selection.input.dtype());
  const Shape order = result_order(selection);
  Shape wanted = shape;
  for (int d = 0; d < shape.rank(); ++d) wanted[d] = shape[static_cast<int>(order[d])];
  Tensor given;
  if (values.is_scalar()) {
    given = full(wanted, values.scalar(), {.dtype = selection.input.dtype(), .device = selection.input.device()});
  } else {
    check_same_device({{"input", selection.input}, {"values", values}});
    check_same_dtype({{"input", selection.input}, {"values", values}});
    given = values.tensor().expand(wanted);
  }
  const Shape flat = with_front(selection.places, selection.rest);
  const Tensor moved = selection.input.permute(Dims(selection.order));
  const Tensor sources =
      given.permute(Dims(inverse(order))).reshape(with_front(selection.positions.numel(), selection.rest));
  return graph::scatter(accumulate ? ScatterOp::add : ScatterOp::set, moved.reshape(flat), 0,
                        spread_positions(selection), sources, true)
      .reshape(moved.shape())
      .permute(Dims(inverse(selection.order)));
}

Tensor nonzero(const Operand& a) {
  const CallScope call("nonzero", a);
  const Tensor& input = tensor_of(a);
  const TensorOptions options{.dtype = DType::i64, .device = input.device()};
  if (input.rank() == 0) return zeros({input.to(DType::boolean).item<bool>() ? 1 : 0, 0}, options);
  return stack(places_of(input), 1);
}

Tensor masked_select(const Operand& a, const Tensor& mask) {
  const CallScope call("masked_select", a);
  const Tensor& input = tensor_of(a);
  const std::vector<Shown> shown{{"input", input}, {"mask", mask}};
  check_same_device(shown);
  if (mask.dtype() != DType::boolean) {
    fail<DTypeError>("the mask must be a bool tensor", shown, "compare something, e.g. x > 0");
  }
  const Shape shape = broadcast_shape(shown);
  const Tensor places = flat_places_of(mask.expand(shape));
  return graph::gather(input.expand(shape).reshape({-1}), 0, places);
}

Tensor masked_scatter(const Operand& a, const Tensor& mask, const Tensor& source) {
  const CallScope call("masked_scatter", a);
  const Tensor& input = tensor_of(a);
  const std::vector<Shown> shown{{"input", input}, {"mask", mask}, {"source", source}};
  check_same_device(shown);
  check_same_dtype({{"input", input}, {"source", source}});
  if (mask.dtype() != DType::boolean) {
    fail<DTypeError>("the mask must be a bool tensor", shown, "compare something, e.g. x > 0");
  }
  const Shape shape = broadcast_shape({{"input", input}, {"mask", mask}});
  const Tensor places = flat_places_of(mask.expand(shape));
  if (places.numel() > source.numel()) {
    fail<ShapeError>(
        fmt::format("the mask holds at {} places, the source has {} elements", places.numel(), source.numel()), shown);
  }
  const Tensor values = source.reshape({-1}).narrow(0, 0, places.numel());
  return graph::scatter(ScatterOp::set, input.expand(shape).reshape({-1}), 0, places, values, true).reshape(shape);
}

}  // namespace v0
}  // namespace lockstep
