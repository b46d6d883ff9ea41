// A matrix times one vector for devices whose workgroups have little shared memory: each 32 threads that are near each
// other have a block of k of 32 rows, bring them to their own part of shared memory, whole lines of 128 bytes at a
// time, and wait for nobody else before the results of several blocks are added.
#include <algorithm>
#include <optional>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

class NearSkinnyKernel {
 public:
  NearSkinnyKernel(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits)
      : kernel_(kernel),
        limits_(limits),
        geometry_(geometry),
        a_("a", kernel.a, geometry.a, geometry, true),
        b_("b", kernel.b_operand, geometry.b, geometry, false),
        matrix_(geometry.rows >= geometry.columns ? a_ : b_),
        vector_(geometry.rows >= geometry.columns ? b_ : a_),
        index_(geometry.wide ? "LONG" : "int"),
        guarded_(is_guarded(kernel, limits)),
        each_word_(size_of(matrix_.input->dtype) == 2 ? 2 : 1),
        blocks_(over(geometry.length, kBlock)),
        row_groups_(over(matrix_.size, kThreads)) {
    const std::int64_t rounds = over(blocks_, kTeams);
    kept_ = static_cast<int>(std::min<std::int64_t>(rounds, kMostKept));
    while (step_ > 8 && shared_bytes() > limits.shared_bytes) step_ /= 2;
  }

  bool has_form() const {
    constexpr std::size_t kMuchShared = 64 << 10;
    const std::int64_t groups = row_groups_ * geometry_.batches;
    // As SkinnyKernel: nearly all units have a workgroup, or there are no more than these with parts of k.
    const bool whole = 4 * groups >= std::int64_t{3} * limits_.units || (blocks_ <= kTeams && 2 * blocks_ > kTeams);
    return whole && vector_.size == 1 && !vector_.bounded() && limits_.shared_bytes < kMuchShared &&
           vector_.input->encoding == Encoding::dense && matrix_.has_k_vectors(geometry_, kVector * each_word_) &&
           shared_bytes() <= limits_.shared_bytes;
  }

  Rendered render() {
    const bool wide = geometry_.wide;
    const std::int64_t units = row_groups_ * geometry_.batches;
    ProgramWriter writer(kernel_.epilogue, geometry_.epilogue, words_);
    for (const Side* side : {&matrix_, &vector_}) {
      lines_.add("MEMORY {}_at = {};", side->name, words_.memory(Patch::Kind::address, side->input->slot));
    }
    writer.declare_buffers(lines_);
    declare_zero(lines_, words_, kernel_.type);
    lines_.add("int thread_id = int(THREAD);");
    lines_.add("int near = thread_id & {};", kThreads - 1);
    lines_.add("int team = thread_id / {};", kThreads);
    lines_.add("{} rows = {};", index_, words_.index(matrix_.size, wide));
    lines_.add("{} size_k = {};", index_, words_.index(geometry_.length, wide));
    lines_.add("{} blocks = {};", index_, words_.index(blocks_, wide));
    lines_.add("{} units = {};", index_, words_.index(units, wide));
    if (guarded_) {
      lines_.add("if (thread_id < {}) small[thread_id] = 0;", kTeams);
      lines_.add("BARRIER();");
    }
    lines_.open("for ({0} unit = {0}(GROUP); unit < units; unit += {0}(GROUPS)) {{", index_);
    lines_.add("{} batch = {};", index_, quotient(words_, "unit", row_groups_, wide));
    lines_.add("{0} first_row = (unit - batch * {1}) * {0}({2});", index_, words_.index(row_groups_, wide), kThreads);
    lines_.add("{0} row = first_row + {0}(near);", index_);
    decompose(lines_, words_, geometry_.shape, 0, geometry_.m, "batch", "i", wide);
    matrix_.access.declare(lines_, words_, "batch", "", 0, geometry_.m, "i");
    vector_.access.declare(lines_, words_, "batch", "", 0, geometry_.m, "i");
    begin_chains();
    lines_.add("float total = FROM_BITS(0x80000000u);");
    lines_.add("int kept = 0;");
    lines_.open("for ({0} first_block = {0}(0); first_block < blocks; first_block += {0}({1})) {{", index_, kTeams);
    walk_block();
    add_blocks();
    lines_.close();
    lines_.open("if (team == 0 && row < rows) {{");
    lines_.add("{} m = {};", index_, matrix_.left ? "row" : fmt::format("{}(0)", index_));
    lines_.add("{} n = {};", index_, matrix_.left ? fmt::format("{}(0)", index_) : "row");
    write_result(lines_, words_, writer, kernel_, geometry_, wide, "total");
    lines_.close();
    lines_.close();
    Launch launch;
    launch.text.body = lines_.take();
    launch.text.functions = writer.functions();
    launch.text.threads = kTileThreads;
    launch.text.shared = shared();
    launch.groups = limits_.groups_for(units);
    words_.move_to(launch);
    Rendered rendered;
    rendered.launches.push_back(std::move(launch));
    return rendered;
  }

