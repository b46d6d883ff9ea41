// Matrix products and convolutions: contractions of views (docs/numerics.md section 6).
#include <algorithm>

#include <fmt/format.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

// What products of this dtype are summed in and returned as.
DType accumulated(DType dtype) {
  if (is_float(dtype)) return wide(dtype);
  return dtype == DType::i64 || dtype == DType::u32 ? DType::i64 : DType::i32;
}

// The final dtype: floats round back to what they came from.
DType returned(DType dtype) { return is_float(dtype) ? dtype : accumulated(dtype); }

Tensor contract(Contract primitive, const Reading& a, const Reading& b, DType dtype, CallSite site) {
  Shape shape;
  for (const Shape* group : {&primitive.b, &primitive.m, &primitive.n}) {
    for (const std::int64_t size : *group) shape.push_back(size);
  }
  return Access::tensor(make_node(std::move(primitive), {a.base, b.base}, shape, accumulated(dtype), a.base->device, site));
}

// A view with `size` dimensions inserted at `position` along which nothing changes.
View repeated(const View& view, int position, const Shape& sizes) {
  View result = view;
  for (int d = 0; d < sizes.rank(); ++d) {
    result.shape.insert(position + d, sizes[d]);
    result.strides.insert(position + d, 0);
    for (Bound& bound : result.bounds) bound.m.insert(position + d, 0);
  }
  return result;
}

// Stores values whose views do not reshape.
template <typename Change>
Reading reading_as(const Tensor& tensor, CallSite site, Change change) {
  Reading reading = read(tensor);
  if (std::optional<View> view = change(reading.view)) return {reading.base, std::move(*view)};
  reading = read(stored(tensor, site));
  return {reading.base, *change(reading.view)};
}

void check_operands(const char* op, const std::vector<Shown>& shown, CallSite site) {
  for (const Shown& operand : shown) {
    if (operand.tensor == nullptr) {
      fail<ValueError>(op, fmt::format("{} must be a tensor", operand.label), shown, "make the scalar a tensor", site);
    }
  }
  check_same_device(op, shown, site);
  check_same_dtype(op, shown, site);
}

// a [batch..., m, k] x b [batch..., k, n], ranks >= 2, in the accumulation dtype.
Tensor batched_matmul(const Tensor& a, const Tensor& b, CallSite site) {
  const Shape& sa = a.shape();
  const Shape& sb = b.shape();
  const std::int64_t m = sa[sa.rank() - 2];
  const std::int64_t k = sa.back();
  const std::int64_t n = sb.back();
  Contract primitive;
  primitive.n = {n};
  primitive.k = {k};
  Reading ra;
  Reading rb;
  Shape result;
  if (sb.rank() == 2) {
    // One matrix b for the whole batch: the batch is more rows.
    Shape rows = sa.slice(0, sa.rank() - 1);
    const std::int64_t count = rows.numel();
    result = rows;
    ra = reading_as(a, site, [&](const View& view) { return view.reshaped({count, k}); });
    rb = read(b);
    primitive.m = {count};
  } else {
    const Shape batch_a = sa.slice(0, sa.rank() - 2);
    const Shape batch_b = sb.slice(0, sb.rank() - 2);
    Shape batch = batch_a.rank() >= batch_b.rank() ? batch_a : batch_b;
    for (int i = 1; i <= std::min(batch_a.rank(), batch_b.rank()); ++i) {
      const std::int64_t size_a = batch_a[batch_a.rank() - i];
      const std::int64_t size_b = batch_b[batch_b.rank() - i];
      batch[batch.rank() - i] = size_a == 1 ? size_b : size_a;
    }
    result = batch;
    result.push_back(m);
    const auto expanded = [&](const Tensor& tensor, std::int64_t rows, std::int64_t columns) {
      Shape target = batch;
      target.push_back(rows);
      target.push_back(columns);
      Reading reading = read(tensor);
      return Reading{reading.base, reading.view.expanded(target)};
    };
    ra = expanded(a, m, k);
    rb = expanded(b, k, n);
    // At most four batch dimensions reach the kernel: merge where both views allow, else store.
    if (batch.rank() > 4) {
      const std::int64_t count = batch.numel();
      ra = reading_as(a.expand(ra.view.shape, site), site, [&](const View& view) { return view.reshaped({count, m, k}); });
      rb = reading_as(b.expand(rb.view.shape, site), site, [&](const View& view) { return view.reshaped({count, k, n}); });
      batch = {count};
    }
    primitive.b = batch;
    primitive.m = {m};
  }
  primitive.a_view = ra.view;
  primitive.b_view = rb.view;
  const Tensor product = contract(std::move(primitive), ra, rb, a.dtype(), site);
  result.push_back(n);
  return product.reshape(result, site);
}

}  // namespace

