// Up to 8 rows times packed weights, in q8 numerics (docs/numerics.md section 14) or with decoded weights (section 6):
// all of the time goes into reading the weights, so they pass through the device once, in order, as wide as they come.
// A workgroup has some columns at a time, whose blocks lie side by side. It copies them to shared memory as they are;
// each thread takes 256 k of a column from there into registers, and while it multiplies them the next columns are on
// their way. Block results stay in shared memory, where they are added. What the rows are made first (rounded to 8
// bits, or put in another order) is made by every workgroup itself, while the first weights are on their way; where
// that is too much for shared memory, by a kernel before. Of two matrices (ContractionKernel::paired) half of a
// workgroup's columns are those of the second.
#include <algorithm>
#include <utility>

#include "backends/gpu/renderer/contraction_packed_products.h"
#include "backends/gpu/renderer/contraction_q8.h"
#include "core/assert.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::int64_t kFewRows = 8;
constexpr int kThreadsOfUnit = 512;                     ///< with the registers that pieces need
constexpr std::int64_t kMostPrepared = 32 << 10;        ///< bytes of prepared rows in shared memory
constexpr std::int64_t kMostPreparedBefore = 64 << 20;  ///< and elsewhere

class PackedFew {
 public:
  PackedFew(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits)
      : kernel_(kernel),
        geometry_(geometry),
        limits_(limits),
        exact_(kernel.numerics != Numerics::q8),
        encoding_(kernel.b_operand.encoding),
        piece_(encoding_),
        sums_(has_offsets(encoding_) || piece_.bias() != 0 ? 2 : 0),
        blocks_(geometry.length / order::kQ8Block),
        pieces_(over(geometry.length, kBlock)),
        rows_(geometry.batches * geometry.rows),
        column_bytes_(bytes_of(geometry.length)),
        matrices_(kernel.paired ? 2 : 1),
        index_(geometry.wide ? "LONG" : "int"),
        a_("a", kernel.a, geometry.a, geometry, true),
        b_("b", kernel.b_operand, geometry.b, geometry, false),
        made_(geometry, a_, exact_, sums_) {
    const std::int64_t prepared = 4 * made_.words();
    prepares_ = geometry.batches == 1 && prepared <= kMostPrepared;
    for (threads_ = limits.threads; threads_ > 32; threads_ /= 2) {
      choose_columns();
      const std::int64_t bytes = 4 * (span_words() + partial_words()) + (prepares_ ? prepared : 0);
      if (bytes + 64 <= static_cast<std::int64_t>(limits.shared_bytes)) break;
    }
    choose_columns();
    // Nearly all units have columns; all threads make the rows, if they have none, too.
    while (columns_ > matrices_ && 4 * bands() < std::int64_t{3} * limits.units) columns_ /= 2;
    alignment_ = 16;
    while (alignment_ > 1 && !is_aligned(alignment_)) alignment_ /= 4;
  }

  bool is_for_this() const { return 4 * made_.words() <= kMostPreparedBefore; }
  /// Of two matrices.
  bool is_for_pairs() const { return parts_ == 1 && columns_ % 2 == 0 && alignment_ == 16 && is_for_this(); }

  Rendered render() {
    Rendered rendered;
    if (!prepares_) {
      rendered.scratch_bytes = static_cast<std::size_t>(4 * made_.words());
      rendered.launches.push_back(prepare_rows());
    }
    rendered.launches.push_back(multiply());
    return rendered;
  }

 private:
  std::int64_t bytes_of(std::int64_t elements) const {
    const EncodingInfo& info = info_of(encoding_);
    return elements / static_cast<std::int64_t>(info.elements) * static_cast<std::int64_t>(info.bytes);
  }
  // A workgroup's threads have the pieces of 256 k of some columns, or of a part of one.
  void choose_columns() {
    at_once_ = static_cast<int>(std::min<std::int64_t>(pieces_, threads_));
    parts_ = over(pieces_, at_once_);
    columns_ = parts_ > 1 ? 1 : threads_ / at_once_;
  }
  int own_columns() const { return columns_ / matrices_; }  ///< of each matrix
  std::int64_t bands_of_batch() const { return over(geometry_.columns, std::max(own_columns(), 1)); }
  std::int64_t bands() const { return geometry_.batches * bands_of_batch(); }
  bool is_aligned(std::int64_t bytes) const {
    if (piece_.bytes() % bytes != 0 || column_bytes_ % bytes != 0 || bytes_of(b_.view.offset) % bytes != 0)
      return false;
    for (int d = 0; d < geometry_.m; ++d)
      if (bytes_of(b_.view.strides[d]) % bytes != 0) return false;
    return true;
  }

