// Contractions of a few rows with a matrix of 16-bit elements whose columns are contiguous along k: what a step of a
// language model is made of. All of the time goes into reading the matrix, so each team of 32 threads keeps pieces of
// it on their way to shared memory, in a ring that is filled before earlier launches are over and never waits for other
// teams. A workgroup has some columns at a time, and stays for more of them. A thread follows the chain of one column's
// block of 256 k; block results meet in shared memory, where they are added.
#include <algorithm>
#include <optional>

#include "backends/gpu/renderer/contraction.h"
#include "backends/gpu/renderer/contraction_q8.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::int64_t kMostStreamedRows = 4;
constexpr int kTeamThreads = 32;
constexpr int kMostTeams = 8;
constexpr int kMostColumns = 16;  ///< of a workgroup at once; more leave units without, at the end
constexpr int kLeastColumns = 8;
constexpr int kStages = 4;                                   ///< of a ring
constexpr int kOfVector = 8;                                 ///< elements of 16 bytes
constexpr int kStageElements = 64;                           ///< elements of a chain in a stage
constexpr int kStageVectors = kStageElements / kOfVector;    ///< of 16 bytes
constexpr int kPitch = kStageVectors + 1;                    ///< from chain to chain: neighbours lie in different banks
constexpr int kChainsAtOnce = kTeamThreads / kStageVectors;  ///< that a team's threads copy together
constexpr int kPieceBytes = 2 * kBlock;

class StreamedKernel {
 public:
  StreamedKernel(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits)
      : kernel_(kernel),
        geometry_(geometry),
        limits_(limits),
        a_("a", kernel.a, geometry.a, geometry, true),
        b_("b", kernel.b_operand, geometry.b, geometry, false),
        rows_(static_cast<int>(geometry.rows)),
        blocks_(static_cast<int>(over(geometry.length, kBlock))) {
    const auto has_most_units = [&](int columns) {
      return 4 * geometry.columns >= std::int64_t{3} * limits.units * columns;
    };
    columns_ = geometry.columns % kMostColumns == 0 && has_most_units(kMostColumns) ? kMostColumns : kLeastColumns;
    has_units_ = has_most_units(columns_);
    while (teams_ > 1 && teams_ * pieces() > std::max(blocks_, pieces())) teams_ /= 2;
  }

  bool is_for_this() const {
    const bool vectors = b_.has_k_vectors(geometry_, kOfVector) && b_.last - b_.first == 1;
    return has_units_ && vectors && geometry_.columns % columns_ == 0 && bytes() <= limits_.shared_bytes;
  }