Tensor matmul(const Operand& left, const Operand& right) {
  const CallSite site = left.site();
  const std::vector<Shown> shown{{"a", left}, {"b", right}};
  check_operands("matmul", shown, site);
  Tensor a = left.tensor();
  Tensor b = right.tensor();
  if (a.rank() == 0 || b.rank() == 0) {
    fail<ShapeError>("matmul", "operands need at least one dimension", shown, "multiply by a scalar with *", site);
  }
  const bool vector_a = a.rank() == 1;
  const bool vector_b = b.rank() == 1;
  if (vector_a) a = a.unsqueeze(0, site);
  if (vector_b) b = b.unsqueeze(1, site);
  const std::int64_t k = a.shape().back();
  const std::int64_t rows_b = b.shape()[b.rank() - 2];
  if (k != rows_b) {
    const bool transposed = !vector_b && b.shape().back() == k;
    fail<ShapeError>("matmul", fmt::format("inner sizes differ: {} and {}", k, rows_b), shown,
                     transposed ? "did you mean b.transpose(-2, -1)?" : "the last size of a must equal the rows of b",
                     site);
  }
  for (int i = 3; i <= std::min(a.rank(), b.rank()); ++i) {
    const std::int64_t size_a = a.shape()[a.rank() - i];
    const std::int64_t size_b = b.shape()[b.rank() - i];
    if (size_a != size_b && size_a != 1 && size_b != 1) {
      fail<ShapeError>("matmul", fmt::format("batch sizes {} and {} do not broadcast", size_a, size_b), shown, "", site);
    }
  }
  Tensor product = cast(batched_matmul(a, b, site), returned(a.dtype()), site);
  if (vector_a) product = product.squeeze(-2, site);
  if (vector_b) product = product.squeeze(-1, site);
  return product;
}

Tensor linear(const Operand& x, const Operand& weight, const std::optional<Tensor>& bias) {
  const CallSite site = x.site();
  std::vector<Shown> shown{{"input", x}, {"weight", weight}};
  if (bias) shown.emplace_back("bias", *bias);
  check_operands("linear", shown, site);
  const Tensor& input = x.tensor();
  const Tensor& w = weight.tensor();
  if (input.rank() == 0 || w.rank() != 2 || input.shape().back() != w.shape()[1]) {
    fail<ShapeError>("linear", "the input's last size must equal the weight's in-features (weight is [out, in])", shown,
                     "", site);
  }
  if (bias && bias->shape() != Shape{w.shape()[0]}) {
    fail<ShapeError>("linear", fmt::format("bias must have shape [{}]", w.shape()[0]), shown, "", site);
  }
  const bool vector = input.rank() == 1;
  Tensor y = batched_matmul(vector ? input.unsqueeze(0, site) : input, w.transpose(0, 1, site), site);
  if (vector) y = y.squeeze(0, site);
  if (bias) y = add(Operand(y, site), Operand(cast(*bias, y.dtype(), site), site));
  return cast(y, returned(input.dtype()), site);
}

