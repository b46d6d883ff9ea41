// Fourier transforms on the CPU, to hold against NumPy's: bench/peers/numpy_fft.py runs this program and NumPy in turn
// and prints both. Arguments: elements of a transform, and how many there are.
#include <benchmark/benchmark.h>

#include <lockstep/fft.h>
#include <lockstep/ops.h>

namespace lockstep {
namespace {

template <typename Call> void run(benchmark::State& state, const Tensor& x, Call call) {
  x.eval();
  for (int warm = 0; warm < 3; ++warm) call(x).eval();
  for (auto _ : state) call(x).eval();
}

template <DType dtype> Tensor noise(const Shape& shape) {
  return randn(shape, {.dtype = dtype});
}
template <DType dtype> void BM_Fft(benchmark::State& state) {
  run(state, noise<dtype>({state.range(1), state.range(0), 2}), [](const Tensor& x) { return fft::fft(x); });
}
template <DType dtype> void BM_Rfft(benchmark::State& state) {
  run(state, noise<dtype>({state.range(1), state.range(0)}), [](const Tensor& x) { return fft::rfft(x); });
}
template <DType dtype> void BM_Irfft(benchmark::State& state) {
  run(state, noise<dtype>({state.range(1), state.range(0) / 2 + 1, 2}), [](const Tensor& x) { return fft::irfft(x); });
}
template <DType dtype> void BM_Fft2(benchmark::State& state) {
  run(state, noise<dtype>({state.range(1), state.range(0), state.range(0), 2}),
      [](const Tensor& x) { return fft::fft2(x); });
}
// Ten seconds of sound at 16 kHz.
template <DType dtype> void BM_Stft(benchmark::State& state) {
  const Tensor window = noise<dtype>({400});
  run(state, noise<dtype>({160000}),
      [&](const Tensor& x) { return fft::stft(x, 400, {.hop_length = 160, .window = window}); });
}

// Single transforms, and batches of about 2^17 elements.
void sizes(benchmark::internal::Benchmark* bench) {
  bench->Unit(benchmark::kMicrosecond)->UseRealTime()->MinTime(0.02);
  for (const std::int64_t n : {256, 1024, 4096, 1 << 16, 1 << 20, 1000, 4410, 1009}) {
    bench->Args({n, 1});
    if (n < 1 << 16) bench->Args({n, (1 << 17) / n});
  }
}
#define TYPES(name)                          \
  BENCHMARK(name<DType::f32>)->Apply(sizes); \
  BENCHMARK(name<DType::f64>)->Apply(sizes)
TYPES(BM_Fft);
TYPES(BM_Rfft);
TYPES(BM_Irfft);
#undef TYPES
BENCHMARK(BM_Fft2<DType::f32>)->Args({512, 1})->Unit(benchmark::kMicrosecond)->UseRealTime()->MinTime(0.02);
BENCHMARK(BM_Fft2<DType::f64>)->Args({512, 1})->Unit(benchmark::kMicrosecond)->UseRealTime()->MinTime(0.02);
BENCHMARK(BM_Stft<DType::f32>)->Unit(benchmark::kMicrosecond)->UseRealTime()->MinTime(0.02);
BENCHMARK(BM_Stft<DType::f64>)->Unit(benchmark::kMicrosecond)->UseRealTime()->MinTime(0.02);

}  // namespace
}  // namespace lockstep
