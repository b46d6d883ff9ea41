// Many rows times packed weights in q8 numerics (docs/numerics.md section 14) by integer tensor cores. A first kernel
// rounds the activations (contraction_q8_rows.cpp). Then workgroups multiply tiles, a stage at a time: 256 k of their
// rows and of their columns' blocks come to shared memory as they are, while the ones before are multiplied; each
// thread takes a part of a column apart into codes in the order in which threads hold a right operand, and into
// factors. A product of 16 rows, 32 k and 8 columns is one instruction, which adds the bits of 12582912 as a float:
// less that, its sum is exact (of codes times 16, of a sixteenth of that).
//
// Where tiles are few, teams share a tile's k: a stage has 256 k for each of them, whose sums pass through shared
// memory and are added there in their order.
#include <algorithm>
#include <utility>

#include "backends/gpu/renderer/contraction_q8_tiles.h"
#include "backends/gpu/renderer/rows.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

class Q8Tiles : TiledProduct {
 public:
  Q8Tiles(const ContractionKernel& kernel, const Geometry& geometry, const Side& b, const TileWeights& weights,
          const TeamForm& form, const RenderLimits& limits)
      : TiledProduct(kernel, geometry, b, weights, limits), form_(form) {}

  Rendered render() const {
    const std::int64_t row_bytes = geometry_.length + 4 * weights_.row_floats() * blocks_;
    return render_parts(form_.rows(), row_bytes, [&](Rendered& rendered, std::int64_t first, std::int64_t count) {
      const RowLayout layout{count, blocks_, over(count, form_.rows()) * form_.rows() / kFragmentRows};
      rendered.launches.push_back(round_rows(geometry_, a_, first, layout, weights_.sums(), limits_));
      rendered.launches.push_back(multiply(first, layout));
    });
  }

 private:
  bool parts_k() const { return form_.teams_k > 1; }

  // A loop of the workgroup over `count` items, with as many turns for every thread.
  void open_items(Lines& lines, int count) const {
    lines.add("UNROLL");
    lines.open("for (int turn = 0; turn < {}; turn++) {{", over(count, form_.threads()));
    lines.add("int e = thread_id + turn * {};", form_.threads());
    if (count % form_.threads() != 0) lines.add("if (e >= {}) continue;", count);
  }

  // Starts to copy stage `stage` of the tile's columns.
  void start_columns(Lines& lines, Words& words) const {
    const int tile_n = form_.columns();
    open_items(lines, tile_n * form_.teams_k * weights_.vectors);
    lines.add("int place = e / {};", weights_.vectors);
    lines.add("int v = e - place * {};", weights_.vectors);
    lines.add("int column = place & {};", tile_n - 1);
    declare_piece(lines, words);
    const bool all = weights_.is_aligned && weights_.vectors * 16 == piece_.bytes() && !parts_k();
    if (!all) {
      lines.open("if (v * 16 < {} + {}{}) {{", weights_.is_aligned ? "0" : "lead", piece_.bytes(),
                 parts_k() ? " && piece_of < pieces" : "");
    }
    lines.add("COPY_TO_SHARED(span, e, 16, b_at + ULONG(begin + LONG(at) + LONG(v * 16 - lead)))");
    if (!all) lines.close();
    lines.close();
  }
  // The piece of `place` in a stage, of `column` in the tile: where it is from the tile's `begin` on, and from the last
  // multiple of 16 bytes on.
  void declare_piece(Lines& lines, Words& words) const {
    if (parts_k()) {
      lines.add("int piece_of = stage * {} + place / {};", form_.teams_k, form_.columns());
    } else {
      lines.add("int piece_of = stage;");
    }
    lines.add("UINT at = UINT(SELECT(column < last, column, last)) * {} + UINT(piece_of * {});",
              words.uint32(static_cast<std::uint32_t>(column_bytes_)), piece_.bytes());
    lines.add("int lead = {};", weights_.is_aligned ? "0" : "int((UINT(begin) + at) & 15u)");
  }
  // Of tile `tile`: its rows' place, the bytes and the first of its columns, and the last one that there is.
  void declare_tile(Lines& lines, Words& words, std::int64_t tiles_m) const {
    lines.add("int band = {};", quotient(words, "tile", tiles_m, false));
    lines.add("int tile_m = tile - band * {};", words.int32(tiles_m));
    lines.add("{0} first_n = {0}(band) * {0}({1});", index_, form_.columns());
    lines.add("LONG begin = {} + LONG(first_n) * {};", words.int64(first_byte_), words.int64(column_bytes_));
    lines.add("int last = int(SELECT(size_n - first_n < {0}({1}), size_n - first_n, {0}({1}))) - 1;", index_,
              form_.columns());
  }
  // Starts to copy stage `stage` of the tile's rows, codes and floats, into half `side` of their memory.
  void start_rows(Lines& lines) const {
    const int stage_blocks = form_.blocks();
    const int half = form_.row_words(weights_) / 4;
    const auto copy = [&](int count, int of_block, const std::string& to, const std::string& from) {
      open_items(lines, count);
      lines.add("int v = e & {};", of_block - 1);
      lines.add("int of_stage = e / {};", of_block);
      lines.add("int block = stage * {} + (of_stage & {});", stage_blocks, stage_blocks - 1);
      if (parts_k()) lines.open("if (block < blocks) {{");
      lines.add("COPY_TO_SHARED(tile_a, side * {} + {} + e, 16, scratch + {})", half, to, from);
      if (parts_k()) lines.close();
      lines.close();
    };
    lines.add("int first_row_tile = tile_m * {};", form_.rows() / kFragmentRows);
    const int code_vectors = form_.rows() * kWordsOfBlock / 4;
    copy(stage_blocks * code_vectors, code_vectors, "0",
         fmt::format("ULONG((block * row_tiles + first_row_tile) * {} + v) * ULONG(16)", kTeam));
    const int float_vectors = form_.rows() / 4;
    copy(weights_.row_floats() * stage_blocks * float_vectors, float_vectors, std::to_string(form_.code_words() / 4),
         fmt::format(
             "ULONG(floats_begin + ((of_stage / {} * blocks + block) * row_tiles + first_row_tile) * {} + v * 4) * "
             "ULONG(4)",
             stage_blocks, kFragmentRows));
  }

