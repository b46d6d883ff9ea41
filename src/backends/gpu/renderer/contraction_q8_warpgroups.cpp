// Many rows times packed weights in q8 numerics (docs/numerics.md section 14) by Hopper's integer tensor cores. A first
// kernel rounds the activations and writes them as workgroups bring them to shared memory: a piece, 256 of k, of a
// tile's rows lies together, codes as wgmma reads them, then floats. How a workgroup multiplies a tile is the dialect's
// (cuda/warpgroup_bytes.cpp); here stand the order of tiles and pieces, what blocks of an encoding hold, and what
// becomes of the totals. Of two matrices (ContractionKernel::paired) half of a tile's columns are those of the second,
// whose totals the epilogue finds in shared memory.
#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "backends/gpu/renderer/contraction_q8.h"
#include "backends/gpu/renderer/contraction_q8_tiles.h"
#include "backends/gpu/renderer/rounded_rows.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kWarpgroup = 128;
constexpr int kGroupColumns = 64;  ///< of weights, of a warpgroup

/// Rows of a tile, groups of 64 columns, warpgroups that share a group's k; whether codes are multiplied as f16, which
/// is for encodings with offsets and one scale for 256 (cuda/warpgroup_halves.cpp).
struct WarpgroupForm {
  int rows, column_groups, parts;
  bool halves = false;
  int slots = 0;

  int columns() const { return column_groups * kGroupColumns; }
  int summing() const { return column_groups * parts; }  ///< warpgroups
  int threads() const { return (1 + summing()) * kWarpgroup; }
  /// Of a thread: what its epilogue reads is on its way together.
  int results_at_once() const { return summing_registers() > 200 ? 16 : std::min(8, rows / (2 * parts)); }
  // What registers there are, of a thread that copies and of one that multiplies.
  int feeding_registers() const { return summing() == 4 ? 24 : summing() == 3 ? 32 : 40; }
  int summing_registers() const { return summing() == 4 ? 112 : summing() == 3 ? 160 : 232; }
};
constexpr WarpgroupForm kWarpgroupForms[] = {{64, 4, 1},       {64, 3, 1},      {128, 2, 1}, {64, 2, 2},
                                             {64, 1, 4},       {32, 2, 2},      {32, 1, 4},  {64, 2, 1, true},
                                             {64, 3, 1, true}, {64, 1, 3, true}};

bool is_read_in_place(Encoding encoding) {
  return encoding == Encoding::q4_0 || encoding == Encoding::q4_1 || encoding == Encoding::q8_0 ||
         encoding == Encoding::q4_k || encoding == Encoding::q5_k;
}

class Q8Warpgroups : TiledProduct {
 public:
  Q8Warpgroups(const ContractionKernel& kernel, const Geometry& geometry, const Side& b, const TileWeights& weights,
               const RenderLimits& limits)
      : TiledProduct(kernel, geometry, b, weights, limits) {
    const double least = choose_form();
    if (!kernel.paired) return;
    const bool has_apart = has_form();
    matrices_ = 2;
    form_ = {};
    if (choose_form() > 2 * least && has_apart) form_ = {};  // two kernels are faster
  }

  bool has_form() const { return form_.slots > 0; }

  Rendered render() const {
    const std::int64_t row_bytes = row_bytes_of_piece(rounded(1)) * pieces_;
    Rendered result =
        render_parts(form_.rows, row_bytes, [&](Rendered& rendered, std::int64_t first, std::int64_t count) {
          rendered.launches.push_back(round_rows(first, count));
          rendered.launches.push_back(multiply(first, count));
        });
    if (result.launches.size() == 2 && has_dense_rows()) result.rounded = rounded(geometry_.rows);
    result.scratch_bytes += static_cast<std::size_t>(handed_bytes());
    return result;
  }

