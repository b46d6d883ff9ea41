// Scatters: the places are sorted, and a thread per place combines its values in the canonical order of reductions.
// Where one index stands for a slice of places, as in an embedding's gradient, the slices are sorted. Where no two
// values can go to one place, as those of a token in a cache of keys, nothing is.
#include <bit>

#include "backends/gpu/renderer/irregular.h"
#include "backends/gpu/renderer/kinds.h"
#include "backends/gpu/renderer/sorted_pairs.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

// The texts write the numbers of the order out.
static_assert(order::kChunk == 4096 && order::kLanes == 64);

/// A scatter whose last dimensions, from `slice` on, are those along which the index is the same and places are not.
struct SlicedScatter {
  explicit SlicedScatter(const ScatterKernel& from);
  ScatterKernel kernel;
  int slice = 0;
  std::int64_t count = 1;  ///< of slices
  std::int64_t each = 1;   ///< of places in one
};

SlicedScatter::SlicedScatter(const ScatterKernel& from) : kernel(from) {
  Shape order;
  Shape last;
  for (int d = 0; d < from.space.rank(); ++d) {
    const bool same = from.index.view.bounds.empty() && from.index.view.strides[d] == 0 && from.strides[d] != 0;
    (same ? last : order).push_back(d);
    (same ? each : count) *= from.space[d];
  }
  slice = order.rank();
  for (const std::int64_t d : last) order.push_back(d);
  kernel.values.view = from.values.view.permuted(order);
  kernel.index.view = from.index.view.permuted(order);
  kernel.space = kernel.values.view.shape;
  for (int d = 0; d < order.rank(); ++d) kernel.strides[d] = from.strides[static_cast<int>(order[d])];
  if (last.empty()) return;
  kernel.index.view.shape = kernel.space.slice(0, slice);
  kernel.index.view.strides = kernel.index.view.strides.slice(0, slice);
}

// Where each slice begins; those with a bad index, and the padding, to the end.
Launch find_places(const SlicedScatter& scatter, const Pairs& pairs, const RenderLimits& limits) {
  const ScatterKernel& kernel = scatter.kernel;
  Words words;
  Lines lines;
  Reader reader({kernel.index}, words);
  reader.declare(lines);
  lines.add("MEMORY keys = {};", pairs.keys(words));
  lines.add("MEMORY positions = {};", pairs.positions(words));
  lines.add("MEMORY faults = {};", words.memory(Patch::Kind::faults, 0));
  lines.add("int count = {};", words.int32(scatter.count));
  open_loop(lines, words, pairs.count(), limits);
  lines.add("LONG key = LONG(~(ULONG(1) << 63));");
  lines.open("if (e < count) {{");
  reader.read(lines, 0, "e");
  lines.add("LONG at = LONG(v0);");
  lines.open("if (ULONG(at) < {}) {{", words.uint64(static_cast<std::uint64_t>(kernel.size)));
  decompose(lines, words, kernel.space, 0, scatter.slice, "e", "s", false);
  std::string place = fmt::format("{} * at", words.int64(kernel.stride));
  for (int d = 0; d < scatter.slice; ++d) place += fmt::format(" + {} * LONG(s{})", words.int64(kernel.strides[d]), d);
  lines.add("key = {};", place);
  lines.close();
  lines.open("else {{");
  lines.add("STORE_U32(faults, 0, 1u);");
  lines.close();
  lines.close();
  lines.add("STORE_U64(keys, e, ULONG(key));");
  lines.add("STORE_U32(positions, e, UINT(e));");
  lines.close();
  return launch_of(lines, words, pairs.count(), limits);
}

// A thread per place: it combines the values in ascending order of their positions.
class ScatterWriter {
 public:
  ScatterWriter(const SlicedScatter& scatter, const RenderLimits& limits)
      : scatter_(scatter),
        kernel_(scatter.kernel),
        limits_(limits),
        element_(compute_type(kernel_.dtype)),
        type_(type_name(element_)),
        reader_({kernel_.values}, words_, kernel_.op == ScatterOp::set) {}  // set moves words