 private:
  static constexpr int kThreads = 32;  ///< that are near each other, and rows of a workgroup
  static constexpr int kTeams = kTileThreads / kThreads;
  static constexpr int kVector = 4;    ///< words that are loaded at once
  static constexpr int kMostKept = 4;  ///< rounds of blocks whose results wait in shared memory

  int k_dim() const { return geometry_.k; }
  int per_chain() const { return step_ / kVector; }  ///< threads that load a row, and vectors that a thread loads
  /// Of chains' words in shared memory, so that transposed stores go to different banks.
  int stride() const { return kTileThreads + kThreads / step_; }
  std::vector<SharedArray> shared() const {
    std::vector<SharedArray> arrays = {{ComputeType::i32, "chains", step_ * stride()},
                                       {ComputeType::f32, "x", kTeams * step_ * each_word_},
                                       {ComputeType::f32, "results", kept_ * kTileThreads}};
    if (guarded_) arrays.push_back({ComputeType::i32, "small", kTeams});
    return arrays;
  }
  std::size_t shared_bytes() const {
    KernelText text;
    text.shared = shared();
    return shared_bytes_of(text);
  }
  // Sums are made canonical at the end: any NaN will do.
  static std::string value(const Side& side, const std::string& word) {
    if (side.input->dtype == DType::f16) return fmt::format("ANY_DECODE_F16({})", word);
    return decoded(side.input->dtype, word, side.input->canonical);
  }
  std::string part_of(const std::string& word, int part) const {
    return each_word_ == 1 ? word : part == 0 ? fmt::format("({} & 0xffffu)", word) : fmt::format("({} >> 16)", word);
  }

