// Many rows times packed weights in q8 numerics (docs/numerics.md section 14) by cooperative matrices of bytes
// (Arithmetic::byte_matrices). A first kernel rounds the activations (contraction_q8_rows.cpp). Then workgroups
// multiply tiles, 256 k after another: their columns' blocks come to shared memory as they are, where each thread takes
// a part of a column apart, and a few blocks of their rows at a time; the next ones are on their way meanwhile. Which
// sums of a product of matrices a thread has it learns as contraction_matrix_tiles.cpp says.
#include <algorithm>
#include <vector>

#include "backends/gpu/renderer/contraction_q8_matrices.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

// With the time that an output takes, the last one's being 1 (an H200, 8192 x 8192 of q4_k): the more rows share what
// is taken apart, and the more of them a team has, the less.
struct RatedForm {
  MatrixForm form;
  double cost;
};
constexpr RatedForm kMatrixForms[] = {
    {{2, 2, 1, 8}, 2.6},  // 32 x 32 outputs
    {{1, 4, 2, 4}, 2.1},  // 32 x 64
    {{2, 2, 2, 4}, 1.7},  // 64 x 32
    {{1, 4, 4, 2}, 1.4},  // 64 x 64
    {{2, 2, 4, 2}, 1.2},  // 128 x 32
    {{4, 2, 4, 1}, 1.0},  // 256 x 32
};

std::vector<SharedArray> shared_arrays(const MatrixForm& form, const TileWeights& weights) {
  const int words = std::max(MatrixPlaces(form, weights).end * 4, form.rows() * form.columns());
  return {{.type = ComputeType::i32, .name = kSharedFours, .size = words, .fours = true},
          {ComputeType::i32, "care", 2}};
}

/// Whether the device has memory enough for a step of one block, or for how many it has.
bool make_fit(MatrixForm& form, const TileWeights& weights, const RenderLimits& limits) {
  for (; form.step > 0 && limits.threads >= form.threads(); form.step /= 2) {
    KernelText text;
    text.shared = shared_arrays(form, weights);
    if (shared_bytes_of(text) <= limits.shared_bytes) return true;
  }
  return false;
}

/// The form that takes least; fewer tiles than units take as long as one for each.
std::optional<MatrixForm> form_for(const Geometry& geometry, const TileWeights& weights, const RenderLimits& limits) {
  std::optional<MatrixForm> best;
  double least = 0;
  for (auto [form, cost] : kMatrixForms) {
    const std::int64_t tiles = over(geometry.rows, form.rows()) * over(geometry.columns, form.columns());
    cost *= static_cast<double>(std::max<std::int64_t>(tiles, limits.units) * form.rows() * form.columns());
    if ((best && cost >= least) || !make_fit(form, weights, limits)) continue;
    best = form;
    least = cost;
  }
  return best;
}

class Q8Matrices : TiledProduct {
 public:
  Q8Matrices(const ContractionKernel& kernel, const Geometry& geometry, const Side& b, const TileWeights& weights,
             const MatrixForm& form, const RenderLimits& limits)
      : TiledProduct(kernel, geometry, b, weights, limits), form_(form), places_(form, weights) {}

  Rendered render() {
    const std::int64_t row_bytes = geometry_.length + 4 * weights_.row_floats() * blocks_;
    return render_parts(form_.rows(), row_bytes, [&](Rendered& rendered, std::int64_t first, std::int64_t count) {
      const RowLayout layout{count, blocks_, over(count, form_.rows()) * form_.rows() / kFragmentRows, true};
      rendered.launches.push_back(round_rows(geometry_, a_, first, layout, weights_.sums(), limits_));
      rendered.launches.push_back(multiply(first, layout));
    });
  }

 private:
  int sums() const { return form_.matrices * kSumsOfMatrix; }  ///< of a thread
  int turns(int items) const { return static_cast<int>(over(items, form_.threads())); }

  // A loop of the workgroup over `count` items `e`, of each thread's `turn`.
  void open_items(int count) {
    lines_.add("UNROLL");
    lines_.open("for (int turn = 0; turn < {}; turn++) {{", turns(count));
    lines_.add("int e = thread_id + turn * {};", form_.threads());
    lines_.open("if (e < {}) {{", count);
  }
  void close_items() {
    lines_.close();
    lines_.close();
  }

