// Contractions of a matrix with up to 8 vectors: each thread follows the chains of one block of k for one row of the
// matrix, or for four where rows are neighbours in memory. The matrix is read once, straight from memory. Where it is
// contiguous along k and has rows enough for all of the device, a workgroup has all of k for 32 rows or more and
// finishes their results. Else block results go to scratch memory, and render_sums adds them.
#include <algorithm>
#include <optional>
#include <utility>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kMostVectors = 8;
constexpr int kRowsAhead = 16;           ///< of a matrix whose rows are neighbours in memory
constexpr int kSkinnyGroupsPerUnit = 2;  ///< for fewer registers a compiler would rather load one after the other
constexpr std::size_t kSharedOfMore = 64 << 10;  ///< of a workgroup whose threads have 16 blocks
constexpr int kChainStride = 257;        ///< of chains in shared memory: transposed stores go to different banks

class SkinnyKernel {
 public:
  SkinnyKernel(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits)
      : kernel_(kernel),
        limits_(limits),
        geometry_(geometry),
        left_(geometry.rows >= geometry.columns),
        a_("a", kernel.a, geometry.a, geometry, true),
        b_("b", kernel.b_operand, geometry.b, geometry, false),
        matrix_(left_ ? a_ : b_),
        vector_(left_ ? b_ : a_),
        vectors_(static_cast<int>(vector_.size)),
        index_(geometry.wide ? "LONG" : "int"),
        guarded_(is_guarded(kernel, limits)),
        transposed_(matrix_.has_k_vectors(geometry) || matrix_.has_packed_chains(geometry)),
        paired_(transposed_ && size_of(matrix_.input->dtype) == 2 && matrix_.has_k_vectors(geometry, 8)),
        each_(transposed_ ? 1 : 4) {
    choose_lanes(32);
    // Two workgroups of a unit keep more of the matrix on its way.
    const std::int64_t blocks = over(geometry.length, kBlock);
    const auto groups = [&] { return over(matrix_.size, lanes_) * geometry.batches; };
    if (transposed_ && vectors_ == 1 && limits.shared_bytes >= kSharedOfMore &&
        groups() < std::int64_t{2} * limits.units)
      set_lanes(16);
    // Nearly all units have a workgroup, or there are no more than these with parts of k.
    whole_ =
        transposed_ && (4 * groups() >= std::int64_t{3} * limits.units || (blocks <= teams_ && 2 * blocks > teams_));
    if (!whole_ && matrix_.size >= 512 * each_) choose_lanes(kTileThreads);
    const auto bytes = [&](std::int64_t of_vectors) {
      return sizeof(float) * static_cast<std::size_t>(of_vectors * vectors_ * kBlock + step_ * kChainStride);
    };
    while (step_ > 16 && bytes(teams_) > limits.shared_bytes) step_ /= 2;
    const std::int64_t all = over(blocks, teams_) * teams_;
    holds_all_ = whole_ && !guarded_ && kSkinnyGroupsPerUnit * (bytes(all) + 1024) <= limits.shared_bytes;
    vector_blocks_ = holds_all_ ? static_cast<int>(all) : teams_;
  }

