// Contractions in the canonical order (docs/numerics.md section 6): each output element is one chain of fma over blocks
// of 256 k, block results added in order. Workgroups compute tiles of 64 x 64 outputs; operands are read through their
// views into shared memory, 16 k at a time. Beyond the end of k the operands are +0 and -0, whose product changes
// nothing.
#include <algorithm>

#include <lockstep/error.h>

#include "backends/gpu/renderer/kinds.h"
#include "backends/gpu/renderer/program.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kTile = 64;  ///< outputs along m and n
constexpr int kStep = 16;  ///< of k
constexpr int kSide = 16;  ///< threads along m and n
constexpr int kEach = kTile / kSide;
constexpr int kBlock = 256;  ///< of k: the canonical block
constexpr int kThreads = kSide * kSide;

/// The iteration space (b, m, n, k) after merging, and every view over all of it.
struct Geometry {
  Shape shape;
  int m = 0, n = 0, k = 0;  ///< first dimension of the group
  View a, b;
  Space epilogue;
  bool wide = false;
};

/// What is left of `view` in the dims [first, first + count).
View part_of(const View& view, int first, int count) {
  View part;
  part.offset = view.offset;
  part.fill = view.fill;
  for (int d = first; d < first + count; ++d) {
    part.shape.push_back(view.shape[d]);
    part.strides.push_back(view.strides[d]);
  }
  for (const Bound& bound : view.bounds) {
    Bound of = bound;
    of.m = {};
    for (int d = first; d < first + count; ++d) of.m.push_back(bound.m[d]);
    part.bounds.push_back(std::move(of));
  }
  return part;
}