  // This thread's column of 256 k, of which it takes some blocks of 32 apart.
  void take_apart(Lines& lines, Words& words) const {
    const int tile_n = form_.columns();
    const int places = tile_n * form_.teams_k;
    const int parts = form_.threads() / places;
    const int blocks_of_part = kQ8BlocksOfSum / parts;
    lines.open("{{");
    lines.add("int place = thread_id & {};", places - 1);
    lines.add("int column = place & {};", tile_n - 1);
    lines.add("int part = thread_id / {};", places);
    lines.add("UINT piece[{}];", over(piece_.words(), 4) * 4);
    if (weights_.is_aligned) {
      lines.add("UNROLL");
      lines.open("for (int j = 0; j < {}; j++) {{", piece_.words() / 4);
      lines.add("UINT four[4];");
      lines.add("TAKE4_U32(span, place * {} + j, four)", weights_.vectors);
      lines.add("UNROLL");
      lines.add("for (int i = 0; i < 4; i++) piece[4 * j + i] = four[i];");
      lines.close();
    } else {
      declare_piece(lines, words);
      lines.add("int from = place * {} + lead;", weights_.vectors * 16);
      lines.add("UNROLL");
      lines.open("for (int j = 0; j < {}; j++) {{", piece_.words());
      lines.add("UINT low = UINT(span[(from >> 2) + j]);");
      lines.add("UINT high = UINT(span[(from >> 2) + j + 1]);");
      lines.add("piece[j] = low >> UINT(8 * (from & 3)) | high << 1 << UINT(31 - 8 * (from & 3));");
      lines.close();
    }
    // Two fragments lie together, their words turned so that threads do not meet in a bank.
    lines.add("int of_piece = place / {};", tile_n);
    lines.add("int at_column = of_piece * {} + column / 16 * {} + (column & 7) * 16 + (column >> 3 & 1) * 2;",
              tile_n * kBlock / 4, kTeam * 4);
    const int width = form_.fragments_n * kFragmentColumns;
    lines.add(
        "int of_factors = of_piece * {} + column / {} * {} + (column & 7) / 2 * {} + (column & {}) / 8 * 2 + (column & "
        "1);",
        form_.factor_words(weights_), width, width, width / 4, width - 1);
    const int step = tile_n / kFragmentColumns * kTeam * 2;  // from one block to the next
    for (int p = 0; p < parts; ++p) {
      lines.open("if (part == {}) {{", p);
      for (int block = p * blocks_of_part; block < (p + 1) * blocks_of_part; ++block) {
        for (int w = 0; w < 4; ++w) {
          lines.open("{{");
          lines.add("int to = {} + at_column + ({} + column / 2 & 3) * 4;", block * step, w);
          for (int side = 0; side < 2; ++side) {
            lines.add("tile_b[to + {}] = int({});", side, piece_.signed_codes(block, w + 4 * side));
          }
          lines.close();
        }
        const auto put = [&](int kind, const std::string& value) {
          lines.add("factors[of_factors + {}] = {};", (kind * kQ8BlocksOfSum + block) * tile_n, value);
        };
        put(0, piece_.scale(block));
        for (int g = 0; g < weights_.groups && weights_.has_factors; ++g) {
          put(1 + g, fmt::format("float({})", piece_.factor(block, g)));
        }
        if (!weights_.has_offset) continue;
        put(weights_.first_offset(), piece_.offset(block));
        for (int g = 0; g < weights_.groups && weights_.has_shares; ++g) {
          put(weights_.first_offset() + 1 + g, fmt::format("float({})", piece_.share(block, g)));
        }
      }
      lines.close();
    }
    lines.close();
  }
  // The stage's sums of 256 k go to shared memory, where the rows were, and are added to the totals in their order.
  void add_parts(Lines& lines) const {
    const int m = form_.fragments_m;
    const int n = form_.fragments_n;
    const int stride = form_.result_stride();
    const int outputs = form_.rows() * stride;
    LOCKSTEP_ASSERT(form_.teams_k * outputs <= form_.row_words(weights_));
    lines.add("BARRIER();");
    lines.add("int from_team = of_side + team_k * {} + (team_m * {} + lane / 4) * {} + team_n * {} + (lane & 3) * 2;",
              outputs, m * kFragmentRows, stride, n * kFragmentColumns);
    lines.add("UNROLL");
    lines.open("for (int x = 0; x < {}; x++) {{", 2 * m * n);
    lines.add("int to = from_team + (x / {} * {} + (x & 1) * 8) * {} + (x / 2 & {}) * {};", 2 * n, kFragmentRows,
              stride, n - 1, kFragmentColumns);
    lines.add("tile_a[to] = int(BITS(partial[2 * x]));");
    lines.add("tile_a[to + 1] = int(BITS(partial[2 * x + 1]));");
    lines.close();
    lines.add("BARRIER();");
    open_items(lines, form_.rows() * form_.columns() / 4);
    lines.add("int place = e / {} * {} + (e & {}) * 4;", form_.columns() / 4, stride, form_.columns() / 4 - 1);
    lines.add("float total[4];");
    lines.add("READ4(results, place, total, 0)");
    lines.add("UNROLL");
    lines.open("for (int k = 0; k < {}; k++) {{", form_.teams_k);
    lines.open("if (stage * {} + k < pieces) {{", form_.teams_k);
    lines.add("float sums[4];");
    lines.add("READ4(tile_a, of_side + k * {} + place, sums, 0)", outputs);
    lines.add("UNROLL");
    lines.add("for (int q = 0; q < 4; q++) total[q] = stage + k == 0 ? sums[q] : {};",
              added(ComputeType::f32, "total[q]", "sums[q]"));
    lines.close();
    lines.close();
    lines.add("WRITE4(results, place, total, 0)");
    lines.close();
  }

