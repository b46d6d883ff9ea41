// Single kernels through the public API, each computed at once. The names are those of bench/peers/kernel_cases.py, so
// that compare.py can time both side by side. Weights come again, as in a network, so that their packed forms are kept.
#include <benchmark/benchmark.h>

#include <string>

#include <lockstep/lockstep.h>

namespace ls = lockstep;

namespace {

// After runs that compile kernels, meet weights again and pack them. `op` gives the result to compute.
template <typename Op> void measure(benchmark::State& state, Op op) {
  const auto step = [&] {
    const ls::Tensor y = op();
    y.eval();  // a statement of its own: while a temporary lives, its value would be stored too
  };
  for (int i = 0; i < 4; ++i) step();
  for (auto _ : state) step();
}

ls::Tensor random(const ls::Shape& shape) {
  return ls::randn(shape).eval();
}

void matmul(benchmark::State& state, const ls::Shape& a, const ls::Shape& b) {
  measure(state, [a = random(a), b = random(b)] { return ls::matmul(a, b); });
}
BENCHMARK_CAPTURE(matmul, 256, {256, 256}, {256, 256})->Name("matmul_256")->UseRealTime();
BENCHMARK_CAPTURE(matmul, 64, {256, 64, 64}, {256, 64, 64})->Name("matmul_64_batch256")->UseRealTime();
BENCHMARK_CAPTURE(matmul, vector, {4096, 4096}, {4096})->Name("matrix_vector_4096")->UseRealTime();

void linear_one_row(benchmark::State& state) {
  measure(state, [x = random({1, 4096}), w = random({4096, 4096})] { return ls::linear(x, w); });
}
BENCHMARK(linear_one_row)->Name("linear_4096_b1")->UseRealTime();

void conv(benchmark::State& state, const ls::Shape& input, const ls::Shape& weight, const ls::ConvOptions& options) {
  measure(state, [x = random(input), w = random(weight), &options] { return ls::conv2d(x, w, std::nullopt, options); });
}
BENCHMARK_CAPTURE(conv, 3x3_64, {1, 64, 56, 56}, {64, 64, 3, 3}, {.padding = {1}})
    ->Name("conv3x3_64_56")
    ->UseRealTime();
BENCHMARK_CAPTURE(conv, 1x1, {1, 256, 56, 56}, {64, 256, 1, 1}, {})->Name("conv1x1_256_64_56")->UseRealTime();
BENCHMARK_CAPTURE(conv, 3x3_512, {1, 512, 7, 7}, {512, 512, 3, 3}, {.padding = {1}})
    ->Name("conv3x3_512_7")
    ->UseRealTime();
BENCHMARK_CAPTURE(conv, stem, {1, 3, 224, 224}, {64, 3, 7, 7}, {.stride = {2}, .padding = {3}})
    ->Name("conv7x7_stem")
    ->UseRealTime();
BENCHMARK_CAPTURE(conv, depthwise, {1, 144, 56, 56}, {144, 1, 3, 3}, {.padding = {1}, .groups = 144})
    ->Name("depthwise3x3_144_56")
    ->UseRealTime();

const ls::Shape kSquare = {4096, 4096};

void gelu(benchmark::State& state) {
  measure(state, [x = random(kSquare)] { return ls::gelu(x); });
}
BENCHMARK(gelu)->Name("gelu_4096")->UseRealTime();

void sum(benchmark::State& state, const ls::Dims& dims) {
  measure(state, [x = random(kSquare), &dims] { return ls::sum(x, dims); });
}
BENCHMARK_CAPTURE(sum, all, {})->Name("sum_all_4096")->UseRealTime();
BENCHMARK_CAPTURE(sum, rows, {1})->Name("sum_rows_4096")->UseRealTime();
BENCHMARK_CAPTURE(sum, columns, {0})->Name("sum_columns_4096")->UseRealTime();

void attention(benchmark::State& state) {
  const ls::Shape shape = {1, 8, 1024, 64};
  measure(state, [q = random(shape), k = random(shape), v = random(shape)] {
    return ls::scaled_dot_product_attention(q, k, v);
  });
}
BENCHMARK(attention)->Name("attention_8x1024x64")->UseRealTime();

void one_op(benchmark::State& state) {
  measure(state, [x = random({16})] { return x + x; });
}
BENCHMARK(one_op)->Name("step_of_one_op")->UseRealTime();

}  // namespace
