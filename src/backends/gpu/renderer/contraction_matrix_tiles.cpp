// Contractions in blocked numerics by cooperative matrices of bytes (Arithmetic::byte_matrices). Teams of 32 threads
// multiply matrices of 16 rows, 16 columns and 32 of k together, and which sums a thread has of such a product is the
// device's secret: each learns it by reading a matrix of places. Then it adds its sums as all other forms do.
//
// 32 of k of the tile's rows and columns, both planes of digits, lie in shared memory, and those of the next product
// are on their way from memory meanwhile, to the other half of it where there is room for two. A row has 48 bytes
// there, so that eight neighbours are in different banks.
#include "backends/gpu/renderer/contraction_byte_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kMatrixSide = 16;                                ///< of a matrix of sums
constexpr int kSumsOfThread = kMatrixSide * kMatrixSide / 32;  ///< of a thread, in such a matrix
constexpr int kTeamRows = 32, kTeamColumns = 32;
constexpr int kTeamSide = kTeamRows / kMatrixSide;  ///< matrices
constexpr int kRowFours = 3;                        ///< words by fours of a row in shared memory, the third left free
constexpr int kMatrixRows = 2 * (kDigitRows + kTileColumns);
constexpr int kStageFours = kMatrixRows * kRowFours;
constexpr int kQuarters = 4;  ///< of a block
constexpr int kBlockScales = kDigitRows + kTileColumns;
constexpr int kMovedFours = kMatrixRows * 2 / kByteThreads;  ///< by each thread
constexpr std::size_t matrix_tile_bytes(int stages) {
  return static_cast<std::size_t>(16 * stages * kStageFours + 2 * 4 * kBlockScales);
}

class MatrixTiles : ByteTiles {
 public:
  MatrixTiles(const ContractionKernel& kernel, const Geometry& geometry, const DigitLayout& layout,
              const RenderLimits& limits)
      : ByteTiles(kernel, geometry, layout, limits, true),
        stages_(limits.shared_bytes >= matrix_tile_bytes(2) ? 2 : 1) {}

  Launch render();

 private:
  void find_places();
  void declare_moved();
  void load(const char* block, const char* quarter);
  void put(const char* block, const char* quarter);
  void sum_blocks();
  void multiply();
  void add_block(const char* fma);
  /// Where the digits of a quarter of a block begin, in fours.
  std::string stage(const char* quarter) const {
    return stages_ == 1 ? "0" : fmt::format("({} & 1) * {}", quarter, kStageFours);
  }

  const int stages_;
};

Launch MatrixTiles::render() {
  declare_tiles();
  declare_digits();
  writer_.declare_buffers(lines_);
  declare_zero(lines_, words_, ComputeType::f32);
  find_places();
  lines_.open("for ({0} tile = {0}(GROUP); tile < tiles; tile += {0}(GROUPS)) {{", index_);
  find_tile();
  sum_blocks();
  const Places places{
      .row = fmt::format("team_m * {} + (places[x & {}] / {})", kMatrixSide, kSumsOfThread - 1, kMatrixSide),
      .column = fmt::format("team_n * {} + (x / {}) * {} + (places[x & {}] & {})", kTeamColumns, kSumsOfThread,
                            kMatrixSide, kSumsOfThread - 1, kMatrixSide - 1),
      .in_tile = fmt::format("(staged_row / {0}) * {1} + piece * {0} + (staged_row & {2})", kMatrixSide, kTeamRows,
                             kMatrixSide - 1)};
  write_outputs(places,
                [](const std::string& number) { return fmt::format("WORD_OF_FOURS(tile_digits, {})", number); });
  lines_.close();
  Launch result = finish();
  result.text.byte_matrices = true;
  result.text.shared.push_back(
      {.type = ComputeType::i32, .name = "tile_digits", .size = stages_ * kStageFours * 4, .fours = true});
  result.text.shared.push_back({ComputeType::f32, "scales", 2 * kBlockScales});
  result.groups = limits_.groups_for(byte_tiles(geometry_, layout_));
  return result;
}

