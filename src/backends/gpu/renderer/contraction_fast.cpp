// The library takes matrices whose neighbours along one dimension are neighbours in memory, at multiples of 16 bytes.
// Operands that are such are read as they lie, transposed or not, once for each batch or for all; others (windows of
// convolutions, heads of attention) are copied to scratch memory first, with batches that share one operand as further
// rows or columns of one product.
#include "backends/gpu/renderer/contraction_fast.h"

#include <algorithm>
#include <optional>

#include "backends/gpu/renderer/kinds.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using FastKind = Instruction::Kind;

constexpr int kScratchSlot = 1 << 20;  ///< in programs of ours: scratch memory
constexpr std::int64_t kRegionBytes = 256;

std::int64_t aligned(std::int64_t size, std::int64_t to) {
  return over(size, to) * to;
}

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
        geometry_(geometry_of(kernel)),
        dtype_(kernel.a.dtype == kernel.b_operand.dtype ? kernel.a.dtype : DType::f32) {}

  Rendered render();

 private:
  FastDims batch_dims() const { return {0, geometry_.m}; }
  FastDims rows() const { return {geometry_.m, geometry_.n}; }
  FastDims columns() const { return {geometry_.n, geometry_.k}; }
  FastDims length() const { return {geometry_.k, geometry_.shape.rank()}; }
  std::int64_t reserve(std::int64_t elements, DType dtype);
  void append_row_kernel(Program program);

  std::optional<FastMatrix> as_it_lies(bool is_a) const;
  FastMatrix copied(bool is_a);
  std::optional<FastMatrix> direct_result() const;
  bool rounds_first() const;
  FastMatrix scratch_result();
  void append_product(const FastMatrix& a, const FastMatrix& b, const FastMatrix& out, bool direct);
  void append_epilogue(const FastMatrix& result);

  const ContractionKernel& kernel_;
  const RenderLimits& limits_;
  Geometry geometry_;
  DType dtype_;                ///< that is multiplied
  DType result_ = DType::f32;  ///< that the library writes
  bool is_copied_[2] = {};     ///< a, b: read from scratch memory
  Rendered rendered_;
};

Rendered FastContraction::render() {
  std::optional<FastMatrix> a = as_it_lies(true);
  std::optional<FastMatrix> b = as_it_lies(false);
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
  if (const std::optional<FastMatrix> out = direct_result()) {
    result_ = kernel_.epilogue.outputs[0].dtype;
    append_product(*a, *b, *out, true);
  } else {
    if (rounds_first()) result_ = dtype_;
    const FastMatrix result = scratch_result();
    append_product(*a, *b, result, false);
    append_epilogue(result);
  }
  return std::move(rendered_);
}

// A region of scratch memory: where it begins, in bytes.
std::int64_t FastContraction::reserve(std::int64_t elements, DType dtype) {
  const auto at = static_cast<std::int64_t>(rendered_.scratch_bytes);
  rendered_.scratch_bytes +=
      static_cast<std::size_t>(aligned(elements * static_cast<std::int64_t>(size_of(dtype)), kRegionBytes));
  return at;
}

void FastContraction::append_row_kernel(Program program) {
  Rendered rows = render_kernel(RowKernel{std::move(program)}, limits_);
  LOCKSTEP_ASSERT(rows.scratch_bytes == 0);
  for (Launch& launch : rows.launches) {
    for (Patch& patch : launch.patches) {
      if (patch.kind == Patch::Kind::address && patch.index == kScratchSlot) patch.kind = Patch::Kind::scratch;
    }
    rendered_.launches.push_back(std::move(launch));
  }
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
  const std::int64_t at = reserve(matrix.leading * count(far) * geometry_.batches, dtype_);
  matrix.offset = at / static_cast<std::int64_t>(size_of(dtype_));
  is_copied_[is_a ? 0 : 1] = true;

  View source{.shape = {}, .strides = {}, .offset = view.offset, .bounds = view.bounds, .fill = view.fill};
  for (Bound& bound : source.bounds) bound.m = {};
  Output out{.slot = kScratchSlot, .dtype = dtype_, .value = 0, .offset = matrix.offset};
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
      out.strides.push_back(steps[d - dims.first]);
    }
  }
  Program program;
  program.rows = source.shape;
  program.inputs.push_back({.slot = input.slot, .dtype = input.dtype, .view = source, .canonical = input.canonical});
  program.code.push_back({.kind = FastKind::load, .type = ComputeType::f32, .dtype = input.dtype, .index = 0});
  program.outputs.push_back(std::move(out));
  append_row_kernel(std::move(program));
  return matrix;
}

