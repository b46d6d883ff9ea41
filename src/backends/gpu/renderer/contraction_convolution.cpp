#include "backends/gpu/renderer/contraction_convolution.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "backends/gpu/renderer/fast_parts.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using ConvolutionKind = LibraryConvolution::Kind;

/// Which dimensions of an operand's view are what.
struct WindowDims {
  int image, channel;
  int positions, taps;  ///< the first ones
  int spatial;          ///< how many there are of each
};

/// A view of windows as a tensor [images, size..., channels] and how they lie in it.
struct FoundWindows {
  View data;
  Shape stride, dilation, before;
  bool backwards = false;  ///< taps count against positions: what lies there is y, and x is computed
};

/// One spatial dimension: position p and tap t read the coordinate offset + position · p + tap · t, within [lo, hi).
struct WindowAxis {
  std::int64_t offset = 0, position = 1, tap = 1;
  std::int64_t lo = 0, hi = 0;
  std::int64_t step = 1;  ///< coordinates between neighbours in memory, which are `unit` elements apart
  std::int64_t unit = 1;
  bool bounded = false;
};

std::optional<WindowAxis> axis_of(const View& view, int p, int t) {
  WindowAxis axis;
  const bool one_position = view.shape[p] == 1;
  const bool one_tap = view.shape[t] == 1;
  std::int64_t along_p = one_position ? 0 : view.strides[p];
  std::int64_t along_t = one_tap ? 0 : view.strides[t];
  for (const Bound& bound : view.bounds) {
    if (bound.m[p] == 0 && bound.m[t] == 0) continue;
    for (int d = 0; d < view.rank(); ++d) {
      if (d != p && d != t && bound.m[d] != 0) return std::nullopt;
    }
    if (!axis.bounded) {
      axis = {.offset = bound.offset, .position = bound.m[p], .tap = bound.m[t], .lo = bound.lo, .hi = bound.hi};
      axis.bounded = true;
    } else if (axis.offset != bound.offset || axis.position != bound.m[p] || axis.tap != bound.m[t]) {
      return std::nullopt;
    }
    axis.lo = std::max(axis.lo, bound.lo);
    axis.hi = std::min(axis.hi, bound.hi);
    if (bound.step > 1) {
      if (axis.step > 1 || along_p != 0 || along_t != 0) return std::nullopt;
      axis.step = bound.step;
      axis.unit = bound.stride;
    }
  }
  if (!axis.bounded) {
    axis.unit = std::max<std::int64_t>(std::gcd(along_p, along_t), 1);
    axis.position = along_p / axis.unit;
    axis.tap = along_t / axis.unit;
    const std::int64_t last_tap = axis.tap * (view.shape[t] - 1);
    axis.lo = std::min<std::int64_t>(last_tap, 0);
    axis.hi = axis.position * (view.shape[p] - 1) + std::max<std::int64_t>(last_tap, 0) + 1;
  } else if (axis.step == 1) {
    const std::int64_t form = axis.position != 0 ? axis.position : axis.tap;
    const std::int64_t along = axis.position != 0 ? along_p : along_t;
    if (form == 0 || along % form != 0) return std::nullopt;
    axis.unit = along / form;
    if (along_p != axis.unit * axis.position || along_t != axis.unit * axis.tap) return std::nullopt;
  }
  // Steps of what does not move.
  if (one_position) axis.position = 1;
  if (one_tap) axis.tap = axis.position < 0 ? -1 : 1;
  return axis.position > 0 && axis.tap != 0 && axis.hi > axis.lo ? std::optional(axis) : std::nullopt;
}

