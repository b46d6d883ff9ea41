#include "backends/gpu/renderer/contraction_packed_products.h"

#include <algorithm>

#include "backends/gpu/renderer/contraction_q8.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kRowsAtOnce = 4;  ///< half of them if compilers load ahead from memory

class PackedProducts {
 public:
  PackedProducts(const Geometry& geometry, const PackedPiece& piece, Encoding encoding, const PackedRows& rows,
                 const PackedThread& thread)
      : geometry_(geometry),
        piece_(piece),
        encoding_(encoding),
        groups_(order::kQ8Block / group_size(encoding)),
        rows_(rows),
        thread_(thread) {}

  // The block result of this thread's piece with every row, a few of which share the codes that are taken apart.
  void multiply(Lines& lines) const {
    const auto all = static_cast<int>(geometry_.rows);
    const int rows = std::min(all, thread_.rows_are_shared ? kRowsAtOnce : kRowsAtOnce / 2);
    const bool loops = all > rows;
    if (loops) {
      lines.add("UNROLL_BY(1)");
      lines.open("for (int from_row = 0; from_row < {0}; from_row += {1}) {{", all, rows);
    }
    const auto each_row = [&](const std::string& what) {
      lines.add("UNROLL");
      lines.add("for (int r = 0; r < {}; r++) {}", rows, what);
    };
    // The last rows are those of all before them where there are fewer.
    const std::string own = !loops            ? "r"
                            : all % rows == 0 ? "(from_row + r)"
                                              : fmt::format("SELECT(from_row + r < {0}, from_row + r, {0} - 1)", all);
    const std::string row = geometry_.batches == 1 ? own : fmt::format("(first_row + {})", own);
    // Reads 4 words of the rows.
    const auto four = [&](const std::string& at, const char* to) {
      lines.add("UINT {}[4];", to);
      if (!thread_.rows_are_shared) {
        lines.add("LOAD4_U32(scratch, 4 * ({}), {})", at, to);
      } else if (thread_.copies) {
        lines.add("TAKE4_U32(prepared, {}, {})", at, to);
      } else {
        lines.add("UNROLL");
        lines.add("for (int i = 0; i < 4; i++) {}[i] = UINT(prepared[4 * ({}) + i]);", to, at);
      }
    };
    const auto single = [&](int which, int block) {
      const std::string at = rows_.single_at(std::to_string(which), row, std::to_string(block), "piece_of");
      return thread_.rows_are_shared ? fmt::format("UINT(prepared[{}])", at) : fmt::format("LOAD_U32(scratch, {})", at);
    };
    const bool whole = geometry_.length % kBlock == 0;
    lines.add("float partial[{}];", rows);
    each_row("partial[r] = zero;");
    for (int block = 0; block < kQ8BlocksOfSum; ++block) {
      if (whole) {
        lines.open("{{");
      } else {
        lines.open("if (piece_of * {} + {} < blocks) {{", kQ8BlocksOfSum, block);
      }
      if (thread_.exact) {
        const auto numbers = [&](int w) {
          four(rows_.numbers_at(row, std::to_string(block), std::to_string(w), "piece_of"), "numbers");
        };
        if (is_floats(encoding_)) {
          multiply_floats(lines, block, rows, numbers);
        } else {
          multiply_decoded(lines, block, rows, numbers);
        }
        lines.close();
        continue;
      }
      for (int side = 0; side < 2; ++side) {
        lines.add("int dots_{}[{}];", side, rows);
        each_row(fmt::format("dots_{}[r] = 0;", side));
        lines.open("{{");
        for (int w = 0; w < 4; ++w) lines.add("UINT four_{} = {};", w, piece_.codes(block, 4 * side + w));
        lines.add("UNROLL");
        lines.open("for (int r = 0; r < {}; r++) {{", rows);
        four(rows_.codes_at(row, std::to_string(block), std::to_string(side), "piece_of"), "codes");
        for (int w = 0; w < 4; ++w) lines.add("dots_{0}[r] = DOT4(codes[{1}], four_{1}, dots_{0}[r]);", side, w);
        lines.close();
        lines.close();
      }
      lines.add("FLOAT weight_scale = {};", piece_.scale(block));
      for (int g = 0; g < groups_; ++g) lines.add("int factor_{} = {};", g, piece_.factor(block, g));
      if (has_offsets(encoding_)) {
        lines.add("FLOAT weight_offset = {};", piece_.offset(block));
        for (int g = 0; g < groups_; ++g) lines.add("int share_{} = {};", g, piece_.share(block, g));
      }
      lines.add("UNROLL");
      lines.open("for (int r = 0; r < {}; r++) {{", rows);
      lines.add("FLOAT own_scale = FROM_BITS({});", single(0, block));
      for (int s = 0; s < thread_.sums; ++s) lines.add("int sum_{} = int({});", s, single(1 + s, block));
      if (piece_.bias() != 0) {
        for (int s = 0; s < 2; ++s) lines.add("dots_{0}[r] -= {1} * sum_{0};", s, piece_.bias());
      }
      lines.add("int sum = {};",
                groups_ == 2 ? "factor_0 * dots_0[r] + factor_1 * dots_1[r]" : "factor_0 * (dots_0[r] + dots_1[r])");
      lines.add("FLOAT product = CANONICAL_F32(weight_scale * own_scale);");
      lines.add("partial[r] = {};", fused(ComputeType::f32, "float(sum)", "product", "partial[r]"));
      if (has_offsets(encoding_)) {
        lines.add("int shared_sum = {};",
                  groups_ == 2 ? "share_0 * sum_0 + share_1 * sum_1" : "share_0 * (sum_0 + sum_1)");
        lines.add("FLOAT below = CANONICAL_F32(weight_offset * own_scale);");
        lines.add("partial[r] = {};", fused(ComputeType::f32, "float(shared_sum)", "below", "partial[r]"));
      }
      lines.close();
      lines.close();
    }
    each_row(fmt::format("partials[({} * {} + own_column) * {} + own_piece] = partial[r];", own, thread_.columns,
                         thread_.stride));
    if (loops) lines.close();
  }

