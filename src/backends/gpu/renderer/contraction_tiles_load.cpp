// Tiles of the operands: which elements a thread reads, and where it puts them.
#include <algorithm>
#include <utility>

#include "backends/gpu/renderer/contraction_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

Loader TileKernel::loader(const char* name, const Input& input, const View& view, bool left) const {
  Loader result{Side(name, input, view, geometry_, left), Loading::along_own, 0, 0, 0, false, 1};
  const Side& side = result.side;
  result.width = left ? form_.rows() : form_.columns();
  result.stride = result.width + padding();
  result.count = result.width * form_.step / form_.threads();
  if (result.count % 4 == 0 && form_.step >= 8 && side.has_k_vectors(geometry_)) {
    result.loading = Loading::k_vectors;
  }
  if (result.count % 4 == 0 && side.has_own_vectors(geometry_)) result.loading = Loading::own_vectors;
  if (!result.vectors() && side.prefers_k(geometry_)) result.loading = Loading::along_k;
  const bool plain = geometry_.shape.rank() - geometry_.k <= 1 && !side.bounded();
  result.table = !plain && (result.loading == Loading::own_vectors || result.loading == Loading::along_own);
  switch (result.loading) {
    case Loading::own_vectors: result.places = std::max(1, result.width / 4 / form_.threads()); break;
    case Loading::k_vectors: result.places = std::max(1, 2 * result.width / form_.threads()); break;
    case Loading::along_own: result.places = std::max(1, result.width / form_.threads()); break;
    case Loading::along_k: result.places = result.count; break;
  }
  return result;
}

std::string TileKernel::own_of(const Loader& loader) const {
  const std::string v = vector_of(loader);
  switch (loader.loading) {
    case Loading::own_vectors: return fmt::format("({} & {}) * 4", v, loader.width / 4 - 1);
    case Loading::k_vectors: return fmt::format("(({} >> 1) & {})", v, loader.width - 1);
    case Loading::along_own: return fmt::format("({} & {})", v, loader.width - 1);
    case Loading::along_k: return fmt::format("(thread_id / {0} + j * {1})", form_.step, form_.threads() / form_.step);
  }
  return "";
}

std::string TileKernel::k_of(const Loader& loader) const {
  switch (loader.loading) {
    case Loading::own_vectors: return fmt::format("((thread_id + j * {}) / {})", form_.threads(), loader.width / 4);
    case Loading::k_vectors:
      return fmt::format("((thread_id & 1) * 4 + (thread_id + j * {}) / {} * 8)", form_.threads(), 2 * loader.width);
    case Loading::along_own: return fmt::format("((thread_id + j * {}) / {})", form_.threads(), loader.width);
    case Loading::along_k: return fmt::format("(thread_id & {})", form_.step - 1);
  }
  return "";
}

void TileKernel::prepare(const Loader& loader, const char* own) {
  const Side& side = loader.side;
  side.access.declare(lines_, words_, "batch", "", 0, geometry_.m, "i");
  for (int b = -1; b < side.access.bounds(); ++b) {
    lines_.add("{} {}_begin{}[{}];", index_, side.name, suffix_of(b), loader.places);
  }
  lines_.add("UNROLL");
  lines_.open("for (int j = 0; j < {}; j++) {{", loader.places);
  lines_.add("{0} own = first_{1} + {0}({2});", index_, own, own_of(loader));
  lines_.add("own = SELECT(own < size_{0}, own, size_{0} - {1}({2}));", own, index_,
             loader.loading == Loading::own_vectors ? 4 : 1);
  decompose(lines_, words_, geometry_.shape, side.first, side.last, "own", "i", geometry_.wide);
  for (int b = -1; b < side.access.bounds(); ++b) {
    lines_.add("{0}_begin{1}[j] = {0}_batch{1} + {2};", side.name, suffix_of(b),
               side.access.sum(words_, b, side.first, side.last, "i", false));
  }
  lines_.close();
}

void TileKernel::fill_tables(const std::string& from, const std::string& buffer, int count) {
  if (!a_.table && !b_.table) return;
  lines_.open("if (thread_id < {}) {{", count);
  lines_.add("{0} at = {1} + {0}(thread_id);", index_, from);
  decompose(lines_, words_, geometry_.shape, geometry_.k, geometry_.shape.rank(), "at", "i", geometry_.wide);
  for (const Loader* loader : {&a_, &b_}) {
    if (!loader->table) continue;
    const Side& side = loader->side;
    for (int b = -1; b < side.access.bounds(); ++b) {
      lines_.add("{0}_table{1}[{2} * {3} + thread_id] = {4};", side.name, suffix_of(b), buffer, form_.step,
                 side.access.sum(words_, b, geometry_.k, geometry_.shape.rank(), "i", false));
    }
  }
  lines_.close();
  if (count != 2 * form_.step) return;
  for (const Loader* loader : {&a_, &b_}) {
    for (int b = -1; loader->table && b < loader->side.access.bounds(); ++b) {
      shared_.push_back({geometry_.wide ? ComputeType::i64 : ComputeType::i32,
                         fmt::format("{}_table{}", loader->side.name, suffix_of(b)), 2 * form_.step});
    }
  }
}