  // Sizes in words of what is in shared memory; one more at the end of weights, which are read in pairs.
  std::int64_t span_words() const {
    std::int64_t bytes = parts_ > 1 ? std::int64_t{threads_} * piece_.bytes() : columns_ * column_bytes_;
    if (geometry_.length % kBlock != 0) bytes += piece_.bytes();  // the last piece is read as a whole
    return over(bytes + 15, 16) * 4 + 4;
  }
  // Bytes from the first matrix's columns to the second's.
  std::int64_t second_bytes() const { return own_columns() * column_bytes_; }
  int sums_stride() const { return at_once_ | 1; }
  PackedThread thread() const {
    return {.exact = exact_,
            .rows_are_shared = prepares_,
            .copies = limits_.copies_to_shared,
            .sums = sums_,
            .columns = columns_,
            .stride = sums_stride()};
  }
  std::int64_t partial_words() const { return geometry_.rows * columns_ * sums_stride(); }
  Launch prepare_rows() {
    Words words;
    Lines lines;
    lines.add("MEMORY a_at = {};", words.memory(Patch::Kind::address, a_.input->slot));
    lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
    made_.prepare(lines, words, fmt::format("int(GROUP) * {} + int(THREAD)", kLeastThreads),
                  fmt::format("int(GROUPS) * {}", kLeastThreads),
                  [](Lines& to, const std::string& at, const std::string& word) {
                    to.add("STORE_U32(scratch, {}, {});", at, word);
                  });
    Launch result;
    result.text.body = lines.take();
    result.text.threads = kLeastThreads;
    result.groups = limits_.groups_for(over(rows_ * blocks_, kLeastThreads));
    words.move_to(result);
    return result;
  }