// Teams are 4 x 2, each with 32 x 32 outputs.
void MatrixTiles::find_places() {
  lines_.add("int team_m = int(TEAM) / {};", kTileColumns / kTeamColumns);
  lines_.add("int team_n = int(TEAM) & {};", kTileColumns / kTeamColumns - 1);
  lines_.add("int places[{}];", kSumsOfThread);
  lines_.add("WORD_OF_FOURS(tile_digits, thread_id) = thread_id;");
  lines_.add("BARRIER();");
  lines_.open("{{");
  lines_.add("SUMS_16_BY_16 numbers;");
  lines_.add("TAKE_SUMS(numbers, tile_digits, 0, {})", kMatrixSide / 4);
  lines_.add("UNROLL");
  lines_.add("for (int e = 0; e < {}; e++) places[e] = numbers[e];", kSumsOfThread);
  lines_.close();
  // What a thread moves into shared memory: half of a row in each of kMovedFours places.
  lines_.add("int moved_row = thread_id >> 1;");
  lines_.add("int moved_half = thread_id & 1;");
  lines_.add("int moved_plane = moved_row / {};", kTileColumns);
}

// Two planes of rows of a, and, in the last place, both of b's, whose rows are half as many.
void MatrixTiles::load(const char* block, const char* quarter) {
  static_assert(kMovedFours == 3 && kByteThreads / 2 == kDigitRows && kDigitRows == 2 * kTileColumns);
  lines_.add("int near = ({} * 2 + moved_half) ^ (moved_row & 7);", quarter);
  lines_.add("LONG of_a = (left + LONG({})) * LONG({}) + LONG(moved_row * {} + near);", block, 2 * kPlaneChunks,
             kBlockChunks);
  lines_.add(
      "LONG of_b = (right + LONG({})) * LONG({}) + LONG(moved_plane * {} + (right_row + (moved_row & {})) * {} + "
      "near);",
      block, 2 * kPlaneChunks, kPlaneChunks, kTileColumns - 1, kBlockChunks);
  lines_.add("LOAD4_U32(a_digits, of_a * LONG(4), moved_0)");
  lines_.add("LOAD4_U32(a_digits, (of_a + LONG({})) * LONG(4), moved_1)", kPlaneChunks);
  lines_.add("LOAD4_U32(b_digits, of_b * LONG(4), moved_2)");
  lines_.open("if ({} == 0 && thread_id < {}) {{", quarter, kBlockScales);
  lines_.add("if (thread_id < {0}) moved_scale = LOAD_U32(a_scales, (left + LONG({1})) * LONG({0}) + LONG(thread_id));",
             kDigitRows, block);
  lines_.add(
      "else moved_scale = LOAD_U32(b_scales, (right + LONG({1})) * LONG({0}) + LONG(right_row + thread_id - {0}));",
      kDigitRows, block);
  lines_.close();
}

void MatrixTiles::put(const char* block, const char* quarter) {
  lines_.add("int to = {} + moved_row * {} + moved_half;", stage(quarter), kRowFours);
  for (int i = 0; i < kMovedFours; ++i) {
    lines_.add("PUT_FOUR(tile_digits, to + {}, moved_{})", i * kDigitRows * kRowFours, i);
  }
  lines_.add("if ({} == 0 && thread_id < {}) scales[({} & 1) * {} + thread_id] = FROM_BITS(moved_scale);", quarter,
             kBlockScales, block, kBlockScales);
}

void MatrixTiles::sum_blocks() {
  lines_.add("float sums[{}];", kThreadOutputs);
  each_output();
  lines_.add("sums[x] = zero;");
  lines_.close();
  begin_care();
  for (int i = 0; i < kMovedFours; ++i) lines_.add("UINT moved_{}[4];", i);
  lines_.add("UINT moved_scale = 0u;");
  lines_.add("BARRIER();");
  lines_.open("{{");
  load("0", "0");
  put("0", "0");
  lines_.close();
  lines_.add("BARRIER();");
  lines_.open("for (int block = 0; block < blocks; block++) {{");
  for (const char* name : {"high", "mixed", "low"}) lines_.add("SUMS_16_BY_16 {}[{}];", name, kTeamSide * kTeamSide);
  lines_.add("UNROLL");
  lines_.open("for (int x = 0; x < {}; x++) {{", kTeamSide * kTeamSide);
  lines_.add("FILL_SUMS(high[x], 0)");
  lines_.add("FILL_SUMS(mixed[x], 0)");
  lines_.add("FILL_SUMS(low[x], 64)");
  lines_.close();
  lines_.open("for (int quarter = 0; quarter < {}; quarter++) {{", kQuarters);
  lines_.add("int next = (quarter + 1) & {};", kQuarters - 1);
  lines_.add("int next_block = SELECT(next == 0, block + 1, block);");
  lines_.open("if (next_block < blocks) {{");
  load("next_block", "next");
  lines_.close();
  multiply();
  if (stages_ == 1) lines_.add("BARRIER();");
  lines_.open("if (next_block < blocks) {{");
  put("next_block", "next");
  lines_.close();
  lines_.add("BARRIER();");
  lines_.close();
  for (const auto& [name, first, part] :
       {std::tuple{"row", fmt::format("team_m * {}", kTeamRows), fmt::format("/ {}", kMatrixSide)},
        {"column", fmt::format("{} + team_n * {}", kDigitRows, kTeamColumns), fmt::format("& {}", kMatrixSide - 1)}}) {
    lines_.add("float {}_scales[{}];", name, kTeamSide * kSumsOfThread);
    lines_.add("UNROLL");
    lines_.open("for (int i = 0; i < {}; i++) {{", kTeamSide * kSumsOfThread);
    lines_.add("int place = {} + (i / {}) * {} + (places[i & {}] {});", first, kSumsOfThread, kMatrixSide,
               kSumsOfThread - 1, part);
    lines_.add("{}_scales[i] = scales[(block & 1) * {} + place];", name, kBlockScales);
    lines_.close();
  }
  add_with_care(kTeamSide * kSumsOfThread, kTeamSide * kSumsOfThread, [&](const char* fma) { add_block(fma); });
  lines_.close();
}

