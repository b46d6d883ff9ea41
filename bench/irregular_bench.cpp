// Sorts, scans, scatters and gathers of rows at the level of kernels. BM_CopyFloats and BM_StdSort are the measures to
// hold them against: "bytes_per_second" counts every input and output once.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include <lockstep/threads.h>

#include "backends/cpu/irregular/irregular.h"
#include "backends/cpu/threads.h"

namespace lockstep {
namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 26;

std::uint64_t mixed(std::uint64_t z) {
  z = (z + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

class Slots {
 public:
  template <typename T, typename Value> int add(std::int64_t elements, Value value) {
    const auto bytes = static_cast<std::size_t>(elements) * sizeof(T);
    auto* data = static_cast<T*>(memory_->allocate(bytes));
    for (std::int64_t i = 0; i < elements; ++i) data[i] = static_cast<T>(value(i));
    slots_.push_back(reinterpret_cast<std::byte*>(data));
    return static_cast<int>(slots_.size()) - 1;
  }
  int floats(std::int64_t elements) {
    return add<float>(elements, [](std::int64_t i) {
      return static_cast<float>(static_cast<std::int64_t>(mixed(static_cast<std::uint64_t>(i)) >> 40)) / 65536.0f -
             128.0f;
    });
  }
  int indices(std::int64_t elements, std::int64_t size) {
    return add<std::int64_t>(elements, [size](std::int64_t i) {
      return static_cast<std::int64_t>(mixed(static_cast<std::uint64_t>(i)) % static_cast<std::uint64_t>(size));
    });
  }
  Input dense(const Shape& shape) { return {floats(shape.numel()), DType::f32, View::contiguous(shape), true}; }
  template <typename T> T* at(int slot) const { return reinterpret_cast<T*>(slots_[static_cast<std::size_t>(slot)]); }
  const std::shared_ptr<MemoryPool>& memory() const { return memory_; }

  void run(benchmark::State& state, const Executable& executable, std::int64_t bytes) {
    std::uint32_t fault = 0;
    for (auto _ : state) executable.run({slots_, {}, {&fault, 1}});
    state.SetBytesProcessed(state.iterations() * bytes);
  }
  const std::vector<std::byte*>& all() const { return slots_; }

 private:
  std::shared_ptr<MemoryPool> memory_ = std::make_shared<MemoryPool>();
  std::vector<std::byte*> slots_;
};

void BM_CopyFloats(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  Slots slots;
  const int from = slots.floats(kElements), to = slots.floats(kElements);
  for (auto _ : state) {
    parallel_for(kElements, 1 << 18, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(slots.at<float>(to) + begin, slots.at<float>(from) + begin,
                  static_cast<std::size_t>(end - begin) * 4);
    });
  }
  state.SetBytesProcessed(state.iterations() * 8 * kElements);
}

void BM_StdSort(benchmark::State& state) {
  const std::int64_t n = state.range(1);
  Slots slots;
  const int from = slots.floats(n), to = slots.floats(n);
  for (auto _ : state) {
    std::copy_n(slots.at<float>(from), n, slots.at<float>(to));
    std::sort(slots.at<float>(to), slots.at<float>(to) + n);
  }
  state.SetItemsProcessed(state.iterations() * n);
}

/// The permutation of rows of n floats, kElements / 16 in all.
void BM_Argsort(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::int64_t n = state.range(1), rows = kElements / 16 / n;
  const bool along_rows = state.range(2) == 0;
  Slots slots;
  Input input = slots.dense(along_rows ? Shape{rows, n} : Shape{n, rows});
  if (!along_rows) input.view = input.view.permuted({1, 0});
  const int out = slots.indices(rows * n, 1);
  const auto executable = compile_sort({false, {rows}, n, input, out, along_rows ? Shape{n, 1} : Shape{1, rows}},
                                       selected_isa(), slots.memory());
  slots.run(state, *executable, 12 * rows * n);
  state.SetItemsProcessed(state.iterations() * rows * n);
}

/// The permutation, and the values in its order.
void BM_ArgsortAndGather(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::int64_t n = state.range(1);
  Slots slots;
  const Input input = slots.dense({n});
  const int order = slots.indices(n, 1), out = slots.floats(n);
  const auto executable = compile_sort({false, {}, n, input, order, {1}}, selected_isa(), slots.memory());
  std::uint32_t fault = 0;
  for (auto _ : state) {
    executable->run({slots.all(), {}, {&fault, 1}});
    parallel_for(n, 1 << 14, [&](std::int64_t begin, std::int64_t end) {
      const float* x = slots.at<float>(input.slot);
      for (std::int64_t i = begin; i < end; ++i) slots.at<float>(out)[i] = x[slots.at<std::int64_t>(order)[i]];
    });
  }
  state.SetItemsProcessed(state.iterations() * n);
}

void BM_Scan(benchmark::State& state, ScanOp op) {
  set_num_threads(static_cast<int>(state.range(0)));
  const Shape shape{state.range(1), state.range(2), kElements / state.range(1) / state.range(2)};
  const auto dim = static_cast<int>(state.range(3));
  Slots slots;
  Input input = slots.dense(shape);
  const bool positions = op == ScanOp::argmax;
  const int out = positions ? slots.indices(kElements, 1) : slots.floats(kElements);
  Shape order, rows;
  for (int d = 0; d < 3; ++d) {
    if (d == dim) continue;
    order.push_back(d);
    rows.push_back(shape[d]);
  }
  order.push_back(dim);
  input.view = input.view.permuted(order);
  const Shape strides = View::contiguous(shape).permuted(order).strides;
  const auto executable = compile_scan({op, rows, shape[dim], input, out, strides}, selected_isa());
  slots.run(state, *executable, (positions ? 12 : 8) * kElements);
}

/// `keys` rows of `columns` to `size` places.
void BM_IndexAdd(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::int64_t keys = state.range(1), columns = state.range(2), size = state.range(3);
  Slots slots;
  ScatterKernel kernel;
  kernel.op = ScatterOp::add;
  kernel.space = {keys, columns};
  kernel.strides = {0, 1};
  kernel.stride = columns;
  kernel.size = size;
  kernel.self = slots.dense({size, columns});
  kernel.index = {slots.indices(keys, size), DType::i64, View::contiguous({keys, 1}).expanded({keys, columns}), false};
  kernel.values = slots.dense({keys, columns});
  kernel.out = slots.floats(size * columns);
  const auto executable = compile_scatter(kernel, selected_isa(), slots.memory());
  slots.run(state, *executable, 4 * (keys + 2 * size) * columns);
}

/// Single elements; of a matrix along its last dim where there are rows.
void BM_ScatterAdd(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::int64_t rows = state.range(1), n = state.range(2), size = state.range(3);
  Slots slots;
  ScatterKernel kernel;
  kernel.op = ScatterOp::add;
  kernel.space = {rows, n};
  kernel.strides = {rows == 1 ? 0 : size, 0};
  kernel.stride = 1;
  kernel.size = size;
  kernel.self = slots.dense({rows, size});
  kernel.index = {slots.indices(rows * n, size), DType::i64, View::contiguous(kernel.space), false};
  kernel.values = slots.dense(kernel.space);
  kernel.out = slots.floats(rows * size);
  const auto executable = compile_scatter(kernel, selected_isa(), slots.memory());
  slots.run(state, *executable, 12 * rows * n + 8 * rows * size);
  state.SetItemsProcessed(state.iterations() * rows * n);
}

/// An embedding: `keys` rows of a table of 50,000.
void BM_GatherRows(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(0)));
  const std::int64_t keys = state.range(1), columns = state.range(2), size = 50000;
  Slots slots;
  Program program;
  program.inner = {keys, columns};
  program.inputs.push_back(
      {slots.indices(keys, size), DType::i64, View::contiguous({keys, 1}).expanded(program.inner), false});
  program.positions.push_back({0, {0, 1}});
  program.tables.push_back({slots.floats(size * columns), DType::f32, true, columns, size});
  Instruction index;
  index.type = ComputeType::i64;
  index.dtype = DType::i64;
  index.index = 0;
  Instruction first;
  first.kind = Instruction::Kind::iota;
  first.type = ComputeType::i64;
  first.index = 0;
  Instruction gather;
  gather.kind = Instruction::Kind::gather_bits;
  gather.type = ComputeType::i32;
  gather.a = 0;
  gather.b = 1;
  gather.index = 0;
  program.code = {index, first, gather};
  program.outputs.push_back(
      {slots.floats(keys * columns), DType::f32, 2, true, View::contiguous(program.inner).strides});
  const auto executable = compile_gather(program, selected_isa());
  slots.run(state, *executable, 8 * keys * columns);
}

