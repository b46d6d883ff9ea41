// Neighbours in memory that are moved at once: which inputs and outputs of a Program lie so, and their loads and
// stores.
#include "backends/gpu/renderer/program.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Kind = Instruction::Kind;

// Elements of up to 4 bytes that lie side by side along dimension `along`, groups of `width` of them aligned.
bool has_vectors(const View& view, DType dtype, int width, int along) {
  if (size_of(dtype) > 4 || !view.bounds.empty() || view.strides[along] != 1 || view.offset % width != 0) return false;
  for (int d = 0; d < view.rank(); ++d) {
    if (d != along && view.strides[d] % width != 0) return false;
  }
  return true;
}

// The same along the last dimension.
bool has_vectors(const View& view, DType dtype, int width) {
  return has_vectors(view, dtype, width, view.rank() - 1);
}

// Or with borders, within which neighbours are together, or beyond them.
bool has_bounded_vectors(View view, DType dtype, int width) {
  for (const Bound& bound : view.bounds) {
    if (bound.m[view.rank() - 1] != 0 || bound.step > 1) return false;
  }
  view.bounds.clear();
  return has_vectors(view, dtype, width);
}

}  // namespace

bool ProgramWriter::choose_vectors(int most, bool bounded, std::size_t most_code) {
  const Shape& shape = space_.shape;
  if (shape.rank() == 0) return false;
  for (const int width : {8, 4}) {
    if (width > most || shape[shape.rank() - 1] % width != 0) continue;
    std::set<int> inputs;
    std::set<int> outputs;
    std::size_t largest = 0;
    for (const Instruction& step : program_.code) {
      if (step.kind != Kind::load && step.kind != Kind::load_bits) continue;
      const auto i = static_cast<std::size_t>(step.index);
      const View& view = space_.inputs[i];
      const DType dtype = program_.inputs[i].dtype;
      if (bounded ? !has_bounded_vectors(view, dtype, width) : !has_vectors(view, dtype, width)) continue;
      inputs.insert(step.index);
      largest = std::max(largest, size_of(program_.inputs[i].dtype));
    }
    for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
      if (!has_vectors(space_.outputs[o], program_.outputs[o].dtype, width)) continue;
      outputs.insert(static_cast<int>(o));
      largest = std::max(largest, size_of(program_.outputs[o].dtype));
    }
    if (inputs.empty() && outputs.empty()) continue;
    if (width == 8 && (largest > 2 || program_.code.size() > most_code)) continue;
    width_ = width;
    vector_inputs_ = std::move(inputs);
    vector_outputs_ = std::move(outputs);
    return true;
  }
  return false;
}

bool ProgramWriter::choose_twos() {
  constexpr int kWidth = 2;
  const int rank = space_.shape.rank();
  if (rank == 0 || space_.shape[rank - 1] % kWidth != 0) return false;
  const auto is_such = [](const View& view, DType dtype) {
    return size_of(dtype) >= 2 && has_vectors(view, dtype, kWidth);
  };
  std::set<int> inputs;
  std::set<int> outputs;
  for (const Instruction& step : program_.code) {
    if (step.kind == Kind::gather || step.kind == Kind::gather_bits) return false;
    if (step.kind != Kind::load && step.kind != Kind::load_bits) continue;
    if (step.extent == Extent::row) continue;
    const auto i = static_cast<std::size_t>(step.index);
    if (!is_such(space_.inputs[i], program_.inputs[i].dtype)) return false;
    inputs.insert(step.index);
  }
  for (std::size_t o = 0; o < program_.outputs.size(); ++o) {
    if (program_.code[static_cast<std::size_t>(program_.outputs[o].value)].extent == Extent::row) continue;
    if (!is_such(space_.outputs[o], program_.outputs[o].dtype)) return false;
    outputs.insert(static_cast<int>(o));
  }
  width_ = kWidth;
  vector_inputs_ = std::move(inputs);
  vector_outputs_ = std::move(outputs);
  return true;
}