 private:
  /// Whether tensor cores multiply scales, too. Of 64 rows four warpgroups have no registers for it.
  bool scales_by_tensors(const WarpgroupForm& form) const {
    return form.rows == 32 && !weights_.has_factors && !weights_.has_offset;
  }
  RoundedRows rounded(const WarpgroupForm& form, std::int64_t count) const {
    RoundedRows rows{count, geometry_.length, form.rows};
    rows.halves = form.halves;
    rows.sums = weights_.has_offset;
    rows.parts = scales_by_tensors(form);
    return rows;
  }
  RoundedRows rounded(std::int64_t count) const {
    RoundedRows rows = rounded(form_, count);
    const std::int64_t row_tiles = over(count, form_.rows);
    if (divides(row_tiles)) rows.cleared = limits_.units * words_of_totals();
    return rows;
  }
  /// Whether rows of the left operand are all of a value.
  bool has_dense_rows() const {
    const Shape& strides = geometry_.a.strides;
    const bool is_flat = geometry_.m == 0 && geometry_.n == 1 && geometry_.k + 1 == geometry_.shape.rank();
    return is_flat && !geometry_.wide && a_.input->dtype == DType::f32 && !a_.bounded() && geometry_.a.offset == 0 &&
           strides[0] == geometry_.length && strides[geometry_.k] == 1;
  }
  /// Of a column's piece in shared memory: neighbours lie an odd number of 16 bytes apart.
  int stride() const { return (piece_.bytes() / 16 | 1) * 16; }
  std::int64_t slot_bytes(const WarpgroupForm& form) const {
    constexpr std::int64_t kSwizzled = 1024;  // bytes: slots begin at multiples
    return over(form.rows * row_bytes_of_piece(rounded(form, 1)), kSwizzled) * kSwizzled +
           std::int64_t{form.columns()} * stride();
  }
  std::int64_t shared_bytes(const WarpgroupForm& form, int slots) const {
    return 1024 + slots * (slot_bytes(form) + 16) + std::int64_t{form.columns()} * form.rows * 4;
  }

  /// Columns of each matrix.
  int own_columns(const WarpgroupForm& form) const { return form.columns() / matrices_; }
  std::int64_t tiles_of(const WarpgroupForm& form, std::int64_t row_tiles) const {
    return row_tiles * over(geometry_.columns, own_columns(form));
  }
  /// Whether workgroups have equally many pieces rather than tiles, where a second round of tiles would leave units
  /// idle: more than a tile's each, so that two workgroups share a tile at most. Who ends it takes the totals of who
  /// has begun it, the workgroup before, which does that first of all and so waits for nobody.
  bool divides_pieces(std::int64_t tiles) const {
    const std::int64_t groups = limits_.groups_for(limits_.units);
    return matrices_ == 2 && groups == limits_.units && tiles > groups && tiles < 2 * groups;
  }
  bool divides(std::int64_t row_tiles) const { return divides_pieces(tiles_of(form_, row_tiles)); }
  /// Of totals that a workgroup hands on: a word of each warp.
  int words_of_totals() const { return form_.column_groups * kWarpgroup / 32; }
  std::int64_t bytes_of_totals() const { return std::int64_t{form_.columns()} * form_.rows * 4; }
  std::int64_t handed_bytes() const {
    return kernel_.paired ? limits_.units * (bytes_of_totals() + 4 * words_of_totals()) : 0;
  }

  // What a unit has to do, in turns of its schedulers, by an H200: three instructions for each product of a block and
  // some to take a column's block apart; or to read, from the second-level cache. A tile's first pieces are waited for.
  double cost_of(const WarpgroupForm& form, std::int64_t tiles) const {
    constexpr double kBeginning = 6000;
    // With offsets a block has seven instructions, or tensor cores take as long as five.
    constexpr double kHalves = 155;
    const double bytes = (1.5 * form.rows + 30) * (weights_.has_offset ? 2 : 1);
    const double multiplied = form.column_groups * (form.halves ? kHalves : bytes);
    const double read = (form.rows * (form.halves ? 80 : 36) + form.columns() * piece_.bytes() / kQ8BlocksOfSum) / 40.0;
    const auto length = static_cast<double>(pieces_ * kQ8BlocksOfSum);
    const double rounds = divides_pieces(tiles) ? static_cast<double>(tiles) / limits_.units
                                                : static_cast<double>(over(tiles, limits_.units));
    return rounds * (length * std::max(multiplied, read) + kBeginning);
  }
  double choose_form() {
    double least = std::numeric_limits<double>::infinity();
    for (WarpgroupForm form : kWarpgroupForms) {
      if (form.halves && (!weights_.has_offset || info_of(weights_.encoding).elements != kBlock)) continue;
      if (form.column_groups % matrices_ != 0) continue;
      for (form.slots = 6; form.slots > 0; --form.slots) {
        if (shared_bytes(form, form.slots) <= static_cast<std::int64_t>(limits_.shared_bytes)) break;
      }
      const std::int64_t tiles = tiles_of(form, over(geometry_.rows, form.rows));
      // With fewer tiles the kernels whose fragments are smaller are faster.
      if (form.slots < std::max(2, form.parts) || 2 * tiles < limits_.units) continue;
      const double cost = cost_of(form, tiles);
      if (cost >= least) continue;
      least = cost;
      form_ = form;
    }
    return least;
  }

