// What becomes of a tile's sums: those of a block are added or stored, those of all pass through the epilogue.
#include <algorithm>

#include "backends/gpu/renderer/contraction_tiles.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

void TileKernel::open_outputs() {
  lines_.add("UNROLL");
  lines_.open("for (int x = 0; x < {}; x++) {{", each_m());
  lines_.add("UNROLL");
  lines_.open("for (int s = 0; s < {}; s++) {{", form_.subtiles_n);
  lines_.add("int row = thread_m + (x >> 2) * 32 + (x & 3);");
  lines_.add("int column = thread_n + s * 16;");
}

void TileKernel::end_block() {
  const std::string at = fmt::format("x * {} + s * 4", each_n());
  if (is_split()) {
    lines_.add("LONG from = (LONG(block_k / {}({})) * LONG(tiles) + LONG(tile)) * LONG({});", index_, kBlock,
               form_.rows() * form_.columns());
    open_outputs();
    lines_.add("LONG to = from + LONG(row * {} + column);", form_.columns());
    store4(at);
    close_outputs();
  } else if (form_.shared_totals) {
    open_outputs();
    lines_.add("int at = row * {} + column;", stage_stride());
    lines_.open("if (block_k > begin_k) {{");
    lines_.add("{} before[4];", type_);
    read4("stage", "at", "before", "0");
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < 4; i++) partial[{0} + i] = {1};", at,
               added(kernel_.type, "before[i]", fmt::format("partial[{} + i]", at)));
    lines_.close();
    write4("stage", "at", "partial", at);
    close_outputs();
  } else {
    lines_.add("UNROLL");
    lines_.add("for (int x = 0; x < {}; x++) total[x] = SELECT(block_k == begin_k, partial[x], {});",
               each_m() * each_n(), added(kernel_.type, "total[x]", "partial[x]"));
  }
}

void TileKernel::store4(const std::string& at) {
  if (single_) {
    lines_.add("UINT words[4];");
    lines_.add("UNROLL");
    lines_.add("for (int i = 0; i < 4; i++) words[i] = {};",
               encoded(kernel_.type == ComputeType::f32 ? DType::f32 : DType::i32, fmt::format("partial[{} + i]", at),
                       kernel_.type));
    lines_.add("STORE4_U32(scratch, to, words)");
  } else {
    lines_.add("for (int i = 0; i < 4; i++) STORE_U64(scratch, to + LONG(i), {});",
               encoded(kernel_.type == ComputeType::f64 ? DType::f64 : DType::i64, fmt::format("partial[{} + i]", at),
                       kernel_.type));
  }
}

void TileKernel::fill_fixed() {
  const Program& program = kernel_.epilogue;
  fixed_ = writer_.fixed_along(geometry_.n, geometry_.k);
  const auto needs = [&](int i) {
    if (i >= 0 && fixed_.contains(i)) shared_fixed_.insert(i);
  };
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    if (fixed_.contains(static_cast<int>(i))) continue;
    for (const int operand : {program.code[i].a, program.code[i].b, program.code[i].c}) needs(operand);
  }
  for (const Output& output : program.outputs) needs(output.value);
  // Constants are parameters already.
  const auto loads = [&](int i) {
    return program.code[static_cast<std::size_t>(i)].kind != Instruction::Kind::constant;
  };
  if (shared_fixed_.size() > kMostFixed || std::none_of(fixed_.begin(), fixed_.end(), loads)) {
    fixed_.clear();
    shared_fixed_.clear();
    return;
  }
  lines_.open("{{");
  writer_.declare_places(lines_, "b", "", 0, geometry_.m, fixed_, {}, false);
  lines_.open("for (int row = thread_id; row < {}; row += {}) {{", form_.rows(), form_.threads());
  lines_.add("{0} m = first_m + {0}(row);", index_);
  lines_.add("m = SELECT(m < size_m, m, size_m - {}(1));", index_);
  decompose(lines_, words_, geometry_.shape, geometry_.m, geometry_.n, "m", "i", geometry_.wide);
  writer_.declare_places(lines_, "e", "b", geometry_.m, geometry_.n, fixed_, {}, true);
  for (const int i : fixed_) writer_.emit(lines_, i, "e");
  for (const int i : shared_fixed_) {
    lines_.add("fixed{}[row] = {};", i, ProgramWriter::name(i));
    shared_.push_back({writer_.type_of(i), fmt::format("fixed{}", i), form_.rows()});
  }
  lines_.close();
  lines_.close();
}

