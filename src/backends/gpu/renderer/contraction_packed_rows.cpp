#include "backends/gpu/renderer/contraction_packed_rows.h"

#include "backends/gpu/renderer/contraction_q8.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

PackedRows::PackedRows(const Geometry& geometry, const Side& a, bool exact, int sums)
    : geometry_(geometry),
      a_(a),
      exact_(exact),
      sums_(sums),
      rows_(geometry.batches * geometry.rows),
      blocks_(over(geometry.length, order::kQ8Block)),
      pieces_(over(geometry.length, kBlock)) {}

// Codes of 16 neighbours [row][block of 8][half][piece], then scales, and sums of the codes of either half [row][block
// of 8][piece]. Or the numbers: [row][block of 8][4 neighbours of 8][piece].
std::int64_t PackedRows::row_words() const {
  return pieces_ * (exact_ ? kBlock : kQ8BlocksOfSum * (kWordsOfBlock + 1 + sums_));
}

std::string PackedRows::numbers_at(const std::string& row, const std::string& block, const std::string& four,
                                   const std::string& piece) const {
  return fmt::format("((({0}) * {1} + ({2})) * {3} + ({4})) * {5} + {6}", row, kQ8BlocksOfSum, block, kWordsOfBlock,
                     four, pieces_, piece);
}

std::string PackedRows::codes_at(const std::string& row, const std::string& block, const std::string& side,
                                 const std::string& piece) const {
  return fmt::format("((({0}) * {1} + ({2})) * 2 + ({3})) * {4} + {5}", row, kQ8BlocksOfSum, block, side, pieces_,
                     piece);
}

std::string PackedRows::single_at(const std::string& which, const std::string& row, const std::string& block,
                                  const std::string& piece) const {
  return fmt::format("{0} + (({6}) * {7} + ({1}) * {2} + ({3})) * {4} + {5}",
                     rows_ * pieces_ * kQ8BlocksOfSum * kWordsOfBlock, row, kQ8BlocksOfSum, block, pieces_, piece,
                     which, rows_ * kQ8BlocksOfSum);
}

void PackedRows::prepare(Lines& lines, Words& words, const std::string& first, const std::string& step,
                         const Store& store) const {
  lines.open("for (int e = {}; e < {}; e += {}) {{", first, words.int32(rows_ * blocks_), step);
  lines.add("int own_row = {};", quotient(words, "e", blocks_, false));
  lines.add("int block = e - own_row * {};", words.int32(blocks_));
  lines.add("int of_piece = block & {};", kQ8BlocksOfSum - 1);
  lines.add("int piece_of = block / {};", kQ8BlocksOfSum);
  if (exact_) {
    load_block(lines, words, geometry_, a_, "own_row", "block");
    lines.add("UNROLL");
    lines.open("for (int k = 0; k < {}; k++) {{", order::kQ8Block);
    store(lines, fmt::format("4 * ({}) + (k & 3)", numbers_at("own_row", "of_piece", "k >> 2", "piece_of")),
          "BITS(x[k])");
    lines.close();
    lines.close();
    return;
  }
  round_block(lines, words, geometry_, a_, "own_row", "block");
  lines.add("UNROLL");
  lines.open("for (int w = 0; w < {}; w++) {{", kWordsOfBlock);
  store(lines, fmt::format("4 * ({}) + (w & 3)", codes_at("own_row", "of_piece", "w >> 2", "piece_of")), "code[w]");
  lines.close();
  store(lines, single_at("0", "own_row", "of_piece", "piece_of"), "BITS(scale)");
  for (int s = 0; s < sums_; ++s) {
    store(lines, single_at(std::to_string(1 + s), "own_row", "of_piece", "piece_of"),
          fmt::format("UINT(half_sum[{}])", s));
  }
  lines.close();
}