// Whether the epilogue does nothing with the sum but round it to `dtype_`, first of all.
bool FastContraction::rounds_first() const {
  if (dtype_ == DType::f32) return false;
  const std::vector<Instruction>& code = kernel_.epilogue.code;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i].kind != FastKind::accumulator) continue;
    const int sum = static_cast<int>(i);
    for (const Instruction& user : code) {
      if (user.a != sum && user.b != sum && user.c != sum) continue;
      if (user.kind != FastKind::cast || user.dtype != dtype_) return false;
    }
    for (const Output& output : kernel_.epilogue.outputs) {
      if (output.value == sum && (output.bits || output.dtype != dtype_)) return false;
    }
  }
  return true;
}

// Where the library may write what the kernel stores.
std::optional<FastMatrix> FastContraction::direct_result() const {
  const Program& epilogue = kernel_.epilogue;
  if (epilogue.outputs.size() != 1 || epilogue.outputs[0].bits) return std::nullopt;
  const DType dtype = epilogue.outputs[0].dtype;
  if (dtype != DType::f32 && (dtype != dtype_ || !rounds_first())) return std::nullopt;
  for (const Instruction& step : epilogue.code) {
    if (step.kind != FastKind::accumulator && (step.kind != FastKind::cast || step.dtype != dtype)) return std::nullopt;
  }
  return matrix_of(geometry_.epilogue.outputs[0], geometry_, rows(), columns(), dtype);
}

FastMatrix FastContraction::scratch_result() {
  const auto unit = static_cast<std::int64_t>(kLibraryAlignment / size_of(result_));
  // Neighbours where the first output has them.
  const View& out = geometry_.epilogue.outputs[0];
  const bool rows_are_near = geometry_.n > geometry_.m && out.strides[geometry_.n - 1] == 1 &&
                             (geometry_.k == geometry_.n || out.strides[geometry_.k - 1] != 1);
  FastMatrix matrix{.first_is_near = rows_are_near};
  matrix.leading = aligned(rows_are_near ? geometry_.rows : geometry_.columns, unit);
  const std::int64_t each = matrix.leading * (rows_are_near ? geometry_.columns : geometry_.rows);
  matrix.batch_stride = geometry_.m == 0 ? 0 : each;
  matrix.offset = reserve(each * geometry_.batches, result_) / static_cast<std::int64_t>(size_of(result_));
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
  product.rows = swaps ? geometry_.columns : geometry_.rows;
  product.columns = swaps ? geometry_.rows : geometry_.columns;
  product.length = geometry_.length;
  // Memory begins at multiples of 256 bytes.
  const auto alignment = [&](const FastMatrix& matrix, DType dtype) {
    const auto size = static_cast<std::uint64_t>(size_of(dtype));
    const std::uint64_t bits =
        (static_cast<std::uint64_t>(matrix.offset) | static_cast<std::uint64_t>(matrix.batch_stride)) * size;
    return static_cast<std::uint32_t>((bits | kRegionBytes) & ~((bits | kRegionBytes) - 1));
  };
  product.a = {!first.first_is_near, first.leading, first.batch_stride, alignment(first, dtype_)};
  product.b = {second.first_is_near, second.leading, second.batch_stride, alignment(second, dtype_)};
  product.out = {false, out.leading, out.batch_stride, alignment(out, result_)};
  Launch launch;
  launch.words.resize(8);
  const auto place = [&](int word, bool scratch, int slot, std::int64_t bytes) {
    launch.patches.push_back({.kind = scratch ? Patch::Kind::scratch : Patch::Kind::address,
                              .word = word,
                              .index = scratch ? 0 : slot,
                              .offset = bytes});
  };
  const auto bytes = [](const FastMatrix& matrix, DType dtype) {
    return matrix.offset * static_cast<std::int64_t>(size_of(dtype));
  };
  place(swaps ? 2 : 0, is_copied_[0], kernel_.a.slot, bytes(a, dtype_));
  place(swaps ? 0 : 2, is_copied_[1], kernel_.b_operand.slot, bytes(b, dtype_));
  place(4, !direct, kernel_.epilogue.outputs[0].slot, bytes(out, result_));
  place(6, true, 0, reserve(static_cast<std::int64_t>(kLibraryWorkBytes), DType::u8));
  launch.product = product;
  rendered_.launches.push_back(std::move(launch));
}

// The epilogue as a kernel over the results in scratch memory.
void FastContraction::append_epilogue(const FastMatrix& result) {
  Program program = kernel_.epilogue;
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
  const int input = static_cast<int>(program.inputs.size());
  program.inputs.push_back({.slot = kScratchSlot, .dtype = result_, .view = std::move(sums)});
  for (Instruction& step : program.code) {
    step.extent = Extent::vector;
    if (step.kind != FastKind::accumulator) continue;
    step.kind = FastKind::load;
    step.dtype = result_;
    step.index = input;
  }
  append_row_kernel(std::move(program));
}

}  // namespace

Rendered render_fast(const ContractionKernel& kernel, const RenderLimits& limits) {
  return FastContraction(kernel, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
