// What a team does with a block, 32 k, of q8 products by cooperative matrices (contraction_q8_matrices.cpp). Sums begin
// with the bits of 12582912 as a float: less that, they are exact floats (of codes times 16, of a sixteenth of that).
//
// Where groups of 16 have factors of their own, two products of matrices are made: of 32 k, and of the last 16 of them,
// behind which zeros lie.
#include <algorithm>
#include <bit>
#include <vector>

#include "backends/gpu/renderer/contraction_q8_matrices.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

class MatrixBlock {
 public:
  MatrixBlock(Lines& lines, const MatrixForm& form, const TileWeights& weights)
      : lines_(lines), form_(form), weights_(weights), places_(form, weights) {}

  void multiply() {
    const int m = form_.matrices;
    const bool halves = weights_.groups == 2;
    const std::vector<const char*> names = halves ? std::vector{"whole", "later"} : std::vector{"whole"};
    lines_.add("int rows_at = {} + (block * {} + team_m * {}) * {};", places_.rows, form_.rows(), m * kSumsSide,
               kStepOfRows);
    lines_.add("int columns_at = {} + (of_piece * {} + team_n * {}) * {};", places_.columns, form_.columns(), kSumsSide,
               kStepOfRows);
    for (std::size_t half = 0; half < names.size(); ++half) {
      lines_.add("SUMS_16_BY_16 {}[{}];", names[half], m);
      lines_.open("{{");
      lines_.add("BYTES_32_BY_16 right;");
      lines_.add("TAKE_COLUMNS(right, {}, columns_at + {}, {})", kSharedFours, half, kStepOfRows);
      lines_.add("UNROLL");
      lines_.open("for (int i = 0; i < {}; i++) {{", m);
      lines_.add("BYTES_16_BY_32 left;");
      lines_.add("TAKE_ROWS(left, {}, rows_at + i * {} + {}, {})", kSharedFours, kSumsSide * kStepOfRows, half,
                 kStepOfRows);
      lines_.add("FILL_SUMS({}[i], 0x{:x})", names[half], std::bit_cast<std::uint32_t>(beginning()));
      lines_.add("MULTIPLY_MATRICES({}[i], left, right)", names[half]);
      lines_.close();
      lines_.close();
    }
    lines_.open("if (plain) {{");
    add_block(false);
    lines_.close();
    lines_.open("else {{");
    add_block(true);
    lines_.close();
  }

 private:
  void add_block(bool care) {
    const int m = form_.matrices;
    const int beginning_of = static_cast<int>(beginning());
    lines_.add("UNROLL");
    lines_.open("for (int e = 0; e < {}; e++) {{", kSumsOfMatrix);
    lines_.add("float of_column[{}];", weights_.factor_kinds());
    take_floats(
        "of_column", places_.of_columns, weights_.factor_kinds(),
        fmt::format("of_piece * {} + team_n * {} + (places[e] & {})", form_.columns(), kSumsSide, kSumsSide - 1));
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", m);
    lines_.add("float of_row[{}];", weights_.row_floats());
    take_floats(
        "of_row", places_.of_rows, weights_.row_floats(),
        fmt::format("block * {} + (team_m * {} + i) * {} + places[e] / {}", form_.rows(), m, kSumsSide, kSumsSide));
    const auto exact = [&](const char* sum, int kind) {
      const std::string bits = fmt::format("FROM_BITS(UINT(int({}[i][e])))", sum);
      return weights_.has_factors
                 ? fmt::format("FMA({}, of_column[{}], of_column[{}] * -{}.0f)", bits, kind, kind, beginning_of)
                 : fmt::format("({} - {}.0f)", bits, beginning_of);
    };
    lines_.add("FLOAT sum = {};", exact("whole", 1));
    if (weights_.groups == 2) lines_.add("sum = sum + {};", exact("later", 2));
    const auto add = [&](const char* sum, int kind) {
      const std::string product = fmt::format("of_column[{}] * of_row[0]", kind);
      if (!care)
        return lines_.add("partial[i * {0} + e] = FMA({1}, {2}, partial[i * {0} + e]);", kSumsOfMatrix, sum, product);
      lines_.add("FLOAT product_{} = MUL_EXACT(of_column[{}], of_row[0]);", kind, kind);
      lines_.add("product_{0} = CANONICAL_F32(product_{0});", kind);
      lines_.add("partial[i * {0} + e] = FMA_EXACT({1}, product_{2}, partial[i * {0} + e]);", kSumsOfMatrix, sum, kind);
    };
    add("sum", 0);
    if (weights_.has_offset) {
      const int offset = weights_.first_offset();
      std::string shared;
      for (int g = 0; g < weights_.groups; ++g) {
        const std::string one = weights_.has_shares ? fmt::format("of_column[{}] * of_row[{}]", offset + 1 + g, 1 + g)
                                                    : fmt::format("of_row[{}]", 1 + g);
        shared += (g == 0 ? "" : " + ") + one;
      }
      lines_.add("FLOAT shared_sum = {};", shared);
      add("shared_sum", offset);
    }
    lines_.close();
    lines_.close();
  }

  // Floats in shared memory, of row or column `place`: `float <name>[]`.
  void take_floats(const char* name, int at, int kinds, const std::string& place) {
    if (kinds == 1) {
      lines_.add("{}[0] = FROM_BITS(WORD_OF_FOURS({}, {} + {}));", name, kSharedFours, at * 4, place);
      return;
    }
    for (int i = 0; i < kinds; i += 4) {
      lines_.open("{{");
      lines_.add("UINT four[4];");
      lines_.add("TAKE_FOUR({}, {} + ({}) * {}, four)", kSharedFours, at + i / 4, place, in_fours(kinds) / 4);
      for (int k = i; k < std::min(i + 4, kinds); ++k) lines_.add("{}[{}] = FROM_BITS(four[{}]);", name, k, k - i);
      lines_.close();
    }
  }

  float beginning() const { return 12582912.0f / static_cast<float>(weights_.piece.code_step()); }

  Lines& lines_;
  const MatrixForm& form_;
  const TileWeights& weights_;
  const MatrixPlaces places_;
};

}  // namespace

void multiply_matrices(Lines& lines, const MatrixForm& form, const TileWeights& weights) {
  MatrixBlock(lines, form, weights).multiply();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