  Rendered render() {
    lines_.add("MEMORY b_at = {};", words_.early_memory(Patch::Kind::address, b_.input->slot));
    declare_zero(lines_, words_, kernel_.type);
    lines_.add("int thread_id = int(THREAD);");
    lines_.add("int lane = thread_id & {};", kTeamThreads - 1);
    lines_.add("int team = thread_id / {};", kTeamThreads);
    lines_.add("int bands = {};", words_.int32(geometry_.columns / columns_));
    // Of the chains that this thread copies parts of, the first.
    lines_.add("ULONG column_bytes = {};", words_.uint64(static_cast<std::uint64_t>(2 * b_.view.strides[b_.first])));
    lines_.add("MEMORY own = b_at + {} + ULONG(lane / {}) * column_bytes + ULONG((lane & {}) * 16);",
               words_.uint64(static_cast<std::uint64_t>(2 * b_.view.offset)), kStageVectors, kStageVectors - 1);
    lines_.add("int own_place = team * {} + lane / {} * {} + (lane & {});", kStages * kTeamThreads * kPitch,
               kStageVectors, kPitch, kStageVectors - 1);
    lines_.add("int next_band = int(GROUP);");
    lines_.add("int next_round = 0;");
    lines_.add("int next_part = 0;");
    lines_.add("int next_stage = 0;");
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (int i = 0; i < {}; i++) {{", kStages - 1);
    begin_stage();
    lines_.close();
    lines_.add("AFTER_EARLIER()");
    ProgramWriter writer(kernel_.epilogue, geometry_.epilogue, words_);
    lines_.add("MEMORY a_at = {};", words_.memory(Patch::Kind::address, a_.input->slot));
    writer.declare_buffers(lines_);
    fill_rows();
    lines_.add("BARRIER();");
    lines_.add("int stage = 0;");
    lines_.add("int turn = 0;");
    lines_.open("for (int band = int(GROUP); band < bands; band += int(GROUPS)) {{");
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (int turns = 0; turns < {}; turns++) {{", rounds());
    multiply_piece();
    lines_.close();
    lines_.add("BARRIER();");
    add_pieces(writer);
    lines_.add("turn = 1 - turn;");  // whose results are elsewhere, so nobody has to wait until these are added
    lines_.close();
    return finished(writer);
  }

 private:
  int pieces() const { return kTeamThreads / columns_; }  ///< of each column that a team has at once
  int rounds() const { return static_cast<int>(over(blocks_, teams_ * pieces())); }  ///< over a band's k
  bool has_all_pieces() const { return blocks_ % (teams_ * pieces()) == 0; }
  // Pieces of a row lie in different banks where a team reads several.
  int row_pitch() const { return pieces() > 1 ? kBlock + 4 : kBlock; }
  int ring_words() const { return teams_ * kStages * kTeamThreads * kPitch * 4; }
  int row_words() const { return rows_ * blocks_ * row_pitch(); }
  int partial_words() const { return 2 * blocks_ * rows_ * columns_; }
  std::size_t bytes() const {
    return sizeof(float) * static_cast<std::size_t>(ring_words() + row_words() + partial_words()) + 1024;
  }

  // Starts to copy the next stage of this team's ring; where there is none, nothing is waited for instead.
  void begin_stage() {
    lines_.open("if (next_band < bands) {{");
    lines_.add("int piece = (next_round * {} + team) * {};", teams_, pieces());
    lines_.add(
        "MEMORY from = own + ULONG(next_band) * (column_bytes * ULONG({})) + ULONG(piece * {} + next_part * {});",
        columns_, kPieceBytes, 2 * kStageElements);
    lines_.add("int to = own_place + next_stage * {};", kTeamThreads * kPitch);
    for (int chain = 0; chain < kTeamThreads; chain += kChainsAtOnce) {
      const int piece = chain / columns_;
      lines_.add("{}COPY_TO_SHARED(ring, to + {}, 16, from + ULONG({}) * column_bytes + ULONG({}))",
                 has_all_pieces() ? "" : fmt::format("if (piece + {} < {}) ", piece, blocks_), chain * kPitch,
                 chain % columns_, piece * kPieceBytes);
    }
    lines_.add("next_part++;");
    lines_.open("if (next_part == {}) {{", kBlock / kStageElements);
    lines_.add("next_part = 0;");
    lines_.add("next_round++;");
    lines_.open("if (next_round == {}) {{", rounds());
    lines_.add("next_round = 0;");
    lines_.add("next_band += int(GROUPS);");
    lines_.close();
    lines_.close();
    lines_.add("next_stage = SELECT(next_stage == {}, 0, next_stage + 1);", kStages - 1);
    lines_.close();
    lines_.add("COPIES_BEGUN();");
  }

  // All rows' elements that a thread copies are on their way at once: nothing of the matrix is asked for meanwhile.
  void fill_rows() {
    constexpr int kMostAtOnce = 8;  // of vectors
    const int vectors = rows_ * blocks_ * kBlock / kOfVector;
    const int threads = teams_ * kTeamThreads;
    const int turns = static_cast<int>(over(vectors, threads));
    const int at_once = static_cast<int>(over(turns, over(turns, kMostAtOnce)));
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (int begin = thread_id; begin < {}; begin += {}) {{", vectors, at_once * threads);
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", at_once);
    lines_.add("int e = begin + i * {};", threads);
    if (vectors % (at_once * threads) != 0) lines_.add("if (e >= {}) continue;", vectors);
    lines_.add("int row = e / {};", blocks_ * kBlock / kOfVector);
    lines_.add("int first = (e - row * {}) * {};", blocks_ * kBlock / kOfVector, kOfVector);
    load_neighbours(lines_, words_, geometry_, a_, "row", "first", kOfVector);
    lines_.add("int to = (row * {} + first / {}) * {} + (first & {});", blocks_, kBlock, row_pitch(), kBlock - 1);
    for (int i = 0; i < kOfVector; i += 4) lines_.add("WRITE4(held_rows, to + {0}, x, {0})", i);
    lines_.close();
    lines_.close();
  }

  // The block results of this thread's column and piece with every row.
  void multiply_piece() {
    const DType dtype = b_.input->dtype;
    lines_.add("int piece = (turns * {} + team) * {} + lane / {};", teams_, pieces(), columns_);
    lines_.add("int read = {};", has_all_pieces() ? "piece" : fmt::format("SELECT(piece < {}, piece, 0)", blocks_));
    lines_.add("float sum[{}];", rows_);
    lines_.add("UNROLL");
    lines_.add("for (int r = 0; r < {}; r++) sum[r] = zero;", rows_);
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (int part = 0; part < {}; part++) {{", kBlock / kStageElements);
    lines_.add("COPIES_ARRIVED_BUT({});", kStages - 2);
    lines_.add("NEAR_BARRIER();");
    begin_stage();
    lines_.add("int from = ((team * {} + stage) * {} + lane) * {};", kStages, kTeamThreads, kPitch);
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", kStageVectors);
    lines_.add("UINT four[4];");
    lines_.add("TAKE4_U32(ring, from + i, four)");
    lines_.add("UNROLL");
    lines_.open("for (int r = 0; r < {}; r++) {{", rows_);
    lines_.add("float x[{}];", kOfVector);
    lines_.add("int at = (r * {} + read) * {} + part * {} + i * {};", blocks_, row_pitch(), kStageElements, kOfVector);
    for (int i = 0; i < kOfVector; i += 4) lines_.add("READ4(held_rows, at + {0}, x, {0})", i);
    lines_.add("UNROLL");
    lines_.open("for (int w = 0; w < 4; w++) {{");
    const auto value = [&](const char* word) { return decoded(dtype, word, b_.input->canonical); };
    lines_.add("float low = {};", value("(four[w] & 0xffffu)"));
    lines_.add("float high = {};", value("(four[w] >> 16)"));
    lines_.add("sum[r] = {};", fused(kernel_.type, "x[2 * w]", "low", "sum[r]"));
    lines_.add("sum[r] = {};", fused(kernel_.type, "x[2 * w + 1]", "high", "sum[r]"));
    lines_.close();
    lines_.close();
    lines_.close();
    lines_.add("stage = SELECT(stage == {}, 0, stage + 1);", kStages - 1);
    lines_.close();
    if (!has_all_pieces()) lines_.open("if (piece < {}) {{", blocks_);
    lines_.add("UNROLL");
    lines_.add("for (int r = 0; r < {}; r++) partials[((turn * {} + piece) * {} + r) * {} + (lane & {})] = sum[r];",
               rows_, blocks_, rows_, columns_, columns_ - 1);
    if (!has_all_pieces()) lines_.close();
  }

  // Adds block results in ascending order.
  void add_pieces(ProgramWriter& writer) {
    lines_.open("for (int e = thread_id; e < {}; e += {}) {{", rows_ * columns_, teams_ * kTeamThreads);
    lines_.add("float total = FROM_BITS(0x80000000u);");
    lines_.add("UNROLL_BY(8)");
    lines_.add(
        "for (int i = 0; i < {0}; i++) total = {1};", blocks_,
        added(kernel_.type, "total", fmt::format("partials[(turn * {} + i) * {} + e]", blocks_, rows_ * columns_)));
    lines_.add("int m = e / {};", columns_);
    lines_.add("int n = band * {} + (e & {});", columns_, columns_ - 1);
    lines_.add("int batch = 0;");
    write_result(lines_, words_, writer, kernel_, geometry_, false, "total");
    lines_.close();
  }

  Rendered finished(const ProgramWriter& writer) {
    Launch launch;
    launch.text.body = lines_.take();
    launch.text.functions = writer.functions();
    launch.text.threads = teams_ * kTeamThreads;
    launch.text.copies = true;
    launch.text.shared = {{ComputeType::i32, "ring", ring_words()},
                          {ComputeType::f32, "held_rows", row_words()},
                          {ComputeType::f32, "partials", partial_words()}};
    const int resident = std::clamp(static_cast<int>(limits_.shared_bytes / bytes()), 1, kMostTeams / teams_);
    launch.text.groups_per_unit = resident;
    launch.groups = limits_.groups_for(std::min(geometry_.columns / columns_, std::int64_t{limits_.units} * resident));
    words_.move_to(launch);
    Rendered rendered;
    rendered.launches.push_back(std::move(launch));
    return rendered;
  }

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const RenderLimits& limits_;
  const Side a_, b_;
  const int rows_;
  const int blocks_;  ///< of 256 k
  int columns_ = kMostColumns;
  bool has_units_ = false;  ///< nearly all units have columns
  int teams_ = kMostTeams;
  Words words_;
  Lines lines_;
};

}  // namespace

std::optional<Rendered> render_streamed(const ContractionKernel& kernel, const Geometry& geometry,
                                        const RenderLimits& limits) {
  const DType dtype = kernel.b_operand.dtype;
  const bool is_matrix = is_float(dtype) && size_of(dtype) == 2 && kernel.b_operand.encoding == Encoding::dense;
  if (!limits.copies_to_shared || limits.threads < kMostTeams * kTeamThreads || !is_matrix) return std::nullopt;
  if (kernel.type != ComputeType::f32 || is_guarded(kernel, limits)) return std::nullopt;
  if (geometry.batches != 1 || geometry.rows > kMostStreamedRows || geometry.wide) return std::nullopt;
  if (geometry.length % kBlock != 0 || geometry.length <= kBlock || geometry.shape.rank() - geometry.k != 1) {
    return std::nullopt;
  }
  // The matrix is read before earlier launches are over.
  if (kernel.a.slot == kernel.b_operand.slot) return std::nullopt;
  StreamedKernel streamed(kernel, geometry, limits);
  if (!streamed.is_for_this()) return std::nullopt;
  return streamed.render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
