#include "backends/gpu/renderer/sorted_pairs.h"

#include "backends/gpu/renderer/irregular.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

/// One exchange of the network: pairs whose numbers differ in the bit `distance`, in blocks of `block` of one
/// direction.
Launch exchange(const Pairs& pairs, std::int64_t block, std::int64_t distance, const RenderLimits& limits) {
  Words words;
  Lines lines;
  lines.add("MEMORY keys = {};", pairs.keys(words));
  lines.add("MEMORY positions = {};", pairs.positions(words));
  lines.add("int distance = {};", words.int32(distance));
  lines.add("int block = {};", words.int32(block));
  lines.add("int last = {};", words.int32(pairs.padded - 1));
  open_loop(lines, words, pairs.count() / 2, limits);
  lines.add("int low = e & (distance - 1);");
  lines.add("int a = (e - low) * 2 + low;");
  lines.add("int b = a + distance;");
  lines.add("LONG key_a = LONG(LOAD_U64_AGAIN(keys, a));");
  lines.add("LONG key_b = LONG(LOAD_U64_AGAIN(keys, b));");
  lines.add("UINT at_a = LOAD_U32_AGAIN(positions, a);");
  lines.add("UINT at_b = LOAD_U32_AGAIN(positions, b);");
  lines.add("bool ordered = key_a < key_b || (key_a == key_b && at_a < at_b);");
  lines.add("bool ascending = ((a & last) & block) == 0;");
  lines.open("if (ordered != ascending) {{");
  lines.add("STORE_U64(keys, a, ULONG(key_b));");
  lines.add("STORE_U64(keys, b, ULONG(key_a));");
  lines.add("STORE_U32(positions, a, at_b);");
  lines.add("STORE_U32(positions, b, at_a);");
  lines.close();
  lines.close();
  return launch_of(lines, words, pairs.count() / 2, limits);
}

}  // namespace

void add_sort(Rendered& rendered, const Pairs& pairs, const RenderLimits& limits) {
  for (std::int64_t block = 2; block <= pairs.padded; block *= 2) {
    for (std::int64_t distance = block / 2; distance > 0; distance /= 2) {
      rendered.launches.push_back(exchange(pairs, block, distance, limits));
    }
  }
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