  // The results at `place` of `results`, which are those of `in_row` and `in_column` of the tile; `width` neighbours.
  void write_at(Lines& lines, Words& words, ProgramWriter& writer, int width) const {
    const std::set<int> instructions = all_of(kernel_.epilogue.code.size());
    const std::set<int> outputs = all_of(kernel_.epilogue.outputs.size());
    lines.add("int row = tile_m * {} + in_row;", form_.rows());
    lines.add("{0} n = first_n + {0}(in_column);", index_);
    lines.open("if (row < count && n < size_n) {{");
    lines.add("{0} m = begin_m + {0}(row);", index_);
    lines.add("{0} batch = {0}(0);", index_);
    if (width == 1) {
      lines.add("float result = results[place];");
      write_result(lines, words, writer, kernel_, geometry_, geometry_.wide, "result");
    } else {
      decompose(lines, words, geometry_.shape, 0, geometry_.m, "batch", "i", geometry_.wide);
      decompose(lines, words, geometry_.shape, geometry_.m, geometry_.n, "m", "i", geometry_.wide);
      decompose(lines, words, geometry_.shape, geometry_.n, geometry_.k, "n", "i", geometry_.wide);
      writer.declare_places(lines, "e", "", 0, geometry_.k, instructions, outputs, true);
      lines.add("float four[4];");
      lines.add("READ4(results, place, four, 0)");
      writer.load_vectors(lines, "e", "0", instructions, outputs);
      lines.add("UNROLL");
      lines.open("for (int q = 0; q < 4; q++) {{");
      lines.add("float accumulator = CANONICAL_F32(four[q]);");
      for (const int i : instructions) writer.emit(lines, i, "e");
      for (const int o : outputs) writer.store(lines, o, "e");
      lines.close();
      writer.store_vectors(lines, "e", "0", outputs);
    }
    lines.close();
  }
  /// How many neighbouring results a thread writes at once.
  int width_of(ProgramWriter& writer) const {
    const bool vectors =
        geometry_.k > geometry_.n &&
        writer.choose_vectors_for(all_of(kernel_.epilogue.code.size()), all_of(kernel_.epilogue.outputs.size()));
    return vectors ? 4 : 1;
  }
  void write_parts(Lines& lines, Words& words, ProgramWriter& writer) const {
    const int width = width_of(writer);
    const int each = form_.columns() / width;  // threads of a row
    lines.add("BARRIER();");
    lines.add("UNROLL_BY(2)");
    lines.open("for (int e = thread_id; e < {}; e += {}) {{", form_.rows() * each, form_.threads());
    lines.add("int in_row = e / {};", each);
    lines.add("int in_column = (e & {}) * {};", each - 1, width);
    lines.add("int place = in_row * {} + in_column;", form_.result_stride());
    write_at(lines, words, writer, width);
    lines.close();
  }
  // Results pass through shared memory, so that neighbouring threads write neighbours.
  void write_tile(Lines& lines, Words& words, ProgramWriter& writer) const {
    const int m = form_.fragments_m;
    const int n = form_.fragments_n;
    const int columns = n * kFragmentColumns;
    const int stride = form_.result_stride();
    const int width = width_of(writer);
    lines.add("int staged_at = thread_id / {} * {};", kTeam, kFragmentRows * stride);
    lines.add("UNROLL_BY(1)");
    lines.open("for (int i = 0; i < {}; i++) {{", m);
    lines.add("UNROLL");
    lines.open("for (int p = 0; p < {}; p++) {{", m);
    lines.open("if (p == i) {{");
    lines.add("UNROLL");
    lines.open("for (int x = 0; x < {}; x++) {{", 2 * n);
    lines.add("int to = staged_at + (lane / 4 + (x & 1) * 8) * {} + x / 2 * {} + (lane & 3) * 2;", stride,
              kFragmentColumns);
    lines.add("results[to] = total[{} * p + 2 * x];", 4 * n);
    lines.add("results[to + 1] = total[{} * p + 2 * x + 1];", 4 * n);
    lines.close();
    lines.close();
    lines.close();
    lines.add("NEAR_BARRIER();");
    lines.add("UNROLL_BY(4)");
    lines.open("for (int e = lane; e < {}; e += {}) {{", kFragmentRows * columns / width, kTeam);
    lines.add("int of_team = e / {};", columns / width);
    lines.add("int of_row = (e & {}) * {};", columns / width - 1, width);
    lines.add("int in_row = (team_m * {} + i) * {} + of_team;", m, kFragmentRows);
    lines.add("int in_column = team_n * {} + of_row;", columns);
    lines.add("int place = staged_at + of_team * {} + of_row;", stride);
    write_at(lines, words, writer, width);
    lines.close();
    lines.add("NEAR_BARRIER();");
    lines.close();
  }

