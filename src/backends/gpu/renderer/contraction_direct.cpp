// Contractions with a short k: a thread per output walks along k by itself, in loops over k's dimensions, so that
// nothing is divided. For depthwise convolutions and small matrices, where tiles would be mostly empty.
#include <algorithm>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

namespace {
constexpr std::int64_t kLongestWindow = 32;
}  // namespace

Launch render_direct(const ContractionKernel& kernel, Geometry geometry, const RenderLimits& limits) {
  const std::int64_t elements = geometry.batches * geometry.rows * geometry.columns;
  const bool wide = geometry.far || elements >= std::int64_t{1} << 30;
  geometry.wide = geometry.epilogue.wide = wide;
  const char* index = wide ? "LONG" : "int";
  const char* type = type_name(kernel.type);
  const int rank = geometry.shape.rank();
  Words words;
  Lines lines;
  ProgramWriter writer(kernel.epilogue, geometry.epilogue, words);
  const Side a("a", kernel.a, geometry.a, geometry, true);
  const Side b("b", kernel.b_operand, geometry.b, geometry, false);
  // Few outputs wait for memory: the loads of more steps are under way together, and on more of the device's units.
  const bool few = elements <= std::int64_t{2} * limits.units * limits.threads;
  const int threads = few ? kLeastThreads : limits.threads;
  const char* in_flight = few && !a.bounded() && !b.bounded() ? "UNROLL_BY(16)" : "UNROLL_BY(4)";
  lines.add("MEMORY a_at = {};", words.memory(Patch::Kind::address, kernel.a.slot));
  lines.add("MEMORY b_at = {};", words.memory(Patch::Kind::address, kernel.b_operand.slot));
  writer.declare_buffers(lines);
  declare_zero(lines, words, kernel.type);
  lines.add("{} elements = {};", index, words.index(elements, wide));
  lines.open("for ({0} e = {0}(GROUP) * {0}({1}) + {0}(THREAD); e < elements; e += {0}(GROUPS) * {0}({1})) {{", index,
             threads);
  decompose(lines, words, geometry.shape, 0, geometry.k, "e", "i", wide);
  for (const Side* side : {&a, &b}) side->access.declare(lines, words, "own", "", 0, geometry.k, "i");
  lines.add("{} total = zero;", type);
  lines.add("{} partial = zero;", type);
  lines.add("int done = 0;");
  // The positions of a convolution's window belong to the text: unrolled, most of their checks fall together.
  const bool window = (a.bounded() || b.bounded()) && geometry.length <= kLongestWindow;
  for (int d = geometry.k; d < rank; ++d) {
    if (window || d + 1 == rank) lines.add("{}", window ? "UNROLL" : in_flight);
    const std::string size = window ? std::to_string(geometry.shape[d]) : words.index(geometry.shape[d], wide);
    lines.open("for ({0} i{1} = {0}(0); i{1} < {2}; i{1}++) {{", index, d, size);
  }
  for (const Side* side : {&a, &b}) {
    const DType dtype = side->input->dtype;
    side->access.declare(lines, words, "e", "own", geometry.k, rank, "i");
    side->access.check_bounds(lines, words, "e");
    const std::string load = fmt::format("{0}({1}_at, {1}_e)", load_of(side->input->encoding, dtype), side->name);
    if (side->bounded()) {
      lines.add("{} {}_word = {};", word_type_of(dtype), side->name,
                size_of(dtype) == 8 ? words.uint64(side->view.fill) : words.uint32(side->view.fill));
      lines.add("if ({}) {}_word = {};", side->access.inside("e"), side->name, load);
    } else {
      lines.add("{} {}_word = {};", word_type_of(dtype), side->name, load);
    }
    lines.add(
        "{} {}_value = {};", type, side->name,
        converted(decoded(dtype, side->name + "_word", side->input->canonical), compute_type(dtype), kernel.type));
  }
  lines.add("partial = {};", fused(kernel.type, "a_value", "b_value", "partial"));
  if (geometry.length > kBlock) {
    lines.add("done++;");
    lines.open("if ((done & {}) == 0) {{", kBlock - 1);
    lines.add("total = SELECT(done == {}, partial, {});", kBlock, added(kernel.type, "total", "partial"));
    lines.add("partial = zero;");
    lines.close();
  }
  for (int d = geometry.k; d < rank; ++d) lines.close();
  if (geometry.length > kBlock) {
    lines.add("if ((done & {}) != 0) partial = {};", kBlock - 1, added(kernel.type, "total", "partial"));
    lines.add("else partial = total;");
  }
  lines.add("{} accumulator = {}(partial);", type, canonical_of(kernel.type));
  std::set<int> instructions;
  std::set<int> outputs;
  for (std::size_t i = 0; i < kernel.epilogue.code.size(); ++i) instructions.insert(static_cast<int>(i));
  for (std::size_t o = 0; o < kernel.epilogue.outputs.size(); ++o) outputs.insert(static_cast<int>(o));
  writer.declare_places(lines, "e", "", 0, geometry.k, instructions, outputs, true);
  for (const int i : instructions) writer.emit(lines, i, "e");
  for (const int o : outputs) writer.store(lines, o, "e");
  lines.close();
  Launch result;
  result.text.body = lines.take();
  result.text.functions = writer.functions();
  result.text.threads = threads;
  result.groups = limits.groups_for(over(elements, threads));
  words.move_to(result);
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