  Launch round_rows(std::int64_t first, std::int64_t count) const {
    constexpr int kNeighbours = 8;
    constexpr int kThreadsOfBlock = order::kQ8Block / kNeighbours;
    const RoundedRows rows = rounded(count);
    const std::int64_t all = row_tiles_of(rows) * form_.rows * pieces_ * kQ8BlocksOfSum * kThreadsOfBlock;
    // Whatever the units of a product are that shares this launch (contraction_siblings.cpp).
    constexpr std::int64_t kFew = 1 << 16;
    const int threads = all < kFew ? kLeastThreads : limits_.threads;
    Words words;
    Lines lines;
    lines.add("MEMORY a_at = {};", words.memory(Patch::Kind::address, a_.input->slot));
    lines.add("int count = {};", words.int32(count));
    lines.add("int all = {};", words.int32(all));
    start_rounding(lines, words, rows, 0, threads);
    lines.open("for (int e = int(GROUP) * {0} + int(THREAD); e < all; e += int(GROUPS) * {0}) {{", threads);
    lines.add("int row = {};", quotient(words, "e", pieces_ * kQ8BlocksOfSum * kThreadsOfBlock, false));
    lines.add("int of_row = e - row * {};", words.int32(pieces_ * kQ8BlocksOfSum * kThreadsOfBlock));
    lines.add("int quarter = of_row & {};", kThreadsOfBlock - 1);
    lines.add("int block = of_row / {};", kThreadsOfBlock);
    lines.add("int read = SELECT(row < count, row, count - 1);");
    lines.add("{0} of_all = {0}(read) + {1};", index_, words.index(first, geometry_.wide));
    load_neighbours(lines, words, geometry_, a_, "of_all",
                    fmt::format("block * {} + {} * quarter", order::kQ8Block, kNeighbours), kNeighbours);
    lines.open("if (row >= count) {{");
    lines.add("UNROLL");
    lines.add("for (int k = 0; k < {}; k++) x[k] = FROM_BITS(0u);", kNeighbours);
    lines.close();
    lines.add("round_neighbours(rounded, row_tiles, row, block, x);");
    lines.close();
    Launch result;
    result.text.body = lines.take();
    result.text.functions = rounding_text(rows, kNeighbours);
    result.text.threads = threads;
    result.text.copies = true;  // for what threads of a block do together
    result.groups = limits_.groups_for(over(all, threads));
    words.move_to(result);
    return result;
  }