  void declare_places(Lines& lines, Words& words, std::int64_t first, const RowLayout& layout,
                      std::int64_t tiles) const {
    lines.add("int thread_id = int(THREAD);");
    lines.add("int lane = thread_id & {};", kTeam - 1);
    lines.add("int team_k = thread_id / {};", kTeam * form_.teams_n * form_.teams_m);
    lines.add("int team_m = thread_id / {} & {};", kTeam * form_.teams_n, form_.teams_m - 1);
    lines.add("int team_n = thread_id / {} & {};", kTeam, form_.teams_n - 1);
    lines.add("int count = {};", words.int32(layout.count));
    lines.add("int blocks = {};", words.int32(layout.blocks));
    lines.add("int pieces = {};", words.int32(pieces_));
    lines.add("int stages = {};", words.int32(over(pieces_, form_.teams_k)));
    lines.add("int row_tiles = {};", words.int32(layout.fragments));
    lines.add("int floats_begin = blocks * row_tiles * {};", kFragmentRows * kWordsOfBlock);
    lines.add("{} begin_m = {};", index_, words.index(first, geometry_.wide));
    lines.add("{} size_n = {};", index_, words.index(geometry_.columns, geometry_.wide));
    lines.add("int tiles = {};", words.int32(tiles));
  }

