// Pools. Paddings differ at both ends and may be larger than our own pools take, so the input is padded first, also
// with what ceil_mode lets the last window reach over.
#include <lockstep/ops.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "io/onnx/operators.h"
#include "io/onnx/ops/arguments.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

// The windows of a pool, and how much the input grows behind so that the last one fits.
struct Pool {
  Windows windows;
  std::vector<std::int64_t> overhang;
  std::vector<std::int64_t> behind;  // after + overhang
};

Pool pool_of(const Call& call) {
  const std::vector<std::int64_t> sizes = spatial_sizes(call.shape(0));
  Pool pool{.windows = windows_of(call, call.required_integers("kernel_shape"), sizes)};
  const bool ceil = call.integer("ceil_mode", 0) != 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    const Windows& w = pool.windows;
    const std::int64_t span = (w.kernel[d] - 1) * w.dilation[d] + 1;
    const std::int64_t padded = sizes[d] + w.before[d] + w.after[d];
    call.require(padded >= span, "the window does not fit the padded input");
    std::int64_t outputs = (padded - span) / w.stride[d] + 1;
    // One more that starts inside but reaches over the end.
    if (ceil && (padded - span) % w.stride[d] != 0 && outputs * w.stride[d] < sizes[d] + w.before[d]) ++outputs;
    pool.overhang.push_back(std::max<std::int64_t>(0, (outputs - 1) * w.stride[d] + span - padded));
    pool.behind.push_back(w.after[d] + pool.overhang.back());
  }
  return pool;
}

PoolOptions options_of(const Pool& pool) {
  return {.stride = shape_of(pool.windows.stride), .dilation = shape_of(pool.windows.dilation)};
}

ValuesIndices largest(const Call& call, const Tensor& x, const Pool& pool) {
  const Shape kernel = shape_of(pool.windows.kernel);
  switch (pool.windows.dims()) {
    case 1: return max_pool1d_with_indices(x, kernel, options_of(pool));
    case 2: return max_pool2d_with_indices(x, kernel, options_of(pool));
    case 3: return max_pool3d_with_indices(x, kernel, options_of(pool));
    default: call.unsupported("more than 3 spatial dimensions");
  }
}
Tensor largest_values(const Call& call, const Tensor& x, const Pool& pool) {
  const Shape kernel = shape_of(pool.windows.kernel);
  switch (pool.windows.dims()) {
    case 1: return max_pool1d(x, kernel, options_of(pool));
    case 2: return max_pool2d(x, kernel, options_of(pool));
    case 3: return max_pool3d(x, kernel, options_of(pool));
    default: call.unsupported("more than 3 spatial dimensions");
  }
}

double lowest(DType dtype) {
  switch (dtype) {
    case DType::u8: return 0;
    case DType::i8: return -128;
    default: return -std::numeric_limits<double>::infinity();
  }
}

// From places in a padded plane to places in the whole input.
Tensor places_in_input(const Call& call, const Tensor& places, const Shape& padded, const Pool& pool) {
  const Shape& shape = call.shape(0);
  const int dims = pool.windows.dims();
  const bool column_major = call.integer("storage_order", 0) != 0;
  Tensor rest = places;
  Tensor result;
  // The last dimension changes fastest in the padded plane.
  for (int d = dims; d-- > 0;) {
    const auto size = static_cast<double>(padded[2 + d]);
    const Tensor at = sub(remainder(rest, size), static_cast<double>(pool.windows.before[static_cast<std::size_t>(d)]));
    rest = floor_divide(rest, size);
    double step = 1;
    if (column_major)
      for (int k = 0; k < d; ++k) step *= static_cast<double>(shape[2 + k]);
    else
      for (int k = d + 1; k < dims; ++k) step *= static_cast<double>(shape[2 + k]);
    const Tensor part = mul(at, step);
    result = result.defined() ? add(result, part) : part;
  }
  const std::int64_t planes = shape[0] * shape[1];
  Shape start = {shape[0], shape[1]};
  for (int d = 0; d < dims; ++d) start.push_back(1);
  const Tensor first = mul(arange(static_cast<double>(planes), {.dtype = DType::i64, .device = call.device()}),
                           static_cast<double>(shape.slice(2, shape.rank()).numel()));
  return add(result, first.reshape(start));
}

std::vector<Tensor> max_pool(const Call& call) {
  const Pool pool = pool_of(call);
  const Tensor x = pad_spatial(call.input(0), pool.windows.before, pool.behind, lowest(call.dtype_of_input(0)));
  if (!call.wants(1)) return {largest_values(call, x, pool)};
  const ValuesIndices result = largest(call, x, pool);
  return {result.values, places_in_input(call, result.indices, x.shape(), pool)};
}