  // Declares where band `band`'s weights are: `batch_of`, its first column `first_n`, and for part `part` of its k the
  // place `from`, with the first byte at `lead`, and the last one's place `end`, counted from there.
  void declare_band(Lines& lines, Words& words) const {
    lines.add("{} batch_of = {};", index_, quotient(words, "band", bands_of_batch(), geometry_.wide));
    lines.add("{0} first_n = (band - batch_of * {1}) * {0}({2});", index_,
              words.index(bands_of_batch(), geometry_.wide), own_columns());
  }
  void declare_span(Lines& lines, Words& words) const {
    const EncodingInfo& info = info_of(encoding_);
    lines.add("{} batch = batch_of;", index_);
    decompose(lines, words, geometry_.shape, 0, geometry_.m, "batch", "i", geometry_.wide);
    b_.access.declare(lines, words, "b", "", 0, geometry_.m, "i");
    lines.add("LONG begin = LONG(b_b) / LONG({}) * LONG({}) + LONG(first_n) * {}{};", info.elements, info.bytes,
              words.int64(column_bytes_),
              parts_ == 1 ? "" : fmt::format(" + LONG(part) * LONG({})", threads_ * piece_.bytes()));
    lines.add("int lead = {};", alignment_ == 16 ? "0" : "int(begin & LONG(15))");
  }
  // Starts to copy the weights of `band` and `part`.
  void start_copies(Lines& lines, Words& words) const {
    declare_band(lines, words);
    declare_span(lines, words);
    if (parts_ == 1) {
      lines.add("int here = int(SELECT(size_n - first_n < {0}({1}), size_n - first_n, {0}({1})));", index_,
                own_columns());
      lines.add("int vectors = (lead + here * {} + 15) / 16;", words.int32(column_bytes_));
    } else {
      lines.add("int rest = {} - part * {};", words.int32(column_bytes_), threads_ * piece_.bytes());
      lines.add("int vectors = (lead + SELECT(rest < {0}, rest, {0}) + 15) / 16;", threads_ * piece_.bytes());
    }
    copy_span(lines, "b_at", 0);
    if (matrices_ == 2) copy_span(lines, "second_at", second_bytes() / 16);
  }
  // Vectors of 16 bytes, to the span from vector `to` on.
  void copy_span(Lines& lines, const char* matrix, std::int64_t to) const {
    const std::string from = fmt::format("from_{}", matrix);
    lines.add("MEMORY {} = {} + ULONG(begin - LONG(lead));", from, matrix);
    const auto most = static_cast<int>(over(over(span_words(), 4 * matrices_), threads_));
    const std::string place = to == 0 ? "v" : fmt::format("({} + v)", to);
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", most);
    lines.add("int v = j * {} + thread_id;", threads_);
    lines.open("if (v < vectors) {{");
    if (limits_.copies_to_shared) {
      lines.add("COPY_TO_SHARED(span, {}, 16, {} + ULONG(v) * ULONG(16))", place, from);
    } else {
      lines.add("UINT four[4];");
      lines.add("LOAD4_U32({}, 4 * v, four)", from);
      lines.add("UNROLL");
      lines.add("for (int i = 0; i < 4; i++) span[4 * {} + i] = int(four[i]);", place);
    }
    lines.close();
    lines.close();
  }
  // This thread's 256 k.
  void take_piece(Lines& lines, Words& words) const {
    const int count = piece_.words();
    lines.add("UINT piece[{}];", count);
    lines.add("int place = lead + own_piece * {};", piece_.bytes());
    if (columns_ > 1) lines.add("if (own_column < {}) place += own_column * {};", columns_, words.int32(column_bytes_));
    if (alignment_ == 16) {
      lines.add("UNROLL");
      lines.open("for (int j = 0; j < {}; j++) {{", count / 4);
      lines.add("UINT four[4];");
      if (limits_.copies_to_shared) {
        lines.add("TAKE4_U32(span, (place >> 4) + j, four)");
      } else {
        lines.add("UNROLL");
        lines.add("for (int i = 0; i < 4; i++) four[i] = UINT(span[(place >> 2) + 4 * j + i]);");
      }
      lines.add("UNROLL");
      lines.add("for (int i = 0; i < 4; i++) piece[4 * j + i] = four[i];");
      lines.close();
      return;
    }
    lines.add("UNROLL");
    if (alignment_ == 4) {
      lines.add("for (int j = 0; j < {}; j++) piece[j] = UINT(span[(place >> 2) + j]);", count);
      return;
    }
    lines.open("for (int j = 0; j < {}; j++) {{", count);
    lines.add("UINT low = UINT(span[(place >> 2) + j]);");
    lines.add("UINT high = UINT(span[(place >> 2) + j + 1]);");
    lines.add("piece[j] = low >> UINT(8 * (place & 3)) | high << 1 << UINT(31 - 8 * (place & 3));");
    lines.close();
  }

  // Adds block results in ascending order.
  void add_partials(Lines& lines, Words& words, ProgramWriter& writer) const {
    const auto rows = static_cast<int>(geometry_.rows);
    const int own = own_columns();
    lines.open("for (int e = thread_id; e < {}; e += {}) {{", own * rows, threads_);
    lines.add("{0} m = {0}(e / {1});", index_, own);
    lines.add("{0} n = first_n + {0}(e % {1});", index_, own);
    lines.open("if (n < size_n) {{");
    if (parts_ == 1) {
      lines.add("float total = FROM_BITS(0x80000000u);");
    } else {
      lines.add("if (part == 0) total = FROM_BITS(0x80000000u);");
    }
    const std::string value = fmt::format("partials[e * {} + i]", sums_stride());
    if (matrices_ == 2) {
      lines.add("int partial_at = (e / {0} * {1} + e % {0}) * {2};", own, columns_, sums_stride());
      lines.add("float second_total = FROM_BITS(0x80000000u);");
      lines.add("UNROLL_BY(16)");
      lines.open("for (int i = 0; i < {}; i++) {{", at_once_);
      lines.add("total = {};", added(ComputeType::f32, "total", "partials[partial_at + i]"));
      lines.add("second_total = {};", added(ComputeType::f32, "second_total",
                                            fmt::format("partials[partial_at + {} + i]", own * sums_stride())));
      lines.close();
      lines.add("float second_accumulator = {}(second_total);", canonical_of(ComputeType::f32));
    } else if (parts_ == 1) {
      lines.add("UNROLL_BY(16)");
      lines.add("for (int i = 0; i < {}; i++) total = {};", at_once_, added(ComputeType::f32, "total", value));
    } else {
      lines.add("int last = SELECT({0} - part * {1} < {1}, {0} - part * {1}, {1});", pieces_, at_once_);
      lines.add("for (int i = 0; i < last; i++) total = {};", added(ComputeType::f32, "total", value));
      lines.open("if (part == {}) {{", parts_ - 1);
    }
    lines.add("{} batch = batch_of;", index_);
    write_result(lines, words, writer, kernel_, geometry_, geometry_.wide, "total");
    if (parts_ > 1) lines.close();
    lines.close();
    lines.close();
  }

