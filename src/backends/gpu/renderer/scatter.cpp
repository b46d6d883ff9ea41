// Scatters: the places are sorted, and a thread per place combines its values in the canonical order of reductions.
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

// Where each value goes; those with a bad index, and the padding, to the end.
Launch find_places(const ScatterKernel& kernel, const Pairs& pairs, std::int64_t count, const RenderLimits& limits) {
  Words words;
  Lines lines;
  Reader reader({kernel.index}, words);
  reader.declare(lines);
  lines.add("MEMORY keys = {};", pairs.keys(words));
  lines.add("MEMORY positions = {};", pairs.positions(words));
  lines.add("MEMORY faults = {};", words.memory(Patch::Kind::faults, 0));
  lines.add("int count = {};", words.int32(count));
  open_loop(lines, words, pairs.count(), limits);
  lines.add("LONG key = LONG(~(ULONG(1) << 63));");
  lines.open("if (e < count) {{");
  reader.read(lines, 0, "e");
  lines.add("LONG at = LONG(v0);");
  lines.open("if (ULONG(at) < {}) {{", words.uint64(static_cast<std::uint64_t>(kernel.size)));
  decompose(lines, words, kernel.space, 0, kernel.space.rank(), "e", "s", false);
  std::string place = fmt::format("{} * at", words.int64(kernel.stride));
  for (int d = 0; d < kernel.space.rank(); ++d)
    place += fmt::format(" + {} * LONG(s{})", words.int64(kernel.strides[d]), d);
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
  ScatterWriter(const ScatterKernel& kernel, const RenderLimits& limits)
      : kernel_(kernel),
        limits_(limits),
        element_(compute_type(kernel.dtype)),
        type_(type_name(element_)),
        reader_({kernel.values}, words_, kernel.op == ScatterOp::set) {}  // set moves words

  Launch render(const Pairs& pairs, std::int64_t count) {
    reader_.declare(lines_);
    lines_.add("MEMORY out_at = {};", words_.memory(Patch::Kind::address, kernel_.out));
    lines_.add("MEMORY keys = {};", pairs.keys(words_));
    lines_.add("MEMORY positions = {};", pairs.positions(words_));
    lines_.add("LONG none = LONG(~(ULONG(1) << 63));");
    open_loop(lines_, words_, count, limits_);
    lines_.add("LONG place = LONG(LOAD_U64_AGAIN(keys, e));");
    lines_.add("bool first = place != none;");
    lines_.add("if (e > 0) first = first && LONG(LOAD_U64_AGAIN(keys, e - 1)) != place;");
    lines_.open("if (first) {{");
    lines_.add("int end = e + 1;");
    lines_.open("while (end < total && LONG(LOAD_U64_AGAIN(keys, end)) == place) {{");
    lines_.add("end = end + 1;");
    lines_.close();
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
    lines_.add("int from = int(LOAD_U32_AGAIN(positions, {}));", number);
    reader_.read(lines_, 0, "from");
  }

  void write_last() {
    lines_.add("int last = int(LOAD_U32_AGAIN(positions, end - 1));");
    reader_.read(lines_, 0, "last");
    lines_.add("{}(out_at, place, {}(v0));", store_of(kernel_.dtype), word_type_of(kernel_.dtype));
  }

  void write_extremum() {
    const bool largest = kernel_.op == ScatterOp::max;
    const char* key = largest ? "max_key" : "min_key";
    const char* wins = largest ? ">" : "<";
    lines_.add("{0} result = {0}(0);", type_);
    lines_.open("for (int i = e; i < end; i++) {{");
    read_value("i");
    lines_.add("if (i == e || {0}(v0) {1} {0}(result)) result = v0;", key, wins);
    lines_.close();
    if (kernel_.include_self) {
      lines_.add("{} self = {};", type_, decoded(kernel_.dtype, self(), false));
      lines_.add("if (!({0}(result) {1} {0}(self))) result = self;", key, wins);
    }
    lines_.add("{}(out_at, place, {});", store_of(kernel_.dtype),
               encoded(kernel_.dtype, "canonical(result)", element_));
  }

  // Sums and products: 64 lanes of chunks of 4096 values, and 64 lanes of chunks.
  void write_sum() {
    const bool product = kernel_.op == ScatterOp::prod;
    const std::string none = identity(product, element_);
    lines_.add("{} lanes[64];", type_);
    lines_.add("{} chunk_lanes[64];", type_);
    lines_.add("int chunks = (end - e + 4095) / 4096;");
    lines_.add("for (int l = 0; l < 64; l++) chunk_lanes[l] = {};", none);
    lines_.open("for (int chunk = 0; chunk < chunks; chunk++) {{");
    lines_.add("for (int l = 0; l < 64; l++) lanes[l] = {};", none);
    lines_.add("int begin = e + chunk * 4096;");
    lines_.add("int chunk_end = SELECT(begin + 4096 < end, begin + 4096, end);");
    lines_.open("for (int i = begin; i < chunk_end; i++) {{");
    read_value("i");
    lines_.add("lanes[(i - begin) & 63] = {};", combined(product, element_, "lanes[(i - begin) & 63]", "v0"));
    lines_.close();
    const auto halve = [&](const char* array) {
      lines_.open("for (int h = 32; h > 0; h >>= 1) {{");
      lines_.add("for (int l = 0; l < h; l++) {0}[l] = {1};", array,
                 combined(product, element_, fmt::format("{}[l]", array), fmt::format("{}[l + h]", array)));
      lines_.close();
    };
    halve("lanes");
    lines_.add("chunk_lanes[chunk & 63] = {};", combined(product, element_, "chunk_lanes[chunk & 63]", "lanes[0]"));
    lines_.close();
    halve("chunk_lanes");
    lines_.add("{} result = chunk_lanes[0];", type_);
    if (kernel_.include_self) {
      lines_.add("{} self = {};", type_, decoded(kernel_.dtype, self(), false));
      lines_.add("result = {};", combined(product, element_, "self", "result"));
    }
    lines_.add("{}(out_at, place, {});", store_of(kernel_.dtype),
               encoded(kernel_.dtype, "canonical(result)", element_));
  }

  const ScatterKernel& kernel_;
  const RenderLimits& limits_;
  ComputeType element_;
  const char* type_;
  Words words_;
  Lines lines_;
  Reader reader_;
};

}  // namespace

Rendered render_kernel(const ScatterKernel& kernel, const RenderLimits& limits) {
  Rendered rendered =
      render_kernel(move_kernel(kernel.self, kernel.out, dense_strides(kernel.self.view.shape)), limits);
  const std::int64_t count = kernel.space.numel();
  if (count == 0) return rendered;
  Pairs pairs;
  pairs.padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(count)));
  check_size(kernel, pairs.count());
  rendered.scratch_bytes = pairs.bytes();
  rendered.launches.push_back(find_places(kernel, pairs, count, limits));
  add_sort(rendered, pairs, limits);
  rendered.launches.push_back(ScatterWriter(kernel, limits).render(pairs, count));
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