  Rendered render() {
    const bool wide = geometry_.wide;
    const std::int64_t blocks = over(geometry_.length, kBlock);
    const std::int64_t row_groups = over(matrix_.size, lanes_ * each_);
    const std::int64_t block_groups = whole_ ? 1 : over(blocks, teams_);
    const std::int64_t units = row_groups * block_groups * geometry_.batches;
    // Chains begin before earlier launches are over, unless both operands are one value.
    const bool early = transposed_ && kernel_.a.slot != kernel_.b_operand.slot;
    const int slot = matrix_.input->slot;
    lines_.add("MEMORY {}_at = {};", matrix_.name,
               early ? words_.early_memory(Patch::Kind::address, slot) : words_.memory(Patch::Kind::address, slot));
    std::optional<ProgramWriter> writer;
    if (whole_) writer.emplace(kernel_.epilogue, geometry_.epilogue, words_);
    const auto declare_others = [&] {
      if (early) lines_.add("AFTER_EARLIER()");
      lines_.add("MEMORY {}_at = {};", vector_.name, words_.memory(Patch::Kind::address, vector_.input->slot));
      if (whole_) {
        writer->declare_buffers(lines_);
      } else {
        lines_.add("MEMORY scratch = {};", words_.memory(Patch::Kind::scratch, 0));
      }
    };
    if (!early) declare_others();
    declare_zero(lines_, words_, kernel_.type);
    lines_.add("int thread_id = int(THREAD);");
    lines_.add("{} rows = {};", index_, words_.index(matrix_.size, wide));
    lines_.add("{} size_k = {};", index_, words_.index(geometry_.length, wide));
    lines_.add("{} blocks = {};", index_, words_.index(blocks, wide));
    lines_.add("{} units = {};", index_, words_.index(units, wide));
    lines_.open("for ({0} unit = {0}(GROUP); unit < units; unit += {0}(GROUPS)) {{", index_);
    lines_.add("{} rest = {};", index_, quotient(words_, "unit", row_groups, wide));
    lines_.add("{0} first_row = (unit - rest * {1}) * {0}({2});", index_, words_.index(row_groups, wide),
               lanes_ * each_);
    lines_.add("{} batch = {};", index_, quotient(words_, "rest", block_groups, wide));
    lines_.add("{0} first_block = (rest - batch * {1}) * {0}({2});", index_, words_.index(block_groups, wide), teams_);
    decompose(lines_, words_, geometry_.shape, 0, geometry_.m, "batch", "i", wide);
    matrix_.access.declare(lines_, words_, "batch", "", 0, geometry_.m, "i");
    vector_.access.declare(lines_, words_, "batch", "", 0, geometry_.m, "i");
    lines_.add("{0} row = first_row + {0}((thread_id & {1}) * {2});", index_, lanes_ - 1, each_);
    if (transposed_) begin_chains();
    if (early) declare_others();
    if (holds_all_) {
      lines_.add("BARRIER();");
      fill_vectors();
    }
    if (whole_) {
      lines_.add("float total[{}];", vectors_);
      lines_.add("UNROLL");
      lines_.add("for (int v = 0; v < {}; v++) total[v] = FROM_BITS(0x80000000u);", vectors_);
      lines_.open("for (; first_block < blocks; first_block += {0}({1})) {{", index_, teams_);
    }
    if (!whole_) lines_.add("{0} block = first_block + {0}(thread_id / {1});", index_, lanes_);
    lines_.add("float sum[{}];", vectors_ * each_);
    lines_.add("UNROLL");
    lines_.add("for (int v = 0; v < {}; v++) sum[v] = zero;", vectors_ * each_);
    if (guarded_) {
      lines_.add("BARRIER();");
      lines_.add("if (thread_id == 0) small[0] = 0;");
    }
    if (!holds_all_) {
      lines_.add("BARRIER();");
      fill_vectors();
    }
    if (transposed_) {
      walk_chains();
    } else {
      lines_.add("BARRIER();");
      walk_rows();
    }
    if (whole_) {
      add_blocks();
      lines_.close();
      store_results(*writer);
    } else {
      store_blocks();
    }
    lines_.close();
    Launch launch;
    launch.text.body = lines_.take();
    if (whole_) launch.text.functions = writer->functions();
    launch.text.threads = kTileThreads;
    if (whole_ || !transposed_) launch.text.groups_per_unit = kSkinnyGroupsPerUnit;
    launch.groups = limits_.groups_for(units);
    words_.move_to(launch);
    launch.text.shared = {{ComputeType::f32, "x", vector_blocks_ * vectors_ * kBlock}};
    if (transposed_) launch.text.shared.push_back({ComputeType::i32, "chains", step_ * kChainStride});
    if (guarded_) launch.text.shared.push_back({ComputeType::i32, "small", 1});
    Rendered rendered;
    rendered.launches.push_back(std::move(launch));
    if (whole_) return rendered;
    rendered.scratch_bytes = scratch_bytes(kernel_, geometry_, 1, 1);
    rendered.launches.push_back(render_sums(kernel_, geometry_, 1, 1, limits_));
    return rendered;
  }

