// An operand's digits: a workgroup reads 64 rows of a block of k (32 where shared memory is small) through the
// operand's view into shared memory, finds each row's largest magnitude, and writes half a tile of digits, or a
// quarter.
//
// Elements are read as they lie: neighbours along the rows or along k at once where that can be, else one by one along
// whichever is contiguous. What rows and k contribute to addresses and bounds is computed once per workgroup.
#include "backends/gpu/renderer/contraction_digits.h"

#include <algorithm>

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kDigitLength = order::kSharedBlock;
constexpr int kDigitStride = kDigitLength + 1;  ///< of a row in shared memory: neighbouring rows begin in other banks
constexpr int kDigitQuarter = kDigitLength / 4;  ///< of a thread
constexpr std::size_t kSharedOfManyRows = std::size_t{64} << 10;

class DigitKernel {
 public:
  DigitKernel(const Side& side, const Geometry& geometry, const DigitLayout& layout, const RenderLimits& limits)
      : side_(side),
        geometry_(geometry),
        layout_(layout),
        limits_(limits),
        index_(geometry.wide ? "LONG" : "int"),
        name_(side.name),
        rows_(limits.shared_bytes >= kSharedOfManyRows ? 64 : 32),
        threads_(4 * rows_),
        parts_(kDigitRows / rows_),
        along_k_(side.has_k_vectors(geometry) || (!side.has_own_vectors(geometry) && side.prefers_k(geometry))) {}

  Launch render();

 private:
  std::int64_t tiles() const { return side_.left ? layout_.a_tiles : layout_.b_tiles; }
  /// Elements that are read at once.
  int width() const {
    if (along_k_)
      return size_of(side_.input->dtype) == 2 && side_.has_k_vectors(geometry_, 8) ? 8
             : side_.has_k_vectors(geometry_)                                      ? 4
                                                                                   : 1;
    return side_.has_own_vectors(geometry_) ? 4 : 1;
  }
  void open_items();
  void fill_tables();
  void load();
  void make_digits();
  void write_digits();

  const Side& side_;
  const Geometry& geometry_;
  const DigitLayout& layout_;
  const RenderLimits& limits_;
  const char* index_;
  const std::string& name_;
  const int rows_;     ///< of a workgroup
  const int threads_;  ///< each has a quarter of a row's block
  const int parts_;    ///< of a tile
  bool along_k_;
  Words words_;
  Lines lines_;
  std::vector<SharedArray> shared_;
};

Launch DigitKernel::render() {
  open_items();
  fill_tables();
  load();
  make_digits();
  write_digits();
  lines_.close();
  Launch result;
  result.text.body = lines_.take();
  result.text.threads = threads_;
  result.text.groups_per_unit = 4;
  result.text.shared = std::move(shared_);
  result.text.shared.push_back({ComputeType::f32, "values", rows_ * kDigitStride});
  result.text.shared.push_back({ComputeType::i32, "largest", threads_});
  result.text.shared.push_back({ComputeType::f32, "digits", kDigitTileBytes / parts_ / 4});
  result.groups = limits_.groups_for(geometry_.batches * tiles() * parts_ * layout_.blocks);
  words_.move_to(result);
  result.makes = side_.left ? 0 : 1;
  return result;
}

// The loop over parts of tiles. Neighbouring workgroups read what is near in memory.
void DigitKernel::open_items() {
  const std::int64_t parts = parts_ * tiles();
  lines_.add("MEMORY {}_at = {};", name_, words_.memory(Patch::Kind::address, side_.input->slot));
  lines_.add("MEMORY form = {};", words_.memory(Patch::Kind::form, side_.left ? 0 : 1));
  lines_.add("MEMORY digits_at = form + {};",
             words_.uint64(static_cast<std::uint64_t>(side_.left ? layout_.a_digits : layout_.b_digits)));
  lines_.add("MEMORY scales_at = form + {};",
             words_.uint64(static_cast<std::uint64_t>(side_.left ? layout_.a_scales : layout_.b_scales)));
  lines_.add("int thread_id = int(THREAD);");
  lines_.add("{} size_own = {};", index_, words_.index(side_.size, geometry_.wide));
  lines_.add("{} size_k = {};", index_, words_.index(geometry_.length, geometry_.wide));
  const std::int64_t inner = along_k_ ? layout_.blocks : parts;
  const std::int64_t outer = along_k_ ? parts : layout_.blocks;
  const std::int64_t items = geometry_.batches * parts * layout_.blocks;
  const bool many = geometry_.wide || items >= std::int64_t{1} << 30;
  const char* type = many ? "LONG" : "int";
  lines_.add("{} items = {};", type, words_.index(items, many));
  lines_.open("for ({0} item = {0}(GROUP); item < items; item += {0}(GROUPS)) {{", type);
  lines_.add("{} above = {};", type, quotient(words_, "item", inner, many));
  lines_.add("{0} {1} = {0}(item - above * {2});", index_, along_k_ ? "block" : "part", words_.index(inner, many));
  lines_.add("{0} batch = {0}({1});", index_, quotient(words_, "above", outer, many));
  lines_.add("{0} {1} = {0}(above - {2}(batch) * {3});", index_, along_k_ ? "part" : "block", type,
             words_.index(outer, many));
  lines_.add("LONG tile = (LONG(batch) * LONG({}) + LONG(part / {})) * LONG({}) + LONG(block);",
             words_.index(tiles(), many), parts_, words_.index(layout_.blocks, many));
  lines_.add("{0} first_own = part * {0}({1});", index_, rows_);
  lines_.add("{0} first_k = block * {0}({1});", index_, kDigitLength);
}

