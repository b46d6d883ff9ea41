// Contractions by tiles: a workgroup computes 64 or 128 rows times 64 or 128 columns. While one step of k is multiplied
// out of shared memory, the next one is on its way into registers. Each thread has subtiles of 4 x 4 outputs, so that
// shared memory is read four values at a time.
//
// How elements reach shared memory depends on how they lie: four neighbours at once along the operand's own dimensions
// or along k where that can be, else one by one, neighbouring threads along whichever is contiguous. What k contributes
// to addresses and bounds (the positions of a convolution's window) is computed once per step of k for all threads.
#include <algorithm>
#include <string_view>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kStageRows = 32;

enum class Loading { own_vectors, k_vectors, along_own, along_k };

/// An operand and how its tile is filled.
struct Loader {
  Side side;
  Loading loading;
  int width;   ///< of the tile along the operand's own dimensions
  int stride;  ///< of the tile in shared memory
  int count;   ///< elements per thread and step
  bool table;  ///< what k contributes is looked up
  int places;  ///< of the operand's own dimensions that a thread reads at

  bool vectors() const { return loading == Loading::own_vectors || loading == Loading::k_vectors; }
};

class TileKernel {
 public:
  TileKernel(const ContractionKernel& kernel, const Geometry& geometry, const TileForm& form,
             const RenderLimits& limits)
      : kernel_(kernel),
        limits_(limits),
        geometry_(geometry),
        form_(form),
        writer_(kernel.epilogue, geometry.epilogue, words_),
        index_(geometry.wide ? "LONG" : "int"),
        type_(type_name(kernel.type)),
        single_(kernel.type == ComputeType::f32 || kernel.type == ComputeType::i32),
        guarded_(is_guarded(kernel, limits)),
        a_(loader("a", kernel.a, geometry.a, true)),
        b_(loader("b", kernel.b_operand, geometry.b, false)) {}