namespace {

// An option of a convolution for each of `rank` spatial dimensions.
Shape spatial(const char* op, const char* what, const Shape& given, int rank, std::int64_t least,
              const std::vector<Shown>& shown, CallSite site) {
  Shape result = given;
  if (given.rank() == 1) result = Shape::filled(rank, given[0]);
  bool valid = result.rank() == rank;
  for (const std::int64_t value : result) valid = valid && value >= least && value < (std::int64_t{1} << 31);
  if (!valid) {
    fail<ValueError>(op, fmt::format("{} {} must be one or {} values of at least {}", what, given.to_string(), rank, least),
                     shown, "", site);
  }
  return result;
}

Tensor convolution(const char* op, int rank, const Operand& x, const Operand& w, const std::optional<Tensor>& bias,
                   const ConvOptions& options) {
  const CallSite site = x.site();
  std::vector<Shown> shown{{"input", x}, {"weight", w}};
  if (bias) shown.emplace_back("bias", *bias);
  check_operands(op, shown, site);
  Tensor input = x.tensor();
  const Tensor& weight = w.tensor();
  if (weight.rank() != rank + 2 || (input.rank() != rank + 2 && input.rank() != rank + 1)) {
    fail<ShapeError>(op, fmt::format("input must have {} dimensions (or {} without a batch) and weight {}", rank + 2,
                                     rank + 1, rank + 2),
                     shown, "", site);
  }
  const bool unbatched = input.rank() == rank + 1;
  if (unbatched) input = input.unsqueeze(0, site);
  const Shape stride = spatial(op, "stride", options.stride, rank, 1, shown, site);
  const Shape padding = spatial(op, "padding", options.padding, rank, 0, shown, site);
  const Shape dilation = spatial(op, "dilation", options.dilation, rank, 1, shown, site);
  const std::int64_t groups = options.groups;
  const std::int64_t batch = input.shape()[0];
  const std::int64_t channels = input.shape()[1];
  const std::int64_t out_channels = weight.shape()[0];
  const std::int64_t group_channels = weight.shape()[1];
  if (groups < 1 || out_channels % groups != 0 || group_channels * groups != channels) {
    fail<ShapeError>(op, fmt::format("{} input channels, {} output channels and {} groups do not fit a weight with {} "
                                     "channels per group",
                                     channels, out_channels, groups, group_channels),
                     shown, "weight is [out_channels, in_channels / groups, kernel...]", site);
  }
  if (bias && bias->shape() != Shape{out_channels}) {
    fail<ShapeError>(op, fmt::format("bias must have shape [{}]", out_channels), shown, "", site);
  }
  Shape kernel;
  Shape output;
  for (int d = 0; d < rank; ++d) {
    const std::int64_t taps = weight.shape()[d + 2];
    const std::int64_t padded = input.shape()[d + 2] + 2 * padding[d];
    const std::int64_t reach = taps > 0 ? dilation[d] * (taps - 1) + 1 : 0;
    if (taps < 1 || padded < reach) {
      fail<ShapeError>(op, fmt::format("a kernel that spans {} does not fit a padded input of {} in spatial dimension {}",
                                       reach, padded, d),
                       shown, "use a larger input, more padding or a smaller kernel", site);
    }
    kernel.push_back(taps);
    output.push_back((padded - reach) / stride[d] + 1);
  }
  // The windows of the input as [N, G, C/G, out..., kernel...], then with k before n.
  const auto windows = [&](const View& view) -> std::optional<View> {
    Shape split{batch, groups, group_channels};
    for (int d = 0; d < rank; ++d) split.push_back(input.shape()[d + 2]);
    std::optional<View> result = view.reshaped(split);
    for (int d = 0; result && d < rank; ++d) {
      if (padding[d] > 0) result = result->padded(3 + d, padding[d], padding[d], 0);
    }
    if (!result) return std::nullopt;
    for (int d = 0; d < rank; ++d) result = result->windowed(3 + d, kernel[d], output[d], stride[d], dilation[d]);
    Shape order{0, 1, 2};
    for (int d = 0; d < rank; ++d) order.push_back(3 + rank + d);
    for (int d = 0; d < rank; ++d) order.push_back(3 + d);
    return result->permuted(order);
  };
  const Reading columns = reading_as(input, site, windows);
  const Reading filters = reading_as(weight, site, [&](const View& view) {
    Shape split{groups, out_channels / groups, group_channels};
    for (const std::int64_t taps : kernel) split.push_back(taps);
    return view.reshaped(split);
  });
  Contract primitive;
  primitive.b = {batch, groups};
  primitive.m = {out_channels / groups};
  primitive.n = output;
  primitive.k = {group_channels};
  for (const std::int64_t taps : kernel) primitive.k.push_back(taps);
  primitive.a_view = repeated(filters.view, 0, {batch});
  primitive.b_view = columns.view;
  Tensor y = contract(std::move(primitive), filters, columns, input.dtype(), site);
  Shape shape{batch, out_channels};
  for (const std::int64_t size : output) shape.push_back(size);
  check_shape(op, shape, y.dtype(), site);
  y = y.reshape(shape, site);
  if (bias) {
    Shape broadcast = Shape::filled(rank + 1, 1);
    broadcast[0] = out_channels;
    y = add(Operand(y, site), Operand(cast(*bias, y.dtype(), site).reshape(broadcast, site), site));
  }
  y = cast(y, returned(input.dtype()), site);
  return unbatched ? y.squeeze(0, site) : y;
}

}  // namespace

Tensor conv1d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias, const ConvOptions& options) {
  return convolution("conv1d", 1, input, weight, bias, options);
}
Tensor conv2d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias, const ConvOptions& options) {
  return convolution("conv2d", 2, input, weight, bias, options);
}
Tensor conv3d(const Operand& input, const Operand& weight, const std::optional<Tensor>& bias, const ConvOptions& options) {
  return convolution("conv3d", 3, input, weight, bias, options);
}

}  // namespace v0
}  // namespace lockstep
