#include "backends/reference/program.h"

#include <algorithm>
#include <array>

#include "backends/reference/reduce.h"
#include "core/assert.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace reference {
namespace {

/// A value at run time carries the type that `type` names: calls function(T()).
template <typename Function> auto with_type(ComputeType type, Function function) {
  switch (type) {
    case ComputeType::f32: return function(float());
    case ComputeType::f64: return function(double());
    case ComputeType::i32: return function(std::int32_t());
    case ComputeType::i64: return function(std::int64_t());
  }
  LOCKSTEP_ASSERT(false);
  return function(float());
}

/// Calls function(result) with x cast to `dtype`, in the compute type of dtype. Section 9: "every cast rounds once from
/// the exact source".
template <typename T, typename Function> void with_cast(DType dtype, T x, Function function) {
  switch (dtype) {
    case DType::boolean: return function(scalar::cast_bool(x));
    case DType::u8: return function(scalar::cast_u8(x));
    case DType::i8: return function(scalar::cast_i8(x));
    case DType::i16: return function(scalar::cast_i16(x));
    case DType::i32: return function(scalar::cast_i32(x));
    case DType::i64: return function(scalar::cast_i64(x));
    case DType::u32: return function(scalar::cast_u32(x));
    case DType::f16: return function(scalar::cast_f16(x));
    case DType::bf16: return function(scalar::cast_bf16(x));
    case DType::f32: return function(scalar::cast_f32(x));
    case DType::f64: return function(scalar::cast_f64(x));
    case DType::u16:
    case DType::u64:
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::complex64: break;  // storage-only types do not compute
  }
  LOCKSTEP_ASSERT(false);
}

/// One elementwise op, in the words of ops.def; comparisons give 0 or 1.
template <typename T> T evaluate(Op op, T a, T b, T c) {
  switch (op) {
#define ROW(name, ...) \
  case Op::name:       \
    return static_cast<T>(scalar::row_##name(a, b, c));
#include "kernels/ops.def"
#undef ROW
  }
  LOCKSTEP_ASSERT(false);
  return T();
}

/// The state of one row: the values of the instructions executed so far.
class Row {
 public:
  Row(const Program& program, const Binding& binding, std::int64_t row, const Column* accumulator)
      : program_(program),
        binding_(binding),
        accumulator_(accumulator),
        inner_size_(static_cast<std::size_t>(program.inner.numel())) {
    unravel(program.rows, row, index_.data());
  }

  void run() {
    values_.reserve(program_.code.size());
    for (const Instruction& step : program_.code) values_.push_back(execute(step));
    for (const Output& output : program_.outputs) store(output);
  }

 private:
  Column execute(const Instruction& step) {
    switch (step.kind) {
      case Instruction::Kind::load: return load(step);
      case Instruction::Kind::load_bits: return load_bits(step);
      case Instruction::Kind::constant: return constant(step);
      case Instruction::Kind::iota: return iota(step);
      case Instruction::Kind::random: return random(step);
      case Instruction::Kind::elementwise: return elementwise(step);
      case Instruction::Kind::cast: return cast(step);
      case Instruction::Kind::to_bits: return to_bits(step);
      case Instruction::Kind::from_bits: return from_bits(step);
      case Instruction::Kind::reduce: return reduce(step);
      case Instruction::Kind::gather: return gather(step);
      case Instruction::Kind::gather_bits: return gather_bits(step);
      case Instruction::Kind::accumulator: return *accumulator_;
    }
    LOCKSTEP_ASSERT(false);
    return {};
  }

  /// The column of `step` in type T, element i being element(i).
  template <typename T, typename Element> Column fill(const Instruction& step, Element element) {
    std::vector<T> column(step.extent == Extent::row ? 1 : inner_size_);
    for (std::size_t i = 0; i < column.size(); ++i) column[i] = element(i);
    return column;
  }

  /// Element i of an earlier value; a value that exists once per row is broadcast.
  template <typename T> T operand(int value, std::size_t i) const {
    return std::visit([i](const auto& column) { return static_cast<T>(column[column.size() == 1 ? 0 : i]); },
                      values_[static_cast<std::size_t>(value)]);
  }

  ComputeType type_of(int value) const {
    return static_cast<ComputeType>(values_[static_cast<std::size_t>(value)].index());
  }

  /// i64 where either operand of a comparison is.
  ComputeType wider(ComputeType type, int other) const {
    return type == ComputeType::i32 && other >= 0 ? type_of(other) : type;
  }

  /// The index of element i of this row in the iteration space.
  const std::int64_t* index_of(std::size_t i) {
    unravel(program_.inner, static_cast<std::int64_t>(i), index_.data() + program_.rows.rank());
    return index_.data();
  }

  std::uint64_t parameter(int index) const { return binding_.parameters[static_cast<std::size_t>(index)].bits; }

  std::byte* slot(int index) const { return binding_.slots[static_cast<std::size_t>(index)]; }

  std::uint64_t word_of(const Input& input, std::size_t i) {
    const std::int64_t address = input.view.address(index_of(i));
    return address < 0 ? input.view.fill : load_word(input.dtype, slot(input.slot), address);
  }

  Column load(const Instruction& step) {
    const Input& input = program_.inputs[static_cast<std::size_t>(step.index)];
    return with_type(compute_type(input.dtype), [&]<typename T>(T) {
      return fill<T>(step, [&](std::size_t i) { return decode<T>(input.dtype, word_of(input, i)); });
    });
  }

  /// Section 1: "moves keep bits and run on unsigned words".
  Column load_bits(const Instruction& step) {
    const Input& input = program_.inputs[static_cast<std::size_t>(step.index)];
    return with_type(word_type(input.dtype), [&]<typename T>(T) {
      return fill<T>(step, [&](std::size_t i) { return static_cast<T>(word_of(input, i)); });
    });
  }

  /// Section 7: "a bad index reads 0".
  std::uint64_t gathered_word(const Instruction& step, std::size_t i) const {
    const Table& table = program_.tables[static_cast<std::size_t>(step.index)];
    const auto at = operand<std::int64_t>(step.a, i);
    if (at < 0 || at >= table.size) {
      report_fault(binding_, static_cast<std::size_t>(step.index));
      return 0;
    }
    return load_word(table.encoding, table.dtype, slot(table.slot),
                     operand<std::int64_t>(step.b, i) + table.stride * at);
  }

  Column gather(const Instruction& step) {
    const DType dtype = program_.tables[static_cast<std::size_t>(step.index)].dtype;
    return with_type(compute_type(dtype), [&]<typename T>(T) {
      return fill<T>(step, [&](std::size_t i) { return decode<T>(dtype, gathered_word(step, i)); });
    });
  }

  Column gather_bits(const Instruction& step) {
    return with_type(word_type(program_.tables[static_cast<std::size_t>(step.index)].dtype), [&]<typename T>(T) {
      return fill<T>(step, [&](std::size_t i) { return static_cast<T>(gathered_word(step, i)); });
    });
  }

  Column constant(const Instruction& step) {
    const std::uint64_t bits = parameter(step.index);
    switch (step.type) {
      case ComputeType::f32: return fill<float>(step, [&](std::size_t) { return FROM_BITS(bits); });
      case ComputeType::f64: return fill<double>(step, [&](std::size_t) { return FROM_BITS64(bits); });
      case ComputeType::i32:
        return fill<std::int32_t>(step, [&](std::size_t) { return static_cast<std::int32_t>(bits); });
      case ComputeType::i64:
        return fill<std::int64_t>(step, [&](std::size_t) { return static_cast<std::int64_t>(bits); });
    }
    LOCKSTEP_ASSERT(false);
    return {};
  }

  Column iota(const Instruction& step) {
    const Position& position = program_.positions[static_cast<std::size_t>(step.index)];
    return fill<std::int64_t>(step, [&](std::size_t i) {
      const std::int64_t* index = index_of(i);
      std::int64_t value = position.offset;
      for (int d = 0; d < position.strides.rank(); ++d) value += position.strides[d] * index[d];
      return value;
    });
  }

  /// Section 8: "key = seed, counter = (i/4 in 64 bits, draw in 64 bits), element i takes word i mod 4".
  Column random(const Instruction& step) {
    const std::uint64_t seed = parameter(step.index);
    const std::uint64_t draw = parameter(step.index + 1);
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    return fill<std::int32_t>(step, [&](std::size_t i) {
      const auto position = static_cast<std::uint64_t>(operand<std::int64_t>(step.a, i));
      return static_cast<std::int32_t>(
          scalar::philox_word(low(seed), high(seed), low(draw), high(draw), low(position), high(position)));
    });
  }

  /// Section 1: arithmetic gives canonical results, moves keep bits, comparisons give 0 or 1.
  Column elementwise(const Instruction& step) {
    const OpKind kind = info_of(step.op).kind;
    const ComputeType type = kind == OpKind::comparison ? wider(type_of(step.a), step.b) : step.type;
    return with_type(type, [&]<typename T>(T) -> Column {
      const auto value = [&](int from, std::size_t i) { return from < 0 ? T(0) : operand<T>(from, i); };
      if (kind == OpKind::comparison) {
        return fill<std::int32_t>(step, [&](std::size_t i) {
          return static_cast<std::int32_t>(evaluate(step.op, value(step.a, i), value(step.b, i), value(step.c, i)));
        });
      }
      return fill<T>(step, [&](std::size_t i) {
        const T result = evaluate(step.op, value(step.a, i), value(step.b, i), value(step.c, i));
        return kind == OpKind::arithmetic ? scalar::canonical(result) : result;
      });
    });
  }

  Column cast(const Instruction& step) {
    return with_type(compute_type(step.from), [&]<typename From>(From) {
      return with_type(compute_type(step.dtype), [&]<typename T>(T) {
        return fill<T>(step, [&](std::size_t i) {
          T result = T();
          with_cast(step.dtype, operand<From>(step.a, i), [&](auto x) { result = static_cast<T>(x); });
          return result;
        });
      });
    });
  }

  Column to_bits(const Instruction& step) {
    return with_type(compute_type(step.dtype), [&]<typename From>(From) {
      return with_type(word_type(step.dtype), [&]<typename Word>(Word) {
        return fill<Word>(
            step, [&](std::size_t i) { return static_cast<Word>(encode(step.dtype, operand<From>(step.a, i))); });
      });
    });
  }

  Column from_bits(const Instruction& step) {
    return with_type(compute_type(step.dtype), [&]<typename T>(T) {
      return fill<T>(step, [&](std::size_t i) {
        return decode<T>(step.dtype, static_cast<std::uint64_t>(operand<std::int64_t>(step.a, i)));
      });
    });
  }

  /// Section 4. "f16/bf16/f32 accumulate in f32, f64 in f64"; sums and products of integers in i64.
  Column reduce(const Instruction& step) {
    LOCKSTEP_ASSERT(step.extent == Extent::row);
    const auto elements = [&]<typename T>(int value, T) {
      std::vector<T> x(inner_size_);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = operand<T>(value, i);
      return x;
    };
    return with_type(step.reduce == ReduceOp::argmax || step.reduce == ReduceOp::argmin ? type_of(step.a) : step.type,
                     [&]<typename T>(T type) {
                       const std::vector<T> x = elements(step.a, type);
                       switch (step.reduce) {
                         case ReduceOp::sum: return row_value(scalar::canonical(sum(x)));
                         case ReduceOp::prod: return row_value(scalar::canonical(product(x)));
                         case ReduceOp::dot: return row_value(scalar::canonical(dot(x, elements(step.b, type))));
                         default: break;
                       }
                       LOCKSTEP_ASSERT(!x.empty());  // the op rules refuse the largest of nothing
                       const bool largest = step.reduce == ReduceOp::max || step.reduce == ReduceOp::argmax;
                       const std::size_t winner = largest ? index_of_max(x) : index_of_min(x);
                       if (step.reduce == ReduceOp::max || step.reduce == ReduceOp::min) {
                         return row_value(scalar::canonical(x[winner]));
                       }
                       return row_value(static_cast<std::int64_t>(winner));
                     });
  }

  template <typename T> static Column row_value(T x) { return std::vector<T>{x}; }

  void store(const Output& output) {
    const Column& column = values_[static_cast<std::size_t>(output.value)];
    std::visit(
        [&](const auto& values) {
          for (std::size_t i = 0; i < values.size(); ++i) {
            const std::int64_t* index = index_of(i);
            std::int64_t address = output.offset;
            for (int d = 0; d < output.strides.rank(); ++d) address += output.strides[d] * index[d];
            const std::uint64_t word =
                output.bits ? static_cast<std::uint64_t>(values[i]) : encode(output.dtype, values[i]);
            store_word(output.dtype, slot(output.slot), address, word);
          }
        },
        column);
  }

  const Program& program_;
  const Binding& binding_;
  const Column* accumulator_;
  std::size_t inner_size_;
  std::array<std::int64_t, 2 * Shape::kCapacity> index_{};
  std::vector<Column> values_;
};

}  // namespace

void run_row(const Program& program, const Binding& binding, std::int64_t row, const Column* accumulator) {
  Row(program, binding, row, accumulator).run();
}

void unravel(const Shape& shape, std::int64_t linear, std::int64_t* index) {
  for (int d = shape.rank() - 1; d >= 0; --d) {
    const std::int64_t size = std::max<std::int64_t>(shape[d], 1);  // a row value of an empty row has index 0
    index[d] = linear % size;
    linear /= size;
  }
}

}  // namespace reference

void run_kernel(const RowKernel& kernel, const Binding& binding) {
  const std::int64_t rows = kernel.program.rows.numel();
  for (std::int64_t row = 0; row < rows; ++row) reference::run_row(kernel.program, binding, row, nullptr);
}

}  // namespace v0
}  // namespace lockstep