  // Of the tile's column `column`, piece `stage`: its place from `begin` on, and from the last multiple of 16 bytes on.
  void declare_piece() {
    lines_.add("UINT at = UINT(SELECT(column < last, column, last)) * column_bytes + UINT(stage * {});",
               piece_.bytes());
    lines_.add("int lead = {};", weights_.is_aligned ? "0" : "int((UINT(begin) + at) & 15u)");
  }

  // Reads stage `stage` of the columns.
  void load_columns() {
    open_items(form_.columns() * weights_.vectors);
    lines_.add("int column = e / {};", weights_.vectors);
    lines_.add("int v = e - column * {};", weights_.vectors);
    declare_piece();
    lines_.open("if (v * 16 < lead + {}) {{", piece_.bytes());
    lines_.add("UINT four[4];");
    lines_.add("LOAD4_U32(b_at, (begin + LONG(at) + LONG(v * 16 - lead)) >> 2, four)");
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < 4; i++) moved_columns[turn * 4 + i] = four[i];");
    lines_.close();
    close_items();
  }
  void put_columns() {
    open_items(form_.columns() * weights_.vectors);
    put_moved("moved_columns", fmt::format("{} + e", places_.span));
    close_items();
  }
  void put_moved(const char* moved, const std::string& to) {
    lines_.add("UINT four[4];");
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < 4; i++) four[i] = {}[turn * 4 + i];", moved);
    lines_.add("PUT_FOUR({}, {}, four)", kSharedFours, to);
  }

  // Reads `step` blocks of the rows, from `first_block` on.
  void load_rows() {
    const int rows = form_.rows();
    open_items(form_.step * rows * 2);
    lines_.add("int from = ((first_block + e / {0}) * row_tiles * {1} + tile_m * {2}) * {3} + (e & {4}) * 4;", 2 * rows,
               kFragmentRows, rows, kWordsOfBlock, 2 * rows - 1);
    lines_.add("UINT four[4];");
    lines_.add("LOAD4_U32(scratch, from, four)");
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < 4; i++) moved_rows[turn * 4 + i] = four[i];");
    close_items();
    open_items(form_.step * rows);
    lines_.add("int from = floats_begin + (first_block + e / {0}) * row_tiles * {1} + tile_m * {0} + (e & {2});", rows,
               kFragmentRows, rows - 1);
    for (int kind = 0; kind < weights_.row_floats(); ++kind) {
      lines_.add("moved_floats[turn * {0} + {1}] = LOAD_U32(scratch, from + {1} * blocks * row_tiles * {2});",
                 weights_.row_floats(), kind, kFragmentRows);
    }
    close_items();
  }
  void put_rows() {
    open_items(form_.step * form_.rows() * 2);
    put_moved("moved_rows", fmt::format("{} + (e >> 1) * {} + (e & 1)", places_.rows, kStepOfRows));
    close_items();
    open_items(form_.step * form_.rows());
    const int kinds = weights_.row_floats();
    if (kinds == 1) {
      lines_.add("WORD_OF_FOURS({}, {} + e) = moved_floats[turn];", kSharedFours, places_.of_rows * 4);
    } else {
      lines_.add("UINT four[4];");
      for (int i = 0; i < 4; ++i) {
        lines_.add("four[{}] = {};", i, i < kinds ? fmt::format("moved_floats[turn * {} + {}]", kinds, i) : "0u");
      }
      lines_.add("PUT_FOUR({}, {} + e, four)", kSharedFours, places_.of_rows);
    }
    note_small(fmt::format("moved_floats[turn * {}]", kinds), is_of_powers() ? 67 : 37);
    close_items();
  }

  // Products of a weight's scale and a row's are normal, and multiples of 2^-126, so that sums of theirs are no
  // subnormals, if the row's, of 13 bits, is 2^-90 or more, or zero: f16 numbers are multiples of 2^-24. Of mxfp4,
  // whose scales are powers of two: if it is 2^-60 and they are 2^-54. Then FMA will do, and no product has to be
  // flushed.
  bool is_of_powers() const { return weights_.encoding == Encoding::mxfp4; }
  void note_small(const std::string& word, int exponent) {
    lines_.add("if (({} & 0x7fffffffu) - 1u < {}u) care[stage & 1] = 1;", word,
               (static_cast<std::uint32_t>(exponent) << 23) - 1);
  }

  // What a column's block is multiplied with, as floats.
  std::vector<std::string> floats_of(int block) const {
    std::vector<std::string> values = {piece_.scale(block)};
    if (weights_.has_factors) {
      const std::string first = piece_.factor(block, 0);
      values.push_back(fmt::format("float({})", first));
      if (weights_.groups == 2) values.push_back(fmt::format("float({} - {})", piece_.factor(block, 1), first));
    }
    if (weights_.has_offset) values.push_back(piece_.offset(block));
    for (int g = 0; g < weights_.groups && weights_.has_offset && weights_.has_shares; ++g) {
      values.push_back(fmt::format("float({})", piece_.share(block, g)));
    }
    return values;
  }

  // This thread's column of 256 k, of which it takes some blocks of 32 apart.
  void take_apart() {
    const int columns = form_.columns();
    const int parts = form_.threads() / columns;
    const int blocks_of_part = kQ8BlocksOfSum / parts;
    lines_.open("{{");
    lines_.add("int column = thread_id & {};", columns - 1);
    lines_.add("int part = thread_id / {};", columns);
    lines_.add("UINT piece[{}];", over(piece_.words(), 4) * 4);
    if (weights_.is_aligned) {
      lines_.add("UNROLL");
      lines_.open("for (int j = 0; j < {}; j++) {{", piece_.words() / 4);
      lines_.add("UINT four[4];");
      lines_.add("TAKE_FOUR({}, {} + column * {} + j, four)", kSharedFours, places_.span, weights_.vectors);
      lines_.add("UNROLL");
      lines_.add("for (int i = 0; i < 4; i++) piece[4 * j + i] = four[i];");
      lines_.close();
    } else {
      declare_piece();
      lines_.add("int from = ({} + column * {}) * 16 + lead;", places_.span, weights_.vectors);
      lines_.add("UNROLL");
      lines_.open("for (int j = 0; j < {}; j++) {{", piece_.words());
      lines_.add("UINT low = WORD_OF_FOURS({}, (from >> 2) + j);", kSharedFours);
      lines_.add("UINT high = WORD_OF_FOURS({}, (from >> 2) + j + 1);", kSharedFours);
      lines_.add("piece[j] = low >> UINT(8 * (from & 3)) | high << 1 << UINT(31 - 8 * (from & 3));");
      lines_.close();
    }
    lines_.add("UINT four[4];");
    for (int p = 0; p < parts; ++p) {
      lines_.open("if (part == {}) {{", p);
      for (int block = p * blocks_of_part; block < (p + 1) * blocks_of_part; ++block) {
        for (int w = 0; w < kWordsOfBlock; ++w) {
          lines_.add("four[{}] = {};", w % 4, piece_.signed_codes(block, w));
          if (w % 4 != 3) continue;
          lines_.add("PUT_FOUR({}, {} + column * {}, four)", kSharedFours,
                     places_.columns + block * columns * kStepOfRows + w / 4, kStepOfRows);
        }
        put_floats(block);
      }
      lines_.close();
    }
    lines_.close();
  }
  void put_floats(int block) {
    const std::vector<std::string> values = floats_of(block);
    const int words = in_fours(static_cast<int>(values.size()));
    const int place = block * form_.columns();
    if (is_of_powers()) note_small(fmt::format("BITS({})", values[0]), 73);
    if (words == 1) {
      lines_.add("WORD_OF_FOURS({}, {} + column) = BITS({});", kSharedFours, places_.of_columns * 4 + place, values[0]);
      return;
    }
    for (int i = 0; i < words; ++i) {
      const auto at = static_cast<std::size_t>(i);
      lines_.add("four[{}] = {};", i % 4, at < values.size() ? fmt::format("BITS({})", values[at]) : "0u");
      if (i % 4 != 3) continue;
      lines_.add("PUT_FOUR({}, {} + column * {}, four)", kSharedFours, places_.of_columns + place * words / 4 + i / 4,
                 words / 4);
    }
  }

  // Which of a matrix's sums are this thread's.
  void find_places() {
    lines_.add("int places[{}];", kSumsOfMatrix);
    lines_.add("for (int e = thread_id; e < {0}; e += {1}) WORD_OF_FOURS({2}, e) = UINT(e);", kSumsSide * kSumsSide,
               form_.threads(), kSharedFours);
    lines_.add("BARRIER();");
    lines_.open("{{");
    lines_.add("SUMS_16_BY_16 numbers;");
    lines_.add("TAKE_SUMS(numbers, {}, 0, {})", kSharedFours, kSumsSide / 4);
    lines_.add("UNROLL");
    lines_.add("for (int e = 0; e < {}; e++) places[e] = int(numbers[e]);", kSumsOfMatrix);
    lines_.close();
  }

  void declare_constants(std::int64_t first, const RowLayout& layout, std::int64_t tiles) {
    lines_.add("int thread_id = int(THREAD);");
    lines_.add("int team_m = int(TEAM) / {};", form_.teams_n);
    lines_.add("int team_n = int(TEAM) & {};", form_.teams_n - 1);
    lines_.add("int count = {};", words_.int32(layout.count));
    lines_.add("int blocks = {};", words_.int32(layout.blocks));
    lines_.add("int stages = {};", words_.int32(pieces_));
    lines_.add("int row_tiles = {};", words_.int32(layout.fragments));
    lines_.add("int floats_begin = blocks * row_tiles * {};", kFragmentRows * kWordsOfBlock);
    lines_.add("{} begin_m = {};", index_, words_.index(first, geometry_.wide));
    lines_.add("{} size_n = {};", index_, words_.index(geometry_.columns, geometry_.wide));
    lines_.add("int tiles = {};", words_.int32(tiles));
    lines_.add("UINT column_bytes = {};", words_.uint32(static_cast<std::uint32_t>(column_bytes_)));
  }
  void begin_tile(std::int64_t tiles_m) {
    lines_.add("int band = {};", quotient(words_, "tile", tiles_m, false));
    lines_.add("int tile_m = tile - band * {};", words_.int32(tiles_m));
    lines_.add("{0} first_n = {0}(band) * {0}({1});", index_, form_.columns());
    lines_.add("LONG begin = {} + LONG(first_n) * LONG(column_bytes);", words_.int64(first_byte_));
    lines_.add("int last = int(SELECT(size_n - first_n < {0}({1}), size_n - first_n, {0}({1}))) - 1;", index_,
               form_.columns());
    lines_.add("BARRIER();");
    lines_.add("if (thread_id < 2) care[thread_id] = 0;");
    if (weights_.groups == 2) {
      open_items(kQ8BlocksOfSum * form_.columns());
      lines_.add("UINT four[4];");
      for (int i = 0; i < 4; ++i) lines_.add("four[{}] = 0u;", i);
      lines_.add("PUT_FOUR({}, {} + e * {}, four)", kSharedFours, places_.columns + 2, kStepOfRows);
      close_items();
    }
  }

  // The sums of 256 k.
  void sum_stage() {
    const int steps = kQ8BlocksOfSum / form_.step;
    lines_.add("UNROLL");
    lines_.add("for (int x = 0; x < {}; x++) partial[x] = zero;", sums());
    lines_.open("for (int step = 0; step < {}; step++) {{", steps);
    lines_.add("BARRIER();");
    lines_.open("if (step == 0) {{");
    put_columns();
    lines_.add("if (thread_id == 0) care[(stage + 1) & 1] = 0;");
    lines_.close();
    put_rows();
    lines_.add("BARRIER();");
    lines_.add("int first_block = stage * {} + (step + 1) * {};", kQ8BlocksOfSum, form_.step);
    lines_.open("if (first_block < blocks) {{");
    load_rows();
    lines_.close();
    lines_.open("if (step == 0) {{");
    take_apart();
    lines_.open("if (stage + 1 < stages) {{");
    lines_.add("int now = stage;");
    lines_.open("{{");
    lines_.add("int stage = now + 1;");
    load_columns();
    lines_.close();
    lines_.close();
    lines_.add("BARRIER();");
    lines_.close();
    lines_.add("bool plain = care[stage & 1] == 0;");
    lines_.add("UNROLL");
    lines_.open("for (int block = 0; block < {}; block++) {{", form_.step);
    lines_.add("int of_piece = step * {} + block;", form_.step);
    multiply_matrices(lines_, form_, weights_);
    lines_.close();
    lines_.close();
  }

  // Results pass through shared memory, so that neighbouring threads write neighbours.
  void write_tile(ProgramWriter& writer) {
    const int columns = form_.columns();
    lines_.add("BARRIER();");
    lines_.add("UNROLL");
    lines_.open("for (int x = 0; x < {}; x++) {{", sums());
    lines_.add("int place = places[x & {}];", kSumsOfMatrix - 1);
    lines_.add("int in_row = (team_m * {} + x / {}) * {} + place / {};", form_.matrices, kSumsOfMatrix, kSumsSide,
               kSumsSide);
    lines_.add("WORD_OF_FOURS({}, in_row * {} + team_n * {} + (place & {})) = BITS(total[x]);", kSharedFours, columns,
               kSumsSide, kSumsSide - 1);
    lines_.close();
    lines_.add("BARRIER();");
    lines_.open("for (int e = thread_id; e < {}; e += {}) {{", form_.rows() * columns, form_.threads());
    lines_.add("int row = tile_m * {} + e / {};", form_.rows(), columns);
    lines_.add("{0} n = first_n + {0}(e & {1});", index_, columns - 1);
    lines_.open("if (row < count && n < size_n) {{");
    lines_.add("{0} m = begin_m + {0}(row);", index_);
    lines_.add("{0} batch = {0}(0);", index_);
    lines_.add("float result = FROM_BITS(WORD_OF_FOURS({}, e));", kSharedFours);
    write_result(lines_, words_, writer, kernel_, geometry_, geometry_.wide, "result");
    lines_.close();
    lines_.close();
  }

  Launch multiply(std::int64_t first, const RowLayout& layout) {
    lines_ = Lines();
    words_ = Words();
    const std::int64_t tiles_m = over(layout.count, form_.rows());
    const std::int64_t tiles = tiles_m * over(geometry_.columns, form_.columns());
    ProgramWriter writer(kernel_.epilogue, geometry_.epilogue, words_);
    lines_.add("MEMORY b_at = {};", words_.memory(Patch::Kind::address, b_.input->slot));
    lines_.add("MEMORY scratch = {};", words_.memory(Patch::Kind::scratch, 0));
    writer.declare_buffers(lines_);
    declare_zero(lines_, words_, ComputeType::f32);
    declare_constants(first, layout, tiles);
    find_places();
    lines_.open("for (int tile = int(GROUP); tile < tiles; tile += int(GROUPS)) {{");
    begin_tile(tiles_m);
    lines_.add("float total[{}];", sums());
    lines_.add("float partial[{}];", sums());
    lines_.add("UINT moved_columns[{}];", 4 * turns(form_.columns() * weights_.vectors));
    lines_.add("UINT moved_rows[{}];", 4 * turns(form_.step * form_.rows() * 2));
    lines_.add("UINT moved_floats[{}];", weights_.row_floats() * turns(form_.step * form_.rows()));
    lines_.open("{{");
    lines_.add("int stage = 0;");
    lines_.add("int first_block = 0;");
    load_columns();
    load_rows();
    lines_.close();
    lines_.open("for (int stage = 0; stage < stages; stage++) {{");
    sum_stage();
    lines_.add("UNROLL");
    lines_.open("for (int x = 0; x < {}; x++) {{", sums());
    lines_.add("if (stage == 0) total[x] = partial[x]; else total[x] = {};",
               added(ComputeType::f32, "total[x]", "partial[x]"));
    lines_.close();
    lines_.close();
    write_tile(writer);
    lines_.close();
    Launch result;
    result.text.body = lines_.take();
    result.text.functions = writer.functions() + piece_.functions();
    result.text.threads = form_.threads();
    result.text.byte_matrices = true;
    result.text.shared = shared_arrays(form_, weights_);
    result.groups = limits_.groups_for(tiles);
    words_.move_to(result);
    return result;
  }

  const MatrixForm form_;
  const MatrixPlaces places_;
  Words words_;
  Lines lines_;
};

}  // namespace

std::optional<Rendered> render_q8_matrices(const ContractionKernel& kernel, const Geometry& geometry,
                                           const RenderLimits& limits) {
  const Side b("b", kernel.b_operand, geometry.b, geometry, false);
  if (!limits.arithmetic.byte_matrices || !has_whole_pieces(b, geometry)) return std::nullopt;
  const TileWeights weights(kernel.b_operand.encoding, first_byte_of(b));
  const std::optional<MatrixForm> form = form_for(geometry, weights, limits);
  if (!form || (geometry.rows + form->rows()) * geometry.length >= kFarthestCode) return std::nullopt;
  return Q8Matrices(kernel, geometry, b, weights, *form, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