void DigitKernel::fill_tables() {
  const int rank = geometry_.shape.rank();
  lines_.add("BARRIER();");
  lines_.open("if (thread_id < {}) {{", rows_);
  decompose(lines_, words_, geometry_.shape, 0, geometry_.m, "batch", "i", geometry_.wide);
  lines_.add("{0} own = SELECT(first_own + {0}(thread_id) < size_own, first_own + {0}(thread_id), size_own - {0}(1));",
             index_);
  decompose(lines_, words_, geometry_.shape, side_.first, side_.last, "own", "i", geometry_.wide);
  side_.access.declare(lines_, words_, "batch", "", 0, geometry_.m, "i");
  for (int b = -1; b < side_.access.bounds(); ++b) {
    lines_.add("own_table{0}[thread_id] = {1}_batch{0} + {2};", suffix_of(b), name_,
               side_.access.sum(words_, b, side_.first, side_.last, "i", false));
  }
  lines_.close();
  lines_.open("for (int place = (thread_id + {}) & {}; place < {}; place += {}) {{", threads_ - rows_, threads_ - 1,
              kDigitLength, threads_);
  lines_.add("{0} at = SELECT(first_k + {0}(place) < size_k, first_k + {0}(place), size_k - {0}(1));", index_);
  decompose(lines_, words_, geometry_.shape, geometry_.k, rank, "at", "i", geometry_.wide);
  for (int b = -1; b < side_.access.bounds(); ++b) {
    lines_.add("k_table{}[place] = {};", suffix_of(b), side_.access.sum(words_, b, geometry_.k, rank, "i", false));
    const ComputeType type = geometry_.wide ? ComputeType::i64 : ComputeType::i32;
    shared_.push_back({type, "own_table" + suffix_of(b), rows_});
    shared_.push_back({type, "k_table" + suffix_of(b), kDigitLength});
  }
  lines_.close();
  lines_.add("BARRIER();");
}

void DigitKernel::load() {
  const DType dtype = side_.input->dtype;
  const int width = this->width();
  const int across = along_k_ ? kDigitLength / width : rows_ / width;  ///< threads that read neighbours
  lines_.add("UNROLL_BY(8)");
  lines_.open("for (int j = 0; j < {}; j++) {{", rows_ * kDigitLength / width / threads_);
  lines_.add("int near = ((thread_id + j * {}) % {}) * {};", threads_, across, width);
  lines_.add("int far = (thread_id + j * {}) / {};", threads_, across);
  lines_.add("int own = {};", along_k_ ? "far" : "near");
  lines_.add("int at_k = {};", along_k_ ? "near" : "far");
  for (int b = -1; b < side_.access.bounds(); ++b) {
    lines_.add("{0} {1}_e{2} = own_table{2}[own] + k_table{2}[at_k];", index_, name_, suffix_of(b));
  }
  side_.access.check_bounds(lines_, words_, "e");
  lines_.add("bool there = first_own + {0}(own) < size_own && first_k + {0}(at_k) < size_k;", index_);
  const auto value = [&](const std::string& word) { return decoded(dtype, word, side_.input->canonical); };
  if (width > 1) {
    lines_.add("UINT words[{0}];", width);
    lines_.open("if (there) {{");
    lines_.add("{}({}_at, {}_e, words)", width == 8 ? "LOAD8_U16" : load4_of(dtype), name_, name_);
    lines_.close();
    lines_.open("else {{");
    lines_.add("for (int i = 0; i < {}; i++) words[i] = 0u;", width);
    lines_.close();
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < {}; i++) values[{}] = {};", width,
               along_k_ ? fmt::format("own * {} + at_k + i", kDigitStride)
                        : fmt::format("(own + i) * {} + at_k", kDigitStride),
               value("words[i]"));
  } else {
    const std::string read = fmt::format("{0}({1}_at, {1}_e)", load_of(side_.input->encoding, dtype), name_);
    lines_.add("UINT word = 0u;");
    lines_.open("if (there) {{");
    if (side_.bounded()) {
      lines_.add("word = {};", words_.uint32(side_.view.fill));
      lines_.add("if ({}) word = {};", side_.access.inside("e"), read);
    } else {
      lines_.add("word = {};", read);
    }
    lines_.close();
    lines_.add("values[own * {} + at_k] = {};", kDigitStride, value("word"));
  }
  lines_.close();
  lines_.add("BARRIER();");
}