 private:
  // Threads along rows, at least so many; the others have other blocks, as many as there is shared memory for.
  void choose_lanes(int least) {
    constexpr int kMostBlocks = 12;
    lanes_ = least;
    while (kTileThreads / lanes_ * vectors_ > kMostBlocks && lanes_ < kTileThreads) lanes_ *= 2;
    set_lanes(lanes_);
  }
  void set_lanes(int lanes) {
    lanes_ = lanes;
    teams_ = kTileThreads / lanes_;
  }
  int k_dim() const { return geometry_.k; }
  int rank() const { return geometry_.shape.rank(); }
  static std::string value(const Side& side, const std::string& word) {
    // Sums are made canonical at the end: any NaN will do.
    if (side.input->dtype == DType::f16 && side.input->encoding == Encoding::dense) {
      return fmt::format("ANY_DECODE_F16({})", word);
    }
    return decoded(side.input->dtype, word, side.input->canonical);
  }
  // One multiplication of an element of the matrix (m) and of vector v.
  std::string product(const char* fma, const std::string& m, const std::string& v, const std::string& sum) const {
    return fmt::format("{}({}, {}, {})", fma, left_ ? m : v, left_ ? v : m, sum);
  }
  // Element k of this thread's block of vector v.
  std::string element(const std::string& k) const {
    return fmt::format("x[({}thread_id / {}{} * {} + v) * {} + {}]", holds_all_ ? "(int(first_block) + " : "", lanes_,
                       holds_all_ ? ")" : "", vectors_, kBlock, k);
  }

  // The vectors' elements of each team's block, x[team][v][k], or of all blocks.
  void fill_vectors() {
    const bool wide = geometry_.wide;
    static_assert(kTileThreads == kBlock);
    lines_.add("UNROLL_BY(16)");
    lines_.open("for (int j = 0; j < {}; j++) {{", vector_blocks_ * vectors_);
    lines_.add("int v = j % {};", vectors_);
    lines_.add("{0} i{1} = ({4}{0}(j / {2})) * {0}({3}) + {0}(thread_id);", index_, k_dim(), vectors_, kBlock,
               holds_all_ ? "" : "first_block + ");
    lines_.add("{0} own = {0}(v);", index_);
    decompose(lines_, words_, geometry_.shape, vector_.first, vector_.last, "own", "i", wide);
    for (int bound = -1; bound < vector_.access.bounds(); ++bound) {
      lines_.add("{0} {1}_e{2} = {1}_batch{2} + {3} + {4};", index_, vector_.name, suffix_of(bound),
                 vector_.access.sum(words_, bound, vector_.first, vector_.last, "i", false),
                 vector_.access.sum(words_, bound, k_dim(), rank(), "i", false));
    }
    vector_.access.check_bounds(lines_, words_, "e");
    lines_.add("UINT word = {};", beyond_word(vector_));
    lines_.open("if (i{} < size_k) {{", k_dim());
    const std::string load =
        fmt::format("{0}({1}_at, {1}_e)", load_of(vector_.input->encoding, vector_.input->dtype), vector_.name);
    if (vector_.bounded()) {
      lines_.add("word = {};", words_.uint32(vector_.view.fill));
      lines_.add("if ({}) word = {};", vector_.access.inside("e"), load);
    } else {
      lines_.add("word = {};", load);
    }
    lines_.close();
    lines_.add("float value = {};", value(vector_, "word"));
    lines_.add("x[j * {} + thread_id] = value;", kTileThreads);
    if (guarded_) lines_.add("if ({}) small[0] = 1;", is_small("value"));
    lines_.close();
  }

