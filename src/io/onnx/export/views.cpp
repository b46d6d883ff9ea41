// Views and computed places that no recorded call stands for, as Reshape, Slice, Transpose and Expand where those say
// it, else as a Gather from the flat tensor at places that are computed here. Bits are kept either way.
#include <algorithm>
#include <numeric>
#include <optional>

#include <lockstep/ops.h>

#include "io/onnx/export/graph_builder.h"
#include "io/onnx/export/views.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// Places in a table of a Gather: 32 MiB.
constexpr std::int64_t kMostPlaces = std::int64_t{1} << 22;

// One dimension of a view in memory.
struct Run {
  int dim = 0;
  std::int64_t stride = 0;
  std::int64_t size = 0;
  std::int64_t extent = 0;  ///< steps of `stride` in one step of the run outside
  std::int64_t first = 0;
};

// The view's dimensions as slices of a dense tensor of sizes `extent`, and perhaps `inner` elements of which one is
// taken; none where they are no such slices.
struct Slices {
  std::vector<Run> runs;
  std::int64_t inner = 1;
  std::int64_t inner_first = 0;
};

std::optional<Slices> slices_of(const View& view, std::int64_t count) {
  if (!view.bounds.empty() || count == 0 || view.shape.numel() == 0) return std::nullopt;
  Slices result;
  for (int d = 0; d < view.rank(); ++d) {
    if (view.shape[d] == 1 || view.strides[d] == 0) continue;
    if (view.strides[d] < 0) return std::nullopt;
    result.runs.push_back({.dim = d, .stride = view.strides[d], .size = view.shape[d]});
  }
  std::stable_sort(result.runs.begin(), result.runs.end(),
                   [](const Run& a, const Run& b) { return a.stride > b.stride; });
  std::int64_t outer = count;
  std::int64_t offset = view.offset;
  for (Run& run : result.runs) {
    if (outer % run.stride != 0) return std::nullopt;
    run.extent = outer / run.stride;
    run.first = offset / run.stride;
    offset %= run.stride;
    if (run.first + run.size > run.extent) return std::nullopt;
    outer = run.stride;
  }
  result.inner = outer;
  result.inner_first = offset;
  return result;
}

std::string sliced(GraphBuilder& builder, const std::string& value, const Slices& slices) {
  std::vector<std::int64_t> starts, ends, axes;
  const auto cut = [&](std::int64_t first, std::int64_t size, std::int64_t extent, std::size_t axis) {
    if (first == 0 && size == extent) return;
    starts.push_back(first);
    ends.push_back(first + size);
    axes.push_back(static_cast<std::int64_t>(axis));
  };
  for (std::size_t i = 0; i < slices.runs.size(); ++i)
    cut(slices.runs[i].first, slices.runs[i].size, slices.runs[i].extent, i);
  if (slices.inner > 1) cut(slices.inner_first, 1, slices.inner, slices.runs.size());
  if (axes.empty()) return value;
  return builder.add("Slice", {value, builder.sizes(starts), builder.sizes(ends), builder.sizes(axes)});
}

std::string write_slices(GraphBuilder& builder, const std::string& base, const Shape& base_shape, const View& view,
                         const Slices& slices) {
  Shape split;
  for (const Run& run : slices.runs) split.push_back(run.extent);
  if (slices.inner > 1) split.push_back(slices.inner);
  std::string value = builder.reshape(base, base_shape, split);
  value = sliced(builder, value, slices);
  Shape kept;
  for (const Run& run : slices.runs) kept.push_back(run.size);
  if (slices.inner > 1) value = builder.add("Reshape", {value, builder.sizes(kept)});
  // From the order in memory to that of the view.
  std::vector<int> order(slices.runs.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](int a, int b) { return slices.runs[std::size_t(a)].dim < slices.runs[std::size_t(b)].dim; });
  Shape permutation, permuted;
  for (const int i : order) {
    permutation.push_back(i);
    permuted.push_back(slices.runs[static_cast<std::size_t>(i)].size);
  }
  value = builder.transpose(value, permutation);
  Shape with_ones = Shape::filled(view.rank(), 1);
  for (const Run& run : slices.runs) with_ones[run.dim] = run.size;
  value = builder.reshape(value, permuted, with_ones);
  return with_ones == view.shape ? value : builder.add("Expand", {value, builder.sizes(view.shape)});
}

}  // namespace

std::optional<std::vector<std::int64_t>> places_of(const View& view) {
  const std::int64_t count = view.shape.numel();
  if (count > kMostPlaces) return std::nullopt;
  std::vector<std::int64_t> places;
  std::vector<std::int64_t> index(static_cast<std::size_t>(std::max(view.rank(), 1)), 0);
  for (std::int64_t i = 0; i < count; ++i) {
    places.push_back(view.address(index.data()));
    for (int d = view.rank(); d-- > 0;) {
      if (++index[static_cast<std::size_t>(d)] < view.shape[d]) break;
      index[static_cast<std::size_t>(d)] = 0;
    }
  }
  return places;
}

std::string write_view(GraphBuilder& builder, const std::string& base, const Shape& base_shape, const View& view,
                       DType dtype) {
  if (const auto slices = slices_of(view, base_shape.numel())) {
    return write_slices(builder, base, base_shape, view, *slices);
  }
  auto places = places_of(view);
  if (!places || base_shape.numel() == 0 || (!view.bounds.empty() && view.fill != 0)) return "";
  std::vector<bool> inside;
  for (std::int64_t& place : *places) {
    inside.push_back(place >= 0);
    place = std::max<std::int64_t>(place, 0);
  }
  const std::string flat = builder.reshape(base, base_shape, {base_shape.numel()});
  const std::string index = builder.constant(Tensor::from(*places, view.shape, Device{}));
  const std::string value = builder.add("Gather", {flat, index}, {{"axis", std::int64_t{0}}});
  if (std::find(inside.begin(), inside.end(), false) == inside.end()) return value;
  const std::string mask = builder.constant(Tensor::from(inside, view.shape, Device{}));
  return builder.add("Where", {mask, value, builder.scalar(0, dtype)});
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