void DigitKernel::make_digits() {
  lines_.add("int row = thread_id & {};", rows_ - 1);
  lines_.add("int quarter = thread_id / {};", rows_);
  lines_.add("float mine[{}];", kDigitQuarter);
  lines_.add("UINT most = 0u;");
  lines_.add("UNROLL");
  lines_.open("for (int i = 0; i < {}; i++) {{", kDigitQuarter);
  lines_.add("mine[i] = values[row * {} + quarter * {} + i];", kDigitStride, kDigitQuarter);
  lines_.add("UINT magnitude = BITS(mine[i]) & 0x7fffffffu;");
  lines_.add("most = SELECT(magnitude > most, magnitude, most);");
  lines_.close();
  lines_.add("largest[thread_id] = int(most);");
  lines_.add("BARRIER();");
  lines_.add("UNROLL");
  lines_.open("for (int i = 0; i < 4; i++) {{");
  lines_.add("UINT other = UINT(largest[i * {} + row]);", rows_);
  lines_.add("most = SELECT(other > most, other, most);");
  lines_.close();
  lines_.add("bool is_number = most < {}u;", std::uint32_t{order::kMostExponent + 127} << 23);
  lines_.add("int exponent = int(most >> 23) - 126;");
  // Of zeros alone any finite scale gives the same results: one that is no reason for care (is_guarded).
  lines_.add("exponent = SELECT(most == 0u, 0, SELECT(exponent < {0}, {0}, exponent));", order::kLeastExponent);
  lines_.add("float up = FROM_BITS(UINT(SELECT(is_number, 14 + 127 - exponent, 0)) << 23);");
  lines_.open("if (quarter == 0) {{");
  // Powers of two whose product undoes both operands' scaling, but for the 2^7 that sums are divided by.
  lines_.add("UINT scale = SELECT(is_number, UINT(exponent + {}) << 23, 0x7fc00000u);", 127 + (side_.left ? -20 : -1));
  lines_.add("STORE_U32(scales_at, tile * LONG({}) + LONG((int(part) & {}) * {} + row), scale);", kDigitRows,
             parts_ - 1, rows_);
  lines_.close();
  lines_.add("UNROLL");
  lines_.open("for (int s = 0; s < 2; s++) {{");
  lines_.add("float high[4];");
  lines_.add("float low[4];");
  lines_.add("UNROLL");
  lines_.open("for (int w = 0; w < 4; w++) {{");
  lines_.add("UINT high_word = 0u;");
  lines_.add("UINT low_word = 0u;");
  lines_.add("UNROLL");
  lines_.open("for (int i = 0; i < 4; i++) {{");
  // Beside 1.5 * 2^23 stands the nearest integer, of two the even one.
  lines_.add("int q = int(BITS(FMA(mine[16 * s + 4 * w + i], up, 12582912.0f)) - 0x4b400000u);");
  lines_.add("q = SELECT(q > 16383, 16383, q);");
  lines_.add("high_word |= (UINT(q >> 7) & 255u) << UINT(8 * i);");
  lines_.add("low_word |= (UINT(q) & 127u) << UINT(8 * i);");
  lines_.close();
  lines_.add("high[w] = FROM_BITS(high_word);");
  lines_.add("low[w] = FROM_BITS(low_word);");
  lines_.close();
  lines_.add("int place = row * {} + ((2 * quarter + s) ^ (row & 7)) * 4;", kDigitLength / 4);
  lines_.add("WRITE4(digits, place, high, 0)");
  lines_.add("WRITE4(digits, {} + place, low, 0)", rows_ * kDigitLength / 4);
  lines_.close();
  lines_.add("BARRIER();");
}