View empty_like(const View& view) {
  return part_of(view, 0, 0);
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

View dense(const Shape& shape, const Shape& strides, std::int64_t offset = 0) {
  View view;
  view.shape = shape;
  view.strides = strides;
  view.offset = offset;
  return view;
}

Geometry geometry_of(const ContractionKernel& kernel) {
  enum Group { batch, rows, columns, inner };
  const Shape* shapes[] = {&kernel.b, &kernel.m, &kernel.n, &kernel.k};
  struct Source {
    View view;
    int first[4];  ///< dimension of each group, -1 where the view does not depend on it
    View result;
  };
  std::vector<Source> sources;
  const int b = kernel.b.rank();
  const int m = kernel.m.rank();
  sources.push_back({kernel.a.view, {0, b, -1, b + m}, {}});
  sources.push_back({kernel.b_operand.view, {0, -1, b + kernel.k.rank(), b}, {}});
  Shape space = kernel.epilogue.rows;
  for (const std::int64_t size : kernel.epilogue.inner) space.push_back(size);
  const auto add = [&](View view) { sources.push_back({std::move(view), {0, b, b + m, -1}, {}}); };
  for (const Input& input : kernel.epilogue.inputs) add(input.view);
  for (const Output& output : kernel.epilogue.outputs) add(dense(space, output.strides));
  for (const Position& position : kernel.epilogue.positions) add(dense(space, position.strides, position.offset));
  Geometry geometry;
  for (Source& source : sources) source.result = empty_like(source.view);
  for (const Group group : {batch, rows, columns, inner}) {
    (group == rows ? geometry.m : group == columns ? geometry.n : geometry.k) = geometry.shape.rank();
    std::vector<View> parts;
    for (const Source& source : sources) {
      if (source.first[group] >= 0) parts.push_back(part_of(source.view, source.first[group], shapes[group]->rank()));
    }
    std::vector<View*> pointers;
    for (View& part : parts) pointers.push_back(&part);
    const Shape merged = collapse_dims(pointers, *shapes[group], {});
    if (geometry.shape.rank() + merged.rank() > static_cast<int>(Shape::kCapacity)) {
      throw BackendError(
          "a contraction of this many separate dimensions is not supported on GPUs yet\n"
          "  fix: make the operands contiguous first");
    }
    for (const std::int64_t size : merged) geometry.shape.push_back(size);
    std::size_t next = 0;
    for (Source& source : sources) {
      if (source.first[group] >= 0) {
        append(source.result, parts[next++]);
      } else {
        append_zeros(source.result, merged);
      }
    }
  }
  for (const Source& source : sources) geometry.wide = geometry.wide || is_wide(source.result);
  constexpr std::int64_t kNarrow = std::int64_t{1} << 31;
  const std::int64_t outputs = kernel.b.numel() * kernel.m.numel();
  geometry.wide = geometry.wide || outputs >= kNarrow || kernel.k.numel() >= kNarrow ||
                  (kernel.n.numel() > 0 && outputs >= kNarrow / kernel.n.numel());
  geometry.a = sources[0].result;
  geometry.b = sources[1].result;
  std::size_t next = 2;
  for (std::size_t i = 0; i < kernel.epilogue.inputs.size(); ++i)
    geometry.epilogue.inputs.push_back(sources[next++].result);
  for (std::size_t i = 0; i < kernel.epilogue.outputs.size(); ++i)
    geometry.epilogue.outputs.push_back(sources[next++].result);
  for (std::size_t i = 0; i < kernel.epilogue.positions.size(); ++i)
    geometry.epilogue.positions.push_back(sources[next++].result);
  geometry.epilogue.shape = geometry.shape;
  geometry.epilogue.wide = geometry.wide;
  return geometry;
}

class TileKernel {
 public:
  TileKernel(const ContractionKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        limits_(limits),
        geometry_(geometry_of(kernel)),
        writer_(kernel.epilogue, geometry_.epilogue, words_) {
    index_ = geometry_.wide ? "LONG" : "int";
  }

  Launch render() {
    const bool wide = geometry_.wide;
    const std::int64_t m = kernel_.m.numel();
    const std::int64_t n = kernel_.n.numel();
    const std::int64_t tiles_m = (m + kTile - 1) / kTile;
    const std::int64_t tiles_n = (n + kTile - 1) / kTile;
    const std::int64_t tiles = tiles_m * tiles_n * kernel_.b.numel();
    const char* type = type_name(kernel_.type);
    lines_.add("ULONG a_at = {};", words_.patched(Patch::Kind::address, kernel_.a.slot));
    lines_.add("ULONG b_at = {};", words_.patched(Patch::Kind::address, kernel_.b_operand.slot));
    writer_.declare_buffers(lines_);
    lines_.add("int thread = int(THREAD);");
    lines_.add("int thread_m = thread / {};", kSide);
    lines_.add("int thread_n = thread % {};", kSide);
    for (const auto& [name, size] : {std::pair{"m", m}, {"n", n}, {"k", kernel_.k.numel()}}) {
      lines_.add("{} size_{} = {};", index_, name, words_.index(size, wide));
    }
    lines_.add("{} tiles = {};", index_, words_.index(tiles, wide));
    lines_.open("for ({0} tile = {0}(GROUP); tile < tiles; tile += {0}(GROUPS)) {{", index_);
    lines_.add("{} tile_row = {};", index_, quotient(words_, "tile", tiles_n, wide));
    lines_.add("{} batch = {};", index_, quotient(words_, "tile_row", tiles_m, wide));
    lines_.add("{0} first_n = (tile - tile_row * {1}) * {0}({2});", index_, words_.index(tiles_n, wide), kTile);
    lines_.add("{0} first_m = (tile_row - batch * {1}) * {0}({2});", index_, words_.index(tiles_m, wide), kTile);
    decompose(lines_, words_, geometry_.shape, 0, geometry_.m, "batch", "i", wide);
    const Side a{"a", &kernel_.a, Access("a", geometry_.a, wide), geometry_.m, geometry_.n, geometry_.a};
    const Side b{"b", &kernel_.b_operand, Access("b", geometry_.b, wide), geometry_.n, geometry_.k, geometry_.b};
    prepare(a, "m");
    prepare(b, "n");
    lines_.add("{} total[{}];", type, kEach * kEach);
    lines_.add("{} partial[{}];", type, kEach * kEach);
    clear("total");
    clear("partial");
    lines_.open("for ({0} first_k = {0}(0); first_k < size_k; first_k += {0}({1})) {{", index_, kStep);
    fill(a, "m");
    fill(b, "n");
    lines_.add("BARRIER();");
    multiply();
    lines_.add("BARRIER();");
    add_block();
    lines_.close();
    write_outputs();
    lines_.close();
    Launch result;
    result.text.body = lines_.take();
    result.text.functions = writer_.functions();
    result.text.threads = kThreads;
    result.text.shared = {{kernel_.type, "tile_a", kStep * kTile}, {kernel_.type, "tile_b", kStep * kTile}};
    result.text.words = words_.size();
    result.groups = static_cast<std::uint32_t>(std::clamp<std::int64_t>(tiles, 1, limits_.groups));
    result.words = words_.words();
    result.patches = words_.patches();
    return result;
  }

 private:
  struct Side {
    const char* name;
    const Input* input;
    Access access;
    int first, last;  ///< its own dims, m or n
    View view;
  };

  bool is_integer() const { return kernel_.type == ComputeType::i32 || kernel_.type == ComputeType::i64; }

  // Which threads load neighbours: along k, or along the side's own dims.
  bool along_k(const Side& side) const {
    const int last_k = geometry_.shape.rank() - 1;
    const bool has_k = last_k >= geometry_.k;
    const bool own = side.last > side.first && std::abs(side.view.strides[side.last - 1]) == 1;
    return has_k && !own && std::abs(side.view.strides[last_k]) == 1;
  }

  // The number of this thread's element j in the tile, along its own dims and along k.
  std::string own_of(const Side& side) const {
    return along_k(side) ? fmt::format("thread / {} + j * {}", kStep, kThreads / kStep)
                         : fmt::format("thread % {}", kTile);
  }
  std::string k_of(const Side& side) const {
    return along_k(side) ? fmt::format("thread % {}", kStep)
                         : fmt::format("thread / {} + j * {}", kTile, kThreads / kTile);
  }
  static constexpr int kLoads = kTile * kStep / kThreads;

  // Where the rows (columns) of this thread's elements begin: arrays over j.
  void prepare(const Side& side, const char* own) {
    side.access.declare(lines_, words_, "batch", "", 0, geometry_.m, "i");
    for (int b = -1; b < side.access.bounds(); ++b) {
      lines_.add("{} {}_begin{}[{}];", index_, side.name, suffix(b), kLoads);
    }
    lines_.add("bool {}_exists[{}];", side.name, kLoads);
    lines_.add("UNROLL");
    lines_.open("for (int j = 0; j < {}; j++) {{", kLoads);
    lines_.add("{0} own = first_{1} + {0}({2});", index_, own, own_of(side));
    lines_.add("{}_exists[j] = own < size_{};", side.name, own);
    decompose(lines_, words_, geometry_.shape, side.first, side.last, "own", "i", geometry_.wide);
    for (int b = -1; b < side.access.bounds(); ++b) {
      lines_.add("{0}_begin{1}[j] = {0}_batch{1} + {2};", side.name, suffix(b),
                 side.access.sum(words_, b, side.first, side.last, "i", false));
    }
    lines_.close();
  }

  static std::string suffix(int bound) { return bound < 0 ? "" : fmt::format("_{}", bound); }

  // Loads one step of k of a side into shared memory.
  void fill(const Side& side, const char* own) {
    const DType dtype = side.input->dtype;
    const std::string name = side.name;
    const bool is_a = name == "a";
    const std::string beyond = is_integer() ? fmt::format("{}(0)", type_name(kernel_.type))
                               : kernel_.type == ComputeType::f32
                                   ? (is_a ? "FROM_BITS(0u)" : "FROM_BITS(0x80000000u)")
                                   : (is_a ? "FROM_BITS64(ULONG(0))" : "FROM_BITS64(ULONG(1) << 63)");
    (void)own;
    lines_.add("UNROLL");
    lines_.open("for (int j = 0; j < {}; j++) {{", kLoads);
    lines_.add("int at_k = {};", k_of(side));
    lines_.add("{0} k = first_k + {0}(at_k);", index_);
    lines_.add("{} value = {};", type_name(kernel_.type), beyond);
    lines_.open("if (k < size_k && {}_exists[j]) {{", name);
    decompose(lines_, words_, geometry_.shape, geometry_.k, geometry_.shape.rank(), "k", "i", geometry_.wide);
    for (int b = -1; b < side.access.bounds(); ++b) {
      lines_.add("{0} {1}_e{2} = {1}_begin{2}[j] + {3};", index_, name, suffix(b),
                 side.access.sum(words_, b, geometry_.k, geometry_.shape.rank(), "i", false));
    }
    side.access.check_bounds(lines_, words_, "e");
    const std::string load = fmt::format("{0}({1}_at, {1}_e)", load_of(dtype), name);
    if (side.access.bounded()) {
      lines_.add("{} word = {};", word_type_of(dtype),
                 size_of(dtype) == 8 ? words_.uint64(side.view.fill) : words_.uint32(side.view.fill));
      lines_.add("if ({}) word = {};", side.access.inside("e"), load);
    } else {
      lines_.add("{} word = {};", word_type_of(dtype), load);
    }
    lines_.add("value = {};",
               converted(decoded(dtype, "word", side.input->canonical), compute_type(dtype), kernel_.type));
    lines_.close();
    lines_.add("tile_{}[at_k * {} + {}] = value;", name, kTile, own_of(side));
    lines_.close();
  }

  void clear(const char* array) {
    lines_.add("UNROLL");
    lines_.add("for (int x = 0; x < {}; x++) {}[x] = {}(0);", kEach * kEach, array, type_name(kernel_.type));
  }

  void multiply() {
    const char* type = type_name(kernel_.type);
    // The compiler may not unroll all of it: 16 steps of 16 products are enough text.
    lines_.open("for (int at_k = 0; at_k < {}; at_k++) {{", kStep);
    lines_.add("{} x[{}];", type, kEach);
    lines_.add("{} y[{}];", type, kEach);
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < {0}; i++) x[i] = tile_a[at_k * {1} + thread_m + i * {2}];", kEach, kTile, kSide);
    lines_.add("UNROLL");
    lines_.add("for (int j = 0; j < {0}; j++) y[j] = tile_b[at_k * {1} + thread_n + j * {2}];", kEach, kTile, kSide);
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", kEach);
    lines_.add("UNROLL");
    lines_.open("for (int j = 0; j < {}; j++) {{", kEach);
    const char* product = kernel_.type == ComputeType::f32   ? "FMA_EXACT(x[i], y[j], partial[i * {0} + j])"
                          : kernel_.type == ComputeType::f64 ? "FMA64(x[i], y[j], partial[i * {0} + j])"
                                                             : "wrap_add(wrap_mul(x[i], y[j]), partial[i * {0} + j])";
    lines_.add("partial[i * {} + j] = {};", kEach, fmt::format(fmt::runtime(product), kEach));
    lines_.close();
    lines_.close();
    lines_.close();
  }

  // At the end of each canonical block: the first partial is stored, later ones are added.
  void add_block() {
    const std::string sum = is_integer() ? "wrap_add(total[x], partial[x])" : "total[x] + partial[x]";
    lines_.open("if ((int(first_k) & {}) == {} || first_k + {}({}) >= size_k) {{", kBlock - 1, kBlock - kStep, index_,
                kStep);
    lines_.add("UNROLL");
    lines_.open("for (int x = 0; x < {}; x++) {{", kEach * kEach);
    lines_.add("total[x] = SELECT(first_k < {}({}), partial[x], {});", index_, kBlock, sum);
    lines_.add("partial[x] = {}(0);", type_name(kernel_.type));
    lines_.close();
    lines_.close();
  }

  void write_outputs() {
    const Program& program = kernel_.epilogue;
    std::set<int> instructions;
    std::set<int> outputs;
    for (std::size_t i = 0; i < program.code.size(); ++i) instructions.insert(static_cast<int>(i));
    for (std::size_t o = 0; o < program.outputs.size(); ++o) outputs.insert(static_cast<int>(o));
    lines_.add("UNROLL");
    lines_.open("for (int x = 0; x < {}; x++) {{", kEach);
    lines_.add("{0} m = first_m + {0}(thread_m + x * {1});", index_, kSide);
    lines_.add("UNROLL");
    lines_.open("for (int y = 0; y < {}; y++) {{", kEach);
    lines_.add("{0} n = first_n + {0}(thread_n + y * {1});", index_, kSide);
    lines_.open("if (m < size_m && n < size_n) {{");
    decompose(lines_, words_, geometry_.shape, geometry_.m, geometry_.n, "m", "i", geometry_.wide);
    decompose(lines_, words_, geometry_.shape, geometry_.n, geometry_.k, "n", "i", geometry_.wide);
    lines_.add("{} accumulator = canonical(total[x * {} + y]);", type_name(kernel_.type), kEach);
    writer_.declare_places(lines_, "e", "", 0, geometry_.k, instructions, outputs, true);
    for (const int i : instructions) writer_.emit(lines_, i, "e");
    for (const int o : outputs) writer_.store(lines_, o, "e");
    lines_.close();
    lines_.close();
    lines_.close();
  }

  const ContractionKernel& kernel_;
  const RenderLimits& limits_;
  Geometry geometry_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  const char* index_ = "int";
};

}  // namespace

Rendered render_kernel(const ContractionKernel& kernel, const RenderLimits& limits) {
  for (const Instruction& step : kernel.epilogue.code) LOCKSTEP_ASSERT(step.kind != Instruction::Kind::reduce);
  if (kernel.b.numel() == 0 || kernel.m.numel() == 0 || kernel.n.numel() == 0) return {};
  Rendered rendered;
  rendered.launches.push_back(TileKernel(kernel, limits).render());
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
