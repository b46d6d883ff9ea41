// Row programs at the level of kernels. "bytes_per_second" counts what has to move: every input once, every output once.
// BM_Copy is the measure to hold them against.
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include <lockstep/threads.h>

#include "backends/cpu/memory_pool.h"
#include "backends/cpu/row/row_program.h"
#include "backends/cpu/threads.h"
#include "kernels/scalar.h"

namespace lockstep {
namespace {

constexpr auto f32 = ComputeType::f32;

/// A program over one shape with its buffers.
class Fixture {
 public:
  Fixture(Shape rows, Shape inner) {
    program_.rows = rows;
    program_.inner = inner;
    space_ = rows;
    for (std::int64_t size : inner) space_.push_back(size);
  }

  int input(const View& view, std::int64_t elements) {
    const int slot = add_buffer(elements);
    for (std::int64_t i = 0; i < elements; ++i) {
      reinterpret_cast<float*>(slots_.back())[i] = static_cast<float>((i * 7919) % 1021) / 256.0f - 2.0f;
    }
    program_.inputs.push_back({slot, DType::f32, view, true});
    Instruction load;
    load.kind = Instruction::Kind::load;
    load.index = static_cast<int>(program_.inputs.size()) - 1;
    return add(load);
  }
  int dense() { return input(View::contiguous(space_), space_.numel()); }
  int per_column() { return input(View::contiguous(program_.inner).expanded(space_), program_.inner.numel()); }
  int constant(float value) {
    Instruction constant;
    constant.kind = Instruction::Kind::constant;
    constant.extent = Extent::row;
    constant.index = program_.parameters++;
    parameters_.push_back({BITS(value)});
    return add(constant);
  }
  int op(Op op, int a, int b = -1) {
    Instruction instruction;
    instruction.kind = Instruction::Kind::elementwise;
    instruction.op = op;
    instruction.a = a;
    instruction.b = b;
    const auto is_row = [&](int v) { return v < 0 || program_.code[static_cast<std::size_t>(v)].extent == Extent::row; };
    instruction.extent = is_row(a) && is_row(b) ? Extent::row : Extent::vector;
    return add(instruction);
  }
  int reduce(ReduceOp op, int a, int b = -1) {
    Instruction instruction;
    instruction.kind = Instruction::Kind::reduce;
    instruction.reduce = op;
    instruction.extent = Extent::row;
    instruction.a = a;
    instruction.b = b;
    return add(instruction);
  }
  void output(int value) {
    const bool row = program_.code[static_cast<std::size_t>(value)].extent == Extent::row;
    Shape strides = View::contiguous(row ? program_.rows : space_).strides;
    while (strides.rank() < space_.rank()) strides.push_back(0);
    program_.outputs.push_back(
        {add_buffer(row ? program_.rows.numel() : space_.numel()), DType::f32, value, false, strides});
  }

  void run(benchmark::State& state) {
    set_num_threads(static_cast<int>(state.range(0)));
    const RowProgram program(program_);
    for (auto _ : state) program.run({slots_, parameters_});
    state.SetBytesProcessed(state.iterations() * bytes_);
  }

 private:
  int add(Instruction instruction) {
    program_.code.push_back(instruction);
    return static_cast<int>(program_.code.size()) - 1;
  }
  int add_buffer(std::int64_t elements) {
    const auto bytes = static_cast<std::size_t>(elements) * 4;
    slots_.push_back(static_cast<std::byte*>(memory_.allocate(bytes)));
    std::memset(slots_.back(), 0, bytes);
    bytes_ += elements * 4;
    return static_cast<int>(slots_.size()) - 1;
  }