  // What the machine calls of a column's piece.
  std::string piece_functions() const {
    Lines lines;
    const auto each_block = [&](const std::string& head, const auto& value) {
      lines.open("FUNCTION {} {{", head);
      for (int block = 0; block < kQ8BlocksOfSum; ++block) lines.add("if (block == {}) {}", block, value(block));
      lines.close();
    };
    const auto number = [&](const std::string& name, const auto& value) {
      lines.open("FUNCTION float {}(int block, const UINT* piece) {{", name);
      for (int block = 0; block < kQ8BlocksOfSum; ++block)
        lines.add("if (block == {}) return {};", block, value(block));
      lines.add("return 0.0f;");
      lines.close();
    };
    each_block("void piece_codes(int block, const UINT* piece, UINT& low, UINT& high)", [&](int block) {
      return fmt::format("{{ low = {}; high = {}; }}", piece_.unscaled_codes(block, 0),
                         piece_.unscaled_codes(block, 4));
    });
    number("piece_scale", [&](int block) { return piece_.scale(block); });
    number("piece_factor", [&](int block) { return fmt::format("float({})", piece_.factor(block, 0)); });
    number("piece_offset", [&](int block) { return weights_.has_offset ? piece_.offset(block) : "0.0f"; });
    number("piece_share", [&](int block) { return fmt::format("float({})", piece_.share(block, 0)); });
    if (scales_by_tensors(form_)) {
      const EncodingInfo& info = info_of(weights_.encoding);
      lines.open("FUNCTION float piece_own_scale(int block, const UINT* piece) {{");
      lines.add("return ANY_DECODE_F16(UINT(((const unsigned short*)piece)[block * {} + {}]));", info.bytes / 2,
                info.first_half / 2);
      lines.close();
    }
    if (form_.halves) {
      // As q4_k and q5_k have them, of which shares are the negative.
      lines.open("FUNCTION void piece_bytes(const UINT* piece, UINT (&factors)[2], UINT (&shares)[2]) {{");
      lines.add("factors[0] = piece[1] & 0x3f3f3f3fu;");
      lines.add("factors[1] = piece[3] & 0x0f0f0f0fu | piece[1] >> 2 & 0x30303030u;");
      lines.add("shares[0] = piece[2] & 0x3f3f3f3fu;");
      lines.add("shares[1] = piece[3] >> 4 & 0x0f0f0f0fu | piece[2] >> 2 & 0x30303030u;");
      lines.close();
    }
    return lines.take();
  }

  // Of tile `tile`: its rows' place, the bytes and the first of its columns, and the last one that there is.
  void declare_tile(Lines& lines, Words& words, std::int64_t row_tiles) const {
    lines.add("int band = {};", quotient(words, "tile", row_tiles, false));
    lines.add("int tile_m = tile - band * row_tiles;");
    lines.add("{0} first_n = {0}(band) * {0}({1});", index_, own_columns(form_));
    lines.add("int last = int(SELECT(size_n - first_n < {0}({1}), size_n - first_n, {0}({1}))) - 1;", index_,
              own_columns(form_));
    lines.add("ULONG columns_at = b_at + ULONG({} + LONG(first_n) * {});", words.int64(first_byte_),
              words.int64(column_bytes_));
  }
  void copy_columns(Lines& lines, const char* piece) const {
    const int own = own_columns(form_);
    for (int m = 0; m < matrices_; ++m) {
      lines.add("machine.copy_columns<{}, {}>(machine.slot, columns_at + ULONG({} * {}){}, column_bytes, last);",
                m * own, own, piece, piece_.bytes(), m == 0 ? "" : " + to_second");
    }
  }
  // A loop over a workgroup's tiles; where pieces are divided, of each has pieces `from` to `to`, the last one first.
  void open_tiles(Lines& lines, bool divides, const std::string& also = "") const {
    lines.add("UNROLL_BY(1)");
    if (!divides) {
      lines.open("for (int tile = int(GROUP); tile < tiles{}; tile += int(GROUPS)) {{", also);
      return;
    }
    lines.open("for (int tile = last_tile; tile >= first_tile{}; tile--) {{", also);
    lines.add("int from = SELECT(tile == first_tile, begin, 0), to = SELECT(tile == last_tile, end, pieces);");
  }

  // Brings pieces to shared memory; those of columns for the first slots were asked for before.
  void feed(Lines& lines, Words& words, std::int64_t row_tiles) const {
    lines.add("int number = 0;");
    const bool has_part = divides(row_tiles);
    open_tiles(lines, has_part);
    declare_tile(lines, words, row_tiles);
    lines.add("UNROLL_BY(1)");
    lines.open("for (int piece = {}; piece < {}; piece++) {{", has_part ? "from" : "0", has_part ? "to" : "pieces");
    lines.open("if (number >= {}) {{", form_.slots);
    lines.add("machine.wait_empty();");
    copy_columns(lines, "piece");
    lines.close();
    lines.open("if (THREAD == 0u) {{");
    lines.add("machine.copy_rows(machine.slot, rounded + ULONG(piece * row_tiles + tile_m) * ULONG({}));",
              form_.rows * row_bytes_of_piece(rounded(1)));
    lines.close();
    lines.add("number++;");
    lines.add("machine.advance(1);");
    lines.close();
    lines.close();
  }
  void feed_early(Lines& lines, Words& words, std::int64_t row_tiles) const {
    lines.add("int number = 0;");
    const bool has_part = divides(row_tiles);
    open_tiles(lines, has_part, fmt::format(" && number < {}", form_.slots));
    declare_tile(lines, words, row_tiles);
    lines.add("UNROLL_BY(1)");
    lines.open("for (int piece = {}; piece < {} && number < {}; piece++) {{", has_part ? "from" : "0",
               has_part ? "to" : "pieces", form_.slots);
    copy_columns(lines, "piece");
    lines.add("number++;");
    lines.add("machine.advance(1);");
    lines.close();
    lines.close();
  }

