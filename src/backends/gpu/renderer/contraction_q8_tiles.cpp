// Many rows times packed weights in q8 numerics (docs/numerics.md section 14) by integer tensor cores. A first kernel
// rounds the activations and leaves codes, scales and sums of codes in the order in which threads hold a left operand
// of 16 rows and 32 k. Then workgroups multiply tiles: 256 k of their columns' blocks come to shared memory as they
// are, while the ones before are multiplied; each thread takes a part of a column apart into codes in the order in
// which threads hold a right operand, and into factors. A product of 16 rows, 32 k and 8 columns is one instruction,
// which adds 12582912 as the bits of a float: less that, its sum is exact.
#include <algorithm>
#include <utility>

#include "backends/gpu/renderer/contraction_q8.h"
#include "backends/gpu/renderer/packed_piece.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kFragmentRows = 16;
constexpr int kFragmentColumns = 8;
constexpr int kTeam = 32;
constexpr std::int64_t kMostTileScratch = std::int64_t{512} << 20;

/// A workgroup's threads: teams of 32, and the fragments of a team.
struct TeamForm {
  int teams_m, teams_n, fragments_m, fragments_n;
  int groups_per_unit;
  int rows() const { return teams_m * fragments_m * kFragmentRows; }
  int columns() const { return teams_n * fragments_n * kFragmentColumns; }
  int threads() const { return teams_m * teams_n * kTeam; }
};
// By rows, then by columns, the largest first; the largest fill a unit alone, which bounds registers.
constexpr TeamForm kTeamForms[] = {
    {2, 4, 4, 4, 1}, {2, 2, 2, 4, 3}, {2, 2, 2, 2, 4}, {1, 4, 2, 2, 4},
    {1, 4, 2, 1, 4}, {1, 4, 1, 2, 4}, {1, 4, 1, 1, 4},
};

// No more rows than there are, and as many columns as leave each unit a tile.
TeamForm team_form(const Geometry& geometry, const RenderLimits& limits) {
  const int tallest = kTeamForms[0].rows();
  int rows = kFragmentRows;
  while (rows < geometry.rows && rows < tallest) rows *= 2;
  const TeamForm* best = nullptr;
  for (const TeamForm& form : kTeamForms) {
    if (form.rows() > rows || form.rows() < std::min(rows, tallest / 2)) continue;
    best = &form;
    if (over(geometry.rows, form.rows()) * over(geometry.columns, form.columns()) >= limits.units) break;
  }
  return *best;
}

class Q8Tiles {
 public:
  Q8Tiles(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits)
      : kernel_(kernel),
        geometry_(geometry),
        limits_(limits),
        form_(team_form(geometry, limits)),
        encoding_(kernel.b_operand.encoding),
        piece_(encoding_),
        groups_(order::kQ8Block / group_size(encoding_)),
        has_factors_(piece_.factor(0, 0) != "1"),
        has_offsets_(has_offsets(encoding_)),
        has_shares_(piece_.share(0, 0) != "1"),
        pieces_(geometry.length / kBlock),
        column_bytes_(piece_.bytes() * pieces_),
        index_(geometry.wide ? "LONG" : "int"),
        a_("a", kernel.a, geometry.a, geometry, true),
        b_("b", kernel.b_operand, geometry.b, geometry, false) {
    const std::int64_t offset = bytes_of(b_.view.offset);
    is_aligned_ = piece_.bytes() % 16 == 0 && offset % 16 == 0;
    vectors_ = static_cast<int>(over(piece_.bytes() + (is_aligned_ ? 0 : 15), 16)) | 1;
  }