bool ProgramWriter::choose_vectors_for(const std::set<int>& instructions, const std::set<int>& outputs) {
  constexpr int kWidth = 4;
  const Shape& shape = space_.shape;
  if (shape.rank() == 0 || shape[shape.rank() - 1] % kWidth != 0) return false;
  std::set<int> inputs;
  for (const int i : instructions) {
    const Instruction& step = program_.code[static_cast<std::size_t>(i)];
    if (step.kind == Kind::iota) return false;
    if (step.kind != Kind::load && step.kind != Kind::load_bits) continue;
    const auto index = static_cast<std::size_t>(step.index);
    if (!has_vectors(space_.inputs[index], program_.inputs[index].dtype, kWidth)) return false;
    inputs.insert(step.index);
  }
  for (const int o : outputs) {
    const auto index = static_cast<std::size_t>(o);
    if (!has_vectors(space_.outputs[index], program_.outputs[index].dtype, kWidth)) return false;
  }
  width_ = kWidth;
  vector_inputs_ = std::move(inputs);
  vector_outputs_ = outputs;
  return true;
}

bool ProgramWriter::choose_pairs(int d, const std::set<int>& instructions) {
  constexpr int kWidth = 2;
  if (space_.shape[d] % kWidth != 0) return false;
  const std::set<int> fixed = fixed_along(d, d + 1);
  std::set<int> inputs;
  for (const int i : instructions) {
    const Instruction& step = program_.code[static_cast<std::size_t>(i)];
    if (fixed.contains(i)) continue;
    if (step.kind == Kind::iota) return false;
    if (step.kind != Kind::load && step.kind != Kind::load_bits) continue;
    const auto index = static_cast<std::size_t>(step.index);
    const DType dtype = program_.inputs[index].dtype;
    if (size_of(dtype) != 2 || !has_vectors(space_.inputs[index], dtype, kWidth, d)) return false;
    inputs.insert(step.index);
  }
  if (inputs.empty()) return false;
  width_ = kWidth;
  vector_inputs_ = std::move(inputs);
  vector_outputs_.clear();
  return true;
}

bool ProgramWriter::moves_canonical(DType dtype, int i) const {
  const int index = program_.code[static_cast<std::size_t>(i)].index;
  const Input& input = program_.inputs[static_cast<std::size_t>(index)];
  return vector_inputs_.contains(index) && input.dtype == dtype && input.canonical;
}

std::set<int> ProgramWriter::vector_inputs_of(const std::set<int>& instructions) const {
  std::set<int> inputs;
  for (const int i : instructions) {
    const Instruction& step = program_.code[static_cast<std::size_t>(i)];
    const bool loads = step.kind == Kind::load || step.kind == Kind::load_bits;
    if (loads && vector_inputs_.contains(step.index)) inputs.insert(step.index);
  }
  return inputs;
}

void ProgramWriter::load_vectors(Lines& lines, const std::string& part, const std::string& first,
                                 const std::set<int>& instructions, const std::set<int>& outputs,
                                 const Copies& taken) const {
  for (const int i : vector_inputs_of(instructions)) {
    if (taken.contains(i)) continue;
    const Input& input = program_.inputs[static_cast<std::size_t>(i)];
    lines.add("UINT in{}_words[{}];", i, width_);
    const Access access(fmt::format("in{}", i), space_.inputs[static_cast<std::size_t>(i)], space_.wide);
    if (access.bounded()) {
      lines.add("UNROLL");
      lines.add("for (int q = 0; q < {}; q++) in{}_words[q] = {};", width_, i, words_.uint32(input.view.fill));
      access.check_bounds(lines, words_, part);
      lines.open("if ({}) {{", access.inside(part));
    }
    lines.add("LOAD{}_U{}({}, in{}_{} + {}, in{}_words)", width_, 8 * size_of(input.dtype), slot(input.slot), i, part,
              first, i);
    if (access.bounded()) lines.close();
  }
  declare_words(lines, outputs);
}