  void sum(Lines& lines, Words& words, ProgramWriter& writer, std::int64_t row_tiles) const {
    lines.add("int lane = int(THREAD & 31u);");
    lines.add("int warpgroup = int(THREAD / 128u) - 1;");
    lines.add("int group = warpgroup % {};", form_.column_groups);
    lines.add("int part = warpgroup / {};", form_.column_groups);
    lines.add("int own = group % {0}, side = group / {0};", form_.column_groups / matrices_);
    lines.add("int piece = part;");
    const bool has_part = divides(row_tiles);
    // The first one's turn.
    if (has_part) lines.add("if (part == {}) machine.pass_turn(group, part);", form_.parts - 1);
    open_tiles(lines, has_part);
    if (has_part) {
      lines.add("piece += from;");
    } else {
      declare_tile(lines, words, row_tiles);
    }
    const char* const end = has_part ? "to" : "pieces";
    lines.add("UNROLL_BY(1)");
    lines.open("for (; piece < {}; piece += {}) {{", end, form_.parts);
    lines.add("float partial[{}];", form_.rows / 2);
    lines.add("machine.multiply(partial, group);");
    lines.add("{}machine.take_turn(group, part);", has_part ? "" : "if (piece > 0 || tile != int(GROUP)) ");
    if (has_part) {
      lines.add("if (piece > 0 && piece == from) machine.take_totals(totals_at, handed_words, int(GROUP) - 1, group);");
    }
    lines.add("machine.add(partial, group, piece == 0{});", form_.halves ? fmt::format(", piece + 1 == {}", end) : "");
    lines.add("if (piece + 1 < {}) machine.pass_turn(group, part);", end);
    lines.close();
    lines.add("piece -= {};", end);
    // Totals are written by who has added the last piece, or, where nothing else is left to do, by all parts together.
    const char* const is_over = has_part ? "tile == first_tile" : "tile + int(GROUPS) >= tiles";
    lines.add("bool is_over = {};", is_over);
    lines.add("if (is_over) machine.meet(group);");
    lines.open("if (is_over || piece + 1 == {}) {{", form_.parts);
    if (has_part) {
      lines.open("if (to < pieces) {{");
      lines.add("machine.give_totals(totals_at, handed_words, int(GROUP), group);");
      lines.close();
      lines.open("else {{");
      declare_tile(lines, words, row_tiles);
    }
    if (kernel_.paired) lines.add("machine.meet_pair(group, part);");
    write_totals(lines, words, writer);
    if (kernel_.paired) lines.add("if (!is_over) machine.meet_pair(group, part);");
    if (has_part) lines.close();
    lines.add("if ({}) machine.pass_turn(group, part);", has_part ? "!is_over" : "tile + int(GROUPS) < tiles");
    lines.close();
    lines.close();
  }

