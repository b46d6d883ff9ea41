// Sorts: pairs of a key and a position, sorted; the positions are the result.
#include <bit>

#include "backends/gpu/renderer/irregular.h"
#include "backends/gpu/renderer/kinds.h"
#include "backends/gpu/renderer/sorted_pairs.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

Rendered render_kernel(const SortKernel& kernel, const RenderLimits& limits) {
  const std::int64_t rows = kernel.rows.numel();
  if (rows == 0 || kernel.n == 0) return {};
  Pairs pairs;
  pairs.rows = rows;
  pairs.padded = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(kernel.n)));
  check_size(kernel, pairs.count());
  Rendered rendered;
  rendered.scratch_bytes = pairs.bytes();
  {
    Words words;
    Lines lines;
    Reader reader({kernel.input}, words);
    reader.declare(lines);
    lines.add("MEMORY keys = {};", pairs.keys(words));
    lines.add("MEMORY positions = {};", pairs.positions(words));
    lines.add("int length = {};", words.int32(kernel.n));
    open_loop(lines, words, pairs.count(), limits);
    lines.add("int row = {};", quotient(words, "e", pairs.padded, false));
    lines.add("int at = e - row * {};", words.int32(pairs.padded));
    lines.add("LONG key = LONG(~(ULONG(1) << 63));");
    lines.open("if (at < length) {{");
    lines.add("int from = row * length + at;");
    reader.read(lines, 0, "from");
    lines.add("key = LONG(max_key(v0));");
    if (kernel.descending) lines.add("key = ~key;");
    lines.close();
    lines.add("STORE_U64(keys, e, ULONG(key));");
    lines.add("STORE_U32(positions, e, UINT(at));");
    lines.close();
    rendered.launches.push_back(launch_of(lines, words, pairs.count(), limits));
  }
  add_sort(rendered, pairs, limits);
  {
    Words words;
    Lines lines;
    lines.add("MEMORY positions = {};", pairs.positions(words));
    lines.add("MEMORY out_at = {};", words.memory(Patch::Kind::address, kernel.out));
    const Shape shape = joined(kernel.rows, kernel.n);
    lines.add("int length = {};", words.int32(kernel.n));
    open_loop(lines, words, rows * kernel.n, limits);
    lines.add("int row = {};", quotient(words, "e", kernel.n, false));
    lines.add("int at = e - row * length;");
    decompose(lines, words, shape, 0, shape.rank(), "e", "i", false);
    std::string address = "LONG(0)";
    for (int d = 0; d < shape.rank(); ++d)
      address += fmt::format(" + {} * LONG(i{})", words.int64(kernel.out_strides[d]), d);
    lines.add("LONG place = {};", address);
    lines.add("STORE_U64(out_at, place, ULONG(LOAD_U32_AGAIN(positions, row * {} + at)));", words.int32(pairs.padded));
    lines.close();
    rendered.launches.push_back(launch_of(lines, words, rows * kernel.n, limits));
  }
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