void PackedRows::prepare_together(Lines& lines, Words& words, int threads) const {
  constexpr int kNeighbours = 8;  // of a thread
  constexpr int kThreadsOfBlock = order::kQ8Block / kNeighbours;
  const std::int64_t of_row = pieces_ * kBlock / kNeighbours;
  const std::int64_t all = rows_ * of_row;
  // So many loads of a thread are under way together, where possible as many as leave no thread without.
  int at_once = 8;
  while (at_once > 1 && all % (std::int64_t{at_once} * threads) != 0) --at_once;
  const bool is_even = all % (std::int64_t{at_once} * threads) == 0;
  if (!is_even) at_once = 4;
  const auto each = [&] {
    lines.add("UNROLL");
    lines.open("for (int j = 0; j < {}; j++) {{", at_once);
    lines.add("int e = from_e + j * {};", threads);
    if (is_even) {
      lines.open("{{");
    } else {
      lines.open("if (e < {}) {{", all);
    }
    lines.add("int own_row = {};", rows_ == 1 ? "0" : fmt::format("e / {}", of_row));
    lines.add("int of_row = e - own_row * {};", of_row);
    // Threads of different blocks have different pieces, as their words in shared memory are neighbours then.
    lines.add("int quarter = of_row & {};", kThreadsOfBlock - 1);
    lines.add("int of_piece = of_row / {};", pieces_ * kThreadsOfBlock);
    lines.add("int piece_of = of_row / {} - of_piece * {};", kThreadsOfBlock, pieces_);
    lines.add("int block = piece_of * {} + of_piece;", kQ8BlocksOfSum);
  };
  const auto close = [&] {
    lines.close();
    lines.close();
  };
  const bool whole = geometry_.length % kBlock == 0;
  if (!whole) lines.add("int row_blocks = {};", words.int32(blocks_));
  lines.open("for (int from_e = thread_id; from_e < {}; from_e += {}) {{", all, at_once * threads);
  lines.add("float own_x[{}];", kNeighbours * at_once);
  each();
  if (!whole) lines.add("block = SELECT(block < row_blocks, block, 0);");
  load_neighbours(lines, words, geometry_, a_, "own_row",
                  fmt::format("block * {} + {} * quarter", order::kQ8Block, kNeighbours), kNeighbours);
  lines.add("UNROLL");
  lines.add("for (int k = 0; k < {0}; k++) own_x[{0} * j + k] = x[k];", kNeighbours);
  close();
  each();
  if (exact_) {
    if (!whole) lines.open("if (block < row_blocks) {{");
    lines.add("UNROLL");
    lines.add("for (int k = 0; k < {}; k++) prepared[4 * ({}) + (k & 3)] = int(BITS(own_x[{} * j + k]));", kNeighbours,
              numbers_at("own_row", "of_piece", "(2 * quarter + (k >> 2))", "piece_of"), kNeighbours);
    if (!whole) lines.close();
    close();
    lines.close();
    return;
  }
  lines.add("UINT largest = 0u;");
  lines.add("UNROLL");
  lines.open("for (int k = 0; k < {}; k++) {{", kNeighbours);
  lines.add("UINT magnitude = BITS(own_x[{} * j + k]) & 0x7fffffffu;", kNeighbours);
  lines.add("largest = SELECT(magnitude > largest, magnitude, largest);");
  lines.close();
  lines.add("largest = LARGEST_OF_4(largest);");
  lines.add("FLOAT scale = q8_scale(largest);");
  lines.add("FLOAT inverse = FROM_BITS(0u);");
  lines.add("if (scale > FROM_BITS(0u)) inverse = RECIPROCAL(scale);");
  // q8_code of 8 elements: codes are the low bytes of floats, and zeros without an inverse.
  lines.add("UINT known = SELECT(inverse == FROM_BITS(0u), 0u, 0xffffffffu);");
  lines.add("UINT code[2];");
  lines.add("int half_sum = 0;");
  lines.add("UNROLL");
  lines.open("for (int w = 0; w < 2; w++) {{");
  lines.add("code[w] = 0u;");
  lines.add("UNROLL");
  lines.open("for (int k = 0; k < 4; k++) {{");
  lines.add("UINT shifted = BITS(FMA(own_x[{} * j + 4 * w + k], inverse, FROM_BITS(0x4b400000u)));", kNeighbours);
  lines.add("code[w] = code[w] | (shifted & 255u) << UINT(8 * k);");
  lines.close();
  lines.add("code[w] = code[w] & known;");
  if (sums_ > 0) lines.add("half_sum = DOT4(code[w], 0x01010101u, half_sum);");
  lines.close();
  if (sums_ > 0) lines.add("half_sum = SUM_OF_2(half_sum);");
  if (!whole) lines.open("if (block < row_blocks) {{");
  lines.add("int codes = 4 * ({}) + 2 * (quarter & 1);", codes_at("own_row", "of_piece", "quarter >> 1", "piece_of"));
  lines.add("prepared[codes] = int(code[0]);");
  lines.add("prepared[codes + 1] = int(code[1]);");
  lines.add("if (quarter == 0) prepared[{}] = int(BITS(scale));", single_at("0", "own_row", "of_piece", "piece_of"));
  if (sums_ > 0) {
    lines.add("if ((quarter & 1) == 0) prepared[{}] = half_sum;",
              single_at("1 + (quarter >> 1)", "own_row", "of_piece", "piece_of"));
  }
  if (!whole) lines.close();
  close();
  lines.close();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
