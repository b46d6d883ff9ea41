// What a team does with a piece, 256 k, of q8 products by integer tensor cores (contraction_q8_tiles.cpp), once its
// rows and columns lie in shared memory.
#include <algorithm>
#include <bit>

#include "backends/gpu/renderer/contraction_q8_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

// Where the team's operands of the stage's first block are.
void declare_operands(Lines& lines, const TeamForm& form, const TileWeights& weights) {
  const int m = form.fragments_m;
  const int n = form.fragments_n;
  lines.add("int codes_at = of_side / 4 + (team_k * {} + team_m * {}) * {} + lane;",
            kQ8BlocksOfSum * form.rows() / kFragmentRows, m, kTeam);
  lines.add("int floats_at = of_side + {} + team_k * {} + team_m * {} + (lane / 4) * 2;", form.code_words(),
            kQ8BlocksOfSum * form.rows(), m * kFragmentRows);
  lines.add("int columns_at = team_k * {} + team_n * {} + (lane / 4) * 4 + (lane + lane / 8 & 3);",
            form.columns() * kBlock / 16, n / 2 * kTeam);
  lines.add("int factors_at = team_k * {} + team_n * {} + (lane & 3) * {};", form.factor_words(weights),
            n * kFragmentColumns, 2 * n);
}

// A block's products of the team's rows and columns.
void multiply_block(Lines& lines, const TeamForm& form, const TileWeights& weights) {
  const int m = form.fragments_m;
  const int n = form.fragments_n;
  const int tile_n = form.columns();
  const int groups = weights.groups;
  const float beginning = 12582912.0f / static_cast<float>(weights.piece.code_step());
  lines.add("UINT codes[{}];", 4 * m);
  lines.add("float floats[{}];", 2 * m * weights.row_floats());
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < {}; i++) {{", m);
  lines.add("UINT four[4];");
  lines.add("TAKE4_U32(tile_a, codes_at + i * {}, four)", kTeam);
  lines.add("UNROLL");
  lines.add("for (int c = 0; c < 4; c++) codes[4 * i + c] = four[c];");
  lines.add("UNROLL");
  lines.open("for (int p = 0; p < {}; p++) {{", weights.row_floats());
  lines.add("float two[2];");
  lines.add("TAKE2_F32(tile_a, floats_at + p * {} + i * {}, two)", form.blocks() * form.rows(), kFragmentRows);
  lines.add("UNROLL");
  lines.add("for (int s = 0; s < 2; s++) floats[(p * {} + i) * 2 + s] = two[s];", m);
  lines.close();
  lines.close();
  lines.add("UNROLL");
  lines.open("for (int pair = 0; pair < {}; pair++) {{", n / 2);
  lines.add("UINT codes_b[4];");
  lines.add("TAKE4_U32(tile_b, columns_at + pair * {}, codes_b)", kTeam);
  for (int kind = 0; kind < weights.factor_kinds(); ++kind) {
    lines.add("float of_{}[4];", kind);
    lines.add("READ4(factors, factors_at + {} + pair * 4, of_{}, 0)", kind * kQ8BlocksOfSum * tile_n, kind);
  }
  for (int g = 0; g < groups && weights.has_factors; ++g) {
    lines.add("float less_{}[4];", g);
    lines.add("UNROLL");
    lines.add("for (int q = 0; q < 4; q++) less_{0}[q] = of_{1}[q] * -{2}.0f;", g, 1 + g, static_cast<int>(beginning));
  }
  lines.add("UNROLL");
  lines.open("for (int second = 0; second < 2; second++) {{");
  lines.add("UNROLL");
  lines.open("for (int i = 0; i < {}; i++) {{", m);
  for (int g = 0; g < groups; ++g) {
    lines.add("int sum_{}[4];", g);
    lines.add("UNROLL");
    lines.add("for (int q = 0; q < 4; q++) sum_{}[q] = 0x{:x};", g, std::bit_cast<std::uint32_t>(beginning));
    if (groups == 1) {
      lines.add("MULTIPLY_32_BYTES(sum_0, codes, 4 * i, (&codes_b[2 * second]))");
    } else {
      lines.add("MULTIPLY_16_BYTES(sum_{0}, codes, 4 * i + {1}, codes_b[2 * second + {0}])", g, 2 * g);
    }
  }
  lines.add("UNROLL");
  lines.open("for (int q = 0; q < 4; q++) {{");
  lines.add("int x = ({} * i + 2 * pair + second) * 4 + q;", n);
  lines.add("int r = 2 * i + (q >> 1);");
  lines.add("int c = 2 * second + (q & 1);");
  const auto exact = [&](int g) {
    const std::string sum = fmt::format("FROM_BITS(UINT(sum_{}[q]))", g);
    return weights.has_factors ? fmt::format("FMA_EXACT({}, of_{}[c], less_{}[c])", sum, 1 + g, g)
                               : fmt::format("({} - {}.0f)", sum, static_cast<int>(beginning));
  };
  lines.add("float whole = {};", groups == 1 ? exact(0) : fmt::format("{} + {}", exact(0), exact(1)));
  lines.add("partial[x] = FMA_EXACT(whole, FLUSHED_PRODUCT(of_0[c], floats[r]), partial[x]);");
  if (weights.has_offset) {
    const int offset = weights.first_offset();
    std::string shared;
    for (int g = 0; g < groups; ++g) {
      const std::string sum = fmt::format("floats[{} + r]", (1 + g) * m * 2);
      const std::string one = weights.has_shares ? fmt::format("of_{}[c] * {}", offset + 1 + g, sum) : sum;
      shared += (g == 0 ? "" : " + ") + one;
    }
    lines.add("float shared_sum = {};", shared);
    lines.add("partial[x] = FMA_EXACT(shared_sum, FLUSHED_PRODUCT(of_{}[c], floats[r]), partial[x]);", offset);
  }
  lines.close();
  lines.close();
  lines.close();
  lines.close();
}

}  // namespace

void multiply_piece(Lines& lines, const TeamForm& form, const TileWeights& weights) {
  declare_operands(lines, form, weights);
  // Small fragments have little to do beside what a loop does.
  lines.add("UNROLL_BY({})", std::clamp(16 / (form.fragments_m * form.fragments_n), 1, kQ8BlocksOfSum));
  lines.open("for (int block = 0; block < {}; block++) {{", kQ8BlocksOfSum);
  multiply_block(lines, form, weights);
  lines.add("codes_at += {};", form.rows() / kFragmentRows * kTeam);
  lines.add("floats_at += {};", form.rows());
  lines.add("columns_at += {};", form.columns() / kFragmentColumns * kTeam / 2);
  lines.add("factors_at += {};", form.columns());
  lines.close();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
