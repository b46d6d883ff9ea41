// Small kernels written by hand, and their run on the reference backend.
#pragma once

#include <cstring>
#include <utility>
#include <vector>

#include "backends/reference/backend.h"
#include "kernels/prelude.h"

namespace lockstep::test {

/// Runs `kernel` over the given bytes, one vector per slot, in place.
inline void run_reference(const Kernel& kernel, std::vector<std::vector<std::byte>>& slots,
                          const std::vector<Scalar>& parameters = {}) {
  std::vector<std::byte*> pointers;
  for (auto& slot : slots) pointers.push_back(slot.data());
  make_reference_backend()->compile(kernel)->run({.slots = pointers, .parameters = parameters});
}

template <typename T> std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T> std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

/// Builds a Program of contiguous inputs and outputs; each input or output takes the next slot.
class ProgramBuilder {
 public:
  ProgramBuilder(Shape rows, Shape inner) {
    program_.rows = std::move(rows);
    program_.inner = std::move(inner);
  }

  int load(DType dtype, bool bits = false) {
    Input input;
    input.slot = slots_++;
    input.dtype = dtype;
    input.view.shape = program_.rows;
    for (std::int64_t size : program_.inner) input.view.shape.push_back(size);
    input.view.strides = strides(program_.rank());
    return load(input, bits);
  }
  int load(const Input& input, bool bits = false) {
    program_.inputs.push_back(input);
    Instruction step;
    step.kind = bits ? Instruction::Kind::load_bits : Instruction::Kind::load;
    step.type = bits ? word_type(input.dtype) : compute_type(input.dtype);
    step.dtype = input.dtype;
    step.index = static_cast<int>(program_.inputs.size()) - 1;
    return push(step);
  }
  int elementwise(Op op, int a, int b = -1, int c = -1) {
    Instruction step;
    step.kind = Instruction::Kind::elementwise;
    step.op = op;
    step.a = a;
    step.b = b;
    step.c = c;
    const int value = info_of(op).kind == OpKind::move ? b : a;
    step.type = info_of(op).kind == OpKind::comparison ? ComputeType::i32 : type(value);
    step.extent = Extent::row;
    for (int operand : {a, b, c}) {
      if (operand >= 0 && at(operand).extent == Extent::vector) step.extent = Extent::vector;
    }
    return push(step);
  }
  int reduce(ReduceOp op, int a, int b = -1) {
    Instruction step;
    step.kind = Instruction::Kind::reduce;
    step.reduce = op;
    step.a = a;
    step.b = b;
    step.extent = Extent::row;
    const bool index = op == ReduceOp::argmax || op == ReduceOp::argmin;
    const bool sum = op == ReduceOp::sum || op == ReduceOp::prod || op == ReduceOp::dot;
    step.type = index || (sum && type(a) == ComputeType::i32) ? ComputeType::i64 : type(a);
    return push(step);
  }
  int cast(int a, DType from, DType to) {
    Instruction step;
    step.kind = Instruction::Kind::cast;
    step.a = a;
    step.from = from;
    step.dtype = to;
    step.type = compute_type(to);
    step.extent = at(a).extent;
    return push(step);
  }
  int push(const Instruction& step) {
    program_.code.push_back(step);
    return static_cast<int>(program_.code.size()) - 1;
  }
  void store(int value, DType dtype, bool bits = false) {
    Output output;
    output.slot = slots_++;
    output.dtype = dtype;
    output.value = value;
    output.bits = bits;
    if (at(value).extent == Extent::row) {
      output.strides = strides(program_.rows.rank());
      for (int d = 0; d < program_.inner.rank(); ++d) output.strides.push_back(0);
    } else {
      output.strides = strides(program_.rank());
    }
    program_.outputs.push_back(output);
  }
  Program& program() { return program_; }
  RowKernel row_kernel() const { return {program_}; }

 private:
  const Instruction& at(int value) const { return program_.code[static_cast<std::size_t>(value)]; }
  ComputeType type(int value) const { return at(value).type; }

  /// Row-major over the first `rank` dims of the iteration space.
  Shape strides(int rank) const {
    Shape result = Shape::filled(rank, 1);
    for (int d = rank - 2; d >= 0; --d) {
      const int next = d + 1;
      const int rows = program_.rows.rank();
      result[d] = result[next] * (next < rows ? program_.rows[next] : program_.inner[next - rows]);
    }
    return result;
  }

  Program program_;
  int slots_ = 0;
};

}  // namespace lockstep::test
