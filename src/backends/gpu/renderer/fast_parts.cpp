#include "backends/gpu/renderer/fast_parts.h"

#include <algorithm>

#include "backends/gpu/renderer/kinds.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using FastKind = Instruction::Kind;

constexpr std::int64_t kRegionBytes = 256;

}  // namespace

std::int64_t FastParts::reserve(std::int64_t elements, DType dtype) {
  const auto at = static_cast<std::int64_t>(rendered_.scratch_bytes);
  rendered_.scratch_bytes +=
      static_cast<std::size_t>(aligned(elements * static_cast<std::int64_t>(size_of(dtype)), kRegionBytes));
  return at;
}

void FastParts::append(Program program) {
  Rendered rows = render_kernel(RowKernel{std::move(program)}, limits_);
  LOCKSTEP_ASSERT(rows.scratch_bytes == 0);
  for (Launch& launch : rows.launches) {
    for (Patch& patch : launch.patches) {
      if (patch.kind == Patch::Kind::address && patch.index == kScratchSlot) patch.kind = Patch::Kind::scratch;
    }
    rendered_.launches.push_back(std::move(launch));
  }
}

void FastParts::append_copy(const Input& input, const View& view, const Shape& strides, std::int64_t offset,
                            DType dtype) {
  Program program;
  program.rows = view.shape;
  program.inputs.push_back({.slot = input.slot, .dtype = input.dtype, .view = view, .canonical = input.canonical});
  program.code.push_back({.kind = FastKind::load, .type = ComputeType::f32, .dtype = input.dtype, .index = 0});
  program.outputs.push_back({.slot = kScratchSlot, .dtype = dtype, .value = 0, .strides = strides, .offset = offset});
  append(std::move(program));
}

void FastParts::append_epilogue(Program program, View sums, DType dtype) {
  const int input = static_cast<int>(program.inputs.size());
  program.inputs.push_back({.slot = kScratchSlot, .dtype = dtype, .view = std::move(sums)});
  for (Instruction& step : program.code) {
    step.extent = Extent::vector;
    if (step.kind != FastKind::accumulator) continue;
    step.kind = FastKind::load;
    step.dtype = dtype;
    step.index = input;
  }
  append(std::move(program));
}

void FastParts::append_call(LibraryCall call, std::vector<Patch> words) {
  Launch launch;
  launch.words.resize(2 * words.size());
  launch.patches = std::move(words);
  launch.call = std::move(call);
  rendered_.launches.push_back(std::move(launch));
}

Patch place_in_scratch(int number, std::int64_t offset) {
  return {.kind = Patch::Kind::scratch, .word = 2 * number, .offset = offset};
}

Patch place_in_form(int number, std::int64_t offset) {
  return {.kind = Patch::Kind::form, .word = 2 * number, .offset = offset};
}

Patch place_in_slot(int number, int slot, std::int64_t offset) {
  return {.kind = Patch::Kind::address, .word = 2 * number, .index = slot, .offset = offset};
}

bool rounds_first(const Program& epilogue, DType dtype) {
  if (dtype == DType::f32) return false;
  const std::vector<Instruction>& code = epilogue.code;
  for (std::size_t i = 0; i < code.size(); ++i) {
    if (code[i].kind != FastKind::accumulator) continue;
    const int sum = static_cast<int>(i);
    for (const Instruction& user : code) {
      if (user.a != sum && user.b != sum && user.c != sum) continue;
      if (user.kind != FastKind::cast || user.dtype != dtype) return false;
    }
    for (const Output& output : epilogue.outputs) {
      if (output.value == sum && (output.bits || output.dtype != dtype)) return false;
    }
  }
  return true;
}

bool only_stores(const Program& epilogue, DType dtype) {
  if (epilogue.outputs.size() != 1 || epilogue.outputs[0].bits) return false;
  const DType stored = epilogue.outputs[0].dtype;
  if (stored != DType::f32 && (stored != dtype || !rounds_first(epilogue, dtype))) return false;
  return std::all_of(epilogue.code.begin(), epilogue.code.end(), [&](const Instruction& step) {
    return step.kind == FastKind::accumulator || (step.kind == FastKind::cast && step.dtype == stored);
  });
}

namespace {

std::size_t nth(int i) {
  return static_cast<std::size_t>(i);
}

// The instructions that outputs take, in their order.
void drop_unused(Program& program) {
  std::vector<bool> used(program.code.size(), false);
  for (const Output& output : program.outputs) used[nth(output.value)] = true;
  for (std::size_t i = program.code.size(); i-- > 0;) {
    if (!used[i]) continue;
    for (const int operand : {program.code[i].a, program.code[i].b, program.code[i].c}) {
      if (operand >= 0) used[nth(operand)] = true;
    }
  }
  std::vector<int> place(program.code.size(), -1);
  std::vector<Instruction> code;
  for (std::size_t i = 0; i < program.code.size(); ++i) {
    if (!used[i]) continue;
    place[i] = static_cast<int>(code.size());
    code.push_back(program.code[i]);
    for (int* operand : {&code.back().a, &code.back().b, &code.back().c}) {
      if (*operand >= 0) *operand = place[nth(*operand)];
    }
  }
  for (Output& output : program.outputs) output.value = place[nth(output.value)];
  program.code = std::move(code);
}

// The input that a value is, after casts that rounding to `dtype` at once does as well.
std::optional<int> rounded_input(const Program& program, int value, DType dtype) {
  bool rounded = false;
  while (program.code[nth(value)].kind == FastKind::cast) {
    const Instruction& cast = program.code[nth(value)];
    if (cast.dtype != DType::f32 && cast.dtype != dtype) return std::nullopt;
    rounded = rounded || cast.dtype == dtype;
    value = cast.a;
  }
  const Instruction& load = program.code[nth(value)];
  if (load.kind != FastKind::load || !(rounded || load.dtype == dtype)) return std::nullopt;
  return load.dtype == dtype || load.dtype == DType::f32 ? std::optional(load.index) : std::nullopt;
}

}  // namespace

std::optional<AddedInput> added_input(const Program& epilogue, DType dtype) {
  int sum = -1;
  for (std::size_t i = 0; i < epilogue.code.size(); ++i) {
    if (epilogue.code[i].kind == FastKind::accumulator) sum = static_cast<int>(i);
  }
  int user = -1;
  for (std::size_t i = 0; i < epilogue.code.size(); ++i) {
    const Instruction& step = epilogue.code[i];
    if (step.a != sum && step.b != sum && step.c != sum) continue;
    if (user >= 0) return std::nullopt;
    user = static_cast<int>(i);
  }
  for (const Output& output : epilogue.outputs) {
    if (output.value == sum) return std::nullopt;
  }
  if (sum < 0 || user < 0) return std::nullopt;
  const Instruction add = epilogue.code[nth(user)];
  if (add.kind != FastKind::elementwise || add.op != Op::add || add.a == add.b) return std::nullopt;
  const std::optional<int> input = rounded_input(epilogue, add.a == sum ? add.b : add.a, dtype);
  if (!input || epilogue.inputs[nth(*input)].encoding != Encoding::dense) return std::nullopt;
  AddedInput result{*input, epilogue};
  result.rest.code[nth(user)] = {.kind = FastKind::accumulator, .type = add.type, .dtype = add.dtype};
  drop_unused(result.rest);
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