  Rendered render() {
    Rendered rendered;
    const std::int64_t row_bytes = geometry_.length + 4 * parts_of_row() * geometry_.length / order::kQ8Block;
    const std::int64_t most = std::max<std::int64_t>(kMostTileScratch / row_bytes / form_.rows(), 1) * form_.rows();
    const std::int64_t part = std::min(over(geometry_.rows, form_.rows()) * form_.rows(), most);
    rendered.scratch_bytes = static_cast<std::size_t>(part * row_bytes);
    for (std::int64_t first = 0; first < geometry_.rows; first += part) {
      const std::int64_t count = std::min(part, geometry_.rows - first);
      rendered.launches.push_back(activations(first, count));
      rendered.launches.push_back(multiply(first, count));
    }
    return rendered;
  }

 private:
  std::int64_t bytes_of(std::int64_t elements) const {
    const EncodingInfo& info = info_of(encoding_);
    return elements / static_cast<std::int64_t>(info.elements) * static_cast<std::int64_t>(info.bytes);
  }
  // Floats of a row's block beside its codes: a scale, and sums of codes.
  int sums() const { return !has_offsets_ ? 0 : groups_; }
  int parts_of_row() const { return 1 + sums(); }
  std::int64_t blocks() const { return geometry_.length / order::kQ8Block; }
  static std::int64_t row_tiles(std::int64_t count, const TeamForm& form) {
    return over(count, form.rows()) * form.rows() / kFragmentRows;
  }
  // Where a part of the rows' floats begins, in words: [part][block][16 rows][8][2].
  std::string floats_at(int part, const std::string& block, const std::string& tile, const std::string& row) const {
    return fmt::format("floats_begin + (({} * blocks + ({})) * row_tiles + ({})) * {} + ({})", part, block, tile,
                       kFragmentRows, row);
  }

  // A thread rounds a block of a row, neighbours those of neighbouring rows; rows beyond the last are zeros.
  Launch activations(std::int64_t first, std::int64_t count) const {
    Words words;
    Lines lines;
    lines.add("MEMORY a_at = {};", words.memory(Patch::Kind::address, a_.input->slot));
    lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
    lines.add("int count = {};", words.int32(count));
    lines.add("int row_tiles = {};", words.int32(row_tiles(count, form_)));
    lines.add("int rows = row_tiles * {};", kFragmentRows);
    lines.add("int blocks = {};", words.int32(blocks()));
    lines.add("int floats_begin = blocks * rows * {};", kWordsOfBlock);
    lines.open("for (int e = int(GROUP) * {0} + int(THREAD); e < rows * blocks; e += int(GROUPS) * {0}) {{",
               limits_.threads);
    lines.add("int block = {};", quotient(words, "e", row_tiles(count, form_) * kFragmentRows, false));
    lines.add("int row = e - block * rows;");
    lines.add("int read = SELECT(row < count, row, count - 1);");
    lines.add("{0} all = {0}(read) + {1};", index_, words.index(first, geometry_.wide));
    round_block(lines, words, geometry_, a_, "all", "block");
    lines.open("if (row >= count) {{");
    lines.add("UNROLL");
    lines.add("for (int w = 0; w < {}; w++) code[w] = 0u;", kWordsOfBlock);
    lines.add("scale = FROM_BITS(0u);");
    lines.add("half_sum[0] = 0;");
    lines.add("half_sum[1] = 0;");
    lines.close();
    lines.add("int tile = row / {};", kFragmentRows);
    lines.add("int side = row / 8 & 1;");
    lines.add("UNROLL");
    lines.open("for (int w = 0; w < {}; w++) {{", kWordsOfBlock);
    lines.add("int lane = (row & 7) * 4 + (w & 3);");
    lines.add("STORE_U32(scratch, ((block * row_tiles + tile) * {} + lane) * 4 + side + 2 * (w / 4), code[w]);", kTeam);
    lines.close();
    lines.add("int own_floats = (row & 7) * 2 + side;");
    lines.add("STORE_U32(scratch, {}, BITS(scale));", floats_at(0, "block", "tile", "own_floats"));
    if (sums() == 1) {
      lines.add("STORE_U32(scratch, {}, BITS(float(half_sum[0] + half_sum[1])));",
                floats_at(1, "block", "tile", "own_floats"));
    }
    for (int s = 0; s < 2 && sums() == 2; ++s) {
      lines.add("STORE_U32(scratch, {}, BITS(float(half_sum[{}])));", floats_at(1 + s, "block", "tile", "own_floats"),
                s);
    }
    lines.close();
    Launch result;
    result.text.body = lines.take();
    result.text.threads = limits_.threads;
    result.groups = limits_.groups_for(over(row_tiles(count, form_) * kFragmentRows * blocks(), limits_.threads));
    words.move_to(result);
    return result;
  }