std::optional<FoundWindows> windows_in(const View& view, const WindowDims& dims) {
  if (view.fill != 0) return std::nullopt;
  FoundWindows found;
  found.data.shape = {view.shape[dims.image]};
  found.data.strides = {view.strides[dims.image]};
  found.data.offset = view.offset;
  std::size_t bounds = 0;
  bool overlap = false;
  for (int d = 0; d < dims.spatial; ++d) {
    const int p = dims.positions + d;
    const int t = dims.taps + d;
    const std::optional<WindowAxis> axis = axis_of(view, p, t);
    if (!axis) return std::nullopt;
    for (const Bound& bound : view.bounds) bounds += bound.m[p] != 0 || bound.m[t] != 0 ? 1 : 0;
    const bool many = view.shape[t] > 1;
    const bool backwards = (many && axis->tap < 0) || axis->step > 1;
    if (many || axis->step > 1) {
      if (overlap && backwards != found.backwards) return std::nullopt;
      found.backwards = backwards;
      overlap = true;
    }
    const std::int64_t reach = std::abs(axis->tap) * (view.shape[t] - 1) + 1;
    if (many && !axis->bounded && axis->position >= reach) return std::nullopt;  // an ordinary product
    if (backwards && (axis->position != 1 || (many && axis->tap > 0) || axis->lo != 0)) return std::nullopt;
    found.data.shape.push_back((axis->hi - axis->lo - 1) / axis->step + 1);
    found.data.strides.push_back(axis->unit);
    if (axis->step == 1) found.data.offset += axis->unit * (axis->lo - axis->offset);
    found.stride.push_back(backwards ? axis->step : axis->position);
    found.dilation.push_back(std::abs(axis->tap));
    found.before.push_back(axis->lo - axis->offset);
  }
  if (!overlap || bounds != view.bounds.size()) return std::nullopt;
  if (found.backwards) {
    for (std::int64_t& before : found.before) before = -before;
  }
  if (*std::min_element(found.before.begin(), found.before.end()) < 0) return std::nullopt;
  found.data.shape.push_back(view.shape[dims.channel]);
  found.data.strides.push_back(view.strides[dims.channel]);
  return found;
}

