// Row programs that only join tensors along a dimension (cat, stack): each tensor is copied to its place, where a row
// program would merge zero-padded words. The bits are the same.
#include <algorithm>
#include <utility>
#include <vector>

#include "backends/cpu/irregular/copies.h"
#include "backends/cpu/irregular/irregular.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

/// The part of dimension `dim` that one input fills; zeros stand for it elsewhere.
struct Part {
  const Input* input = nullptr;
  int dim = 0;
  std::int64_t begin = 0, end = 0;
};

bool find_part(const Input& input, const Shape& dims, Part& part) {
  if (input.encoding != Encoding::dense || input.view.bounds.size() != 1 || input.view.fill != 0) return false;
  const Bound& bound = input.view.bounds[0];
  int moving = 0;
  for (int d = 0; d < dims.rank(); ++d) {
    if (bound.m[d] == 0) continue;
    part.dim = d;
    ++moving;
  }
  if (moving != 1 || bound.m[part.dim] != 1 || bound.step != 1) return false;
  part.input = &input;
  part.begin = std::max<std::int64_t>(0, bound.lo - bound.offset);
  part.end = std::min(dims[part.dim], bound.hi - bound.offset);
  return part.begin < part.end;
}

/// The parts of a program that is nothing but a join; they follow each other. Empty for any other.
std::vector<Part> find_parts(const Program& program, const Shape& dims) {
  if (program.outputs.size() != 1 || !program.outputs[0].bits || program.inputs.size() < 2) return {};
  std::size_t loads = 0, merges = 0;
  std::vector<int> uses(program.code.size(), 0);
  for (const Instruction& instruction : program.code) {
    if (instruction.kind == Instruction::Kind::load_bits) {
      ++loads;
      continue;
    }
    if (instruction.kind != Instruction::Kind::elementwise || instruction.op != Op::merge) return {};
    ++merges;
    ++uses[static_cast<std::size_t>(instruction.a)];
    ++uses[static_cast<std::size_t>(instruction.b)];
  }
  ++uses[static_cast<std::size_t>(program.outputs[0].value)];
  const bool is_tree = std::all_of(uses.begin(), uses.end(), [](int count) { return count == 1; });
  if (!is_tree || loads != program.inputs.size() || merges + 1 != loads) return {};

  std::vector<Part> parts;
  for (const Input& input : program.inputs) {
    Part part;
    if (input.dtype != program.outputs[0].dtype || !find_part(input, dims, part)) return {};
    parts.push_back(part);
  }
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  std::int64_t end = 0;
  for (const Part& part : parts) {
    if (part.dim != parts[0].dim || part.begin != end) return {};
    end = part.end;
  }
  return end == dims[parts[0].dim] ? parts : std::vector<Part>();
}

class JoinExecutable final : public Executable {
 public:
  JoinExecutable(const std::vector<Part>& parts, const Output& output, Isa isa) : out_(output.slot) {
    for (const Part& part : parts) {
      Input input = *part.input;
      input.view = input.view.sliced(part.dim, part.begin, 1, part.end - part.begin);
      input.view.bounds.clear();  // the part is where they hold
      copies_.emplace_back(input, output.strides, output.offset + part.begin * output.strides[part.dim], isa);
    }
  }

  void run(const Binding& binding) const override {
    for (const Copy& copy : copies_) copy.run(binding, slot_of(binding, out_));
  }

 private:
  std::vector<Copy> copies_;
  int out_;
};

}  // namespace
}  // namespace irregular

std::unique_ptr<Executable> compile_join(const Program& program, Isa isa) {
  Shape dims = program.rows;
  for (const std::int64_t size : program.inner) dims.push_back(size);
  if (dims.numel() == 0) return nullptr;
  const std::vector<irregular::Part> parts = irregular::find_parts(program, dims);
  if (parts.empty()) return nullptr;
  return std::make_unique<irregular::JoinExecutable>(parts, program.outputs[0], isa);
}

}  // namespace v0
}  // namespace lockstep