  // Starts to copy piece `piece_of` of the tile's columns.
  void start_copies(Lines& lines, Words& words) const {
    const int tile_n = form_.columns();
    lines.open("for (int e = thread_id; e < {}; e += {}) {{", tile_n * vectors_, form_.threads());
    lines.add("int column = e / {};", vectors_);
    lines.add("int v = e - column * {};", vectors_);
    lines.add("LONG from_column = LONG(first_n) + LONG(column);");
    lines.add("from_column = SELECT(from_column < LONG(size_n), from_column, LONG(size_n) - LONG(1));");
    lines.add("LONG begin = {} + from_column * {} + LONG(piece_of) * LONG({});", words.int64(bytes_of(b_.view.offset)),
              words.int64(column_bytes_), piece_.bytes());
    lines.add("int lead = {};", is_aligned_ ? "0" : "int(begin & LONG(15))");
    lines.open("if (v * 16 < lead + {}) {{", piece_.bytes());
    lines.add("COPY_TO_SHARED(span, e, 16, b_at + ULONG(begin - LONG(lead)) + ULONG(v) * ULONG(16))");
    lines.close();
    lines.close();
  }

  // This thread's column of 256 k, of which it takes some blocks of 32 apart.
  void take_apart(Lines& lines, Words& words) const {
    const int tile_n = form_.columns();
    const int parts = form_.threads() / tile_n;
    const int blocks_of_part = kQ8BlocksOfSum / parts;
    lines.open("{{");
    lines.add("int column = thread_id & {};", tile_n - 1);
    lines.add("int part = thread_id / {};", tile_n);
    lines.add("UINT piece[{}];", over(piece_.words(), 4) * 4);
    if (is_aligned_) {
      lines.add("UNROLL");
      lines.open("for (int j = 0; j < {}; j++) {{", piece_.words() / 4);
      lines.add("UINT four[4];");
      lines.add("TAKE4_U32(span, column * {} + j, four)", vectors_);
      lines.add("UNROLL");
      lines.add("for (int i = 0; i < 4; i++) piece[4 * j + i] = four[i];");
      lines.close();
    } else {
      lines.add("LONG from_column = LONG(first_n) + LONG(column);");
      lines.add("from_column = SELECT(from_column < LONG(size_n), from_column, LONG(size_n) - LONG(1));");
      lines.add("int lead = int(({} + from_column * {} + LONG(piece_of) * LONG({})) & LONG(15));",
                words.int64(bytes_of(b_.view.offset)), words.int64(column_bytes_), piece_.bytes());
      lines.add("int place = column * {} + lead;", vectors_ * 16);
      lines.add("UNROLL");
      lines.open("for (int j = 0; j < {}; j++) {{", piece_.words());
      lines.add("UINT low = UINT(span[(place >> 2) + j]);");
      lines.add("UINT high = UINT(span[(place >> 2) + j + 1]);");
      lines.add("piece[j] = low >> UINT(8 * (place & 3)) | high << 1 << UINT(31 - 8 * (place & 3));");
      lines.close();
    }
    lines.add("int turn = (column >> 2 & 1) + (column >> 3 & 1) * 2;");
    lines.add("int at_column = (column / 8 * {} + (column & 7) * 4) * 2;", kTeam);
    const int step = tile_n / kFragmentColumns * kTeam * 2;  // from one block to the next
    for (int p = 0; p < parts; ++p) {
      lines.open("if (part == {}) {{", p);
      for (int block = p * blocks_of_part; block < (p + 1) * blocks_of_part; ++block) {
        for (int w = 0; w < 4; ++w) {
          lines.open("{{");
          lines.add("int place = {} + at_column + ({} + turn & 3) * 2;", block * step, w);
          for (int side = 0; side < 2; ++side) {
            lines.add("tile_b[place + {}] = int({});", side, without_bias(piece_.codes(block, w + 4 * side)));
          }
          lines.close();
        }
        lines.add("factors[{} + column] = {};", factor_at(0, block) * tile_n, piece_.scale(block));
        for (int g = 0; g < groups_ && has_factors_; ++g) {
          lines.add("factors[{} + column] = float({});", factor_at(1 + g, block) * tile_n, piece_.factor(block, g));
        }
        if (!has_offsets_) continue;
        lines.add("factors[{} + column] = {};", factor_at(first_offset(), block) * tile_n, piece_.offset(block));
        for (int g = 0; g < groups_ && has_shares_; ++g) {
          lines.add("factors[{} + column] = float({});", factor_at(first_offset() + 1 + g, block) * tile_n,
                    piece_.share(block, g));
        }
      }
      lines.close();
    }
    lines.close();
  }
  // Each of four codes, which are no more than 127 with their bias, less that.
  std::string without_bias(const std::string& codes) const {
    if (piece_.bias() == 0) return codes;
    return fmt::format("((({}) | 0x80808080u) - {}u ^ 0x80808080u)", codes, piece_.bias() * 0x01010101);
  }
  int first_offset() const { return 1 + (has_factors_ ? groups_ : 0); }
  int factor_kinds() const { return first_offset() + (has_offsets_ ? 1 + (has_shares_ ? groups_ : 0) : 0); }
  static int factor_at(int which, int block) { return which * kQ8BlocksOfSum + block; }

