#include "support/program_builder.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "backends/reference/backend.h"
#include "core/fp_state.h"
#include "kernels/storage.h"
#include "support/bytes.h"
#include "support/isa_ways.h"

#include <lockstep/threads.h>

namespace lockstep {
inline namespace v0 {
namespace testing {
namespace {

std::vector<std::byte*> addresses(ProgramBuilder::Buffers& buffers) {
  std::vector<std::byte*> result;
  for (std::vector<std::byte>& buffer : buffers) result.push_back(buffer.data());
  return result;
}

/// A float of moderate size, so that chains of ops stay away from infinity most of the time.
double moderate(Random& random) {
  return (static_cast<double>(random.next() >> 11) * 0x1p-53 - 0.5) * (random.one_in(4) ? 100.0 : 4.0);
}

template <typename T>
T special(Random& random, std::vector<T> values) {
  return random.pick(values);
}

}  // namespace

std::uint64_t random_element(Random& random, DType dtype) {
  const bool is_special = random.one_in(64);
  const bool negative = random.one_in(2);
  switch (dtype) {
    case DType::boolean: return random.next() & 1;
    case DType::f16:
      if (is_special) return special<std::uint64_t>(random, {0, 0x8000, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 1, 0x83ff, 0x0400});
      return scalar::encode_f16(static_cast<float>(moderate(random)));
    case DType::bf16:
      if (is_special) return special<std::uint64_t>(random, {0, 0x8000, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 1, 0x807f, 0x0080});
      return scalar::encode_bf16(static_cast<float>(moderate(random)));
    case DType::f32:
      if (is_special) {
        return special<std::uint64_t>(random, {0, 0x80000000, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001, 0x7f800001,
                                               1, 0x807fffff, 0x00800000, 0x80800000, 0x7f7fffff, 0x3f800000});
      }
      return BITS(static_cast<float>(moderate(random)));
    case DType::f64:
      if (is_special) {
        return special<std::uint64_t>(random, {0, 0x8000000000000000, 0x7ff0000000000000, 0xfff0000000000000,
                                               0x7ff8000000000000, 0xfff8000000000001, 1, 0x800fffffffffffff,
                                               0x0010000000000000, 0x36a0000000000001, 0x380fffffffffffff});
      }
      return BITS64(moderate(random));
    case DType::i64:
    case DType::u32:
    case DType::i32:
      if (is_special) return random.next();
      return negative && dtype != DType::u32 ? ~(random.next() & 0xff) : random.next() & 0xff;
    default: return random.next();
  }
}

ProgramBuilder::ProgramBuilder(Shape rows, Shape inner) {
  program_.rows = rows;
  program_.inner = inner;
}

Shape ProgramBuilder::space() const {
  Shape shape = program_.rows;
  for (std::int64_t size : program_.inner) shape.push_back(size);
  return shape;
}

int ProgramBuilder::add_buffer(Random& random, DType dtype, std::int64_t elements, bool subnormals) {
  std::vector<std::byte> data(static_cast<std::size_t>(elements) * size_of(dtype));
  for (std::int64_t i = 0; i < elements; ++i) {
    std::uint64_t word = random_element(random, dtype);
    if (!subnormals && dtype == DType::f32) word = BITS(scalar::operand_f32(FROM_BITS(word)));
    if (!subnormals && dtype == DType::bf16) word = BITS(scalar::decode_bf16(static_cast<std::uint32_t>(word))) >> 16;
    store_word(dtype, data.data(), i, word);
  }
  buffers_.push_back(std::move(data));
  return static_cast<int>(buffers_.size()) - 1;
}

int ProgramBuilder::add_input(int slot, DType dtype, const View& view, bool canonical) {
  program_.inputs.push_back({slot, dtype, view, canonical});
  return static_cast<int>(program_.inputs.size()) - 1;
}

int ProgramBuilder::add(Instruction instruction) {
  program_.code.push_back(instruction);
  return static_cast<int>(program_.code.size()) - 1;
}

int ProgramBuilder::load(int input, Extent extent) {
  Instruction load;
  load.kind = Instruction::Kind::load;
  load.dtype = program_.inputs[static_cast<std::size_t>(input)].dtype;
  load.type = compute_type(load.dtype);
  load.extent = extent;
  load.index = input;
  return add(load);
}

int ProgramBuilder::load_bits(int input, Extent extent) {
  Instruction load;
  load.kind = Instruction::Kind::load_bits;
  load.dtype = program_.inputs[static_cast<std::size_t>(input)].dtype;
  load.type = word_type(load.dtype);
  load.extent = extent;
  load.index = input;
  return add(load);
}

int ProgramBuilder::constant(ComputeType type, std::uint64_t bits) {
  Instruction constant;
  constant.kind = Instruction::Kind::constant;
  constant.type = type;
  constant.extent = Extent::row;
  constant.index = program_.parameters++;
  parameters_.push_back({bits});
  return add(constant);
}

int ProgramBuilder::constant(float value) { return constant(ComputeType::f32, BITS(value)); }

int ProgramBuilder::op(Op op, ComputeType type, int a, int b, int c) {
  Instruction instruction;
  instruction.kind = Instruction::Kind::elementwise;
  instruction.op = op;
  instruction.type = info_of(op).kind == OpKind::comparison ? ComputeType::i32 : type;
  instruction.extent = Extent::row;
  for (int operand : {a, b, c}) {
    if (operand >= 0 && extent_of(operand) == Extent::vector) instruction.extent = Extent::vector;
  }
  instruction.a = a;
  instruction.b = b;
  instruction.c = c;
  return add(instruction);
}

int ProgramBuilder::reduce(ReduceOp op, int a, int b) {
  Instruction instruction;
  instruction.kind = Instruction::Kind::reduce;
  instruction.reduce = op;
  instruction.type = type_of(a);
  const bool integer = instruction.type == ComputeType::i32 || instruction.type == ComputeType::i64;
  const bool best = op != ReduceOp::sum && op != ReduceOp::prod && op != ReduceOp::dot;
  if (op == ReduceOp::argmax || op == ReduceOp::argmin || (integer && !best)) instruction.type = ComputeType::i64;
  instruction.extent = Extent::row;
  instruction.a = a;
  instruction.b = b;
  return add(instruction);
}

void ProgramBuilder::output(int value, DType dtype, bool bits) {
  const bool per_row = extent_of(value) == Extent::row;
  const Shape dims = space();
  Shape strides = Shape::filled(dims.rank(), 0);
  std::int64_t stride = 1;
  for (int d = (per_row ? program_.rows.rank() : dims.rank()) - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= dims[d];
  }
  // Something that nobody writes by accident stands around the results.
  buffers_.emplace_back(static_cast<std::size_t>(stride + 1) * size_of(dtype), std::byte{0xa5});
  program_.outputs.push_back({static_cast<int>(buffers_.size()) - 1, dtype, value, bits, strides});
}

ProgramBuilder::Buffers ProgramBuilder::run_reference() const {
  Buffers buffers = buffers_;
  const std::vector<std::byte*> slots = addresses(buffers);
  ReferenceBackend().compile(RowKernel{program_})->run({slots, parameters_});
  return buffers;
}

void ProgramBuilder::run(const RowProgram& program, Buffers& buffers) const {
  const std::vector<std::byte*> slots = addresses(buffers);
  program.run({slots, parameters_});
}

ProgramBuilder::Buffers ProgramBuilder::run(Isa isa) const {
  Buffers buffers = buffers_;
  run(RowProgram(program_, isa), buffers);
  return buffers;
}

ProgramBuilder::Buffers ProgramBuilder::run_blocks(Isa isa, std::int64_t rows, std::int64_t columns) const {
  Buffers buffers = buffers_;
  const std::vector<std::byte*> slots = addresses(buffers);
  const RowProgram program = RowProgram::epilogue(program_, isa);
  const FloatingPointScope scope;
  Scratch scratch;
  const std::int64_t all_rows = program_.rows.numel(), all_columns = program_.inner.numel();
  for (std::int64_t row = 0; row < all_rows; row += rows) {
    for (std::int64_t column = 0; column < all_columns; column += columns) {
      program.run_block({slots, parameters_}, row, std::min(rows, all_rows - row), column,
                        std::min(columns, all_columns - column), nullptr, 0, scratch);
    }
  }
  return buffers;
}

::testing::AssertionResult same_bits(const Program& program, const ProgramBuilder::Buffers& expected,
                                     const ProgramBuilder::Buffers& actual) {
  for (std::size_t b = 0; b < expected.size(); ++b) {
    if (same_bytes(expected[b], actual[b])) continue;
    std::size_t at = 0;
    while (expected[b][at] == actual[b][at]) ++at;
    for (const Output& output : program.outputs) {
      if (output.slot != static_cast<int>(b)) continue;
      const auto element = static_cast<std::int64_t>(at / size_of(output.dtype));
      return ::testing::AssertionFailure() << fmt::format(
                 "output {} ({}, value {}), element {}: expected {:#x}, got {:#x}\n  {}", b, name_of(output.dtype),
                 output.value, element, load_word(output.dtype, expected[b].data(), element),
                 load_word(output.dtype, actual[b].data(), element), to_string(Kernel(RowKernel{program})));
    }
    return ::testing::AssertionFailure() << "an input was written to";
  }
  return ::testing::AssertionSuccess();
}

::testing::AssertionResult ProgramBuilder::agrees_everywhere() const {
  const Buffers expected = run_reference();
  const int threads_before = num_threads();
  ::testing::AssertionResult result = ::testing::AssertionSuccess();
  for (Isa isa : available_isas()) {
    for (const int threads : ways_on<int>(isa, {1, 2, 7})) {
      set_num_threads(threads);
      result = same_bits(program_, expected, run(isa));
      if (!result) {
        result << "\n  on " << name_of(isa) << " with " << threads << " threads";
        set_num_threads(threads_before);
        return result;
      }
    }
  }
  set_num_threads(threads_before);
  return result;
}

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
