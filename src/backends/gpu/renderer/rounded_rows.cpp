#include "backends/gpu/renderer/rounded_rows.h"

#include "backends/gpu/renderer/contraction_q8.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

// What it needs to know stands before it. A scale that tensor cores multiply (from 2^-60 on, below 2^30, or zero) is
// two numbers whose significands have 11 bits, both of them positive; of another one part is the scale, which marks the
// row's piece: a byte for two blocks.
constexpr const char* kRounding = R"(
FUNCTION void round_neighbours(MEMORY rows, int row_tiles, int row, int block, const float* x) {
  const int threads = 32 / NEIGHBOURS, words = NEIGHBOURS / 4, shares = HALVES ? 2 : 1;
  int part = int(THREAD) & (threads - 1);
  UINT largest = 0u;
  UNROLL
  for (int k = 0; k < NEIGHBOURS; k++) {
    UINT magnitude = BITS(x[k]) & 0x7fffffffu;
    largest = SELECT(magnitude > largest, magnitude, largest);
  }
  largest = LARGEST_OF_4(largest);
  if (threads == 8) {
    UINT other = BITS(NEAR_OTHER(FROM_BITS(largest), 4));
    largest = SELECT(other > largest, other, largest);
  }
  FLOAT scale = q8_scale(largest);
  FLOAT inverse = FROM_BITS(0u);
  if (scale > FROM_BITS(0u)) inverse = RECIPROCAL(scale);
  // As f16 the first and the second two of four apart, as left operands are converted.
  UINT code[shares * words];
  int sum = 0;
  UNROLL
  for (int w = 0; w < words; w++) {
    if (!HALVES) code[w] = 0u;
    UNROLL
    for (int i = 0; i < 4; i++) {
      int one = q8_code(x[4 * w + i], inverse);
      sum += one;
      if (HALVES) {
        UINT word = ENCODE_F16(float(one)) << UINT(16 * (i & 1));
        UINT& place = code[i / 2 * words * (shares - 1) + w];
        place = SELECT((i & 1) == 0, word, place | word);
      } else {
        code[w] = code[w] | (UINT(one) & 255u) << UINT(8 * i);
      }
    }
  }
  if (SUMS) {
    UNROLL
    for (int m = 1; m < threads; m *= 2) sum += int(NEAR_OTHER(float(sum), m));
  }
  int in_tile = row & (TILE_ROWS - 1);
  int of_piece = block & 7;
  MEMORY to = rows + ULONG((block / 8 * row_tiles + row / TILE_ROWS) * PIECE_WORDS) * ULONG(4);
  // Rows of 128 bytes, whose eighths are exchanged.
  const int blocks = HALVES ? 2 : 4;
  UNROLL
  for (int h = 0; h < shares; h++) {
    int eighth = of_piece % blocks * (8 / blocks) + part * words / 4 * shares + h;
    int at = (of_piece / blocks * TILE_ROWS + in_tile) * 32 + (eighth ^ (in_tile & 7)) * 4 + part * words % 4;
    UNROLL
    for (int w = 0; w < words; w++) STORE_U32(to, at + w, code[h * words + w]);
  }
  const int floats_at = TILE_ROWS * (HALVES ? 128 : 64);
  bool is_nothing = BITS(scale) == 0u;
  bool fits = is_nothing || BITS(scale) - (67u << 23) < (157u - 67u << 23);
  UINT mark = SELECT(fits, 0u, 1u);
  if (HALVES || PARTS) mark |= BITS(NEAR_OTHER(FROM_BITS(mark), threads));
  if (part > 0) return;
  if (!HALVES && !PARTS) {
    // Of 16 rows, those that a thread of four has together.
    int place = floats_at + of_piece * TILE_ROWS + in_tile / 16 * 16 + (in_tile & 7) / 2 * 4 + (in_tile / 8 & 1) * 2 + (in_tile & 1);
    STORE_U32(to, place, BITS(scale));
    if (SUMS) STORE_U32(to, place + 8 * TILE_ROWS, BITS(float(sum)));
    return;
  }
  float high = FROM_BITS(SELECT(is_nothing, 0u, BITS(scale) - 1u & 0xffffe000u));
  float low = FROM_BITS(SELECT(fits, BITS(ADD_EXACT(scale, -high)), 0u));
  if (!fits) high = scale;
  if (HALVES) {
    int place = floats_at + (of_piece * TILE_ROWS + in_tile) * 4;
    STORE_U32(to, place, BITS(high));
    STORE_U32(to, place + 1, BITS(low));
    STORE_U32(to, place + 2, BITS(float(sum & ~1)));
    STORE_U32(to, place + 3, BITS(float(sum & 1)));
  } else {
    // Of four blocks they lie together: first parts, then second ones.
    int place = floats_at + of_piece / 4 * (8 * TILE_ROWS) + in_tile * 4 + of_piece % 4;
    STORE_U32(to, place, BITS(high));
    STORE_U32(to, place + 4 * TILE_ROWS, BITS(low));
  }
  if (of_piece % 2 == 0) STORE_U8(to, (MARKS_AT + in_tile) * 4 + of_piece / 2, mark);
}
)";