  void prepare_all(Lines& lines, Words& words) const {
    if (limits_.copies_to_shared) return made_.prepare_together(lines, words, threads_);
    made_.prepare(
        lines, words, "thread_id", std::to_string(threads_),
        [](Lines& to, const std::string& at, const std::string& word) { to.add("prepared[{}] = int({});", at, word); });
  }

  Launch multiply() {
    const bool wide = geometry_.wide;
    Words words;
    Lines lines;
    ProgramWriter writer(kernel_.epilogue, geometry_.epilogue, words);
    lines.add("MEMORY b_at = {};", words.early_memory(Patch::Kind::address, b_.input->slot));
    if (matrices_ == 2) {
      lines.add("MEMORY second_at = {};", words.early_memory(Patch::Kind::address, kernel_.second.slot));
    }
    declare_zero(lines, words, ComputeType::f32);
    lines.add("int thread_id = int(THREAD);");
    lines.add("int own_column = thread_id / {};", at_once_);
    lines.add("int own_piece = thread_id - own_column * {};", at_once_);
    if (geometry_.length % kBlock != 0) lines.add("int blocks = {};", words.int32(blocks_));
    lines.add("{} size_n = {};", index_, words.index(geometry_.columns, wide));
    lines.add("{} bands = {};", index_, words.index(bands(), wide));
    lines.add("{0} band = {0}(GROUP);", index_);
    if (parts_ > 1) {
      lines.add("int part = 0;");
      lines.add("float total = FROM_BITS(0x80000000u);");
    }
    lines.open("if (band < bands) {{");
    start_copies(lines, words);
    lines.close();
    lines.add("AFTER_EARLIER()");
    if (prepares_) {
      lines.add("MEMORY a_at = {};", words.memory(Patch::Kind::address, a_.input->slot));
    } else {
      lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
    }
    writer.declare_buffers(lines);
    if (prepares_) prepare_all(lines, words);
    lines.open("while (band < bands) {{");
    declare_band(lines, words);
    declare_span(lines, words);
    if (limits_.copies_to_shared) lines.add("COPIES_ARRIVED();");
    lines.add("BARRIER();");
    take_piece(lines, words);
    lines.add("BARRIER();");
    lines.add("{} next = band;", index_);
    if (parts_ > 1) lines.add("int next_part = part + 1;");
    if (parts_ > 1) lines.open("if (next_part == {}) {{", parts_);
    lines.add("next = band + {}(GROUPS);", index_);
    if (parts_ > 1) {
      lines.add("next_part = 0;");
      lines.close();
    }
    lines.open("if (next < bands) {{");
    lines.add("{} band = next;", index_);
    if (parts_ > 1) lines.add("int part = next_part;");
    start_copies(lines, words);
    lines.close();
    lines.add("int piece_of = own_piece{};", parts_ == 1 ? "" : fmt::format(" + part * {}", at_once_));
    if (geometry_.batches > 1) lines.add("int first_row = int(batch_of) * {};", geometry_.rows);
    lines.open("if (own_column < {}{}) {{", columns_, parts_ == 1 ? "" : fmt::format(" && piece_of < {}", pieces_));
    multiply_packed_piece(lines, geometry_, piece_, encoding_, made_, thread());
    lines.close();
    lines.add("BARRIER();");
    add_partials(lines, words, writer);
    lines.add("band = next;");
    if (parts_ > 1) lines.add("part = next_part;");
    lines.close();
    Launch result;
    result.text.body = lines.take();
    result.text.functions = writer.functions() + piece_.functions();
    result.text.threads = threads_;
    result.text.copies = limits_.copies_to_shared;
    result.text.shared.push_back({ComputeType::i32, "span", static_cast<int>(span_words())});
    result.text.shared.push_back({ComputeType::f32, "partials", static_cast<int>(partial_words())});
    if (prepares_) result.text.shared.push_back({ComputeType::i32, "prepared", static_cast<int>(made_.words())});
    const auto bytes = static_cast<std::int64_t>(shared_bytes_of(result.text)) + 1024;
    const std::int64_t of_memory = std::max<std::int64_t>(static_cast<std::int64_t>(limits_.shared_bytes) / bytes, 1);
    const int resident = static_cast<int>(std::clamp<std::int64_t>(of_memory, 1, kThreadsOfUnit / threads_));
    if (limits_.copies_to_shared) result.text.groups_per_unit = resident;
    result.groups = limits_.groups_for(std::min(bands(), std::int64_t{limits_.units} * resident));
    words.move_to(result);
    return result;
  }

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const RenderLimits& limits_;
  const bool exact_;  ///< weights are decoded
  const Encoding encoding_;
  const PackedPiece piece_;
  const int sums_;             ///< of codes of a block of activations that are needed
  const std::int64_t blocks_;  ///< of 32 k
  const std::int64_t pieces_;  ///< of 256 k
  const std::int64_t rows_;    ///< of all batches
  const std::int64_t column_bytes_;
  const int matrices_;
  const char* index_;
  const Side a_, b_;
  const PackedRows made_;
  bool prepares_ = false;  ///< workgroups round the rows themselves
  int threads_ = 256;
  int at_once_ = 1;              ///< pieces of a column
  std::int64_t parts_ = 1;       ///< of a column, one after the other
  int columns_ = 1;              ///< of a workgroup at once
  std::int64_t alignment_ = 16;  ///< of columns and pieces in memory
};

}  // namespace

