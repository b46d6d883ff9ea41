// The space of a contraction: which dimensions are batch, rows, columns and k, and how the operands lie in it.
#include <algorithm>

#include <lockstep/error.h>

#include "backends/gpu/renderer/contraction.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

enum Group { batch, rows, columns, inner };

/// A dimension of the kernel: of which group it was, and its number there.
struct Dimension {
  Group group;
  int number;
  std::int64_t size;
};

/// A view over some of the groups, in their order, and what has been made of it.
struct Source {
  View view;
  int first[4];  ///< dimension of each group, -1 where the view has none of it
  View result;
};

/// What is left of `view` in the dims of `list`.
View part_of(const View& view, const std::vector<int>& list) {
  View part;
  part.offset = view.offset;
  part.fill = view.fill;
  for (const int d : list) {
    part.shape.push_back(view.shape[d]);
    part.strides.push_back(view.strides[d]);
  }
  for (const Bound& bound : view.bounds) {
    Bound of = bound;
    of.m = {};
    for (const int d : list) of.m.push_back(bound.m[d]);
    part.bounds.push_back(std::move(of));
  }
  return part;
}

void append(View& to, const View& part) {
  for (int d = 0; d < part.rank(); ++d) {
    to.shape.push_back(part.shape[d]);
    to.strides.push_back(part.strides[d]);
    for (std::size_t b = 0; b < to.bounds.size(); ++b) to.bounds[b].m.push_back(part.bounds[b].m[d]);
  }
}

void append_zeros(View& to, const Shape& shape) {
  for (const std::int64_t size : shape) {
    to.shape.push_back(size);
    to.strides.push_back(0);
    for (Bound& bound : to.bounds) bound.m.push_back(0);
  }
}

bool depends_on(const View& view, int d) {
  return view.strides[d] != 0 ||
         std::any_of(view.bounds.begin(), view.bounds.end(), [&](const Bound& bound) { return bound.m[d] != 0; });
}

}  // namespace

