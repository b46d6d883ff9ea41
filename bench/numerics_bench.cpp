// Products in exact and in blocked numerics (docs/numerics.md section 12), through the public interface.
//   numerics_bench [--benchmark_filter=...]    LOCKSTEP_NUM_THREADS: threads
#include <benchmark/benchmark.h>

#include <lockstep/lockstep.h>

namespace lockstep {
namespace {

enum Kind { kF32, kExact, kBlocked, kBlockedFresh };

void Numerics16(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const auto kind = static_cast<Kind>(state.range(1));
  const NumericsScope scope(kind < kBlocked ? Numerics::exact : Numerics::blocked);
  const Tensor a = randn({n, n});
  const Tensor b = randn({n, n});
  const DType dtype = kind == kF32 ? DType::f32 : DType::bf16;
  const Tensor x = a.to(dtype);
  const Tensor y = b.to(dtype);
  x.eval();
  y.eval();
  for (auto _ : state) {
    // Fresh operands are cast, and made integers, anew.
    const Tensor product = kind == kBlockedFresh ? matmul(a.to(dtype), b.to(dtype)) : matmul(x, y);
    product.eval();
  }
  const auto size = static_cast<double>(n);
  state.counters["flops"] = benchmark::Counter(2 * size * size * size, benchmark::Counter::kIsIterationInvariantRate);
  constexpr const char* kNames[] = {"f32", "bf16 exact", "bf16 blocked", "bf16 blocked, cast and packed anew"};
  state.SetLabel(kNames[kind]);
}
BENCHMARK(Numerics16)->ArgsProduct({{256, 512, 1024, 2048}, {kF32, kExact, kBlocked, kBlockedFresh}})->UseRealTime();

}  // namespace
}  // namespace lockstep