bool has_whole_blocks(const Side& b, const Geometry& geometry) {
  if (b.bounded()) return false;
  std::int64_t step = 1;
  for (int d = geometry.shape.rank() - 1; d >= geometry.n; --d) {
    if (b.view.shape[d] > 1 && b.view.strides[d] != step) return false;
    step *= b.view.shape[d];
  }
  const auto elements = static_cast<std::int64_t>(info_of(b.input->encoding).elements);
  bool whole = geometry.length % elements == 0 && b.view.offset % elements == 0;
  for (int d = 0; d < geometry.m; ++d) whole = whole && b.view.strides[d] % elements == 0;
  return whole;
}

std::optional<Rendered> render_packed_few(const ContractionKernel& kernel, const Geometry& geometry,
                                          const RenderLimits& limits) {
  const Encoding encoding = kernel.b_operand.encoding;
  if (encoding == Encoding::dense || geometry.rows > kFewRows || kernel.type != ComputeType::f32) return std::nullopt;
  if (!has_whole_blocks(Side("b", kernel.b_operand, geometry.b, geometry, false), geometry)) return std::nullopt;
  // Scales of mxfp4 need not be normal numbers.
  if (kernel.numerics != Numerics::q8 && (encoding == Encoding::mxfp4 || is_guarded(kernel, limits))) {
    return std::nullopt;
  }
  // Those of floats are made of subnormal ones.
  if (is_floats(encoding) && !limits.arithmetic.sums_keep_subnormals) return std::nullopt;
  PackedFew few(kernel, geometry, limits);
  if (!few.is_for_this()) return std::nullopt;
  LOCKSTEP_ASSERT(!kernel.paired || few.is_for_pairs());
  return few.render();
}

bool is_packed_pair(const ContractionKernel& kernel, const RenderLimits& limits) {
  if (!kernel.paired || kernel.numerics != Numerics::q8 || kernel.b_operand.slot == kernel.second.slot) return false;
  const Geometry geometry = geometry_of(kernel);
  if (geometry.rows > kFewRows) return render_q8_warpgroups(kernel, geometry, limits).has_value();
  return geometry.batches == 1 && geometry.rows > 0 && geometry.columns > 0 &&
         has_whole_blocks(Side("b", kernel.b_operand, geometry.b, geometry, false), geometry) &&
         PackedFew(kernel, geometry, limits).is_for_pairs();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