  // What the epilogue reads of several results is on its way at once, before anything is computed.
  void write_totals(Lines& lines, Words& words, ProgramWriter& writer) const {
    const Program& epilogue = kernel_.epilogue;
    std::set<int> loads, others, outputs;
    for (std::size_t i = 0; i < epilogue.code.size(); ++i) {
      (epilogue.code[i].kind == Instruction::Kind::load ? loads : others).insert(static_cast<int>(i));
    }
    for (std::size_t o = 0; o < epilogue.outputs.size(); ++o) outputs.insert(static_cast<int>(o));
    const int at_once = form_.results_at_once();
    const auto each_result = [&] {
      lines.add("UNROLL");
      lines.open("for (int q = 0; q < {}; q++) {{", at_once);
      lines.add("int row = tile_m * {} + 8 * (j + q / 4) + 2 * (lane & 3) + (q & 1);", form_.rows);
      lines.add("{0} n = first_n + {0}(own * {1} + int(THREAD / 32u & 3u) * 16 + lane / 4 + (q >> 1 & 1) * 8);", index_,
                kGroupColumns);
    };
    const auto find_places = [&](const std::set<int>& instructions, const std::set<int>& stored) {
      lines.add("{0} m = begin_m + {0}(row);", index_);
      lines.add("{0} batch = {0}(0);", index_);
      decompose(lines, words, geometry_.shape, 0, geometry_.m, "batch", "i", geometry_.wide);
      decompose(lines, words, geometry_.shape, geometry_.m, geometry_.n, "m", "i", geometry_.wide);
      decompose(lines, words, geometry_.shape, geometry_.n, geometry_.k, "n", "i", geometry_.wide);
      writer.declare_places(lines, "e", "", 0, geometry_.k, instructions, stored, true);
    };
    lines.add("UNROLL_BY(1)");
    // Of two matrices both groups of the same columns write.
    lines.open(
        "for (int j = (SELECT(is_over, part, 0) * {3} + side) * {0}; j < {1}; j += SELECT(is_over, {2}, 1) * {4}) {{",
        at_once / 4, form_.rows / 8, form_.parts, matrices_, at_once / 4 * matrices_);
    lines.add("float totals[{}][{}];", matrices_, at_once);
    lines.add("UNROLL");
    lines.open("for (int i = 0; i < {}; i++) {{", at_once / 4 * matrices_);
    lines.add("int of = i / {};", at_once / 4);
    lines.add("int at = i % {};", at_once / 4);
    lines.add("float4 four = machine.total(own + of * {}, j + at);", form_.column_groups / matrices_);
    for (const auto& [at, part] : {std::pair{0, "x"}, std::pair{1, "y"}, std::pair{2, "z"}, std::pair{3, "w"}})
      lines.add("totals[of][4 * at + {}] = four.{};", at, part);
    lines.close();
    if (!loads.empty()) {
      for (const int i : loads) lines.add("{} loaded{}[{}];", type_name(writer.type_of(i)), i, at_once);
      each_result();
      lines.add("row = SELECT(row < count, row, count - 1);");
      lines.add("n = SELECT(n < size_n, n, size_n - {}(1));", index_);
      find_places(loads, {});
      for (const int i : loads) {
        writer.emit(lines, i, "e");
        lines.add("loaded{}[q] = {};", i, ProgramWriter::name(i));
      }
      lines.close();
    }
    const bool rounds = rounds_results();
    each_result();
    lines.open("{}{{", rounds ? "" : "if (row < count && n < size_n) ");
    if (rounds) lines.add("row = SELECT(row < count, row, count - 1);");
    lines.add("float accumulator = CANONICAL_F32(totals[0][q]);");
    if (matrices_ == 2) lines.add("float second_accumulator = CANONICAL_F32(totals[1][q]);");
    find_places(others, outputs);
    for (const int i : loads)
      lines.add("{0} {1} = loaded{2}[q];", type_name(writer.type_of(i)), ProgramWriter::name(i), i);
    for (const int i : others) writer.emit(lines, i, "e");
    if (rounds) {
      lines.add("totals[0][q] = {};", ProgramWriter::name(epilogue.outputs[0].value));
    } else {
      for (const int o : outputs) writer.store(lines, o, "e");
    }
    lines.close();
    lines.close();
    if (rounds) round_results(lines);
    lines.close();
  }