void TileKernel::load(const Loader& loader) {
  const Side& side = loader.side;
  const std::string& name = side.name;
  const DType dtype = side.input->dtype;
  const char* word = word_type_of(dtype);
  const int rank = geometry_.shape.rank();
  lines_.add("UNROLL");
  lines_.open("for (int j = 0; j < {}; j++) {{", loader.vectors() ? loader.count / 4 : loader.count);
  lines_.add("int at_k = {};", k_of(loader));
  lines_.add("{0} element_k = load_k + {0}(at_k);", index_);
  const std::string place = loader.places == 1                   ? "0"
                            : loader.loading == Loading::along_k ? "j"
                                                                 : fmt::format("j & {}", loader.places - 1);
  if (!loader.table) decompose(lines_, words_, geometry_.shape, geometry_.k, rank, "element_k", "i", geometry_.wide);
  for (int b = -1; b < side.access.bounds(); ++b) {
    const std::string of_k = loader.table ? fmt::format("{}_table{}[back * {} + at_k]", name, suffix_of(b), form_.step)
                                          : side.access.sum(words_, b, geometry_.k, rank, "i", false);
    lines_.add("{0} {1}_e{2} = {1}_begin{2}[{3}] + {4};", index_, name, suffix_of(b), place, of_k);
  }
  side.access.check_bounds(lines_, words_, "e");
  const auto value = [&](const std::string& from) {
    return converted(decoded(dtype, from, side.input->canonical), compute_type(dtype), kernel_.type);
  };
  if (loader.vectors()) {
    lines_.add("UINT words[4];");
    lines_.open("if (element_k < size_k) {{");
    lines_.add("{}({}_at, {}_e, words)", load4_of(dtype), name, name);
    lines_.close();
    lines_.open("else {{");
    lines_.add("for (int i = 0; i < 4; i++) words[i] = {};", beyond_word(side));
    lines_.close();
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < 4; i++) {}_next[j * 4 + i] = {};", name, value("words[i]"));
  } else {
    const std::string read = fmt::format("{0}({1}_at, {1}_e)", load_of(side.input->encoding, dtype), name);
    lines_.add("{} word = {};", word, beyond_word(side));
    lines_.open("if (element_k < size_k) {{");
    if (side.bounded()) {
      lines_.add("word = {};", size_of(dtype) == 8 ? words_.uint64(side.view.fill) : words_.uint32(side.view.fill));
      lines_.add("if ({}) word = {};", side.access.inside("e"), read);
    } else {
      lines_.add("word = {};", read);
    }
    lines_.close();
    lines_.add("{}_next[j] = {};", name, value("word"));
  }
  lines_.close();
}

std::string TileKernel::small_of(const std::string& k, int blocks_on) const {
  return fmt::format("((int({} >> 8) + {}) & 1) * {}", k, blocks_on, kSmallFlags);
}

// Where all elements but zeros have exponents of at least x and y, x + y >= -80, products are multiples of 2^-126, and
// so are their sums, rounded ones too: none is subnormal, and a plain fma will do. Each operand notes which of 2^-27,
// 2^-40 and 2^-53 it is below.
void TileKernel::note_small(const Loader& loader) {
  static_assert(kBlock == 256, "small_of counts blocks");
  lines_.open("{{");
  lines_.add("UINT least = 0xffffffffu;");
  lines_.add("UNROLL");
  lines_.open("for (int j = 0; j < {}; j++) {{", loader.count);
  lines_.add("UINT magnitude = (BITS({}_next[j]) & 0x7fffffffu) - 1u;", loader.side.name);
  lines_.add("least = SELECT(magnitude < least, magnitude, least);");
  lines_.close();
  lines_.add("int noted = {} + {};", small_of("load_k", 0), loader.side.left ? 0 : kSmallFlags / 2);
  for (const auto& [flag, bits] : {std::pair{0, 0x32000000u}, {1, 0x2b800000u}, {2, 0x25000000u}}) {
    lines_.add("if (least < {:#x}u) small[noted + {}] = 1;", bits - 1, flag);
  }
  lines_.close();
}

void TileKernel::put(const Loader& loader) {
  if (guarded_) note_small(loader);
  const std::string& name = loader.side.name;
  const std::string tile = fmt::format("tile_{}", name);
  lines_.add("UNROLL");
  lines_.open("for (int j = 0; j < {}; j++) {{", loader.vectors() ? loader.count / 4 : loader.count);
  const std::string at =
      fmt::format("(back * {0} + {1}) * {2} + {3}", form_.step, k_of(loader), loader.stride, own_of(loader));
  switch (loader.loading) {
    case Loading::own_vectors: write4(tile, at, fmt::format("{}_next", name), "j * 4"); break;
    case Loading::k_vectors:
      lines_.add("int at = {};", at);
      lines_.add("UNROLL");
      lines_.add("for (int i = 0; i < 4; i++) {}[at + i * {}] = {}_next[j * 4 + i];", tile, loader.stride, name);
      break;
    default: lines_.add("{}[{}] = {}_next[j];", tile, at, name);
  }
  lines_.close();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