  // Chains are contiguous in memory: a step of all of the workgroup's chains passes through shared memory, as words.
  // Neighbouring threads read 128 bytes of a chain, as vectors of 4 words. The first step is on its way while the
  // vectors are read.
  void begin_chains() {
    const int per_chain = step_ / 4;  // threads
    const int loads = step_ / 4;      // vectors per thread and step
    const int each_word = paired_ ? 2 : 1;
    const std::string& name = matrix_.name;
    lines_.add("{} start[{}];", index_, loads);
    lines_.add("{} left[{}];", index_, loads);
    lines_.add("UNROLL");
    lines_.open("for (int j = 0; j < {}; j++) {{", loads);
    lines_.add("int chain = thread_id / {} + j * {};", per_chain, kTileThreads / per_chain);
    lines_.add("{0} own = first_row + {0}(chain & {1});", index_, lanes_ - 1);
    lines_.add("own = SELECT(own < rows, own, rows - {}(1));", index_);
    decompose(lines_, words_, geometry_.shape, matrix_.first, matrix_.last, "own", "i", geometry_.wide);
    lines_.add("{0} i{1} = (first_block + {0}(chain / {2})) * {0}({3}) + {0}((thread_id & {4}) * {5});", index_,
               k_dim(), lanes_, kBlock, per_chain - 1, 4 * each_word);
    lines_.add("start[j] = {0}_batch + {1} + {2};", name,
               matrix_.access.sum(words_, -1, matrix_.first, matrix_.last, "i", false),
               matrix_.access.sum(words_, -1, k_dim(), rank(), "i", false));
    lines_.add("left[j] = size_k - i{};", k_dim());
    lines_.close();
    lines_.add("UINT next[{}];", loads * 4);
    load_chains("0");
  }
  void walk_chains() {
    const int per_chain = step_ / 4;
    const int loads = step_ / 4;
    const int each_word = paired_ ? 2 : 1;
    lines_.open("for (int at_k = 0; at_k < {}; at_k += {}) {{", kBlock, step_ * each_word);
    lines_.add("BARRIER();");
    if (guarded_) lines_.add("bool found = false;");
    lines_.add("UNROLL");
    lines_.open("for (int j = 0; j < {}; j++) {{", loads);
    lines_.add("int to = (thread_id & {}) * {} + thread_id / {} + j * {};", per_chain - 1, 4 * kChainStride, per_chain,
               kTileThreads / per_chain);
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < 4; i++) {{");
    lines_.add("UINT word = next[j * 4 + i];");
    lines_.add("chains[to + i * {}] = int(word);", kChainStride);
    if (guarded_) note_small("word", each_word);
    lines_.close();
    lines_.close();
    if (guarded_) lines_.add("if (found) small[0] = 1;");
    lines_.add("BARRIER();");
    // The next step is on its way while this one is multiplied.
    const int step = step_ * each_word;
    if (whole_) {
      lines_.add("{0} next_k = first_block * {0}({1}) + {0}(SELECT(at_k + {2} < {1}, at_k + {2}, {3}));", index_,
                 kBlock, step, teams_ * kBlock);
      load_chains("next_k");
    } else {
      lines_.open("if (at_k + {} < {}) {{", step, kBlock);
      load_chains(fmt::format("at_k + {}", step));
      lines_.close();
    }
    multiply([&](const char* fma) {
      lines_.open("for (int i = 0; i < {}; i++) {{", step_);
      lines_.add("UINT word = UINT(chains[i * {} + thread_id]);", kChainStride);
      for (int part = 0; part < each_word; ++part) {
        lines_.add("float value{} = {};", part, value(matrix_, part_of("word", part)));
        lines_.add("UNROLL");
        lines_.add("for (int v = 0; v < {0}; v++) sum[v] = {1};", vectors_,
                   product(fma, fmt::format("value{}", part),
                           element(fmt::format("at_k + i * {} + {}", each_word, part)), "sum[v]"));
      }
      lines_.close();
    });
    lines_.close();
  }
  // Reads this thread's vectors of the step that begins `from` elements after the block.
  void load_chains(const std::string& from) {
    const int loads = step_ / 4;
    const std::string& name = matrix_.name;
    lines_.add("UNROLL");
    lines_.open("for (int j = 0; j < {}; j++) {{", loads);
    lines_.add("UINT words[4];");
    lines_.open("if ({}({}) < left[j]) {{", index_, from);
    if (paired_) {
      lines_.add("LOAD4_U32({0}_at, (start[j] + {1}({2})) / {1}(2), words)", name, index_, from);
    } else if (matrix_.input->encoding != Encoding::dense) {
      // Four elements from a multiple of four on are of one block: the compiler sees it, and reads what they share
      // once.
      lines_.add("LONG first = LONG(start[j] + {}({})) & ~LONG(3);", index_, from);
      lines_.add("UNROLL");
      lines_.add("for (int i = 0; i < 4; i++) words[i] = {}({}_at, first + LONG(i));",
                 load_of(matrix_.input->encoding, matrix_.input->dtype), name);
    } else {
      lines_.add("{}({}_at, start[j] + {}({}), words)", load4_of(matrix_.input->dtype), name, index_, from);
    }
    lines_.close();
    lines_.open("else {{");
    const std::string beyond = beyond_word(matrix_);
    lines_.add("for (int i = 0; i < 4; i++) words[i] = {};",
               paired_ ? fmt::format("({0} << 16) | {0}", beyond) : beyond);
    lines_.close();
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < 4; i++) next[j * 4 + i] = words[i];");
    lines_.close();
  }
  // Element `part` of a word.
  std::string part_of(const std::string& word, int part) const {
    return !paired_ ? word : part == 0 ? fmt::format("({} & 0xffffu)", word) : fmt::format("({} >> 16)", word);
  }