  Launch render() {
    const bool wide = geometry_.wide;
    const std::int64_t tiles_m = (geometry_.rows + form_.rows() - 1) / form_.rows();
    const std::int64_t tiles_n = (geometry_.columns + form_.columns() - 1) / form_.columns();
    const std::int64_t tiles = tiles_m * tiles_n * geometry_.batches;
    lines_.add("MEMORY a_at = {};", words_.memory(Patch::Kind::address, kernel_.a.slot));
    lines_.add("MEMORY b_at = {};", words_.memory(Patch::Kind::address, kernel_.b_operand.slot));
    if (is_split()) {
      lines_.add("MEMORY scratch = {};", words_.memory(Patch::Kind::scratch, 0));
    } else {
      writer_.declare_buffers(lines_);
    }
    declare_zero(lines_, words_, kernel_.type);
    lines_.add("int thread_id = int(THREAD);");
    lines_.add("int thread_m = ((thread_id / {}) * {} + ((thread_id & 31) >> 2)) * 4;", 32 * form_.teams_n,
               8 * form_.subtiles_m);
    lines_.add("int thread_n = (((thread_id >> 5) & {}) * {} + (thread_id & 3)) * 4;", form_.teams_n - 1,
               4 * form_.subtiles_n);
    for (const auto& [name, size] :
         {std::pair{"m", geometry_.rows}, {"n", geometry_.columns}, {"k", geometry_.length}}) {
      lines_.add("{} size_{} = {};", index_, name, words_.index(size, wide));
    }
    lines_.add("{} tiles = {};", index_, words_.index(tiles, wide));
    if (is_split()) {
      lines_.add("{} per_split = {};", index_, words_.index(per_split(), wide));
      lines_.add("{0} units = tiles * {1};", index_, words_.index(form_.split, wide));
      lines_.open("for ({0} unit = {0}(GROUP); unit < units; unit += {0}(GROUPS)) {{", index_);
      lines_.add("{} part = {};", index_, quotient(words_, "unit", tiles, wide));
      lines_.add("{} tile = unit - part * tiles;", index_);
      lines_.add("{} begin_k = part * per_split;", index_);
      lines_.add("{0} end_k = SELECT(begin_k + per_split < size_k, begin_k + per_split, size_k);", index_);
    } else {
      lines_.open("for ({0} tile = {0}(GROUP); tile < tiles; tile += {0}(GROUPS)) {{", index_);
      lines_.add("{0} begin_k = {0}(0);", index_);
      lines_.add("{} end_k = size_k;", index_);
    }
    lines_.add("{} tile_row = {};", index_, quotient(words_, "tile", tiles_n, wide));
    lines_.add("{} batch = {};", index_, quotient(words_, "tile_row", tiles_m, wide));
    lines_.add("{0} first_n = (tile - tile_row * {1}) * {0}({2});", index_, words_.index(tiles_n, wide),
               form_.columns());
    lines_.add("{0} first_m = (tile_row - batch * {1}) * {0}({2});", index_, words_.index(tiles_m, wide), form_.rows());
    decompose(lines_, words_, geometry_.shape, 0, geometry_.m, "batch", "i", wide);
    prepare(a_, "m");
    prepare(b_, "n");
    if (has_totals() && !form_.shared_totals) declare_sums("total");
    // A loop over canonical blocks around the one over steps: sums stay in their registers from step to step.
    const bool blocks = is_split() || has_totals();
    if (!blocks) declare_sums("partial");
    if (!is_split()) fill_fixed();
    fill_tables("begin_k", "0", 2 * form_.step);
    if (guarded_) {
      lines_.add("if (thread_id == 0) small[0] = 0;");
      shared_.push_back({ComputeType::i32, "small", 1});
    }
    lines_.add("BARRIER();");
    lines_.add("{} load_k = begin_k;", index_);
    lines_.add("int front = 0;");
    lines_.add("int back = 0;");
    for (const Loader* loader : {&a_, &b_}) {
      lines_.add("{} {}_next[{}];", type_, loader->side.name, loader->count);
      load(*loader);
      put(*loader);
    }
    lines_.add("BARRIER();");
    if (blocks) {
      lines_.open("for ({0} block_k = begin_k; block_k < end_k; block_k += {0}({1})) {{", index_, kBlock);
      lines_.add("{0} stop_k = SELECT(end_k - block_k > {0}({1}), block_k + {0}({1}), end_k);", index_, kBlock);
      declare_sums("partial");
    }
    lines_.open("for ({0} k = {1}; k < {2}; k += {0}({3})) {{", index_, blocks ? "block_k" : "begin_k",
                blocks ? "stop_k" : "end_k", form_.step);
    lines_.add("load_k = k + {}({});", index_, form_.step);
    lines_.add("back = 1 - front;");
    load(a_);
    load(b_);
    multiply();
    fill_tables(fmt::format("load_k + {}({})", index_, form_.step), "front", form_.step);
    put(a_);
    put(b_);
    lines_.add("BARRIER();");
    lines_.add("front = back;");
    lines_.close();
    if (blocks) {
      end_block();
      lines_.close();
    }
    if (has_totals() && form_.shared_totals) lines_.add("BARRIER();");
    if (!is_split()) write_outputs();
    lines_.close();
    Launch result;
    result.text.body = lines_.take();
    result.text.functions = writer_.functions();
    result.text.threads = form_.threads();
    result.text.groups_per_unit = form_.groups_per_unit;
    result.text.shared = std::move(shared_);
    result.text.shared.push_back({kernel_.type, "tile_a", 2 * form_.step * a_.stride});
    result.text.shared.push_back({kernel_.type, "tile_b", 2 * form_.step * b_.stride});
    if (!is_split()) {
      result.text.shared.push_back(
          {kernel_.type, "stage", (form_.shared_totals ? form_.rows() : kStageRows) * stage_stride()});
    }
    result.groups = static_cast<std::uint32_t>(std::clamp<std::int64_t>(tiles * form_.split, 1, limits_.groups));
    words_.move_to(result);
    return result;
  }