void TileKernel::write_outputs() {
  const Program& program = kernel_.epilogue;
  std::set<int> instructions;
  std::set<int> outputs;
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    if (!fixed_.contains(static_cast<int>(i))) instructions.insert(static_cast<int>(i));
  }
  for (std::size_t o = 0; o < program.outputs.size(); ++o) outputs.insert(static_cast<int>(o));
  const char* sums = has_totals() ? "total" : "partial";
  const int columns = form_.columns();
  const bool staged = form_.shared_totals && has_totals();
  const int stage_rows = form_.shared_totals ? form_.rows() : kStageRows;
  const bool vectors = geometry_.k > geometry_.n && writer_.choose_vectors_for(instructions, outputs);
  const int lanes = columns / (vectors ? 4 : 1);  // threads of a row
  lines_.add("int column = (thread_id & {}) * {};", lanes - 1, columns / lanes);
  lines_.add("{0} n = first_n + {0}(column);", index_);
  decompose(lines_, words_, geometry_.shape, geometry_.n, geometry_.k, "n", "i", geometry_.wide);
  writer_.declare_places(lines_, "b", "", 0, geometry_.m, instructions, outputs, false);
  writer_.declare_places(lines_, "n", "b", geometry_.n, geometry_.k, instructions, outputs, false);
  lines_.open("for (int stage_m = 0; stage_m < {}; stage_m += {}) {{", form_.rows(), stage_rows);
  if (!staged) {
    lines_.open("{{");
    open_outputs();
    lines_.open("if (row >= stage_m && row < stage_m + {}) {{", stage_rows);
    write4("stage", fmt::format("(row - stage_m) * {} + column", stage_stride()), sums,
           fmt::format("x * {} + s * 4", each_n()));
    lines_.close();
    close_outputs();
    lines_.close();
    lines_.add("BARRIER();");
  }
  lines_.open("for (int row = thread_id / {0}; row < {1}; row += {2}) {{", lanes, stage_rows, form_.threads() / lanes);
  lines_.add("{0} m = first_m + {0}(stage_m + row);", index_);
  lines_.open("if (m < size_m && n < size_n) {{");
  decompose(lines_, words_, geometry_.shape, geometry_.m, geometry_.n, "m", "i", geometry_.wide);
  const std::string at = fmt::format("row * {} + column", stage_stride());
  if (vectors) {
    lines_.add("{} results[4];", type_);
    read4("stage", at, "results", "0");
  }
  writer_.declare_places(lines_, "e", "n", geometry_.m, geometry_.n, instructions, outputs, true);
  for (const int i : shared_fixed_) {
    lines_.add("{} {} = fixed{}[stage_m + row];", type_name(writer_.type_of(i)), ProgramWriter::name(i), i);
  }
  if (vectors) {
    writer_.load_vectors(lines_, "e", "0", instructions, outputs);
    lines_.add("UNROLL");
    lines_.open("for (int q = 0; q < 4; q++) {{");
  }
  lines_.add("{} accumulator = {}({});", type_, canonical_of(kernel_.type),
             vectors ? "results[q]" : fmt::format("stage[{}]", at));
  if (ends_by_tile()) lines_.add("accumulator = accumulator + zero;");
  for (const int i : instructions) writer_.emit(lines_, i, "e");
  for (const int o : outputs) writer_.store(lines_, o, "e");
  if (vectors) {
    lines_.close();
    writer_.store_vectors(lines_, "e", "0", outputs);
  }
  lines_.close();
  lines_.close();
  lines_.add("BARRIER();");
  lines_.close();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
