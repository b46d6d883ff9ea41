// Linear algebra on the CPU in f64: microseconds of processor time per call of a batch of n x n matrices (arguments:
// batch, n), to hold against what bench/peers/numpy_linalg.py prints for NumPy (LAPACK). LOCKSTEP_NUM_THREADS=1 is the
// fair comparison with the peer, which has one thread.
#include <benchmark/benchmark.h>

#include <lockstep/linalg.h>
#include <lockstep/ops.h>

namespace lockstep {
namespace {

template <typename Call> void run(benchmark::State& state, Call call) {
  const std::int64_t n = state.range(1);
  const Tensor x = randn({state.range(0), n, n}, {.dtype = DType::f64});
  const Tensor a = (matmul(x, x.transpose(-2, -1)) + eye(n, std::nullopt, {.dtype = DType::f64})).eval();
  call(a).eval();
  for (auto _ : state) call(a).eval();
}

void BM_Solve(benchmark::State& state) {
  run(state, [](const Tensor& a) { return linalg::solve(a, a.narrow(-1, 0, 1)); });
}
void BM_Inv(benchmark::State& state) {
  run(state, [](const Tensor& a) { return linalg::inv(a); });
}
void BM_Cholesky(benchmark::State& state) {
  run(state, [](const Tensor& a) { return linalg::cholesky(a); });
}
void BM_Qr(benchmark::State& state) {
  run(state, [](const Tensor& a) { return linalg::qr(a).q; });
}
void BM_Eigh(benchmark::State& state) {
  run(state, [](const Tensor& a) { return linalg::eigh(a).eigenvectors; });
}
void BM_Eigvalsh(benchmark::State& state) {
  run(state, [](const Tensor& a) { return linalg::eigvalsh(a); });
}
void BM_Svd(benchmark::State& state) {
  run(state, [](const Tensor& a) { return linalg::svd(a).u; });
}
void BM_Svdvals(benchmark::State& state) {
  run(state, [](const Tensor& a) { return linalg::svdvals(a); });
}

void sizes(benchmark::internal::Benchmark* bench) {
  bench->Args({256, 8})->Args({16, 64})->Args({1, 256})->Args({1, 512})->Unit(benchmark::kMicrosecond);
}
BENCHMARK(BM_Solve)->Apply(sizes);
BENCHMARK(BM_Inv)->Apply(sizes);
BENCHMARK(BM_Cholesky)->Apply(sizes);
BENCHMARK(BM_Qr)->Apply(sizes);
BENCHMARK(BM_Eigh)->Apply(sizes);
BENCHMARK(BM_Eigvalsh)->Apply(sizes);
BENCHMARK(BM_Svd)->Apply(sizes);
BENCHMARK(BM_Svdvals)->Apply(sizes);

}  // namespace
}  // namespace lockstep