  Launch multiply(std::int64_t first, const RowLayout& layout) const {
    const int m = form_.fragments_m;
    const int outputs = m * form_.fragments_n * 4;
    const std::int64_t tiles_m = over(layout.count, form_.rows());
    const std::int64_t tiles = tiles_m * over(geometry_.columns, form_.columns());
    Words words;
    Lines lines;
    ProgramWriter writer(kernel_.epilogue, geometry_.epilogue, words);
    lines.add("MEMORY b_at = {};", words.early_memory(Patch::Kind::address, b_.input->slot));
    declare_zero(lines, words, ComputeType::f32);
    declare_places(lines, words, first, layout, tiles);
    lines.add("int tile = int(GROUP);");
    lines.add("int side = 0;");
    lines.open("if (tile < tiles) {{");
    declare_tile(lines, words, tiles_m);
    lines.add("int stage = 0;");
    start_columns(lines, words);
    lines.close();
    lines.add("AFTER_EARLIER()");
    lines.add("MEMORY scratch = {};", words.memory(Patch::Kind::scratch, 0));
    writer.declare_buffers(lines);
    lines.open("if (tile < tiles) {{");
    declare_tile(lines, words, tiles_m);
    lines.add("int stage = 0;");
    start_rows(lines);
    lines.close();
    lines.open("while (tile < tiles) {{");
    declare_tile(lines, words, tiles_m);
    if (!parts_k()) lines.add("float total[{}];", outputs);
    lines.add("UNROLL_BY(1)");
    lines.open("for (int stage = 0; stage < stages; stage++) {{");
    lines.add("COPIES_ARRIVED();");
    lines.add("BARRIER();");
    take_apart(lines, words);
    lines.add("BARRIER();");
    lines.add("int of_side = side * {};", form_.row_words(weights_));
    lines.add("side = 1 - side;");
    // What comes behind this stage.
    lines.open("{{");
    lines.add("int behind = stage + 1;");
    lines.add("int tile_behind = tile;");
    lines.open("if (behind == stages) {{");
    lines.add("behind = 0;");
    lines.add("tile_behind = tile + int(GROUPS);");
    lines.close();
    lines.open("if (tile_behind < tiles) {{");
    lines.add("int stage = behind;");
    lines.add("int tile = tile_behind;");
    declare_tile(lines, words, tiles_m);
    start_columns(lines, words);
    start_rows(lines);
    lines.close();
    lines.close();
    lines.add("float partial[{}];", outputs);
    lines.add("UNROLL");
    lines.add("for (int x = 0; x < {}; x++) partial[x] = zero;", outputs);
    if (parts_k()) lines.open("if (stage * {} + team_k < pieces) {{", form_.teams_k);
    multiply_piece(lines, form_, weights_);
    if (parts_k()) {
      lines.close();
      add_parts(lines);
    } else {
      const auto each = [&](const std::string& value) {
        lines.add("UNROLL");
        lines.add("for (int x = 0; x < {}; x++) total[x] = {};", outputs, value);
      };
      lines.open("if (stage == 0) {{");
      each("partial[x]");
      lines.close();
      lines.open("else {{");
      each(added(ComputeType::f32, "total[x]", "partial[x]"));
      lines.close();
    }
    lines.close();
    if (parts_k()) {
      write_parts(lines, words, writer);
    } else {
      write_tile(lines, words, writer);
    }
    lines.add("tile += int(GROUPS);");
    lines.close();
    Launch result;
    result.text.body = lines.take();
    result.text.functions = writer.functions() + piece_.functions();
    result.text.threads = form_.threads();
    result.text.copies = true;
    result.text.byte_products = true;
    result.text.groups_per_unit = form_.groups_per_unit;
    result.text.shared = form_.shared(weights_);
    result.groups =
        limits_.groups_for(std::min<std::int64_t>(tiles, std::int64_t{limits_.units} * form_.groups_per_unit));
    words.move_to(result);
    return result;
  }

  const TeamForm form_;
};

}  // namespace

std::optional<Rendered> render_q8_tiles(const ContractionKernel& kernel, const Geometry& geometry,
                                        const RenderLimits& limits) {
  const Side b("b", kernel.b_operand, geometry.b, geometry, false);
  const bool fits = limits.byte_products && has_whole_pieces(b, geometry);
  if (!fits || geometry.rows * geometry.length >= kFarthestCode) return std::nullopt;
  const TileWeights weights(kernel.b_operand.encoding, first_byte_of(b));
  const std::optional<TeamForm> form = team_form(geometry, weights, limits);
  if (!form) return std::nullopt;
  return Q8Tiles(kernel, geometry, b, weights, *form, limits).render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