constexpr auto kMs = benchmark::kMillisecond;
BENCHMARK(BM_CopyFloats)->Arg(1)->Arg(2)->Unit(kMs)->UseRealTime();
BENCHMARK(BM_StdSort)->Args({1, 1 << 22})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_ArgsortAndGather)->Args({1, 1 << 22})->Args({2, 1 << 22})->Unit(kMs)->UseRealTime();
BENCHMARK(BM_Argsort)
    ->Args({1, 1 << 22, 0})
    ->Args({2, 1 << 22, 0})
    ->ArgsProduct({{1}, {64, 256, 1024, 4096, 32768}, {0}})
    ->Args({1, 1024, 1})
    ->Unit(kMs)
    ->UseRealTime();
#define SCAN(op)                             \
  BENCHMARK_CAPTURE(BM_Scan, op, ScanOp::op) \
      ->Args({1, 1024, 64, 2})               \
      ->Args({2, 1024, 64, 2})               \
      ->Args({2, 1024, 64, 1})               \
      ->Args({2, 1024, 64, 0})               \
      ->Args({2, 1, 1, 2})                   \
      ->Args({2, 1 << 22, 1, 2})             \
      ->Args({2, 1 << 22, 1, 0})             \
      ->Unit(kMs)                            \
      ->UseRealTime()
SCAN(sum);
SCAN(max);
SCAN(argmax);
BENCHMARK(BM_IndexAdd)
    ->Args({2, 65536, 512, 65536})
    ->Args({2, 65536, 512, 1000})
    ->Args({2, 65536, 16, 65536})
    ->Unit(kMs)
    ->UseRealTime();
BENCHMARK(BM_ScatterAdd)
    ->Args({1, 1, 1 << 22, 1 << 22})
    ->Args({2, 1, 1 << 22, 1 << 22})
    ->Args({2, 1, 1 << 22, 1000})
    ->Args({2, 4096, 1024, 1024})
    ->Unit(kMs)
    ->UseRealTime();
BENCHMARK(BM_GatherRows)->Args({2, 32768, 512})->Args({2, 16384, 1024})->Args({2, 65536, 64})->Unit(kMs)->UseRealTime();

}  // namespace
}  // namespace lockstep