  // The codes of the team's rows in block `of`, and their floats.
  void load_rows(Lines& lines, const char* of) const {
    const int m = form_.fragments_m;
    lines.add("UNROLL");
    lines.open("for (int i = 0; i < {}; i++) {{", m);
    lines.add("UINT four[4];");
    lines.add("LOAD4_U32(scratch, ((({} * row_tiles) + first_tile + i) * {} + lane) * 4, four)", of, kTeam);
    lines.add("UNROLL");
    lines.add("for (int c = 0; c < 4; c++) next_codes[4 * i + c] = four[c];");
    lines.add("UNROLL");
    lines.open("for (int p = 0; p < {}; p++) {{", parts_of_row());
    lines.add("UNROLL");
    lines.add("for (int s = 0; s < 2; s++) next_floats[(p * {} + i) * 2 + s] = FROM_BITS(LOAD_U32(scratch, {}));", m,
              fmt::format("floats_begin + ((p * blocks + ({})) * row_tiles + first_tile + i) * {} + (lane / 4) * 2 + s",
                          of, kFragmentRows));
    lines.close();
    lines.close();
  }

  // A block's products with the team's columns.
  void multiply_block(Lines& lines) const {
    const int m = form_.fragments_m;
    const int n = form_.fragments_n;
    const int tile_n = form_.columns();
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", n);
    lines.add("int of_tile = team_n * {} + j;", n);
    lines.add("int turned = lane / 16 + (of_tile & 1) * 2;");
    lines.add("int place = (block * {} + of_tile) * {} + (lane / 4) * 8 + (lane + turned & 3) * 2;",
              tile_n / kFragmentColumns, kTeam * 2);
    lines.add("UINT codes_b[2];");
    lines.add("TAKE2_U32(tile_b, place, codes_b)");
    lines.add("int column = of_tile * {} + (lane & 3) * 2;", kFragmentColumns);
    for (int kind = 0; kind < factor_kinds(); ++kind) {
      lines.add("float of_{}[2];", kind);
      lines.add("TAKE2_F32(factors, ({} + block) * {} + column, of_{})", kind * kQ8BlocksOfSum, tile_n, kind);
    }
    for (int g = 0; g < groups_ && has_factors_; ++g) {
      lines.add("float less_{}[2];", g);
      lines.add("UNROLL");
      lines.add("for (int q = 0; q < 2; q++) less_{0}[q] = of_{1}[q] * -12582912.0f;", g, 1 + g);
    }
    lines.add("UNROLL");
    lines.open("for (int i = 0; i < {}; i++) {{", m);
    for (int g = 0; g < groups_; ++g) {
      lines.add("int sum_{}[4];", g);
      lines.add("UNROLL");
      lines.add("for (int q = 0; q < 4; q++) sum_{}[q] = 0x4b400000;", g);
      if (groups_ == 1) {
        lines.add("MULTIPLY_32_BYTES(sum_0, codes, 4 * i, codes_b)");
      } else {
        lines.add("MULTIPLY_16_BYTES(sum_{0}, codes, 4 * i + {1}, codes_b[{0}])", g, 2 * g);
      }
    }
    lines.add("UNROLL");
    lines.open("for (int q = 0; q < 4; q++) {{");
    lines.add("int x = ({} * i + j) * 4 + q;", n);
    lines.add("int r = 2 * i + (q >> 1);");
    const auto exact = [&](int g) {
      const std::string sum = fmt::format("FROM_BITS(UINT(sum_{}[q]))", g);
      return has_factors_ ? fmt::format("FMA_EXACT({}, of_{}[q & 1], less_{}[q & 1])", sum, 1 + g, g)
                          : fmt::format("({} - 12582912.0f)", sum);
    };
    lines.add("float whole = {};", groups_ == 1 ? exact(0) : fmt::format("{} + {}", exact(0), exact(1)));
    lines.add("partial[x] = FMA_EXACT(whole, FLUSHED_PRODUCT(of_0[q & 1], floats[r]), partial[x]);");
    if (has_offsets_) {
      const int offset = first_offset();
      std::string shared;
      for (int g = 0; g < groups_; ++g) {
        const std::string sum = fmt::format("floats[{} + r]", (1 + g) * m * 2);
        const std::string one = has_shares_ ? fmt::format("of_{}[q & 1] * {}", offset + 1 + g, sum) : sum;
        shared += (g == 0 ? "" : " + ") + one;
      }
      lines.add("float shared_sum = {};", shared);
      lines.add("partial[x] = FMA_EXACT(shared_sum, FLUSHED_PRODUCT(of_{}[q & 1], floats[r]), partial[x]);", offset);
    }
    lines.close();
    lines.close();
    lines.close();
  }