Geometry geometry_of(const ContractionKernel& kernel, bool keep_batches) {
  const Shape* shapes[] = {&kernel.b, &kernel.m, &kernel.n, &kernel.k};
  const int b = kernel.b.rank();
  const int m = kernel.m.rank();
  std::vector<Source> sources;
  sources.push_back({kernel.a.view, {0, b, -1, b + m}, {}});
  sources.push_back({kernel.b_operand.view, {0, -1, b + kernel.k.rank(), b}, {}});
  Shape space = kernel.epilogue.rows;
  for (const std::int64_t size : kernel.epilogue.inner) space.push_back(size);
  const auto add = [&](View view) { sources.push_back({std::move(view), {0, b, b + m, -1}, {}}); };
  for (const Input& input : kernel.epilogue.inputs) add(input.view);
  for (const Output& output : kernel.epilogue.outputs)
    add(View{.shape = space, .strides = output.strides, .offset = output.offset});
  for (const Position& position : kernel.epilogue.positions)
    add(View{.shape = space, .strides = position.strides, .offset = position.offset});

  // Batch dimensions along which one operand repeats are rows or columns of one larger product.
  std::vector<Dimension> groups[4];
  for (int d = 0; d < b; ++d) {
    const Group to = keep_batches                            ? batch
                     : !depends_on(kernel.a.view, d)         ? columns
                     : !depends_on(kernel.b_operand.view, d) ? rows
                                                             : batch;
    groups[to].push_back({batch, d, kernel.b[d]});
  }
  for (const Group group : {rows, columns, inner}) {
    for (int d = 0; d < shapes[group]->rank(); ++d) groups[group].push_back({group, d, (*shapes[group])[d]});
  }

  Geometry geometry;
  for (Source& source : sources) source.result = part_of(source.view, {});
  for (const Group group : {batch, rows, columns, inner}) {
    (group == rows ? geometry.m : group == columns ? geometry.n : geometry.k) = geometry.shape.rank();
    Shape sizes;
    for (const Dimension& dimension : groups[group]) sizes.push_back(dimension.size);
    const auto takes_part = [&](const Source& source) { return group == batch || source.first[group] >= 0; };
    std::vector<View> parts;
    for (const Source& source : sources) {
      if (!takes_part(source)) continue;
      std::vector<int> list;
      for (const Dimension& dimension : groups[group]) list.push_back(source.first[dimension.group] + dimension.number);
      parts.push_back(part_of(source.view, list));
    }
    std::vector<View*> pointers;
    for (View& part : parts) pointers.push_back(&part);
    const Shape merged = collapse_dims(pointers, sizes, {});
    if (geometry.shape.rank() + merged.rank() > static_cast<int>(Shape::kCapacity)) {
      throw BackendError(
          "a contraction of this many separate dimensions is not supported on GPUs yet\n"
          "  fix: make the operands contiguous first");
    }
    for (const std::int64_t size : merged) geometry.shape.push_back(size);
    std::size_t next = 0;
    for (Source& source : sources) {
      if (takes_part(source)) {
        append(source.result, parts[next++]);
      } else if (group != inner) {
        append_zeros(source.result, merged);
      }
    }
    (group == batch     ? geometry.batches
     : group == rows    ? geometry.rows
     : group == columns ? geometry.columns
                        : geometry.length) = sizes.numel();
  }
  for (const Source& source : sources) geometry.far = geometry.far || is_wide(source.result);
  // Positions go beyond the sizes by up to a tile and two steps of k, or as many blocks as a workgroup has of k.
  constexpr std::int64_t kNarrow = (std::int64_t{1} << 31) - (1 << 13);
  const auto too_many = [&](std::int64_t x, std::int64_t y) { return y > 0 && x >= kNarrow / y; };
  geometry.wide = geometry.far || geometry.length >= kNarrow ||
                  too_many(geometry.batches * (geometry.rows + 128), geometry.columns + 128);
  geometry.a = sources[0].result;
  geometry.b = sources[1].result;
  std::size_t next = 2;
  for (std::size_t i = 0; i < kernel.epilogue.inputs.size(); ++i)
    geometry.epilogue.inputs.push_back(sources[next++].result);
  for (std::size_t i = 0; i < kernel.epilogue.outputs.size(); ++i)
    geometry.epilogue.outputs.push_back(sources[next++].result);
  for (std::size_t i = 0; i < kernel.epilogue.positions.size(); ++i)
    geometry.epilogue.positions.push_back(sources[next++].result);
  for (int d = 0; d < geometry.k; ++d) geometry.epilogue.shape.push_back(geometry.shape[d]);
  geometry.epilogue.wide = geometry.wide;
  return geometry;
}

Side::Side(const char* side_name, const Input& operand, const View& view_of, const Geometry& geometry, bool is_a)
    : name(side_name),
      input(&operand),
      view(view_of),
      access(side_name, view_of, geometry.wide),
      first(is_a ? geometry.m : geometry.n),
      last(is_a ? geometry.n : geometry.k),
      size(is_a ? geometry.rows : geometry.columns),
      left(is_a) {}

namespace {

// `count` neighbours along dimension d always exist together and start at a multiple of as many elements.
bool has_neighbours(const Side& side, int d, int count) {
  if (side.bounded() || side.view.strides[d] != 1 || side.view.shape[d] % count != 0 || side.view.offset % count != 0) {
    return false;
  }
  for (int other = 0; other < side.view.rank(); ++other) {
    if (other != d && side.view.strides[other] % count != 0) return false;
  }
  return true;
}

// And can be loaded as one vector.
bool has_vectors(const Side& side, int d, int count) {
  const std::size_t size = size_of(side.input->dtype);
  return side.input->encoding == Encoding::dense && (size == 4 || size == 2) && has_neighbours(side, d, count);
}

}  // namespace

bool Side::has_own_vectors(const Geometry&) const {
  return last > first && has_vectors(*this, last - 1, 4);
}

bool Side::has_k_vectors(const Geometry& geometry, int count) const {
  const int last_k = geometry.shape.rank() - 1;
  return last_k >= geometry.k && has_vectors(*this, last_k, count);
}