  /// Whether results are made as RoundedRows: tiles are whole along their rows, and a warpgroup's columns two blocks.
  bool rounds_results() const {
    const std::vector<Output>& outputs = kernel_.epilogue.outputs;
    if (outputs.size() != 1 || kernel_.b.numel() != 1) return false;
    const Output& output = outputs[0];
    const RoundedRows& rows = limits_.makes;
    const View& view = geometry_.epilogue.outputs[0];
    const bool is_flat = geometry_.m == 0 && geometry_.n == 1 && geometry_.k == 2 && !geometry_.wide &&
                         view.offset == 0 && view.strides[0] == geometry_.columns && view.strides[1] == 1;
    return rows.tile_rows != 0 && rows.rows == geometry_.rows && rows.length == geometry_.columns &&
           geometry_.columns % own_columns(form_) == 0 && form_.results_at_once() % 8 == 0 && is_flat && !output.bits &&
           output.dtype == DType::f32 &&
           kernel_.epilogue.code[static_cast<std::size_t>(output.value)].type == ComputeType::f32 &&
           rows.cleared == 0 && over(rows.rows, form_.rows) * form_.rows <= row_tiles_of(rows) * rows.tile_rows;
  }
  // What a warpgroup has made of some rows goes by way of their totals' place to threads that have neighbours.
  void round_results(Lines& lines) const {
    const int at_once = form_.results_at_once();
    lines.add("UNROLL");
    lines.add(
        "for (int i = 0; i < {}; i++) machine.total(own, j + i) = make_float4(totals[0][4 * i], totals[0][4 * i + 1], "
        "totals[0][4 * i + 2], totals[0][4 * i + 3]);",
        at_once / 4);
    lines.add("machine.meet_own(group, part);");
    lines.add("UNROLL");
    lines.open("for (int i = 0; i < {}; i++) {{", at_once / 8);
    lines.add("int row = 8 * j + i * 16 + int(THREAD / 8u & 15u);");
    lines.add("int eighth = int(THREAD & 7u);");
    lines.add("float x[8];");
    lines.add("UNROLL");
    lines.add("for (int k = 0; k < 8; k++) x[k] = machine.result(own, row, eighth * 8 + k);");
    lines.add("row += tile_m * {};", form_.rows);
    lines.open("if (row >= count) {{");
    lines.add("UNROLL");
    lines.add("for (int k = 0; k < 8; k++) x[k] = FROM_BITS(0u);");
    lines.close();
    lines.add("round_neighbours(to_round, rounded_tiles, row, int(first_n) / {} + own * 2 + eighth / 4, x);",
              order::kQ8Block);
    lines.close();
    if (!kernel_.paired) lines.add("machine.meet_own(group, part);");  // the next tile's totals
  }

  // Its share of all tiles' pieces: from piece `begin` of its first tile to piece `end` of its last one.
  void declare_pieces(Lines& lines, Words& words, std::int64_t tiles, std::uint32_t groups) const {
    const std::int64_t all = tiles * pieces_;
    const std::string more = words.int32(all % groups);
    lines.add("int begin = int(GROUP) * {0} + SELECT(int(GROUP) < {1}, int(GROUP), {1});", words.int32(all / groups),
              more);
    lines.add("int end = begin + {} - SELECT(int(GROUP) < {}, 0, 1);", words.int32(all / groups + 1), more);
    lines.add("int first_tile = begin / pieces, last_tile = (end - 1) / pieces;");
    lines.add("begin -= first_tile * pieces, end -= last_tile * pieces;");
  }