// Every window's sum: as an average that divides by 1; with gaps between taps, tap by tap.
Tensor sums(const Call& call, const Tensor& x, const Pool& pool) {
  const Windows& w = pool.windows;
  PoolOptions options{.stride = shape_of(w.stride), .divisor_override = 1};
  const bool dense = std::all_of(w.dilation.begin(), w.dilation.end(), [](std::int64_t step) { return step == 1; });
  if (dense) {
    switch (w.dims()) {
      case 1: return avg_pool1d(x, shape_of(w.kernel), options);
      case 2: return avg_pool2d(x, shape_of(w.kernel), options);
      case 3: return avg_pool3d(x, shape_of(w.kernel), options);
      default: call.unsupported("more than 3 spatial dimensions");
    }
  }
  Tensor windows = x;
  Dims taps;
  for (int d = 0; d < w.dims(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    windows = windows.unfold(2 + d, (w.kernel[at] - 1) * w.dilation[at] + 1, w.stride[at])
                  .slice(-1, {.step = w.dilation[at]});
    taps.push_back(-1 - d);
  }
  return sum(windows, taps);
}

std::vector<Tensor> average_pool(const Call& call) {
  const Pool pool = pool_of(call);
  const Tensor& x = call.input(0);
  const Tensor total = sums(call, pad_spatial(x, pool.windows.before, pool.behind, 0), pool);
  // How many taps of each window count, in one plane.
  Shape plane = x.shape();
  plane[0] = 1;
  plane[1] = 1;
  Tensor counted = ones(plane, {.dtype = x.dtype(), .device = x.device()});
  const bool padding_counts = call.integer("count_include_pad", 0) != 0;
  const std::vector<std::int64_t> none(pool.overhang.size(), 0);
  if (padding_counts)
    counted = pad_spatial(pad_spatial(counted, pool.windows.before, pool.windows.after, 1), none, pool.overhang, 0);
  else
    counted = pad_spatial(counted, pool.windows.before, pool.behind, 0);
  return {div(total, sums(call, counted, pool))};
}

std::vector<Tensor> lp_pool(const Call& call) {
  const Pool pool = pool_of(call);
  const double p = static_cast<double>(call.integer("p", 2));
  const Tensor powers = pow(abs(call.input(0)), p);
  return {pow(sums(call, pad_spatial(powers, pool.windows.before, pool.behind, 0), pool), 1 / p)};
}

Dims spatial_dims(const Call& call) {
  Dims dims;
  for (int d = 2; d < call.shape(0).rank(); ++d) dims.push_back(d);
  return dims;
}
std::vector<Tensor> global_average(const Call& call) {
  return {mean(call.input(0), spatial_dims(call), true)};
}
std::vector<Tensor> global_max(const Call& call) {
  return {amax(call.input(0), spatial_dims(call), true)};
}
std::vector<Tensor> global_lp(const Call& call) {
  const double p = static_cast<double>(call.integer("p", 2));
  return {pow(sum(pow(abs(call.input(0)), p), spatial_dims(call), true), 1 / p)};
}

// The places count over the whole result.
std::vector<Tensor> max_unpool(const Call& call) {
  const Tensor& x = call.input(0);
  const Windows windows = windows_of(call, call.required_integers("kernel_shape"), spatial_sizes(x.shape()));
  Shape natural = x.shape();
  for (int d = 0; d < windows.dims(); ++d) {
    const auto at = static_cast<std::size_t>(d);
    natural[2 + d] =
        (x.shape()[2 + d] - 1) * windows.stride[at] + windows.kernel[at] - windows.before[at] - windows.after[at];
  }
  const Tensor zero = zeros({natural.numel()}, {.dtype = x.dtype(), .device = x.device()});
  const Tensor placed = scatter(zero, 0, call.input(1).reshape({-1}), x.reshape({-1})).reshape(natural);
  if (!call.has(2)) return {placed};
  const Shape target = shape_of(call.host_integers(2));
  call.require(target.rank() == natural.rank(), "output_shape has another rank");
  std::vector<std::int64_t> none(static_cast<std::size_t>(natural.rank()), 0);
  std::vector<std::int64_t> more = none;
  for (int d = 0; d < natural.rank(); ++d) more[static_cast<std::size_t>(d)] = target[d] - natural[d];
  return {pad_spatial(placed, none, more, 0)};
}

constexpr Operator kPoolingOperators[] = {
    {.name = "MaxPool", .run = max_pool},
    {.name = "AveragePool", .run = average_pool},
    {.name = "LpPool", .since = 2, .run = lp_pool},
    {.name = "GlobalAveragePool", .run = global_average},
    {.name = "GlobalMaxPool", .run = global_max},
    {.name = "GlobalLpPool", .since = 2, .run = global_lp},
    {.name = "MaxUnpool", .since = 9, .run = max_unpool},
};

}  // namespace

std::span<const Operator> pooling_operators() {
  return kPoolingOperators;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