  // Results pass through shared memory, so that neighbouring threads write neighbours.
  void write_tile(Lines& lines, Words& words, ProgramWriter& writer) const {
    const int m = form_.fragments_m;
    const int n = form_.fragments_n;
    const int width = n * kFragmentColumns;
    lines.add("int staged_at = thread_id / {} * {};", kTeam, kFragmentRows * (width + 4));
    lines.open("for (int i = 0; i < {}; i++) {{", m);
    lines.add("UNROLL");
    lines.open("for (int p = 0; p < {}; p++) {{", m);
    lines.open("if (p == i) {{");
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", n);
    lines.add("UNROLL");
    lines.add(
        "for (int q = 0; q < 4; q++) staged[staged_at + (lane / 4 + (q >> 1) * 8) * {} + j * {} + (lane & 3) * 2 + (q "
        "& "
        "1)] = total[({} * p + j) * 4 + q];",
        width + 4, kFragmentColumns, n);
    lines.close();
    lines.close();
    lines.close();
    lines.add("NEAR_BARRIER();");
    lines.open("for (int e = lane; e < {}; e += {}) {{", kFragmentRows * width, kTeam);
    lines.add("int in_row = e / {};", width);
    lines.add("int in_column = e & {};", width - 1);
    lines.add("int row = (first_tile + i) * {} + in_row;", kFragmentRows);
    lines.add("{0} n = first_n + {0}(team_n * {1} + in_column);", index_, width);
    lines.open("if (row < count && n < size_n) {{");
    lines.add("{0} m = begin_m + {0}(row);", index_);
    lines.add("{0} batch = {0}(0);", index_);
    lines.add("float result = staged[staged_at + in_row * {} + in_column];", width + 4);
    write_result(lines, words, writer, kernel_, geometry_, geometry_.wide, "result");
    lines.close();
    lines.close();
    lines.add("NEAR_BARRIER();");
    lines.close();
  }

