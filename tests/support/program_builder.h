// Builds row programs with their buffers for tests, runs them on any instruction set, and compares the results with the
// reference backend bit by bit.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backends/backend.h"
#include "backends/cpu/row/row_program.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace testing {

/// SplitMix64: small, seeded, the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  /// In [0, n).
  int below(int n) { return static_cast<int>(next() % static_cast<std::uint64_t>(n)); }
  bool one_in(int n) { return below(n) == 0; }
  template <typename T>
  const T& pick(const std::vector<T>& of) {
    return of[static_cast<std::size_t>(below(static_cast<int>(of.size())))];
  }

 private:
  std::uint64_t state_;
};

/// The bits of an element: mostly ordinary numbers, some special ones (NaN, infinities, zeros, subnormals, extremes).
std::uint64_t random_element(Random& random, DType dtype);

class ProgramBuilder {
 public:
  ProgramBuilder(Shape rows, Shape inner);

  Program& program() { return program_; }
  const Program& program() const { return program_; }
  Shape space() const;

  /// A buffer of `elements` random elements. Returns its slot.
  int add_buffer(Random& random, DType dtype, std::int64_t elements, bool subnormals = true);
  int add_input(int slot, DType dtype, const View& view, bool canonical = false);

  int load(int input, Extent extent = Extent::vector);
  int load_bits(int input, Extent extent = Extent::vector);
  int constant(ComputeType type, std::uint64_t bits);
  int constant(float value);
  int op(Op op, ComputeType type, int a, int b = -1, int c = -1);
  int reduce(ReduceOp op, int a, int b = -1);
  int add(Instruction instruction);
  /// Writes a value to a new dense buffer; row values have one element per row.
  void output(int value, DType dtype, bool bits = false);

  Extent extent_of(int value) const { return program_.code[static_cast<std::size_t>(value)].extent; }
  ComputeType type_of(int value) const { return program_.code[static_cast<std::size_t>(value)].type; }

  /// The contents of all buffers after a run.
  using Buffers = std::vector<std::vector<std::byte>>;
  Buffers run_reference() const;
  Buffers run(Isa isa) const;
  void run(const RowProgram& program, Buffers& buffers) const;
  /// As an epilogue, on blocks of so many rows and columns.
  Buffers run_blocks(Isa isa, std::int64_t rows, std::int64_t columns) const;
  const Buffers& buffers() const { return buffers_; }
  Buffers& buffers() { return buffers_; }

  /// Runs on every instruction set with 1, 2 and 7 threads.
  ::testing::AssertionResult agrees_everywhere() const;

 private:
  Program program_;
  Buffers buffers_;
  std::vector<Scalar> parameters_;
};

/// Where two results differ first, or success.
::testing::AssertionResult same_bits(const Program& program, const ProgramBuilder::Buffers& expected,
                                     const ProgramBuilder::Buffers& actual);

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