 private:
  // The products of word w's four weights with every row's numbers.
  template <typename Numbers> static void add_products(Lines& lines, int rows, int w, const Numbers& numbers) {
    lines.add("UNROLL");
    lines.open("for (int r = 0; r < {}; r++) {{", rows);
    numbers(w);
    lines.add("UNROLL");
    lines.add("for (int c = 0; c < 4; c++) partial[r] = {};",
              fused(ComputeType::f32, "FROM_BITS(numbers[c])", "weight[c]", "partial[r]"));
    lines.close();
  }

  // 32 weights, decoded as word_<name> does it: what is no number nor zero is 2^-24 at least, so nothing has to be made
  // canonical. Added to 2^23, the codes are the low bits of floats.
  template <typename Numbers> void multiply_decoded(Lines& lines, int block, int rows, const Numbers& numbers) const {
    const bool is_signed = piece_.has_signed_codes();
    lines.add("FLOAT weight_scale = {};", piece_.scale(block));
    if (has_offsets(encoding_)) lines.add("FLOAT weight_offset = {};", piece_.offset(block));
    for (int w = 0; w < kWordsOfBlock; ++w) {
      const int group = w * groups_ / kWordsOfBlock;
      if (w * groups_ % kWordsOfBlock == 0) {
        lines.add("FLOAT scale_{} = weight_scale * float({});", group, piece_.factor(block, group));
        if (has_offsets(encoding_)) {
          const std::string share = piece_.share(block, group);
          lines.add("FLOAT offset_{} = {};", group,
                    share == "1" ? "weight_offset" : fmt::format("-(weight_offset * float(-({})))", share));
        }
      }
      lines.open("{{");
      lines.add("UINT codes = {}{};", piece_.codes(block, w), is_signed ? " ^ 0x80808080u" : "");
      lines.add("FLOAT weight[4];");
      lines.add("UNROLL");
      lines.open("for (int c = 0; c < 4; c++) {{");
      lines.add("FLOAT code = FROM_BITS(0x4b000000u | (codes >> UINT(8 * c) & 255u)) - {}.0f;",
                (1 << 23) + (is_signed ? 128 : piece_.bias()));
      lines.add("FLOAT product = scale_{} * code;", group);
      lines.add("weight[c] = product{};", has_offsets(encoding_) ? fmt::format(" + offset_{}", group) : "");
      lines.close();
      add_products(lines, rows, w, numbers);
      lines.close();
    }
  }

  // The same of floats of 8 bits. Shifted to where f32 has its fields they are 2^120 (e5m2: 2^112) times too small,
  // which the scale makes up for; where that or a code is no ordinary number, each is decoded by the rule.
  template <typename Numbers> void multiply_floats(Lines& lines, int block, int rows, const Numbers& numbers) const {
    const bool e4m3 = holds_e4m3(encoding_);
    lines.add("FLOAT weight_scale = {};", piece_.scale(block));
    lines.add("bool plain = (BITS(weight_scale) & 0x7fffffffu) - 0x0d800000u < 0x35800000u;  // 2^-100 to 2^7");
    lines.add("FLOAT raised = weight_scale * FROM_BITS({}u);", e4m3 ? "0x7b800000" : "0x77800000");
    for (int w = 0; w < kWordsOfBlock; ++w) {
      lines.open("{{");
      lines.add("UINT codes = {};", piece_.codes(block, w));
      lines.add("FLOAT weight[4];");
      lines.open("if (plain && ((codes & 0x7f7f7f7fu) + {}u & 0x80808080u) == 0u) {{",
                 e4m3 ? "0x01010101" : "0x04040404");
      lines.add("UNROLL");
      lines.open("for (int c = 0; c < 4; c++) {{");
      lines.add("int upper = int(codes << UINT(24 - 8 * c));");
      lines.add("FLOAT product = FROM_BITS(UINT(upper >> {}) & {}u) * raised;", e4m3 ? 4 : 3,
                e4m3 ? "0x87f00000" : "0x8fe00000");
      lines.add("weight[c] = product;");
      lines.close();
      lines.close();
      lines.open("else {{");
      lines.add("UNROLL");
      lines.open("for (int c = 0; c < 4; c++) {{");
      lines.add("FLOAT product = weight_scale * {}_value(codes >> UINT(8 * c) & 255u);", e4m3 ? "e4m3" : "e5m2");
      lines.add("weight[c] = canonical_f32(product);");
      lines.close();
      lines.close();
      add_products(lines, rows, w, numbers);
      lines.close();
    }
  }

  const Geometry& geometry_;
  const PackedPiece& piece_;
  const Encoding encoding_;
  const int groups_;  ///< of a block of 32 weights
  const PackedRows& rows_;
  const PackedThread& thread_;
};

}  // namespace

void multiply_packed_piece(Lines& lines, const Geometry& geometry, const PackedPiece& piece, Encoding encoding,
                           const PackedRows& rows, const PackedThread& thread) {
  PackedProducts(geometry, piece, encoding, rows, thread).multiply(lines);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