class FastConvolution {
 public:
  FastConvolution(const ContractionKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        parts_(limits),
        dtype_(kernel.a.dtype == kernel.b_operand.dtype ? kernel.a.dtype : DType::f32),
        unit_(static_cast<std::int64_t>(kLibraryAlignment / size_of(dtype_))) {}

  std::optional<Rendered> render();

 private:
  bool find_windows();
  bool fits();
  Patch place(int number, const Input& input, View view, const Shape& sizes);
  Rendered finish(std::vector<Patch> places, int result, const Shape& steps, std::int64_t elements);

  const ContractionKernel& kernel_;
  FastParts parts_;
  DType dtype_;
  std::int64_t unit_;  ///< elements that the library reads at once
  LibraryConvolution call_;
  FoundWindows windows_;
  int b_ = 0, spatial_ = 0;  ///< dimensions of batches, of pictures
};

// Sets the call's kind and all sizes.
bool FastConvolution::find_windows() {
  const ContractionKernel& k = kernel_;
  if (k.b.numel() != 1 || k.a.encoding != Encoding::dense || k.b_operand.encoding != Encoding::dense) return false;
  b_ = k.b.rank();
  const int m = k.m.rank();
  const int n = k.n.rank();
  spatial_ = k.k.rank() - 1;
  if (spatial_ < 1 || spatial_ > 3 || k.k.numel() == 0) return false;
  const int taps_of_b = b_ + k.k.rank() + 1;  // where n's dimensions but the first begin in b's view
  std::optional<FoundWindows> found;
  if (m == spatial_ + 1 && n == 1) {
    found = windows_in(k.a.view, {b_, b_ + m, b_ + 1, b_ + m + 1, spatial_});
    if (!found) return false;
    call_.kind = found->backwards ? ConvolutionKind::input_gradient : ConvolutionKind::forward;
    call_.kernel = k.k.slice(1, spatial_ + 1);
    (found->backwards ? call_.size : call_.out_size) = k.m.slice(1, m);
    (found->backwards ? call_.out_size : call_.size) = found->data.shape.slice(1, spatial_ + 1);
    call_.images = k.m[0];
    call_.channels = found->backwards ? k.n[0] : k.k[0];
    call_.outputs = found->backwards ? k.k[0] : k.n[0];
  } else if (m == 1 && n == spatial_ + 1) {
    found = windows_in(k.b_operand.view, {b_, taps_of_b - 1, b_ + 1, taps_of_b, spatial_});
    if (!found || found->backwards) return false;
    call_.kind = ConvolutionKind::weight_gradient;
    call_.kernel = k.n.slice(1, n);
    call_.out_size = k.k.slice(1, spatial_ + 1);
    call_.size = found->data.shape.slice(1, spatial_ + 1);
    call_.images = k.k[0];
    call_.channels = k.n[0];
    call_.outputs = k.m[0];
  } else {
    return false;
  }
  windows_ = std::move(*found);
  call_.stride = windows_.stride;
  call_.dilation = windows_.dilation;
  call_.before = windows_.before;
  return true;
}

// The padding behind the elements, with which the library computes the output's size: as before them, or as it must be.
bool FastConvolution::fits() {
  for (int d = 0; d < spatial_; ++d) {
    const std::int64_t reach = call_.dilation[d] * (call_.kernel[d] - 1) + 1;
    const auto outputs = [&](std::int64_t after) {
      return (call_.size[d] + call_.before[d] + after - reach) / call_.stride[d] + 1;
    };
    std::int64_t after = call_.before[d];
    if (outputs(after) != call_.out_size[d]) {
      after = (call_.out_size[d] - 1) * call_.stride[d] + reach - call_.size[d] - call_.before[d];
      after = std::max<std::int64_t>(after, 0);
      if (outputs(after) != call_.out_size[d]) return false;
    }
    call_.after.push_back(after);
  }
  return true;
}

// Where the call reads a tensor of these sizes: where it lies, or a copy, in which what `view` has not is zero.
Patch FastConvolution::place(int number, const Input& input, View view, const Shape& sizes) {
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  const Shape steps = View::contiguous(sizes).strides;
  bool lies_so = input.dtype == dtype_ && sizes == view.shape && view.offset % unit_ == 0;
  for (int d = 0; d < sizes.rank(); ++d) lies_so = lies_so && (sizes[d] == 1 || view.strides[d] == steps[d]);
  if (lies_so) return place_in_slot(number, input.slot, view.offset * size);
  for (int d = 0; d < sizes.rank(); ++d) {
    if (sizes[d] == view.shape[d]) continue;
    Bound exists{.m = Shape::filled(sizes.rank(), 0), .lo = 0, .hi = view.shape[d]};
    exists.m[d] = 1;
    view.bounds.push_back(exists);
    view.shape[d] = sizes[d];
  }
  const std::int64_t at = parts_.reserve(sizes.numel(), dtype_);
  parts_.append_copy(input, view, steps, at / size, dtype_);
  return place_in_scratch(number, at);
}

// The call, whose place `result` is still to be found, and what follows it. `steps`: between neighbours of the
// `elements` that it computes, over the epilogue's dimensions.
Rendered FastConvolution::finish(std::vector<Patch> places, int result, const Shape& steps, std::int64_t elements) {
  const auto size = static_cast<std::int64_t>(size_of(dtype_));
  Program program = kernel_.epilogue;
  for (const std::int64_t inner : program.inner) program.rows.push_back(inner);
  program.inner = {};
  const Output& out = program.outputs[0];
  bool direct = only_stores(kernel_.epilogue, dtype_) && out.dtype == dtype_ && elements == program.rows.numel() &&
                out.offset % unit_ == 0;
  for (int d = 0; d < steps.rank(); ++d) direct = direct && (program.rows[d] == 1 || out.strides[d] == steps[d]);
  if (direct) {
    places[static_cast<std::size_t>(result)] = place_in_slot(result, out.slot, out.offset * size);
    places.push_back(place_in_scratch(3, parts_.reserve(std::int64_t{kConvolutionWorkBytes}, DType::u8)));
    parts_.append_call(call_, std::move(places));
    return parts_.take();
  }
  const std::int64_t at = parts_.reserve(elements, dtype_);
  places[static_cast<std::size_t>(result)] = place_in_scratch(result, at);
  places.push_back(place_in_scratch(3, parts_.reserve(std::int64_t{kConvolutionWorkBytes}, DType::u8)));
  parts_.append_call(call_, std::move(places));
  View sums{.shape = program.rows, .strides = steps, .offset = at / size};
  parts_.append_epilogue(std::move(program), std::move(sums), dtype_);
  return parts_.take();
}

// Dimensions of a view without borders, in another order.
View picked(const View& view, std::initializer_list<std::pair<int, int>> ranges) {
  View result{.shape = {}, .strides = {}, .offset = view.offset, .bounds = {}, .fill = 0};
  for (const auto& [first, last] : ranges) {
    for (int d = first; d < last; ++d) {
      result.shape.push_back(view.shape[d]);
      result.strides.push_back(view.strides[d]);
    }
  }
  return result;
}

std::optional<Rendered> FastConvolution::render() {
  if (!find_windows() || !fits()) return std::nullopt;
  call_.dtype = call_.result = dtype_;
  const ContractionKernel& k = kernel_;
  const auto widened = [&](Shape sizes, bool first_too) {
    sizes[sizes.rank() - 1] = aligned(sizes.back(), unit_);
    if (first_too) sizes[0] = aligned(sizes[0], unit_);
    return sizes;
  };
  call_.channels = aligned(call_.channels, unit_);
  call_.outputs = aligned(call_.outputs, unit_);
  const Shape data_sizes = widened(windows_.data.shape, false);
  Shape steps = Shape::filled(b_, 0);
  if (call_.kind == ConvolutionKind::weight_gradient) {
    // a: [b, outputs, images, positions...], b: [b, images, positions..., channels, taps...]
    if (!k.a.view.bounds.empty()) return std::nullopt;
    const View y = picked(k.a.view, {{b_ + 1, b_ + 2 + spatial_}, {b_, b_ + 1}});
    const std::int64_t filter = call_.kernel.numel() * call_.channels;
    steps.push_back(filter);
    steps.push_back(1);
    std::int64_t step = filter;
    for (const std::int64_t size : call_.kernel) steps.push_back(step /= size);
    const Patch at_x = place(0, k.b_operand, windows_.data, data_sizes);
    const Patch at_y = place(2, k.a, y, widened(y.shape, false));
    return finish({at_x, Patch{}, at_y}, 1, steps, call_.outputs * filter);
  }
  // a: [b, images, positions..., channels, taps...], b: [b, channels, taps..., n]; n is the outputs, or for the input's
  // gradient the channels. Weights are [outputs, taps..., channels].
  if (!k.b_operand.view.bounds.empty()) return std::nullopt;
  const bool forward = call_.kind == ConvolutionKind::forward;
  const std::pair<int, int> first{b_, b_ + 1};
  const std::pair<int, int> taps{b_ + 1, b_ + 1 + spatial_};
  const std::pair<int, int> last{b_ + 1 + spatial_, b_ + 2 + spatial_};
  const View w = picked(k.b_operand.view, {forward ? last : first, taps, forward ? first : last});
  const std::int64_t elements = k.m.numel() * (forward ? call_.outputs : call_.channels);
  std::int64_t step = elements;
  for (const std::int64_t size : k.m) steps.push_back(step /= size);
  steps.push_back(1);
  const Patch at_data = place(forward ? 0 : 2, k.a, windows_.data, data_sizes);
  const Patch at_w = place(1, k.b_operand, w, widened(w.shape, true));
  return forward ? finish({at_data, at_w, Patch{}}, 2, steps, elements)
                 : finish({Patch{}, at_w, at_data}, 0, steps, elements);
}

}  // namespace

std::optional<Rendered> render_convolution(const ContractionKernel& kernel, const RenderLimits& limits) {
  return FastConvolution(kernel, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