void MatrixTiles::multiply() {
  const auto take = [&](const char* what, const char* name, const char* from, int plane_rows, const char* plane,
                        const char* part) {
    lines_.add("{}({}, tile_digits, {} + ({} * {} + {} * {}) * {}, {})", what, name, from, plane, plane_rows, part,
               kMatrixSide, kRowFours, kRowFours);
  };
  lines_.add("int of_rows = {} + team_m * {};", stage("quarter"), kTeamRows * kRowFours);
  lines_.add("int of_columns = {} + {} + team_n * {};", stage("quarter"), 2 * kDigitRows * kRowFours,
             kTeamColumns * kRowFours);
  lines_.add("BYTES_32_BY_16 b[{}];", 2 * kTeamSide);
  lines_.add("UNROLL");
  lines_.open("for (int f = 0; f < {}; f++) {{", 2 * kTeamSide);
  take("TAKE_COLUMNS", "b[f]", "of_columns", kTileColumns, "(f >> 1)", "(f & 1)");
  lines_.close();
  lines_.add("UNROLL");
  lines_.open("for (int i = 0; i < {}; i++) {{", kTeamSide);
  lines_.add("BYTES_16_BY_32 a_high;");
  lines_.add("BYTES_16_BY_32 a_low;");
  take("TAKE_ROWS", "a_high", "of_rows", kDigitRows, "0", "i");
  take("TAKE_ROWS", "a_low", "of_rows", kDigitRows, "1", "i");
  lines_.add("UNROLL");
  lines_.open("for (int j = 0; j < {}; j++) {{", kTeamSide);
  lines_.add("int x = i * {} + j;", kTeamSide);
  lines_.add("MULTIPLY_MATRICES(high[x], a_high, b[j])");
  lines_.add("MULTIPLY_MATRICES(mixed[x], a_high, b[{} + j])", kTeamSide);
  lines_.add("MULTIPLY_MATRICES(mixed[x], a_low, b[j])");
  lines_.add("MULTIPLY_MATRICES(low[x], a_low, b[{} + j])", kTeamSide);
  lines_.close();
  lines_.close();
}

void MatrixTiles::add_block(const char* fma) {
  each_output();
  lines_.add("int of = x / {};", kSumsOfThread);
  lines_.add("int e = x & {};", kSumsOfThread - 1);
  lines_.add("int whole = high[of][e] * 128 + mixed[of][e] + (low[of][e] >> 7);");
  lines_.add("FLOAT scaled = float(whole) * row_scales[(of / {}) * {} + e];", kTeamSide, kSumsOfThread);
  lines_.add("sums[x] = {}(scaled, column_scales[(of & {}) * {} + e], sums[x]);", fma, kTeamSide - 1, kSumsOfThread);
  lines_.close();
}

}  // namespace

bool is_for_matrix_tiles(const Geometry& geometry, const RenderLimits& limits) {
  return limits.arithmetic.byte_matrices && limits.threads >= kByteThreads &&
         limits.shared_bytes >= matrix_tile_bytes(1) && digits_fit(geometry, limits) &&
         split_of_digits(geometry, DigitLayout(geometry), limits) == 1;
}

Rendered render_matrix_tiles(const ContractionKernel& kernel, const Geometry& geometry, const RenderLimits& limits) {
  const DigitLayout layout(geometry);
  Rendered rendered = render_digits(kernel, geometry, layout, limits);
  rendered.launches.push_back(MatrixTiles(kernel, geometry, layout, limits).render());
  return rendered;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