void ProgramWriter::declare_words(Lines& lines, const std::set<int>& outputs) const {
  for (const int o : outputs) {
    if (!vector_outputs_.contains(o)) continue;
    lines.add("{} out{}_words[{}];", rounds_at_store(o) ? "float" : "UINT", o, width_);
  }
}

bool ProgramWriter::rounds_at_store(int output) const {
  const Output& out = program_.outputs[static_cast<std::size_t>(output)];
  if (out.bits || type_of(out.value) != ComputeType::f32) return false;
  return out.dtype == DType::f16 || (out.dtype == DType::bf16 && !roundings_.bf16[static_cast<std::size_t>(out.value)]);
}

void ProgramWriter::declare_batch(Lines& lines, int count, const std::set<int>& instructions) {
  batched_ = true;
  for (const int i : vector_inputs_of(instructions)) lines.add("UINT in{}_words[{}][{}];", i, count, width_);
}

void ProgramWriter::load_batch(Lines& lines, const std::string& part, const std::string& first,
                               const std::set<int>& instructions) const {
  for (const int i : vector_inputs_of(instructions)) {
    const Input& input = program_.inputs[static_cast<std::size_t>(i)];
    lines.add("LOAD{}_U{}({}, in{}_{} + {}, in{}_words[b])", width_, 8 * size_of(input.dtype), slot(input.slot), i,
              part, first, i);
  }
}

std::set<int> ProgramWriter::vector_inputs_by_row(const std::set<int>& instructions) const {
  std::set<int> inputs = vector_inputs_of(instructions);
  std::erase_if(inputs, [&](int i) {
    const View& view = space_.inputs[static_cast<std::size_t>(i)];
    for (int d = 0; d < space_.rows; ++d) {
      if (view.strides[d] != 0) return false;
    }
    return true;
  });
  return inputs;
}

std::size_t ProgramWriter::bytes_at_once(int input) const {
  return static_cast<std::size_t>(width_) * size_of(program_.inputs[static_cast<std::size_t>(input)].dtype);
}

void ProgramWriter::start_copies(Lines& lines, const std::string& part, const std::string& first, const std::string& at,
                                 const Copies& copies) const {
  for (const auto& [i, array] : copies) {
    const Input& input = program_.inputs[static_cast<std::size_t>(i)];
    lines.add("COPY_TO_SHARED({}, {}, {}, {} + ULONG(in{}_{} + {}) * {})", array, at, bytes_at_once(i),
              slot(input.slot), i, part, first, size_of(input.dtype));
  }
}

void ProgramWriter::take_copies(Lines& lines, const std::string& at, const Copies& copies) const {
  for (const auto& [i, array] : copies) {
    lines.add("UINT in{}_words[{}];", i, width_);
    lines.add("TAKE{}_U{}({}, {}, in{}_words)", width_, 8 * size_of(program_.inputs[static_cast<std::size_t>(i)].dtype),
              array, at, i);
  }
}

void ProgramWriter::store_vectors(Lines& lines, const std::string& part, const std::string& first,
                                  const std::set<int>& outputs) {
  for (const int o : outputs) {
    if (!vector_outputs_.contains(o)) continue;
    const Output& out = program_.outputs[static_cast<std::size_t>(o)];
    const std::string words =
        rounded_.contains(o) ? "ROUNDED"
        : rounds_at_store(o) ? fmt::format("{}{}", is_share(o) ? "SURE_" : "", out.dtype == DType::f16 ? "F16" : "BF16")
                             : fmt::format("U{}", 8 * size_of(out.dtype));
    lines.add("STORE{}_{}({}, out{}_{} + {}, out{}_words)", width_, words, slot(out.slot), o, part, first, o);
  }
  rounded_.clear();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
