// The library takes matrices whose neighbours along one dimension are neighbours in memory, at multiples of 16 bytes.
// Operands that are such are read as they lie, transposed or not, once for each batch or for all; others (windows of
// convolutions, heads of attention) are copied to scratch memory first, with batches that share one operand as further
// rows or columns of one product.
#include "backends/gpu/renderer/contraction_fast.h"

#include <algorithm>
#include <optional>

#include "backends/gpu/renderer/fast_floats.h"
#include "backends/gpu/renderer/fast_parts.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::uint64_t kMemoryBytes = 256;  ///< memory begins at multiples of that
constexpr std::int64_t kRowsOfFloats = 16;   ///< what the library takes a multiple of

/// An operand, or the result: a matrix for each batch.
struct FastMatrix {
  bool first_is_near = false;  ///< neighbours along the first of its own two dimensions lie side by side
  std::int64_t leading = 0;    ///< of the other one
  std::int64_t batch_stride = 0;
  std::int64_t offset = 0;  ///< in elements
};

/// Dimensions [first, last) of a geometry.
struct FastDims {
  int first, last;
};

/// What lies like a matrix of `size` x `other_size` elements, as the library takes it.
std::optional<FastMatrix> matrix_of(const View& view, const Geometry& geometry, FastDims first, FastDims second,
                                    DType dtype) {
  const auto rank = [](FastDims dims) { return dims.last - dims.first; };
  if (!view.bounds.empty() || geometry.m > 1 || rank(first) > 1 || rank(second) > 1) return std::nullopt;
  const auto unit = static_cast<std::int64_t>(kLibraryAlignment / size_of(dtype));
  const auto size = [&](FastDims dims) { return rank(dims) == 0 ? 1 : geometry.shape[dims.first]; };
  // A dimension of one element may lie as it likes.
  const auto stride = [&](FastDims dims, std::int64_t otherwise) {
    return rank(dims) == 0 ? otherwise : view.strides[dims.first];
  };
  FastMatrix matrix;
  matrix.offset = view.offset;
  matrix.batch_stride = geometry.m == 0 ? 0 : view.strides[0];
  if (matrix.offset % unit != 0 || matrix.batch_stride % unit != 0 || matrix.batch_stride < 0) return std::nullopt;
  for (const bool first_is_near : {false, true}) {
    const FastDims near = first_is_near ? first : second;
    const FastDims far = first_is_near ? second : first;
    const std::int64_t leading = stride(far, aligned(size(near), unit));
    if (stride(near, 1) != 1 || leading < size(near) || leading % unit != 0) continue;
    matrix.first_is_near = first_is_near;
    matrix.leading = leading;
    return matrix;
  }
  return std::nullopt;
}