  Program program_;
  Shape space_;
  MemoryPool memory_;
  std::vector<std::byte*> slots_;
  std::vector<Scalar> parameters_;
  std::int64_t bytes_ = 0;
};

void BM_Copy(benchmark::State& state) {
  constexpr std::int64_t bytes = 4096 * 4096 * 4;
  MemoryPool memory;
  auto* from = static_cast<std::byte*>(memory.allocate(bytes));
  auto* to = static_cast<std::byte*>(memory.allocate(bytes));
  std::memset(from, 1, bytes);
  std::memset(to, 1, bytes);
  set_num_threads(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    parallel_for(bytes, 1 << 20, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(to + begin, from + begin, static_cast<std::size_t>(end - begin));
    });
  }
  state.SetBytesProcessed(state.iterations() * 2 * bytes);
}

void BM_GeluOfBiasTimes(benchmark::State& state) {
  Fixture f({}, {state.range(1), state.range(1)});
  const int x = f.dense();
  const int bias = f.input(View::contiguous({1, state.range(1)}).expanded({state.range(1), state.range(1)}), state.range(1));
  f.output(f.op(Op::mul, f.op(Op::gelu_erf, f.op(Op::add, x, bias)), f.dense()));
  f.run(state);
}

void BM_Softmax(benchmark::State& state) {
  Fixture f({state.range(1)}, {state.range(2)});
  const int x = f.dense();
  const int e = f.op(Op::exp, f.op(Op::sub, x, f.reduce(ReduceOp::max, x)));
  f.output(f.op(Op::div, e, f.reduce(ReduceOp::sum, e)));
  f.run(state);
}

void BM_LayerNorm(benchmark::State& state) {
  Fixture f({state.range(1)}, {state.range(2)});
  const int x = f.dense();
  const int n = f.constant(static_cast<float>(state.range(2)));
  const int d = f.op(Op::sub, x, f.op(Op::div, f.reduce(ReduceOp::sum, x), n));
  const int variance = f.op(Op::div, f.reduce(ReduceOp::dot, d, d), n);
  const int scale = f.op(Op::rsqrt, f.op(Op::add, variance, f.constant(1e-5f)));
  const int gain = f.per_column();
  f.output(f.op(Op::add, f.op(Op::mul, f.op(Op::mul, d, scale), gain), f.per_column()));
  f.run(state);
}

void BM_Add(benchmark::State& state) {
  Fixture f({}, {state.range(1)});
  const int x = f.dense();
  f.output(f.op(Op::add, x, f.dense()));
  f.run(state);
}

void BM_Sum(benchmark::State& state) {
  Fixture f({state.range(1)}, {state.range(2)});
  f.output(f.reduce(ReduceOp::sum, f.dense()));
  f.run(state);
}

void BM_Max(benchmark::State& state) {
  Fixture f({state.range(1)}, {state.range(2)});
  f.output(f.reduce(ReduceOp::max, f.dense()));
  f.run(state);
}

void BM_SumOfColumns(benchmark::State& state) {
  const std::int64_t columns = state.range(1), n = state.range(2);
  Fixture f({columns}, {n});
  f.output(f.reduce(ReduceOp::sum, f.input(View::contiguous({n, columns}).permuted({1, 0}), n * columns)));
  f.run(state);
}

void BM_MaxPool(benchmark::State& state) {
  const std::int64_t size = state.range(1), out = (size + 2 - 3) / 2 + 1;
  Fixture f({64, out, out}, {3, 3});
  View view = View::contiguous({64, size, size});
  view = view.padded(1, 1, 1, 0xff800000u)->padded(2, 1, 1, 0xff800000u).value();
  view = view.windowed(1, 3, out, 2, 1).windowed(2, 3, out, 2, 1);
  f.output(f.reduce(ReduceOp::max, f.input(view, 64 * size * size)));
  f.run(state);
}

void BM_Transpose(benchmark::State& state) {
  const std::int64_t n = state.range(1);
  Fixture f({}, {n, n});
  f.output(f.op(Op::neg, f.input(View::contiguous({n, n}).permuted({1, 0}), n * n)));
  f.run(state);
}

void BM_Adam(benchmark::State& state) {
  Fixture f({}, {state.range(1)});
  const int p = f.dense(), g = f.dense(), m = f.dense(), v = f.dense();
  const int m2 = f.op(Op::add, f.op(Op::mul, m, f.constant(0.9f)), f.op(Op::mul, g, f.constant(0.1f)));
  const int v2 = f.op(Op::add, f.op(Op::mul, v, f.constant(0.999f)), f.op(Op::mul, f.op(Op::mul, g, g), f.constant(0.001f)));
  const int denominator = f.op(Op::add, f.op(Op::sqrt, f.op(Op::mul, v2, v2)), f.constant(1e-8f));
  f.output(m2);
  f.output(v2);
  f.output(f.op(Op::sub, p, f.op(Op::mul, f.op(Op::div, m2, denominator), f.constant(1e-3f))));
  f.run(state);
}

constexpr auto kMs = benchmark::kMillisecond;
BENCHMARK(BM_Copy)->Arg(1)->Arg(2)->Unit(kMs)->UseRealTime();
BENCHMARK(BM_GeluOfBiasTimes)->Args({1, 4096})->Args({2, 4096})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_LayerNorm)->Args({1, 4096, 4096})->Args({2, 4096, 4096})->Args({2, 16384, 768})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_Softmax)
    ->Args({1, 8192, 128})
    ->Args({1, 4096, 4096})
    ->Args({2, 4096, 4096})
    ->Args({2, 65536, 10})
    ->Args({2, 65536, 64})
    ->Args({2, 256, 65536})
    ->Unit(kMs)
    ->UseRealTime();
BENCHMARK(BM_Add)->Args({1, 1 << 14})->Args({1, 1 << 24})->Args({2, 1 << 24})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_Adam)->Args({1, 1 << 14})->Args({1, 1 << 22})->Args({2, 1 << 22})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_Sum)->Args({1, 1, 1 << 24})->Args({2, 1, 1 << 24})->Args({2, 4096, 4096})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_Max)->Args({1, 256, 4096})->Args({2, 4096, 4096})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_SumOfColumns)->Args({2, 64, 65536})->Args({2, 4096, 4096})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_MaxPool)->Args({2, 112})->Args({2, 14})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_Transpose)->Args({2, 1024})->Args({2, 4096})->Unit(kMs)->UseRealTime();

}  // namespace
}  // namespace lockstep
