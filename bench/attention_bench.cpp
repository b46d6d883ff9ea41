// scaled_dot_product_attention through the public API. bench/peers/torch_attention.py times PyTorch on the same shapes.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <vector>

#include <lockstep/lockstep.h>

namespace lockstep {
namespace {

// Arguments: heads, queries, keys, features, causal, threads.
void BM_Attention(benchmark::State& state) {
  set_num_threads(static_cast<int>(state.range(5)));
  const Tensor q = rand({1, state.range(0), state.range(1), state.range(3)}).eval();
  const Tensor k = rand({1, state.range(0), state.range(2), state.range(3)}).eval();
  const Tensor v = rand({1, state.range(0), state.range(2), state.range(3)}).eval();
  for (auto _ : state) {
    scaled_dot_product_attention(q, k, v, {.causal = state.range(4) != 0}).eval();
  }
}
BENCHMARK(BM_Attention)
    ->ArgNames({"heads", "queries", "keys", "features", "causal", "threads"})
    ->ArgsProduct({{8}, {1024}, {1024}, {64}, {0, 1}, {1, 2}})
    ->Args({12, 128, 128, 64, 0, 1})  // BERT-base, GPT-2, ViT-B/16
    ->Args({12, 128, 128, 64, 1, 1})
    ->Args({12, 197, 197, 64, 0, 1})
    ->Args({32, 1, 1024, 128, 0, 2})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime()
    ->ComputeStatistics("best",
                        [](const std::vector<double>& times) { return *std::min_element(times.begin(), times.end()); });

}  // namespace
}  // namespace lockstep