class FastContraction {
 public:
  FastContraction(const ContractionKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        limits_(limits),
        parts_(limits),
        geometry_(geometry_of(kernel)),
        epilogue_(kernel.epilogue),
        has_floats_(holds_e4m3(kernel.b_operand.encoding)),
        dtype_(has_floats_                                ? DType::f8e4m3
               : kernel.a.dtype == kernel.b_operand.dtype ? kernel.a.dtype
                                                          : DType::f32),
        narrow_(has_floats_ ? DType::bf16 : dtype_) {}

  Rendered render();

 private:
  FastDims batch_dims() const { return {0, geometry_.m}; }
  FastDims rows() const { return {geometry_.m, geometry_.n}; }
  FastDims columns() const { return {geometry_.n, geometry_.k}; }
  FastDims length() const { return {geometry_.k, geometry_.shape.rank()}; }

  std::optional<FastMatrix> as_it_lies(bool is_a) const;
  FastMatrix copied(bool is_a);
  LibraryProduct::Scales row_scales() const {
    return weight_scales_ == LibraryProduct::Scales::of_squares ? LibraryProduct::Scales::of_128 : weight_scales_;
  }
  FastMatrix rounded_rows();
  FastMatrix weights();
  /// Rows of the product: some more where those of floats are no multiple.
  std::int64_t all_rows() const { return has_floats_ ? aligned(geometry_.rows, kRowsOfFloats) : geometry_.rows; }
  void give_bias();
  std::optional<FastMatrix> direct_result() const;
  bool rows_are_near() const;
  FastMatrix scratch_result();
  void append_product(const FastMatrix& a, const FastMatrix& b, const FastMatrix& out, bool direct);
  void append_epilogue(const FastMatrix& result);

  const ContractionKernel& kernel_;
  const RenderLimits& limits_;
  FastParts parts_;
  Geometry geometry_;
  Program epilogue_;  ///< that is not the library's
  std::optional<Patch> bias_;
  bool has_floats_;            ///< the weights are blocks of e4m3, and activations are rounded to it
  DType dtype_;                ///< that is multiplied
  DType narrow_;               ///< that the library writes where it is not f32
  FloatsAt rows_at_{}, weights_at_{};
  LibraryProduct::Scales weight_scales_ = LibraryProduct::Scales::none;
  DType result_ = DType::f32;  ///< that the library writes
  bool is_copied_[2] = {};     ///< a, b: read from scratch memory
};

Rendered FastContraction::render() {
  std::optional<FastMatrix> b = has_floats_ ? weights() : as_it_lies(false);
  std::optional<FastMatrix> a = has_floats_ ? rounded_rows() : as_it_lies(true);
  if (!a || !b) {
    // Perhaps with one product for each batch.
    Geometry merged = std::move(geometry_);
    geometry_ = geometry_of(kernel_, true);
    const std::optional<FastMatrix> batched_a = as_it_lies(true);
    const std::optional<FastMatrix> batched_b = as_it_lies(false);
    if (batched_a && batched_b) {
      a = batched_a;
      b = batched_b;
    } else {
      geometry_ = std::move(merged);
    }
  }
  if (!a) a = copied(true);
  if (!b) b = copied(false);
  if (!has_floats_) give_bias();
  if (const std::optional<FastMatrix> out = direct_result()) {
    result_ = epilogue_.outputs[0].dtype;
    append_product(*a, *b, *out, true);
  } else {
    if (rounds_first(epilogue_, narrow_)) result_ = narrow_;
    const FastMatrix result = scratch_result();
    append_product(*a, *b, result, false);
    append_epilogue(result);
  }
  return parts_.take();
}

std::optional<FastMatrix> FastContraction::as_it_lies(bool is_a) const {
  const Input& input = is_a ? kernel_.a : kernel_.b_operand;
  if (input.dtype != dtype_ || input.encoding != Encoding::dense) return std::nullopt;
  return matrix_of(is_a ? geometry_.a : geometry_.b, geometry_, is_a ? rows() : columns(), length(), dtype_);
}

// The elements of an operand side by side, along the dimension along which they are read side by side.
FastMatrix FastContraction::copied(bool is_a) {
  const Input& input = is_a ? kernel_.a : kernel_.b_operand;
  LOCKSTEP_ASSERT(input.encoding == Encoding::dense);
  const View& view = is_a ? geometry_.a : geometry_.b;
  const FastDims own = is_a ? rows() : columns();
  const Side side(is_a ? "a" : "b", input, view, geometry_, is_a);
  const bool own_is_near = !side.prefers_k(geometry_);
  const FastDims near = own_is_near ? own : length();
  const FastDims far = own_is_near ? length() : own;
  const auto count = [&](FastDims dims) {
    std::int64_t elements = 1;
    for (int d = dims.first; d < dims.last; ++d) elements *= geometry_.shape[d];
    return elements;
  };
  const auto unit = static_cast<std::int64_t>(kLibraryAlignment / size_of(dtype_));
  FastMatrix matrix{.first_is_near = own_is_near, .leading = aligned(count(near), unit)};
  matrix.batch_stride = geometry_.m == 0 ? 0 : matrix.leading * count(far);
  const std::int64_t at = parts_.reserve(matrix.leading * count(far) * geometry_.batches, dtype_);
  matrix.offset = at / static_cast<std::int64_t>(size_of(dtype_));
  is_copied_[is_a ? 0 : 1] = true;

  View source{.shape = {}, .strides = {}, .offset = view.offset, .bounds = view.bounds, .fill = view.fill};
  for (Bound& bound : source.bounds) bound.m = {};
  Shape strides;
  for (const FastDims dims : {batch_dims(), far, near}) {
    std::int64_t step = dims.last == near.last && dims.first == near.first ? 1
                        : dims.first == far.first && dims.last == far.last ? matrix.leading
                                                                           : matrix.batch_stride;
    Shape steps;
    for (int d = dims.last - 1; d >= dims.first; --d) {
      steps.insert(0, step);
      step *= geometry_.shape[d];
    }
    for (int d = dims.first; d < dims.last; ++d) {
      source.shape.push_back(geometry_.shape[d]);
      source.strides.push_back(view.strides[d]);
      for (std::size_t b = 0; b < source.bounds.size(); ++b) source.bounds[b].m.push_back(view.bounds[b].m[d]);
      strides.push_back(steps[d - dims.first]);
    }
  }
  parts_.append_copy(input, source, strides, matrix.offset, dtype_);
  return matrix;
}

// Activations as bytes, in scratch memory.
FastMatrix FastContraction::rounded_rows() {
  const std::int64_t rows = all_rows();
  rows_at_.codes = parts_.reserve(rows * geometry_.length, DType::u8);
  rows_at_.scales = parts_.reserve(count_of_scales(row_scales(), rows, geometry_.length), DType::f32);
  const Side side("a", kernel_.a, geometry_.a, geometry_, true);
  parts_.append(round_to_floats(geometry_, side, rows, rows_at_, row_scales(), limits_));
  is_copied_[0] = true;
  return {.leading = geometry_.length, .offset = rows_at_.codes};
}

// Weights as bytes, kept where they come again.
FastMatrix FastContraction::weights() {
  const Side side("b", kernel_.b_operand, geometry_.b, geometry_, false);
  weight_scales_ = scales_of_weights(geometry_, side);
  const std::int64_t elements = geometry_.columns * geometry_.length;
  weights_at_ = {.codes = 0, .scales = aligned(elements, kMemoryBytes)};
  const std::int64_t bytes =
      weights_at_.scales + 4 * count_of_scales(weight_scales_, geometry_.columns, geometry_.length);
  const std::int64_t at = parts_.reserve(bytes, DType::u8);
  parts_.add_form({.slot = kernel_.b_operand.slot,
                   .offset = static_cast<std::size_t>(at),
                   .bytes = static_cast<std::size_t>(bytes),
                   .keeps = true});
  parts_.append(take_floats_apart(geometry_, side, weights_at_, weight_scales_, limits_));
  return {.leading = geometry_.length};
}

// A vector along the columns, where rows of the result are stored in `dtype_`: the library adds it.
void FastContraction::give_bias() {
  std::optional<AddedInput> added = added_input(epilogue_, dtype_);
  if (!added || !rounds_first(added->rest, dtype_) || rows_are_near() || geometry_.n == geometry_.k) return;
  const View& view = geometry_.epilogue.inputs[static_cast<std::size_t>(added->input)];
  if (!view.bounds.empty()) return;
  for (int d = 0; d < geometry_.n; ++d) {
    if (geometry_.shape[d] != 1 && view.strides[d] != 0) return;
  }
  View source{.shape = {}, .strides = {}, .offset = view.offset};
  for (int d = geometry_.n; d < geometry_.k; ++d) {
    source.shape.push_back(geometry_.shape[d]);
    source.strides.push_back(view.strides[d]);
  }
  const Shape steps = View::contiguous(source.shape).strides;
  const std::int64_t at = parts_.reserve(geometry_.columns, dtype_);
  parts_.append_copy(kernel_.epilogue.inputs[static_cast<std::size_t>(added->input)], source, steps,
                     at / static_cast<std::int64_t>(size_of(dtype_)), dtype_);
  constexpr int kBiasPlace = 4;
  bias_ = place_in_scratch(kBiasPlace, at);
  epilogue_ = std::move(added->rest);
}

// Where the library may write what the kernel stores.
std::optional<FastMatrix> FastContraction::direct_result() const {
  if (!only_stores(epilogue_, narrow_) || (bias_ && rows_are_near()) || all_rows() != geometry_.rows)
    return std::nullopt;
  const DType dtype = epilogue_.outputs[0].dtype;
  return matrix_of(geometry_.epilogue.outputs[0], geometry_, rows(), columns(), dtype);
}

// Whether the first output has neighbours along the rows.
bool FastContraction::rows_are_near() const {
  const View& out = geometry_.epilogue.outputs[0];
  return geometry_.n > geometry_.m && out.strides[geometry_.n - 1] == 1 &&
         (geometry_.k == geometry_.n || out.strides[geometry_.k - 1] != 1);
}

FastMatrix FastContraction::scratch_result() {
  const auto unit = static_cast<std::int64_t>(kLibraryAlignment / size_of(result_));
  const bool near = rows_are_near();
  FastMatrix matrix{.first_is_near = near};
  matrix.leading = aligned(near ? all_rows() : geometry_.columns, unit);
  const std::int64_t each = matrix.leading * (near ? geometry_.columns : all_rows());
  matrix.batch_stride = geometry_.m == 0 ? 0 : each;
  matrix.offset = parts_.reserve(each * geometry_.batches, result_) / static_cast<std::int64_t>(size_of(result_));
  return matrix;
}

void FastContraction::append_product(const FastMatrix& a, const FastMatrix& b, const FastMatrix& out, bool direct) {
  // Column-major, as the library has it, the result's near dimension is the first one.
  const bool swaps = !out.first_is_near;
  const FastMatrix& first = swaps ? b : a;
  const FastMatrix& second = swaps ? a : b;
  LibraryProduct product;
  product.dtype = dtype_;
  product.result = result_;
  product.batches = geometry_.batches;
  product.rows = swaps ? geometry_.columns : all_rows();
  product.columns = swaps ? all_rows() : geometry_.columns;
  product.length = geometry_.length;
  const auto alignment = [&](const FastMatrix& matrix, DType dtype) {
    const auto size = static_cast<std::uint64_t>(size_of(dtype));
    const std::uint64_t bits =
        (static_cast<std::uint64_t>(matrix.offset) | static_cast<std::uint64_t>(matrix.batch_stride)) * size;
    return static_cast<std::uint32_t>((bits | kMemoryBytes) & ~((bits | kMemoryBytes) - 1));
  };
  product.a = {!first.first_is_near, first.leading, first.batch_stride, alignment(first, dtype_)};
  product.b = {second.first_is_near, second.leading, second.batch_stride, alignment(second, dtype_)};
  product.a.scales = swaps ? weight_scales_ : row_scales();
  product.b.scales = swaps ? row_scales() : weight_scales_;
  product.out = {false, out.leading, out.batch_stride, alignment(out, result_)};
  const auto place = [](int number, bool scratch, int slot, const FastMatrix& matrix, DType dtype) {
    const std::int64_t bytes = matrix.offset * static_cast<std::int64_t>(size_of(dtype));
    return scratch ? place_in_scratch(number, bytes) : place_in_slot(number, slot, bytes);
  };
  product.bias = bias_.has_value();
  const int a_place = swaps ? 1 : 0;
  std::vector<Patch> places{place(a_place, is_copied_[0], kernel_.a.slot, a, dtype_),
                            has_floats_ ? place_in_form(1 - a_place, weights_at_.codes)
                                        : place(1 - a_place, is_copied_[1], kernel_.b_operand.slot, b, dtype_),
                            place(2, !direct, epilogue_.outputs[0].slot, out, result_),
                            place_in_scratch(3, parts_.reserve(std::int64_t{kLibraryWorkBytes}, DType::u8))};
  if (bias_) places.push_back(*bias_);
  if (has_floats_) {
    constexpr int kScalePlace = 4;  // of the first operand's
    places.push_back(place_in_scratch(kScalePlace + a_place, rows_at_.scales));
    places.push_back(place_in_form(kScalePlace + 1 - a_place, weights_at_.scales));
  }
  parts_.append_call(product, std::move(places));
}

// The epilogue as a kernel over the results in scratch memory.
void FastContraction::append_epilogue(const FastMatrix& result) {
  Program program = epilogue_;
  program.rows = geometry_.epilogue.shape;
  program.inner = {};
  for (std::size_t i = 0; i < program.inputs.size(); ++i) program.inputs[i].view = geometry_.epilogue.inputs[i];
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    program.outputs[i].strides = geometry_.epilogue.outputs[i].strides;
    program.outputs[i].offset = geometry_.epilogue.outputs[i].offset;
  }
  for (std::size_t i = 0; i < program.positions.size(); ++i) {
    program.positions[i].strides = geometry_.epilogue.positions[i].strides;
    program.positions[i].offset = geometry_.epilogue.positions[i].offset;
  }
  View sums{.shape = geometry_.epilogue.shape, .strides = geometry_.epilogue.shape, .offset = result.offset};
  const auto fill = [&](FastDims dims, std::int64_t step) {
    for (int d = dims.last - 1; d >= dims.first; --d) {
      sums.strides[d] = step;
      step *= geometry_.shape[d];
    }
  };
  fill(batch_dims(), result.batch_stride);
  fill(rows(), result.first_is_near ? 1 : result.leading);
  fill(columns(), result.first_is_near ? result.leading : 1);
  parts_.append_epilogue(std::move(program), std::move(sums), result_);
}

}  // namespace

Rendered render_fast(const ContractionKernel& kernel, const RenderLimits& limits) {
  return FastContraction(kernel, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
