// Fourier transforms and factorisations on the CPU: microseconds per call of a batch, to hold against what
// bench/peers/numpy_fft.py prints for NumPy (pocketfft, LAPACK). Argument: the number of elements; batches fill 2^17
// elements. LOCKSTEP_NUM_THREADS=1 is the fair comparison with pocketfft, which has one thread.
#include <benchmark/benchmark.h>

#include <algorithm>

#include <lockstep/fft.h>
#include <lockstep/linalg.h>
#include <lockstep/ops.h>

namespace lockstep {
namespace {

constexpr std::int64_t kElements = std::int64_t{1} << 17;

std::int64_t batch_of(std::int64_t n) {
  return std::max<std::int64_t>(1, kElements / n);
}

template <typename Call> void run(benchmark::State& state, const Tensor& x, Call call) {
  x.eval();
  call(x).eval();
  for (auto _ : state) call(x).eval();
}

template <DType dtype> void BM_Fft(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  run(state, randn({batch_of(n), n, 2}).to(dtype), [](const Tensor& x) { return fft::fft(x); });
}
template <DType dtype> void BM_Rfft(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  run(state, randn({batch_of(n), n}).to(dtype), [](const Tensor& x) { return fft::rfft(x); });
}
template <DType dtype> void BM_Irfft(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  run(state, randn({batch_of(n), n / 2 + 1, 2}).to(dtype), [](const Tensor& x) { return fft::irfft(x); });
}
#define SIZES ->Arg(64)->Arg(256)->Arg(1024)->Arg(4096)->Arg(1000)->Arg(1009)->Arg(65536)->Unit(benchmark::kMicrosecond)
BENCHMARK(BM_Fft<DType::f32>) SIZES;
BENCHMARK(BM_Fft<DType::f64>) SIZES;
BENCHMARK(BM_Rfft<DType::f32>) SIZES;
BENCHMARK(BM_Rfft<DType::f64>) SIZES;
BENCHMARK(BM_Irfft<DType::f32>) SIZES;
BENCHMARK(BM_Irfft<DType::f64>) SIZES;
#undef SIZES

Tensor definite(std::int64_t batch, std::int64_t n) {
  const Tensor x = randn({batch, n, n}, {.dtype = DType::f64});
  return matmul(x, x.transpose(1, 2)) + eye(n, std::nullopt, {.dtype = DType::f64});
}
template <typename Call> void run_matrices(benchmark::State& state, Call call) {
  run(state, definite(state.range(0), state.range(1)), call);
}
void BM_Solve(benchmark::State& state) {
  run_matrices(state, [](const Tensor& a) { return linalg::solve(a, a.narrow(2, 0, 1)); });
}
void BM_Cholesky(benchmark::State& state) {
  run_matrices(state, [](const Tensor& a) { return linalg::cholesky(a); });
}
void BM_Qr(benchmark::State& state) {
  run_matrices(state, [](const Tensor& a) { return linalg::qr(a).q; });
}
void BM_Eigh(benchmark::State& state) {
  run_matrices(state, [](const Tensor& a) { return linalg::eigh(a).eigenvectors; });
}
void BM_Svd(benchmark::State& state) {
  run_matrices(state, [](const Tensor& a) { return linalg::svd(a).u; });
}
#define MATRICES ->Args({256, 8})->Args({16, 64})->Args({1, 256})->Unit(benchmark::kMicrosecond)
BENCHMARK(BM_Solve) MATRICES->Args({1, 1024});
BENCHMARK(BM_Cholesky) MATRICES->Args({1, 1024});
BENCHMARK(BM_Qr) MATRICES->Args({1, 1024});
BENCHMARK(BM_Eigh) MATRICES;
BENCHMARK(BM_Svd) MATRICES;
#undef MATRICES

}  // namespace
}  // namespace lockstep