// Of a piece of a tile's rows, in words.
int marks_at(const RoundedRows& rows) {
  return rows.tile_rows * (rows.halves ? kBlock / 2 + 4 * kQ8BlocksOfSum : kBlock / 4 + 2 * kQ8BlocksOfSum);
}

}  // namespace

std::int64_t row_bytes_of_piece(const RoundedRows& rows) {
  constexpr int kMark = 4;
  if (rows.halves) return 2 * kBlock + 16 * kQ8BlocksOfSum + kMark;
  if (rows.parts) return kBlock + 8 * kQ8BlocksOfSum + kMark;
  return kBlock + 4 * (rows.sums ? 2 : 1) * kQ8BlocksOfSum;
}

std::int64_t row_tiles_of(const RoundedRows& rows) {
  return over(rows.rows, rows.tile_rows);
}

std::int64_t rounded_bytes(const RoundedRows& rows) {
  return row_tiles_of(rows) * rows.tile_rows * row_bytes_of_piece(rows) * (rows.length / kBlock);
}

std::string rounding_text(const RoundedRows& rows, int neighbours) {
  return fmt::format(
             "const int NEIGHBOURS = {}, TILE_ROWS = {}, PIECE_WORDS = {}, MARKS_AT = {};\n"
             "const bool HALVES = {}, SUMS = {}, PARTS = {};",
             neighbours, rows.tile_rows, rows.tile_rows * row_bytes_of_piece(rows) / 4, marks_at(rows), rows.halves,
             rows.sums, rows.parts) +
         kRounding;
}

void start_rounding(Lines& lines, Words& words, const RoundedRows& rows, int scratch, int threads) {
  lines.add("MEMORY rounded = {};", words.memory(Patch::Kind::scratch, scratch));
  lines.add("int row_tiles = {};", words.int32(row_tiles_of(rows)));
  const std::int64_t missing = row_tiles_of(rows) * rows.tile_rows - rows.rows;
  if (missing > 0 && (rows.halves || rows.parts)) {
    // What lies where no rows are may be anything, but marks make tiles slow.
    lines.add("int missing = {};", words.int32(missing));
    lines.open("for (int e = int(GROUP) * {0} + int(THREAD); e < missing * {1}; e += int(GROUPS) * {0}) {{", threads,
               words.int32(rows.length / kBlock));
    lines.add("MEMORY piece = rounded + ULONG(((e / missing + 1) * row_tiles - 1) * {}) * ULONG(4);",
              rows.tile_rows * row_bytes_of_piece(rows) / 4);
    lines.add("STORE_U32(piece, {} - missing + e % missing, 0u);", marks_at(rows) + rows.tile_rows);
    lines.close();
  }
  if (rows.cleared == 0) return;
  lines.add("MEMORY cleared = rounded + ULONG({});", words.int64(rounded_bytes(rows)));
  lines.add("for (int e = int(GROUP) * {0} + int(THREAD); e < {1}; e += int(GROUPS) * {0}) STORE_U32(cleared, e, 0u);",
            threads, rows.cleared);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