bool Side::has_packed_chains(const Geometry& geometry) const {
  const int last_k = geometry.shape.rank() - 1;
  return input->encoding != Encoding::dense && last_k >= geometry.k && has_neighbours(*this, last_k, 4);
}

bool Side::prefers_k(const Geometry& geometry) const {
  const int last_k = geometry.shape.rank() - 1;
  if (last_k < geometry.k || std::abs(view.strides[last_k]) != 1) return false;
  if (last == first || std::abs(view.strides[last - 1]) != 1) return true;
  return view.shape[last - 1] < 16 && view.shape[last_k] > view.shape[last - 1];
}

std::string suffix_of(int bound) {
  return bound < 0 ? "" : fmt::format("_{}", bound);
}

std::string beyond_word(const Side& side) {
  const DType dtype = side.input->dtype;
  if (side.left || !is_float(dtype)) return size_of(dtype) == 8 ? "ULONG(0)" : "0u";
  return size_of(dtype) == 8 ? "(ULONG(1) << 63)" : size_of(dtype) == 4 ? "0x80000000u" : "0x8000u";
}

void declare_zero(Lines& lines, Words& words, ComputeType type) {
  const char* name = type_name(type);
  if (is_integer(type)) return lines.add("{0} zero = {0}(0);", name);
  lines.add("{0} zero = {0}(FROM_BITS({1}));", name, words.uint32(0));
}

bool is_guarded(ComputeType type, const RenderLimits& limits) {
  return type == ComputeType::f32 && !limits.arithmetic.fma_keeps_subnormals && limits.arithmetic.fused_fma;
}

namespace {
bool is_half(const Input& input) {
  return input.dtype == DType::f16 && input.encoding == Encoding::dense;
}
}  // namespace

const char* exact_fma_of(const ContractionKernel& kernel) {
  return is_half(kernel.a) && is_half(kernel.b_operand) ? "FMA" : "FMA_EXACT";
}

bool is_guarded(const ContractionKernel& kernel, const RenderLimits& limits) {
  return is_guarded(kernel.type, limits) && exact_fma_of(kernel) == std::string_view("FMA_EXACT");
}

std::string is_small(const std::string& value) {
  return fmt::format("(BITS({}) & 0x7fffffffu) - 1u < {}", value, kSmallWords);
}

std::string fused(ComputeType type, const std::string& x, const std::string& y, const std::string& sum) {
  switch (type) {
    case ComputeType::f32: return fmt::format("FMA_EXACT({}, {}, {})", x, y, sum);
    case ComputeType::f64: return fmt::format("FMA64({}, {}, {})", x, y, sum);
    case ComputeType::i32:
    case ComputeType::i64: break;
  }
  return fmt::format("wrap_add(wrap_mul({}, {}), {})", x, y, sum);
}

std::string added(ComputeType type, const std::string& x, const std::string& y) {
  if (is_integer(type)) return fmt::format("wrap_add({}, {})", x, y);
  return type == ComputeType::f32 ? fmt::format("ADD_EXACT({}, {})", x, y) : fmt::format("{} + {}", x, y);
}

const char* canonical_of(ComputeType type) {
  return type == ComputeType::f32 ? "CANONICAL_F32" : "canonical";
}

const char* load4_of(DType dtype) {
  return size_of(dtype) == 2 ? "LOAD4_U16" : "LOAD4_U32";
}

std::size_t scratch_bytes(const ContractionKernel& kernel, const Geometry& geometry, int tile_rows, int tile_columns) {
  const std::int64_t blocks = (geometry.length + kBlock - 1) / kBlock;
  const std::int64_t tiles = geometry.batches * ((geometry.rows + tile_rows - 1) / tile_rows) *
                             ((geometry.columns + tile_columns - 1) / tile_columns);
  const bool is_long = kernel.type == ComputeType::f64 || kernel.type == ComputeType::i64;
  return static_cast<std::size_t>(blocks * tiles * tile_rows * tile_columns * (is_long ? 8 : 4));
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