  Launch render(const Pairs& pairs) {
    const std::int64_t count = scatter_.count * scatter_.each;
    reader_.declare(lines_);
    lines_.add("MEMORY out_at = {};", words_.memory(Patch::Kind::address, kernel_.out));
    lines_.add("MEMORY keys = {};", pairs.keys(words_));
    lines_.add("MEMORY positions = {};", pairs.positions(words_));
    lines_.add("LONG none = LONG(~(ULONG(1) << 63));");
    lines_.add("int slices = {};", words_.int32(scatter_.count));
    lines_.add("int each = {};", words_.int32(scatter_.each));
    open_loop(lines_, words_, count, limits_);
    lines_.add("int begin = e / each;");
    lines_.add("int within = e - begin * each;");
    lines_.add("LONG key = LONG(LOAD_U64_AGAIN(keys, begin));");
    lines_.add("bool first = key != none;");
    lines_.add("if (begin > 0) first = first && LONG(LOAD_U64_AGAIN(keys, begin - 1)) != key;");
    lines_.open("if (first) {{");
    lines_.add("int end = begin + 1;");
    lines_.open("while (end < slices && LONG(LOAD_U64_AGAIN(keys, end)) == key) {{");
    lines_.add("end = end + 1;");
    lines_.close();
    decompose(lines_, words_, kernel_.space, scatter_.slice, kernel_.space.rank(), "within", "s", false);
    std::string place = "key";
    for (int d = scatter_.slice; d < kernel_.space.rank(); ++d)
      place += fmt::format(" + {} * LONG(s{})", words_.int64(kernel_.strides[d]), d);
    lines_.add("LONG place = {};", place);
    switch (kernel_.op) {
      case ScatterOp::set: write_last(); break;
      case ScatterOp::max:
      case ScatterOp::min: write_extremum(); break;
      case ScatterOp::add:
      case ScatterOp::prod: write_sum(); break;
    }
    lines_.close();
    lines_.close();
    return launch_of(lines_, words_, count, limits_);
  }

 private:
  // The element of `out`, which was written by an earlier launch, and by no other thread.
  std::string self() const { return fmt::format("{}(out_at, place)", load_of(kernel_.dtype)); }
  void read_value(const char* number) {
    lines_.add("int from = int(LOAD_U32_AGAIN(positions, {})) * each + within;", number);
    reader_.read(lines_, 0, "from");
  }

  void write_last() {
    read_value("end - 1");
    lines_.add("{}(out_at, place, {}(v0));", store_of(kernel_.dtype), word_type_of(kernel_.dtype));
  }

  void write_extremum() {
    const bool largest = kernel_.op == ScatterOp::max;
    const char* key = largest ? "max_key" : "min_key";
    const char* wins = largest ? ">" : "<";
    lines_.add("{0} result = {0}(0);", type_);
    lines_.open("for (int i = begin; i < end; i++) {{");
    read_value("i");
    lines_.add("if (i == begin || {0}(v0) {1} {0}(result)) result = v0;", key, wins);
    lines_.close();
    if (kernel_.include_self) {
      lines_.add("{} self = {};", type_, decoded(kernel_.dtype, self(), false));
      lines_.add("if (!({0}(result) {1} {0}(self))) result = self;", key, wins);
    }
    lines_.add("{}(out_at, place, {});", store_of(kernel_.dtype),
               encoded(kernel_.dtype, "canonical(result)", element_));
  }

  // Sums and products: 64 lanes of chunks of 4096 values, and 64 lanes of chunks. Lanes that nothing goes to are left
  // out: what the others begin with has done all that adding them would.
  void write_sum() {
    const bool product = kernel_.op == ScatterOp::prod;
    const std::string none = identity(product, element_);
    const auto begin_lanes = [&](const char* array, const char* width, const char* values) {
      lines_.add("int {} = 1;", width);
      lines_.add("while ({0} < 64 && {0} < {1}) {0} = {0} * 2;", width, values);
      lines_.add("for (int l = 0; l < {}; l++) {}[l] = {};", width, array, none);
    };
    const auto halve = [&](const char* array, const char* width) {
      lines_.open("for (int h = {} / 2; h > 0; h >>= 1) {{", width);
      lines_.add("for (int l = 0; l < h; l++) {0}[l] = {1};", array,
                 combined(product, element_, fmt::format("{}[l]", array), fmt::format("{}[l + h]", array)));
      lines_.close();
    };
    lines_.add("{} lanes[64];", type_);
    lines_.add("{} chunk_lanes[64];", type_);
    lines_.add("int chunks = (end - begin + 4095) / 4096;");
    begin_lanes("chunk_lanes", "chunk_width", "chunks");
    lines_.open("for (int chunk = 0; chunk < chunks; chunk++) {{");
    lines_.add("int chunk_begin = begin + chunk * 4096;");
    lines_.add("int chunk_end = SELECT(chunk_begin + 4096 < end, chunk_begin + 4096, end);");
    lines_.add("int values = chunk_end - chunk_begin;");
    begin_lanes("lanes", "width", "values");
    lines_.open("for (int i = chunk_begin; i < chunk_end; i++) {{");
    read_value("i");
    lines_.add("lanes[(i - chunk_begin) & 63] = {};",
               combined(product, element_, "lanes[(i - chunk_begin) & 63]", "v0"));
    lines_.close();
    halve("lanes", "width");
    lines_.add("chunk_lanes[chunk & 63] = {};", combined(product, element_, "chunk_lanes[chunk & 63]", "lanes[0]"));
    lines_.close();
    halve("chunk_lanes", "chunk_width");
    lines_.add("{} result = chunk_lanes[0];", type_);
    if (kernel_.include_self) {
      lines_.add("{} self = {};", type_, decoded(kernel_.dtype, self(), false));
      lines_.add("result = {};", combined(product, element_, "self", "result"));
    }
    lines_.add("{}(out_at, place, {});", store_of(kernel_.dtype),
               encoded(kernel_.dtype, "canonical(result)", element_));
  }