 private:
  bool is_split() const { return form_.split > 1; }
  /// Whether there are several blocks to add up here.
  bool has_totals() const { return !is_split() && geometry_.length > kBlock; }
  std::int64_t per_split() const {
    const std::int64_t blocks = (geometry_.length + kBlock - 1) / kBlock;
    return (blocks + form_.split - 1) / form_.split * kBlock;
  }
  int each_m() const { return 4 * form_.subtiles_m; }
  int each_n() const { return 4 * form_.subtiles_n; }
  // Four words of padding: what a transposed store writes at once lies in different banks.
  int padding() const { return single_ ? 4 : 0; }
  int stage_stride() const { return form_.columns() + padding(); }

  Loader loader(const char* name, const Input& input, const View& view, bool left) const {
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

  void declare_sums(const char* array) {
    lines_.add("{} {}[{}];", type_, array, each_m() * each_n());
    lines_.add("UNROLL");
    lines_.add("for (int x = 0; x < {}; x++) {}[x] = zero;", each_m() * each_n(), array);
  }

  // The number of this thread's element (or vector) j in the tile, along the operand's own dimensions and along k.
  std::string own_of(const Loader& loader) const {
    const std::string v = vector_of(loader);
    switch (loader.loading) {
      case Loading::own_vectors: return fmt::format("({} & {}) * 4", v, loader.width / 4 - 1);
      case Loading::k_vectors: return fmt::format("(({} >> 1) & {})", v, loader.width - 1);
      case Loading::along_own: return fmt::format("({} & {})", v, loader.width - 1);
      case Loading::along_k:
        return fmt::format("(thread_id / {0} + j * {1})", form_.step, form_.threads() / form_.step);
    }
    return "";
  }
  std::string k_of(const Loader& loader) const {
    switch (loader.loading) {
      case Loading::own_vectors: return fmt::format("((thread_id + j * {}) / {})", form_.threads(), loader.width / 4);
      case Loading::k_vectors:
        return fmt::format("((thread_id & 1) * 4 + (thread_id + j * {}) / {} * 8)", form_.threads(), 2 * loader.width);
      case Loading::along_own: return fmt::format("((thread_id + j * {}) / {})", form_.threads(), loader.width);
      case Loading::along_k: return fmt::format("(thread_id & {})", form_.step - 1);
    }
    return "";
  }
  // The number of what this thread reads as its element (or vector) j.
  std::string vector_of(const Loader& loader) const {
    return loader.places == 1 ? "thread_id" : fmt::format("(thread_id + j * {})", form_.threads());
  }

  // Where the rows (columns) of this thread's elements begin. Beyond the end the last one is read again.
  void prepare(const Loader& loader, const char* own) {
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

  // What `count` positions from `from` on contribute to addresses and bounds.
  void fill_tables(const std::string& from, const std::string& buffer, int count) {
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

  // Reads this thread's elements of the step that begins at load_k.
  void load(const Loader& loader) {
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
      const std::string of_k = loader.table
                                   ? fmt::format("{}_table{}[back * {} + at_k]", name, suffix_of(b), form_.step)
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

  void note_small(const Loader& loader) {
    lines_.open("{{");
    lines_.add("bool found = false;");
    lines_.add("UNROLL");
    lines_.add("for (int j = 0; j < {}; j++) found = found || {};", loader.count,
               is_small(loader.side.name + "_next[j]"));
    lines_.add("if (found) small[0] = 1;");
    lines_.close();
  }

  // Writes what was read to the tile behind.
  void put(const Loader& loader) {
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

  // Four neighbours in shared memory. The address is a multiple of four.
  void read4(const std::string& array, const std::string& at, const std::string& to, const std::string& i) {
    if (kernel_.type == ComputeType::f32) return lines_.add("READ4({}, {}, {}, {})", array, at, to, i);
    lines_.add("for (int q = 0; q < 4; q++) {}[{} + q] = {}[{} + q];", to, i, array, at);
  }
  void write4(const std::string& array, const std::string& at, const std::string& from, const std::string& i) {
    if (kernel_.type == ComputeType::f32) return lines_.add("WRITE4({}, {}, {}, {})", array, at, from, i);
    lines_.add("for (int q = 0; q < 4; q++) {}[{} + q] = {}[{} + q];", array, at, from, i);
  }

  void multiply() {
    if (!guarded_) return multiply("FMA_EXACT");
    lines_.open("if (small[0] == 0) {{");
    multiply("FMA");
    lines_.close();
    lines_.open("else {{");
    multiply("FMA_EXACT");
    lines_.close();
  }
  void multiply(const char* fma) {
    if (!guarded_ || fma == std::string_view("FMA")) lines_.add("UNROLL");  // what is rare stays short
    lines_.open("for (int at_k = 0; at_k < {}; at_k++) {{", form_.step);
    lines_.add("{} x[{}];", type_, each_m());
    lines_.add("{} y[{}];", type_, each_n());
    for (int s = 0; s < form_.subtiles_m; ++s) {
      read4("tile_a", fmt::format("(front * {} + at_k) * {} + thread_m + {}", form_.step, a_.stride, 32 * s), "x",
            std::to_string(4 * s));
    }
    for (int s = 0; s < form_.subtiles_n; ++s) {
      read4("tile_b", fmt::format("(front * {} + at_k) * {} + thread_n + {}", form_.step, b_.stride, 16 * s), "y",
            std::to_string(4 * s));
    }
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", each_m());
    lines_.add("UNROLL");
    // To and fro: what the last multiplication of a row read stays at hand for the next row.
    lines_.open("for (int s = 0; s < {}; s++) {{", each_n());
    lines_.add("int j = (i & 1) == 0 ? s : {} - s;", each_n() - 1);
    const std::string sum = fmt::format("partial[i * {} + j]", each_n());
    const bool plain = kernel_.type == ComputeType::f32;
    lines_.add("{} = {};", sum,
               plain ? fmt::format("{}(x[i], y[j], {})", fma, sum) : fused(kernel_.type, "x[i]", "y[j]", sum));
    lines_.close();
    lines_.close();
    lines_.close();
  }

  // Loops over this thread's rows x and subtiles of columns s; `row` and `column` count within the tile.
  void open_outputs() {
    lines_.add("UNROLL");
    lines_.open("for (int x = 0; x < {}; x++) {{", each_m());
    lines_.add("UNROLL");
    lines_.open("for (int s = 0; s < {}; s++) {{", form_.subtiles_n);
    lines_.add("int row = thread_m + (x >> 2) * 32 + (x & 3);");
    lines_.add("int column = thread_n + s * 16;");
  }
  void close_outputs() {
    lines_.close();
    lines_.close();
  }

  // At the end of a canonical block: the first partial is kept, later ones are added.
  void end_block() {
    const std::string at = fmt::format("x * {} + s * 4", each_n());
    if (is_split()) {
      lines_.add("LONG from = (LONG(block_k / {}({})) * LONG(tiles) + LONG(tile)) * LONG({});", index_, kBlock,
                 form_.rows() * form_.columns());
      open_outputs();
      lines_.add("LONG to = from + LONG(row * {} + column);", form_.columns());
      store4(at);
      close_outputs();
    } else if (form_.shared_totals) {
      open_outputs();
      lines_.add("int at = row * {} + column;", stage_stride());
      lines_.open("if (block_k > begin_k) {{");
      lines_.add("{} before[4];", type_);
      read4("stage", "at", "before", "0");
      lines_.add("UNROLL");
      lines_.add("for (int i = 0; i < 4; i++) partial[{0} + i] = {1};", at,
                 added(kernel_.type, "before[i]", fmt::format("partial[{} + i]", at)));
      lines_.close();
      write4("stage", "at", "partial", at);
      close_outputs();
    } else {
      lines_.add("UNROLL");
      lines_.add("for (int x = 0; x < {}; x++) total[x] = SELECT(block_k == begin_k, partial[x], {});",
                 each_m() * each_n(), added(kernel_.type, "total[x]", "partial[x]"));
    }
  }

  void store4(const std::string& at) {
    if (single_) {
      lines_.add("UINT words[4];");
      lines_.add("UNROLL");
      lines_.add("for (int i = 0; i < 4; i++) words[i] = {};",
                 encoded(kernel_.type == ComputeType::f32 ? DType::f32 : DType::i32, fmt::format("partial[{} + i]", at),
                         kernel_.type));
      lines_.add("STORE4_U32(scratch, to, words)");
    } else {
      lines_.add("for (int i = 0; i < 4; i++) STORE_U64(scratch, to + LONG(i), {});",
                 encoded(kernel_.type == ComputeType::f64 ? DType::f64 : DType::i64, fmt::format("partial[{} + i]", at),
                         kernel_.type));
    }
  }

  // What the epilogue computes from the row alone: once for all columns, kept in shared memory where they need it.
  void fill_fixed() {
    const Program& program = kernel_.epilogue;
    fixed_ = writer_.fixed_along(geometry_.n, geometry_.k);
    const auto needs = [&](int i) {
      if (i >= 0 && fixed_.contains(i)) shared_fixed_.insert(i);
    };
    for (std::size_t i = 0; i < program.code.size(); ++i) {
      if (fixed_.contains(static_cast<int>(i))) continue;
      for (const int operand : {program.code[i].a, program.code[i].b, program.code[i].c}) needs(operand);
    }
    for (const Output& output : program.outputs) needs(output.value);
    // Constants are parameters already.
    const auto loads = [&](int i) {
      return program.code[static_cast<std::size_t>(i)].kind != Instruction::Kind::constant;
    };
    if (shared_fixed_.size() > kMostFixed || std::none_of(fixed_.begin(), fixed_.end(), loads)) {
      fixed_.clear();
      shared_fixed_.clear();
      return;
    }
    lines_.open("{{");
    writer_.declare_places(lines_, "b", "", 0, geometry_.m, fixed_, {}, false);
    lines_.open("for (int row = thread_id; row < {}; row += {}) {{", form_.rows(), form_.threads());
    lines_.add("{0} m = first_m + {0}(row);", index_);
    lines_.add("m = SELECT(m < size_m, m, size_m - {}(1));", index_);
    decompose(lines_, words_, geometry_.shape, geometry_.m, geometry_.n, "m", "i", geometry_.wide);
    writer_.declare_places(lines_, "e", "b", geometry_.m, geometry_.n, fixed_, {}, true);
    for (const int i : fixed_) writer_.emit(lines_, i, "e");
    for (const int i : shared_fixed_) {
      lines_.add("fixed{}[row] = {};", i, ProgramWriter::name(i));
      shared_.push_back({writer_.type_of(i), fmt::format("fixed{}", i), form_.rows()});
    }
    lines_.close();
    lines_.close();
  }

  // Results pass through shared memory, so that neighbouring threads write neighbours, and so that the epilogue's text
  // stands once.
  void write_outputs() {
    const Program& program = kernel_.epilogue;
    std::set<int> instructions;
    std::set<int> outputs;
    for (std::size_t i = 0; i < program.code.size(); ++i) {
      if (!fixed_.contains(static_cast<int>(i))) instructions.insert(static_cast<int>(i));
    }
    for (std::size_t o = 0; o < program.outputs.size(); ++o) outputs.insert(static_cast<int>(o));
    const char* sums = has_totals() ? "total" : "partial";
    const int columns = form_.columns();
    const bool staged = form_.shared_totals && has_totals();
    const int stage_rows = form_.shared_totals ? form_.rows() : kStageRows;
    const bool vectors = geometry_.k > geometry_.n && writer_.choose_vectors_for(instructions, outputs);
    const int lanes = columns / (vectors ? 4 : 1);  // threads of a row
    lines_.add("int column = (thread_id & {}) * {};", lanes - 1, columns / lanes);
    lines_.add("{0} n = first_n + {0}(column);", index_);
    decompose(lines_, words_, geometry_.shape, geometry_.n, geometry_.k, "n", "i", geometry_.wide);
    writer_.declare_places(lines_, "b", "", 0, geometry_.m, instructions, outputs, false);
    writer_.declare_places(lines_, "n", "b", geometry_.n, geometry_.k, instructions, outputs, false);
    lines_.open("for (int stage_m = 0; stage_m < {}; stage_m += {}) {{", form_.rows(), stage_rows);
    if (!staged) {
      lines_.open("{{");
      open_outputs();
      lines_.open("if (row >= stage_m && row < stage_m + {}) {{", stage_rows);
      write4("stage", fmt::format("(row - stage_m) * {} + column", stage_stride()), sums,
             fmt::format("x * {} + s * 4", each_n()));
      lines_.close();
      close_outputs();
      lines_.close();
      lines_.add("BARRIER();");
    }
    lines_.open("for (int row = thread_id / {0}; row < {1}; row += {2}) {{", lanes, stage_rows,
                form_.threads() / lanes);
    lines_.add("{0} m = first_m + {0}(stage_m + row);", index_);
    lines_.open("if (m < size_m && n < size_n) {{");
    decompose(lines_, words_, geometry_.shape, geometry_.m, geometry_.n, "m", "i", geometry_.wide);
    const std::string at = fmt::format("row * {} + column", stage_stride());
    if (vectors) {
      lines_.add("{} results[4];", type_);
      read4("stage", at, "results", "0");
    }
    writer_.declare_places(lines_, "e", "n", geometry_.m, geometry_.n, instructions, outputs, true);
    for (const int i : shared_fixed_) {
      lines_.add("{} {} = fixed{}[stage_m + row];", type_name(writer_.type_of(i)), ProgramWriter::name(i), i);
    }
    if (vectors) {
      writer_.load_vectors(lines_, "e", "0", instructions, outputs);
      lines_.add("UNROLL");
      lines_.open("for (int q = 0; q < 4; q++) {{");
    }
    lines_.add("{} accumulator = {}({});", type_, canonical_of(kernel_.type),
               vectors ? "results[q]" : fmt::format("stage[{}]", at));
    for (const int i : instructions) writer_.emit(lines_, i, "e");
    for (const int o : outputs) writer_.store(lines_, o, "e");
    if (vectors) {
      lines_.close();
      writer_.store_vectors(lines_, "e", "0", outputs);
    }
    lines_.close();
    lines_.close();
    lines_.add("BARRIER();");
    lines_.close();
  }

  const ContractionKernel& kernel_;
  const RenderLimits& limits_;
  const Geometry& geometry_;
  TileForm form_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  const char* index_;
  const char* type_;
  bool single_;   ///< words of 4 bytes
  bool guarded_;  ///< small elements make the multiplications keep subnormals: see is_guarded
  Loader a_, b_;
  std::set<int> fixed_;         ///< instructions of the epilogue that fill_fixed computes
  std::set<int> shared_fixed_;  ///< and those that others read
  std::vector<SharedArray> shared_;
};

}  // namespace

Launch render_tiles(const ContractionKernel& kernel, const Geometry& geometry, const TileForm& form,
                    const RenderLimits& limits) {
  return TileKernel(kernel, geometry, form, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