  Launch multiply(std::int64_t first, std::int64_t count) const {
    const std::int64_t row_tiles = over(count, form_.rows);
    const std::int64_t tiles = tiles_of(form_, row_tiles);
    Launch result;
    Words words;
    Lines lines;
    ProgramWriter writer(kernel_.epilogue, geometry_.epilogue, words);
    lines.add("MEMORY b_at = {};", words.early_memory(Patch::Kind::address, b_.input->slot));
    if (kernel_.paired) {
      lines.add("ULONG to_second = {} - b_at;", words.early_memory(Patch::Kind::address, kernel_.second.slot));
    }
    declare_zero(lines, words, ComputeType::f32);
    lines.add("int count = {};", words.int32(count));
    lines.add("int pieces = {};", words.int32(pieces_));
    lines.add("int row_tiles = {};", words.int32(row_tiles));
    lines.add("int tiles = {};", words.int32(tiles));
    lines.add("UINT column_bytes = {};", words.uint32(static_cast<std::uint32_t>(column_bytes_)));
    lines.add("{} begin_m = {};", index_, words.index(first, geometry_.wide));
    lines.add("{} size_n = {};", index_, words.index(geometry_.columns, geometry_.wide));
    result.groups = limits_.groups_for(std::min<std::int64_t>(tiles, limits_.units));
    if (divides(row_tiles)) declare_pieces(lines, words, tiles, result.groups);
    if (form_.halves) {
      lines.add("WarpgroupHalves<{}, {}, {}, {}, {}, {}> machine;", form_.column_groups, form_.parts, form_.slots,
                piece_.bytes(), stride(), form_.rows * row_bytes_of_piece(rounded(1)));
    } else {
      lines.add("WarpgroupBytes<{}, {}, {}, {}, {}, {}, {}, {}, {}> machine;", form_.rows, form_.column_groups,
                form_.parts, form_.slots, piece_.bytes(), stride(), weights_.has_factors, weights_.has_offset,
                scales_by_tensors(form_));
    }
    lines.add("machine.start(machine_memory);");
    lines.open("if (THREAD < {}u) {{", kWarpgroup);
    // First of all: who copies gives registers back once its copies have arrived.
    lines.add("FEWER_REGISTERS({})", form_.feeding_registers());
    lines.open("{{");
    feed_early(lines, words, row_tiles);
    lines.close();
    lines.add("machine.slot = 0;");
    lines.add("machine.parity = 0;");
    lines.add("AFTER_EARLIER()");
    lines.add("MEMORY rounded = {};", words.memory(Patch::Kind::scratch, 0));
    feed(lines, words, row_tiles);
    lines.close();
    lines.open("else {{");
    lines.add("MORE_REGISTERS({})", form_.summing_registers());
    lines.add("AFTER_EARLIER()");
    writer.declare_buffers(lines);
    if (rounds_results()) {
      lines.add("MEMORY to_round = {};", words.memory(Patch::Kind::scratch, 1));
      lines.add("int rounded_tiles = {};", words.int32(row_tiles_of(limits_.makes)));
      result.text.functions = rounding_text(limits_.makes, 8);
      result.text.copies = true;
      result.rounds = true;
    }
    lines.add("machine.advance(int(THREAD / 128u - 1u) / {});", form_.column_groups);
    if (divides(row_tiles)) {
      // Behind rows: words, which who rounds these clears, and totals.
      const RoundedRows rows = rounded(count);
      lines.add("MEMORY handed_words = {} + ULONG({});", words.memory(Patch::Kind::scratch, 0),
                words.int64(rounded_bytes(rows)));
      lines.add("MEMORY totals_at = handed_words + ULONG({});", 4 * rows.cleared);
    }
    sum(lines, words, writer, row_tiles);
    lines.close();
    result.text.body = lines.take();
    result.text.functions += writer.functions() + piece_.functions() + piece_functions();
    result.text.threads = form_.threads();
    result.text.byte_products = true;
    result.text.warpgroup_bytes = true;
    result.text.warpgroup_halves = form_.halves;
    result.text.groups_per_unit = 1;
    result.text.shared.push_back(
        {ComputeType::i32, "machine_memory", static_cast<int>(over(shared_bytes(form_, form_.slots), 4))});
    words.move_to(result);
    return result;
  }

  WarpgroupForm form_{};
  int matrices_ = 1;  ///< whose columns a tile has
};

}  // namespace

std::optional<Rendered> render_q8_warpgroups(const ContractionKernel& kernel, const Geometry& geometry,
                                             const RenderLimits& limits) {
  constexpr std::int64_t kLeastRows = 33;
  const Side b("b", kernel.b_operand, geometry.b, geometry, false);
  const bool fits = limits.integer_tiles && limits.byte_products && geometry.rows >= kLeastRows &&
                    geometry.rows * geometry.length < kFarthestCode && is_read_in_place(kernel.b_operand.encoding);
  if (!fits || !has_whole_pieces(b, geometry)) return std::nullopt;
  const TileWeights weights(kernel.b_operand.encoding, first_byte_of(b));
  if (!weights.is_aligned) return std::nullopt;
  const Q8Warpgroups kernels(kernel, geometry, b, weights, limits);
  if (!kernels.has_form()) return std::nullopt;
  return kernels.render();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