  const SlicedScatter& scatter_;
  const ScatterKernel& kernel_;
  const RenderLimits& limits_;
  ComputeType element_;
  const char* type_;
  Words words_;
  Lines lines_;
  Reader reader_;
};

// Whether each value has a place of its own, whatever the index says.
bool has_places_apart(const ScatterKernel& kernel) {
  for (int d = 0; d < kernel.space.rank(); ++d) {
    if (kernel.strides[d] == 0 && kernel.space[d] != 1) return false;
  }
  return true;
}

// A thread per value, which moves it.
Launch move_to_places(const ScatterKernel& kernel, const RenderLimits& limits) {
  Words words;
  Lines lines;
  Reader reader({kernel.index, kernel.values}, words, true);
  reader.declare(lines);
  lines.add("MEMORY out_at = {};", words.memory(Patch::Kind::address, kernel.out));
  lines.add("MEMORY faults = {};", words.memory(Patch::Kind::faults, 0));
  const std::int64_t count = kernel.space.numel();
  open_loop(lines, words, count, limits);
  lines.add("LONG at = LONG(0);");
  lines.open("{{");
  reader.read(lines, 0, "e");
  lines.add("at = {};", kernel.index.dtype == DType::i64 ? "LONG(v0)" : "LONG(int(v0))");
  lines.close();
  lines.open("if (ULONG(at) < {}) {{", words.uint64(static_cast<std::uint64_t>(kernel.size)));
  decompose(lines, words, kernel.space, 0, kernel.space.rank(), "e", "s", false);
  std::string place = fmt::format("{} * at", words.int64(kernel.stride));
  for (int d = 0; d < kernel.space.rank(); ++d) {
    if (kernel.space[d] != 1) place += fmt::format(" + {} * LONG(s{})", words.int64(kernel.strides[d]), d);
  }
  lines.add("LONG place = {};", place);
  reader.read(lines, 1, "e");
  lines.add("{}(out_at, place, {}(v1));", store_of(kernel.dtype), word_type_of(kernel.dtype));
  lines.close();
  lines.open("else {{");
  lines.add("STORE_U32(faults, 0, 1u);");
  lines.close();
  lines.close();
  return launch_of(lines, words, count, limits);
}

}  // namespace

Rendered render_kernel(const ScatterKernel& kernel, const RenderLimits& limits) {
  Rendered rendered =
      render_kernel(move_kernel(kernel.self, kernel.out, dense_strides(kernel.self.view.shape)), limits);
  for (Launch& copy : rendered.launches) {
    copy.copies_from = kernel.self.slot;
    copy.copies_to = kernel.out;
  }
  if (kernel.space.numel() == 0) return rendered;
  if (kernel.op == ScatterOp::set && has_places_apart(kernel)) {
    check_size(kernel, kernel.space.numel());
    rendered.launches.push_back(move_to_places(kernel, limits));
    return rendered;
  }
  const SlicedScatter scatter(kernel);
  check_size(kernel, kernel.space.numel());
  Pairs pairs;
  pairs.padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(scatter.count)));
  check_size(kernel, pairs.count());
  rendered.scratch_bytes = pairs.bytes();
  rendered.launches.push_back(find_places(scatter, pairs, limits));
  add_sort(rendered, pairs, limits);
  rendered.launches.push_back(ScatterWriter(scatter, limits).render(pairs));
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