  Launch multiply(std::int64_t first, std::int64_t count) const {
    const int m = form_.fragments_m;
    const int outputs = m * form_.fragments_n * 4;
    const std::int64_t tiles_m = over(count, form_.rows());
    const std::int64_t tiles = tiles_m * over(geometry_.columns, form_.columns());
    Words words;
    Lines lines;
    ProgramWriter writer(kernel_.epilogue, geometry_.epilogue, words);
    lines.add("MEMORY b_at = {};", words.early_memory(Patch::Kind::address, b_.input->slot));
    declare_zero(lines, words, ComputeType::f32);
    lines.add("int thread_id = int(THREAD);");
    lines.add("int lane = thread_id & {};", kTeam - 1);
    lines.add("int team_m = thread_id / {};", kTeam * form_.teams_n);
    lines.add("int team_n = thread_id / {} & {};", kTeam, form_.teams_n - 1);
    lines.add("int count = {};", words.int32(count));
    lines.add("int blocks = {};", words.int32(blocks()));
    lines.add("int row_tiles = {};", words.int32(row_tiles(count, form_)));
    lines.add("int floats_begin = blocks * row_tiles * {};", kFragmentRows * kWordsOfBlock);
    lines.add("{} begin_m = {};", index_, words.index(first, geometry_.wide));
    lines.add("{} size_n = {};", index_, words.index(geometry_.columns, geometry_.wide));
    lines.add("int tiles = {};", words.int32(tiles));
    lines.add("int tile = int(GROUP);");
    const auto declare_tile = [&] {
      lines.add("int band = {};", quotient(words, "tile", tiles_m, false));
      lines.add("{0} first_n = {0}(band) * {0}({1});", index_, form_.columns());
    };
    lines.open("if (tile < tiles) {{");
    declare_tile();
    lines.add("int piece_of = 0;");
    start_copies(lines, words);
    lines.close();
    lines.add("AFTER_EARLIER()");
    lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
    writer.declare_buffers(lines);
    lines.open("while (tile < tiles) {{");
    declare_tile();
    lines.add("int first_tile = ((tile - band * {}) * {} + team_m) * {};", words.int32(tiles_m), form_.teams_m, m);
    lines.add("float total[{}];", outputs);
    lines.add("float partial[{}];", outputs);
    lines.add("UINT next_codes[{}];", 4 * m);
    lines.add("float next_floats[{}];", 2 * m * parts_of_row());
    load_rows(lines, "0");
    lines.add("UNROLL_BY(1)");
    lines.open("for (int piece_of = 0; piece_of < {}; piece_of++) {{", words.int32(pieces_));
    lines.add("COPIES_ARRIVED();");
    lines.add("BARRIER();");
    take_apart(lines, words);
    lines.add("BARRIER();");
    lines.open("if (piece_of + 1 < {}) {{", words.int32(pieces_));
    lines.add("int behind = piece_of + 1;");
    lines.open("{{");
    lines.add("int piece_of = behind;");
    start_copies(lines, words);
    lines.close();
    lines.close();
    lines.open("else if (tile + int(GROUPS) < tiles) {{");
    lines.add("int later = tile + int(GROUPS);");
    lines.open("{{");
    lines.add("int tile = later;");
    lines.add("int piece_of = 0;");
    declare_tile();
    start_copies(lines, words);
    lines.close();
    lines.close();
    lines.add("UNROLL");
    lines.add("for (int x = 0; x < {}; x++) partial[x] = zero;", outputs);
    lines.add("UNROLL_BY(1)");
    lines.open("for (int block = 0; block < {}; block++) {{", kQ8BlocksOfSum);
    lines.add("UINT codes[{}];", 4 * m);
    lines.add("float floats[{}];", 2 * m * parts_of_row());
    lines.add("UNROLL");
    lines.add("for (int c = 0; c < {}; c++) codes[c] = next_codes[c];", 4 * m);
    lines.add("UNROLL");
    lines.add("for (int c = 0; c < {}; c++) floats[c] = next_floats[c];", 2 * m * parts_of_row());
    lines.add("int following = piece_of * {} + block + 1;", kQ8BlocksOfSum);
    lines.add("following = SELECT(following < blocks, following, blocks - 1);");
    load_rows(lines, "following");
    multiply_block(lines);
    lines.close();
    lines.add("UNROLL");
    lines.add("for (int x = 0; x < {}; x++) total[x] = piece_of == 0 ? partial[x] : {};", outputs,
              added(ComputeType::f32, "total[x]", "partial[x]"));
    lines.close();
    write_tile(lines, words, writer);
    lines.add("tile += int(GROUPS);");
    lines.close();
    Launch result;
    result.text.body = lines.take();
    result.text.functions = writer.functions() + piece_.functions();
    result.text.threads = form_.threads();
    result.text.copies = true;
    result.text.byte_products = true;
    result.text.groups_per_unit = form_.groups_per_unit;
    const int tile_n = form_.columns();
    result.text.shared.push_back({ComputeType::i32, "span", tile_n * vectors_ * 4 + 4});
    result.text.shared.push_back({ComputeType::i32, "tile_b", tile_n * kBlock / 4});
    result.text.shared.push_back({ComputeType::f32, "factors", factor_kinds() * kQ8BlocksOfSum * tile_n});
    result.text.shared.push_back(
        {ComputeType::f32, "staged",
         form_.threads() / kTeam * kFragmentRows * (form_.fragments_n * kFragmentColumns + 4)});
    result.groups = limits_.groups_for(tiles);
    words.move_to(result);
    return result;
  }

  const ContractionKernel& kernel_;
  const Geometry& geometry_;
  const RenderLimits& limits_;
  const TeamForm form_;
  const Encoding encoding_;
  const PackedPiece piece_;
  const int groups_;  ///< of a block of 32 weights
  const bool has_factors_, has_offsets_, has_shares_;
  const std::int64_t pieces_;  ///< of 256 k
  const std::int64_t column_bytes_;
  const char* index_;
  const Side a_, b_;
  bool is_aligned_ = false;  ///< pieces in memory, at 16 bytes
  int vectors_ = 1;          ///< of 16 bytes, of a column's piece in shared memory
};

}  // namespace

std::optional<Rendered> render_q8_tiles(const ContractionKernel& kernel, const Geometry& geometry,
                                        const RenderLimits& limits) {
  constexpr std::int64_t kFarthest = std::int64_t{1} << 31;
  const bool fits = limits.byte_products && geometry.batches == 1 && geometry.length % kBlock == 0 &&
                    geometry.rows * geometry.length < kFarthest;
  if (!fits || !has_whole_blocks(Side("b", kernel.b_operand, geometry.b, geometry, false), geometry)) {
    return std::nullopt;
  }
  return Q8Tiles(kernel, geometry, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