  // Where this thread's vectors of 4 words begin: of each chain neighbouring threads read a line.
  void begin_chains() {
    lines_.add("{} start[{}];", index_, per_chain());
    lines_.add("UNROLL");
    lines_.open("for (int j = 0; j < {}; j++) {{", per_chain());
    lines_.add("{0} own = first_row + {0}(near / {1} + j * {2});", index_, per_chain(), kThreads / per_chain());
    lines_.add("own = SELECT(own < rows, own, rows - {}(1));", index_);
    decompose(lines_, words_, geometry_.shape, matrix_.first, matrix_.last, "own", "i", geometry_.wide);
    lines_.add("start[j] = ({}_batch + {}) / {}({});", matrix_.name,
               matrix_.access.sum(words_, -1, matrix_.first, matrix_.last, "i", false), index_, each_word_);
    lines_.close();
    lines_.add("UINT next[{}];", kVector * per_chain());
    lines_.add("UINT next_x[{}];", each_word_);
    load_step(fmt::format("{}(team * {})", index_, kBlock));
  }
  // The step's words of the matrix and of the vector, from element `from` of k on. Beyond the end of k it reads what
  // stands before that.
  void load_step(const std::string& from) {
    const int vector = kVector * each_word_;
    const bool has_rest = geometry_.length % kBlock != 0;  // whole blocks beyond the end are not added
    lines_.open("{{");
    lines_.add("{} first = {};", index_, from);
    lines_.add("{0} at = first + {0}((near & {1}) * {2});", index_, per_chain() - 1, vector);
    lines_.add("bool inside = at < size_k;");
    lines_.add("at = SELECT(inside, at, size_k - {0}({1})) / {0}({2});", index_, vector, each_word_);
    lines_.add("UNROLL");
    lines_.open("for (int j = 0; j < {}; j++) {{", per_chain());
    lines_.add("UINT words[{}];", kVector);
    lines_.add("LOAD4_U32({}_at, start[j] + at, words)", matrix_.name);
    const std::string beyond = beyond_word(matrix_);
    const std::string none = each_word_ == 2 ? fmt::format("({0} << 16) | {0}", beyond) : beyond;
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < {0}; i++) next[j * {0} + i] = {1};", kVector,
               has_rest ? fmt::format("SELECT(inside, words[i], {})", none) : "words[i]");
    lines_.close();
    lines_.add("UNROLL");
    lines_.open("for (int part = 0; part < {}; part++) {{", each_word_);
    lines_.add("{0} e = first + {0}((near & {1}) * {2} + part);", index_, step_ - 1, each_word_);
    lines_.add("{0} i{1} = SELECT(e < size_k, e, size_k - {0}(1));", index_, k_dim());
    lines_.add("UINT word = {}({}_at, {}_batch + {});", load_of(vector_.input->dtype), vector_.name, vector_.name,
               vector_.access.sum(words_, -1, k_dim(), geometry_.shape.rank(), "i", false));
    lines_.add("next_x[part] = SELECT(e < size_k, word, {});", beyond_word(vector_));
    lines_.close();
    lines_.close();
  }

  void walk_block() {
    lines_.add("float sum = zero;");
    if (guarded_) lines_.add("{}", by_pairs() ? "UINT tiny = 0u;" : "UINT least = 0xffffffffu;");
    lines_.open("for (int at_k = 0; at_k < {}; at_k += {}) {{", kBlock, step_ * each_word_);
    lines_.add("NEAR_BARRIER();");
    lines_.add("UNROLL");
    lines_.open("for (int j = 0; j < {}; j++) {{", per_chain());
    lines_.add("int to = (near & {}) * {} + team * {} + near / {} + j * {};", per_chain() - 1, kVector * stride(),
               kThreads, per_chain(), kThreads / per_chain());
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", kVector);
    lines_.add("UINT word = next[j * {} + i];", kVector);
    lines_.add("chains[to + i * {}] = int(word);", stride());
    if (guarded_) note_small("word");
    lines_.close();
    lines_.close();
    lines_.add("UNROLL");
    lines_.open("for (int part = 0; part < {}; part++) {{", each_word_);
    lines_.add("float element = {};", value(vector_, "next_x[part]"));
    lines_.add("x[team * {} + (near & {}) * {} + part] = element;", step_ * each_word_, step_ - 1, each_word_);
    if (guarded_ && by_pairs()) lines_.add("tiny = tiny | SELECT({}, 0x8000u, 0u);", is_small("element"));
    if (guarded_ && !by_pairs()) note_least("x", "element");
    lines_.close();
    lines_.add("NEAR_BARRIER();");
    // The next step is on its way while this one is multiplied.
    const int step = step_ * each_word_;
    load_step(fmt::format("(first_block + {0}(team)) * {0}({1}) + {0}(at_k + SELECT(at_k + {2} < {1}, {2}, {3}))",
                          index_, kBlock, step, step + (kTeams - 1) * kBlock));
    multiply();
    lines_.close();
    if (guarded_) multiply_exactly();
  }
  void multiply() {
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", step_);
    lines_.add("UINT word = UINT(chains[i * {} + thread_id]);", stride());
    for (int part = 0; part < each_word_; ++part) {
      lines_.add("float value{} = {};", part, value(matrix_, part_of("word", part)));
      add_product(guarded_ ? "FMA" : exact_fma_of(kernel_), fmt::format("value{}", part),
                  fmt::format("x[team * {} + i * {} + {}]", step_ * each_word_, each_word_, part));
    }
    lines_.close();
  }
  void add_product(const char* fma, const std::string& m, const std::string& v) {
    lines_.add("sum = {}({}, {}, sum);", fma, matrix_.left ? m : v, matrix_.left ? v : m);
  }

  // The block's sums once more, from memory, if one of the team's elements is small: nothing but that waits for it.
  void multiply_exactly() {
    lines_.add("int mark = int(first_block) + 1;");
    // That twice their bits less 1 are below twice kSmallWords, and zero is not.
    lines_.add("if ({}) small[team] = mark;", by_pairs() ? "(tiny & 0x80008000u) != 0u" : "least < 0x56ffffffu");
    lines_.add("NEAR_BARRIER();");
    lines_.open("if (small[team] == mark) {{");
    lines_.add("sum = zero;");
    lines_.add("{0} own = SELECT(row < rows, row, rows - {0}(1));", index_);
    decompose(lines_, words_, geometry_.shape, matrix_.first, matrix_.last, "own", "i", geometry_.wide);
    lines_.add("{0} from = ({1}_batch + {2}) / {0}({3});", index_, matrix_.name,
               matrix_.access.sum(words_, -1, matrix_.first, matrix_.last, "i", false), each_word_);
    lines_.add("{0} begin = (first_block + {0}(team)) * {0}({1});", index_, kBlock);
    lines_.open("for ({0} at = begin; at < begin + {0}({1}) && at < size_k; at += {0}({2})) {{", index_, kBlock,
                each_word_);
    lines_.add("UINT word = LOAD_U32({}_at, from + at / {}({}));", matrix_.name, index_, each_word_);
    for (int part = 0; part < each_word_; ++part) {
      lines_.open("{{");
      lines_.add("{0} i{1} = at + {0}({2});", index_, k_dim(), part);
      lines_.add("UINT word_x = {}({}_at, {}_batch + {});", load_of(vector_.input->dtype), vector_.name, vector_.name,
                 vector_.access.sum(words_, -1, k_dim(), geometry_.shape.rank(), "i", false));
      add_product("FMA_EXACT", value(matrix_, part_of("word", part)), value(vector_, "word_x"));
      lines_.close();
    }
    lines_.close();
    lines_.close();
  }

  bool by_pairs() const { return each_word_ == 2 && matrix_.input->dtype == DType::bf16; }
  void note_small(const std::string& word) {
    if (by_pairs()) {
      // Both halves of 0x7fff less the magnitudes; they are carried into bit 15 by 0x2b80 (2^-40) where those are
      // below, and by 1 where they are zero.
      lines_.add("UINT rest = ~{} & 0x7fff7fffu;", word);
      lines_.add("tiny = tiny | ((rest + 0x2b802b80u) & ~(rest + 0x00010001u));");
      return;
    }
    for (int part = 0; part < each_word_; ++part) note_least(std::to_string(part), value(matrix_, part_of(word, part)));
  }
  void note_least(const std::string& name, const std::string& element) {
    lines_.add("UINT less{} = (BITS({}) << 1) - 1u;", name, element);
    lines_.add("least = SELECT(less{0} < least, less{0}, least);", name);
  }

  // Adds the results of blocks in ascending order, when there are as many rounds of them as are kept, or no more.
  void add_blocks() {
    lines_.add("results[kept * {} + thread_id] = sum;", kTileThreads);
    lines_.add("kept = kept + 1;");
    lines_.open("if (kept == {} || first_block + {}({}) >= blocks) {{", kept_, index_, kTeams);
    lines_.add("BARRIER();");
    lines_.open("if (team == 0) {{");
    lines_.add("UNROLL_BY(8)");
    lines_.open("for (int t = 0; t < kept * {}; t++) {{", kTeams);
    lines_.open("if (first_block + {0}(t - (kept - 1) * {1}) < blocks) {{", index_, kTeams);
    lines_.add("total = {};", added(kernel_.type, "total", fmt::format("results[t * {} + near]", kThreads)));
    lines_.close();
    lines_.close();
    lines_.close();
    lines_.add("BARRIER();");
    lines_.add("kept = 0;");
    lines_.close();
  }

  const ContractionKernel& kernel_;
  const RenderLimits& limits_;
  const Geometry& geometry_;
  Words words_;
  Lines lines_;
  Side a_, b_;
  const Side& matrix_;
  const Side& vector_;
  const char* index_;
  bool guarded_;   ///< see is_guarded
  int each_word_;  ///< elements
  std::int64_t blocks_, row_groups_;
  int kept_ = 1;
  int step_ = 32;  ///< of k in shared memory at once, in words
};

}  // namespace

std::optional<Rendered> render_near_skinny(const ContractionKernel& kernel, const Geometry& geometry,
                                           const RenderLimits& limits) {
  NearSkinnyKernel near(kernel, geometry, limits);
  if (!near.has_form()) return std::nullopt;
  return near.render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