  void note_small(const std::string& word, int parts) {
    for (int part = 0; part < parts; ++part) {
      lines_.add("float value{} = {};", part, value(matrix_, part_of(word, part)));
      lines_.add("found = found || {};", is_small(fmt::format("value{}", part)));
    }
  }

  // Rows are neighbours in memory: a thread walks down four of them.
  void walk_rows() {
    lines_.add("{0} own = SELECT(row < rows, row, rows - {0}({1}));", index_, each_);
    decompose(lines_, words_, geometry_.shape, matrix_.first, matrix_.last, "own", "i", geometry_.wide);
    lines_.add("{0} i{1} = block * {0}({2});", index_, k_dim(), kBlock);
    lines_.add("{0} at = {1}_batch + {2} + {3};", index_, matrix_.name,
               matrix_.access.sum(words_, -1, matrix_.first, matrix_.last, "i", false),
               matrix_.access.sum(words_, -1, k_dim(), rank(), "i", false));
    lines_.add("{} stride = {};", index_, words_.index(matrix_.view.strides[k_dim()], geometry_.wide));
    lines_.add("{} left = size_k - i{};", index_, k_dim());
    lines_.add("int count = left < {0}({1}) ? int(left) : {1};", index_, kBlock);
    if (guarded_) lines_.add("bool found = small[0] != 0;");
    lines_.add("int at_k = 0;");
    if (comes_ahead()) {
      lines_.add("ULONG next[{}];", kRowsAhead);
      load_ahead("");
    }
    walk_rows(kRowsAhead);
    walk_rows(1);
  }
  // Halves that need no look are multiplied as they come: compilers would then load few of them at once, unless the
  // next ones are on their way meanwhile.
  bool comes_ahead() const { return !guarded_ && !limits_.copies_to_shared && matrix_.input->dtype == DType::f16; }
  void load_ahead(const char* ahead) {
    lines_.open("if (at_k + {}{} <= count) {{", kRowsAhead, ahead);
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < {0}; i++) next[i] = LOAD_U64({1}_at, (at + stride * {2}(i)) / {2}(4));", kRowsAhead,
               matrix_.name, index_);
    lines_.close();
  }
  // While there are so many elements of k left, whose loads are under way together.
  void walk_rows(int at_once) {
    lines_.open("for (; at_k + {0} <= count; at_k += {0}) {{", at_once);
    lines_.add("float values[{}];", 4 * at_once);
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", at_once);
    lines_.add("UINT words[4];");
    const bool ahead = comes_ahead() && at_once == kRowsAhead;
    if (ahead) {
      lines_.add("words[0] = UINT(next[i]) & 0xffffu;");
      lines_.add("words[1] = UINT(next[i]) >> 16;");
      lines_.add("words[2] = UINT(next[i] >> 32) & 0xffffu;");
      lines_.add("words[3] = UINT(next[i] >> 48);");
    } else {
      lines_.add("{}({}_at, at, words)", load4_of(matrix_.input->dtype), matrix_.name);
    }
    lines_.add("at += stride;");
    lines_.add("UNROLL");
    lines_.add("for (int q = 0; q < 4; q++) values[i * 4 + q] = {};", value(matrix_, "words[q]"));
    lines_.close();
    if (ahead) load_ahead(fmt::format(" + {}", kRowsAhead).c_str());
    if (guarded_) {
      lines_.add("UNROLL");
      lines_.add("for (int i = 0; i < {}; i++) found = found || {};", 4 * at_once, is_small("values[i]"));
    }
    const auto add_row = [&](const char* fma, const char* of_row) {
      lines_.add("UNROLL");
      lines_.open("for (int v = 0; v < {}; v++) {{", vectors_);
      lines_.add("float value = {};", element("at_k + i"));
      lines_.add("UNROLL");
      lines_.add("for (int q = 0; q < 4; q++) sum[v * 4 + q] = {};", product(fma, of_row, "value", "sum[v * 4 + q]"));
      lines_.close();
    };
    if (guarded_) lines_.open("if (!found) {{");
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", at_once);
    add_row(guarded_ ? "FMA" : exact_fma(), "values[i * 4 + q]");
    lines_.close();
    if (guarded_) {
      // A loop that stays short, and reads memory again: an array that it indexed would be in no registers.
      lines_.close();
      lines_.open("else {{");
      lines_.open("for (int i = 0; i < {}; i++) {{", at_once);
      lines_.add("UINT words[4];");
      lines_.add("{}({}_at, at - stride * {}({} - i), words)", load4_of(matrix_.input->dtype), matrix_.name, index_,
                 at_once);
      add_row("FMA_EXACT", value(matrix_, "words[q]").c_str());
      lines_.close();
      lines_.close();
    }
    lines_.close();
  }

  const char* exact_fma() const { return exact_fma_of(kernel_); }

  // The loop that `loop` writes, with the fma that is exact for what was found.
  template <typename Loop> void multiply(Loop loop) {
    if (!guarded_) {
      lines_.add("UNROLL");
      return loop(exact_fma());
    }
    lines_.open("if ({}) {{", transposed_ ? "small[0] == 0" : "!found");
    lines_.add("UNROLL");
    loop("FMA");
    lines_.close();
    lines_.open("else {{");
    loop("FMA_EXACT");
    lines_.close();
  }

  // Adds the results of the blocks that the workgroup just had, in ascending order.
  void add_blocks() {
    lines_.add("BARRIER();");
    lines_.add("UNROLL");
    lines_.add("for (int v = 0; v < {}; v++) chains[v * {} + thread_id] = int(BITS(sum[v]));", vectors_, kTileThreads);
    lines_.add("BARRIER();");
    lines_.open("if (thread_id < {}) {{", lanes_);
    lines_.add("UNROLL");
    lines_.open("for (int t = 0; t < {}; t++) {{", teams_);
    lines_.open("if (first_block + {}(t) < blocks) {{", index_);
    lines_.add("UNROLL");
    lines_.add("for (int v = 0; v < {}; v++) total[v] = {};", vectors_,
               added(kernel_.type, "total[v]",
                     fmt::format("FROM_BITS(UINT(chains[v * {} + t * {} + thread_id]))", kTileThreads, lanes_)));
    lines_.close();
    lines_.close();
    lines_.close();
  }

  void store_results(ProgramWriter& writer) {
    lines_.open("if (thread_id < {} && row < rows) {{", lanes_);
    lines_.add("UNROLL");
    lines_.open("for (int v = 0; v < {}; v++) {{", vectors_);
    lines_.add("{} m = {};", index_, left_ ? "row" : fmt::format("{}(v)", index_));
    lines_.add("{} n = {};", index_, left_ ? fmt::format("{}(v)", index_) : "row");
    write_result(lines_, words_, writer, kernel_, geometry_, geometry_.wide, "total[v]");
    lines_.close();
    lines_.close();
  }

  void store_blocks() {
    lines_.open("if (row < rows && block < blocks) {{");
    lines_.add("UNROLL");
    lines_.open("for (int v = 0; v < {}; v++) {{", vectors_ * each_);
    const std::string m = left_ ? fmt::format("LONG(row) + LONG(v % {})", each_) : fmt::format("LONG(v / {})", each_);
    const std::string n = left_ ? fmt::format("LONG(v / {})", each_) : fmt::format("LONG(row) + LONG(v % {})", each_);
    lines_.add("LONG place = (((LONG(block) * {0} + LONG(batch)) * {1}) + {2}) * {3} + {4};",
               words_.int64(geometry_.batches), words_.int64(geometry_.rows), m, words_.int64(geometry_.columns), n);
    lines_.add("STORE_U32(scratch, place, BITS(sum[v]));");
    lines_.close();
    lines_.close();
  }

  const ContractionKernel& kernel_;
  const RenderLimits& limits_;
  const Geometry& geometry_;
  Words words_;
  Lines lines_;
  bool left_;           ///< the matrix is a
  bool whole_ = false;  ///< a workgroup has all blocks of its rows
  bool holds_all_ = false;  ///< it has all of the vectors in shared memory
  int vector_blocks_ = 0;   ///< that are there at once
  Side a_, b_;
  const Side& matrix_;
  const Side& vector_;
  int vectors_;
  const char* index_;
  bool guarded_;     ///< see is_guarded
  bool transposed_;  ///< a thread's chain is contiguous in memory
  bool paired_;      ///< elements of 2 bytes stay two in a word on their way
  int each_;         ///< rows of a thread
  int lanes_ = 0;    ///< threads along rows
  int teams_ = 0;    ///< that have other blocks
  int step_ = 32;    ///< of k in shared memory at once, in words
};

}  // namespace

bool is_skinny(const ContractionKernel& kernel, const Geometry& geometry) {
  if (geometry.length <= kBlock || kernel.type != ComputeType::f32) return false;
  if (geometry.shape.rank() - geometry.k != 1) return false;
  const bool left = geometry.rows >= geometry.columns;
  const std::int64_t vectors = left ? geometry.columns : geometry.rows;
  const std::int64_t rows = left ? geometry.rows : geometry.columns;
  if (vectors > kMostVectors || rows < 32) return false;
  const Side matrix(left ? "a" : "b", left ? kernel.a : kernel.b_operand, left ? geometry.a : geometry.b, geometry,
                    left);
  return matrix.has_k_vectors(geometry) || matrix.has_own_vectors(geometry) || matrix.has_packed_chains(geometry);
}

Rendered render_skinny(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  if (std::optional<Rendered> near = render_near_skinny(kernel, geometry, limits)) return std::move(*near);
  return SkinnyKernel(kernel, geometry, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