void DigitKernel::write_digits() {
  const int plane = rows_ * kDigitLength / 4;  // words of this part
  lines_.add("UNROLL");
  lines_.open("for (int j = 0; j < {}; j++) {{", 2 * plane / 4 / threads_);
  lines_.add("int place = (thread_id + j * {}) * 4;", threads_);
  lines_.add("float moved[4];");
  lines_.add("READ4(digits, place, moved, 0)");
  lines_.add("UINT words[4];");
  lines_.add("UNROLL");
  lines_.add("for (int i = 0; i < 4; i++) words[i] = BITS(moved[i]);");
  lines_.add("int plane = place / {};", plane);
  lines_.add("LONG to = tile * LONG({}) + LONG(plane * {} + (int(part) & {}) * {} + place);", kDigitTileBytes / 4,
             (parts_ - 1) * plane, parts_ - 1, plane);
  lines_.add("STORE4_U32(digits_at, to, words)");
  lines_.close();
}

}  // namespace

bool digits_fit(const Geometry& geometry, const RenderLimits& limits) {
  if (geometry.length == 0 || DigitLayout(geometry).bytes() > kMostDigitBytes) return false;
  if (limits.shared_bytes >= kSharedOfManyRows) return true;
  constexpr std::size_t kRows = 32;
  const std::size_t tables = 1 + std::max(geometry.a.bounds.size(), geometry.b.bounds.size());
  const std::size_t words =
      kRows * (kDigitStride + 4) + kRows * kDigitLength / 2 + tables * (kRows + kDigitLength) * (geometry.wide ? 2 : 1);
  return limits.threads >= static_cast<int>(4 * kRows) && 4 * words + 256 <= limits.shared_bytes;
}

DigitLayout::DigitLayout(const Geometry& geometry)
    : blocks(over(geometry.length, order::kSharedBlock)),
      a_tiles(over(geometry.rows, kDigitRows)),
      b_tiles(over(geometry.columns, kDigitRows)) {
  const std::int64_t of_a = geometry.batches * a_tiles * blocks;
  const std::int64_t of_b = geometry.batches * b_tiles * blocks;
  constexpr std::int64_t kScaleBytes = 4 * kDigitRows;
  a_digits = 0;
  a_scales = of_a * kDigitTileBytes;
  a_bytes = a_scales + of_a * kScaleBytes;
  b_digits = 0;
  b_scales = of_b * kDigitTileBytes;
  b_bytes = b_scales + of_b * kScaleBytes;
}

Rendered render_digits(const ContractionKernel& kernel, const Geometry& geometry, const DigitLayout& layout,
                       const RenderLimits& limits) {
  const Side a("a", kernel.a, geometry.a, geometry, true);
  const Side b("b", kernel.b_operand, geometry.b, geometry, false);
  Rendered rendered;
  rendered.scratch_bytes = static_cast<std::size_t>(layout.bytes());
  // Beside many rows of the other operand digits take little of the time.
  constexpr std::int64_t kMostUses = 1024;
  const auto form = [](const Input& operand, std::int64_t offset, std::int64_t bytes, std::int64_t uses) {
    return OperandForm{.slot = operand.slot,
                       .offset = static_cast<std::size_t>(offset),
                       .bytes = static_cast<std::size_t>(bytes),
                       .keeps = uses <= kMostUses && operand.encoding == Encoding::dense};
  };
  rendered.forms = {form(kernel.a, 0, layout.a_bytes, geometry.columns),
                    form(kernel.b_operand, layout.a_bytes, layout.b_bytes, geometry.rows)};
  for (const Side& side : {a, b}) rendered.launches.push_back(DigitKernel(side, geometry, layout, limits).render());
  return rendered;
}

void find_digit_tile(Lines& lines, Words& words, std::int64_t tiles_m, std::int64_t tiles_n, bool wide) {
  constexpr int kTilesTogether = 8;  // along rows, whose columns are walked over together: operands meet in the cache
  const char* index = wide ? "LONG" : "int";
  const std::int64_t each = tiles_m * tiles_n;
  lines.add("{} batch = {};", index, quotient(words, "tile", each, wide));
  lines.add("{} of_batch = tile - batch * {};", index, words.index(each, wide));
  lines.add("{} band = {};", index, quotient(words, "of_batch", kTilesTogether * tiles_n, wide));
  lines.add("{0} of_band = of_batch - band * {1};", index, words.index(kTilesTogether * tiles_n, wide));
  lines.add("{0} together = {1} - band * {0}({2});", index, words.index(tiles_m, wide), kTilesTogether);
  lines.add("together = SELECT(together < {0}({1}), together, {0}({1}));", index, kTilesTogether);
  lines.add("{} tile_n = of_band / together;", index);
  lines.add("{0} tile_m = band * {0}({1}) + of_band - tile_n * together;", index, kTilesTogether);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
