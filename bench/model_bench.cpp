// What users run, through the public API: whole models, fused elementwise chains, and the cost of recording an op.
// The names are those of bench/peers/torch_models.py, so that compare.py can time both side by side.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/lockstep.h>
#include <lockstep/models/generate.h>
#include <lockstep/models/language.h>

#include "backends/cpu/threads.h"

namespace ls = lockstep;

namespace {

// After runs that initialise values, compile kernels, touch new memory, meet weights again and pack them.
template <typename Step> void measure(benchmark::State& state, Step step) {
  for (int i = 0; i < 4; ++i) step();
  for (auto _ : state) step();
}

// Prepared as the peers' sessions are, or (*_recorded) with its nodes recorded in every run.
void run_model(benchmark::State& state, const char* name, const ls::Shape& input) {
  const auto model = ls::models::architecture(name).create(ls::models::architecture(name).classes);
  model->eval();
  const ls::nn::Replayed replayed(*model);
  const ls::Tensor x = ls::randn(input).eval();
  const ls::NoGrad no_grad;
  measure(state, [&] { replayed(x).eval(); });
}
void record_model(benchmark::State& state, const char* name, const ls::Shape& input) {
  const auto model = ls::models::architecture(name).create(ls::models::architecture(name).classes);
  model->eval();
  const ls::Tensor x = ls::randn(input).eval();
  const ls::NoGrad no_grad;
  measure(state, [&] { model->forward(x).eval(); });
}
BENCHMARK_CAPTURE(run_model, resnet20_b1, "resnet20-cifar", {1, 3, 32, 32})->Name("resnet20_b1")->UseRealTime();
BENCHMARK_CAPTURE(run_model, resnet20_b128, "resnet20-cifar", {128, 3, 32, 32})->Name("resnet20_b128")->UseRealTime();
BENCHMARK_CAPTURE(run_model, resnet18_b1, "resnet18", {1, 3, 224, 224})->Name("resnet18_b1")->UseRealTime();

BENCHMARK_CAPTURE(run_model, resnet50_b1, "resnet50", {1, 3, 224, 224})->Name("resnet50_b1")->UseRealTime();
BENCHMARK_CAPTURE(run_model, resnet50_b8, "resnet50", {8, 3, 224, 224})->Name("resnet50_b8")->UseRealTime();
BENCHMARK_CAPTURE(run_model, squeezenet_b1, "squeezenet1_1", {1, 3, 224, 224})->Name("squeezenet_b1")->UseRealTime();
BENCHMARK_CAPTURE(run_model, mobilenet_v3_b1, "mobilenet_v3_large", {1, 3, 224, 224})
    ->Name("mobilenet_v3_b1")
    ->UseRealTime();
BENCHMARK_CAPTURE(record_model, resnet20_b1, "resnet20-cifar", {1, 3, 32, 32})
    ->Name("resnet20_b1_recorded")
    ->UseRealTime();
BENCHMARK_CAPTURE(record_model, resnet18_b1, "resnet18", {1, 3, 224, 224})->Name("resnet18_b1_recorded")->UseRealTime();
BENCHMARK_CAPTURE(record_model, squeezenet_b1, "squeezenet1_1", {1, 3, 224, 224})
    ->Name("squeezenet_b1_recorded")
    ->UseRealTime();
BENCHMARK_CAPTURE(record_model, mobilenet_v3_b1, "mobilenet_v3_large", {1, 3, 224, 224})
    ->Name("mobilenet_v3_b1_recorded")
    ->UseRealTime();
BENCHMARK_CAPTURE(run_model, vit_b16_b1, "vit_b_16", {1, 3, 224, 224})->Name("vit_b16_b1")->UseRealTime();

void encoder(benchmark::State& state) {
  ls::nn::TransformerEncoder model(
      512, 8, 6, {.layer = {.dim_feedforward = 2048, .activation = ls::gelu, .batch_first = true, .norm_first = true}});
  model.eval();
  const ls::Tensor x = ls::randn({state.range(0), 128, 512}).eval();
  const ls::NoGrad no_grad;
  measure(state, [&] { model.forward(x).eval(); });
}
BENCHMARK(encoder)->Name("encoder_b1")->Arg(1)->UseRealTime();
BENCHMARK(encoder)->Name("encoder_b8")->Arg(8)->UseRealTime();

void bert_base(benchmark::State& state) {
  ls::nn::TransformerEncoder model(768, 12, 12,
                                   {.layer = {.dim_feedforward = 3072, .activation = ls::gelu, .batch_first = true}});
  model.eval();
  const ls::Tensor x = ls::randn({1, 128, 768}).eval();
  const ls::NoGrad no_grad;
  measure(state, [&] { model.forward(x).eval(); });
}
BENCHMARK(bert_base)->Name("bert_base_b1")->UseRealTime();

// GPT-2 of 124 M parameters with random weights, as text is generated: 128 tokens to the logits of the last, then tokens one by
// one, of which 32 are timed together before they are forgotten.
constexpr std::int64_t kPrompt = 128;

std::unique_ptr<ls::models::LanguageModel> gpt2() {
  auto model = ls::models::create_language_model(
      R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024, "vocab_size": 50257})");
  model->eval();
  return model;
}
std::vector<std::int64_t> any_tokens(std::int64_t count) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(i * 7919 % 50257);
  return ids;
}
void gpt2_prefill(benchmark::State& state) {
  const auto model = gpt2();
  const std::vector<std::int64_t> ids = any_tokens(kPrompt);
  const ls::NoGrad no_grad;
  measure(state, [&] { ls::models::PromptCache(*model).logits(ids, 1, {}).eval(); });
}
BENCHMARK(gpt2_prefill)->Name("gpt2_prefill_128")->UseRealTime();

void gpt2_decode(benchmark::State& state) {
  constexpr int kTokens = 32;
  const auto model = gpt2();
  const std::vector<std::int64_t> ids = any_tokens(kPrompt + kTokens);
  const ls::NoGrad no_grad;
  ls::models::PromptCache cache(*model);
  const auto logits = [&](std::int64_t length) {
    cache.logits(std::span(ids).first(static_cast<std::size_t>(length)), 1, {}).eval();
  };
  for (auto _ : state) {
    logits(kPrompt);
    const auto start = std::chrono::steady_clock::now();
    for (int i = 1; i <= kTokens; ++i) logits(kPrompt + i);
    state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / kTokens);
  }
}
BENCHMARK(gpt2_decode)->Name("gpt2_decode")->UseManualTime();

void mobile_sam_encoder(benchmark::State& state) {
  ls::models::Sam model;
  model.eval();
  const ls::Tensor x = ls::randn({1, 3, 1024, 1024}).eval();
  const ls::NoGrad no_grad;
  measure(state, [&] { model.image_encoder().forward(x).eval(); });
}
BENCHMARK(mobile_sam_encoder)->Name("mobile_sam_encoder")->UseRealTime()->Unit(benchmark::kMillisecond);

// A click on a picture of 1024 x 768 whose embedding is there, to its masks.
void mobile_sam_prompt(benchmark::State& state) {
  ls::models::Sam model;
  model.eval();
  const ls::NoGrad no_grad;
  const ls::models::SamEmbedding embedding{.features = ls::randn({1, 256, 64, 64}).eval(),
                                           .positions = model.prompt_encoder.grid_positions().eval(),
                                           .frame = model.frame(1024, 768)};
  for (auto _ : state) benchmark::DoNotOptimize(model.predict(embedding, {.points = {{400, 300}}}));
}
BENCHMARK(mobile_sam_prompt)->Name("mobile_sam_prompt")->UseRealTime()->Unit(benchmark::kMillisecond);

void matmul(benchmark::State& state) {
  const std::int64_t n = state.range(0);
  const ls::Tensor a = ls::randn({n, n}).eval();
  const ls::Tensor b = ls::randn({n, n}).eval();
  measure(state, [&] { ls::matmul(a, b).eval(); });
}
BENCHMARK(matmul)->Name("matmul_512")->Arg(512)->UseRealTime();
BENCHMARK(matmul)->Name("matmul_1024")->Arg(1024)->UseRealTime();
BENCHMARK(matmul)->Name("matmul_2048")->Arg(2048)->UseRealTime();

constexpr std::int64_t kSide = 4096;
constexpr double kArray = 4.0 * kSide * kSide;

void report_bytes(benchmark::State& state, double arrays) {
  state.SetBytesProcessed(static_cast<std::int64_t>(static_cast<double>(state.iterations()) * arrays * kArray));
}

void gelu_add_mul(benchmark::State& state) {
  const ls::Tensor x = ls::randn({kSide, kSide}).eval();
  const ls::Tensor b = ls::randn({kSide}).eval();
  const ls::Tensor r = ls::randn({kSide, kSide}).eval();
  measure(state, [&] {
    const ls::Tensor y = ls::gelu(x + b) * r;
    y.eval();  // a statement of its own: while a temporary lives, its value would be stored too
  });
  report_bytes(state, 3);
}
BENCHMARK(gelu_add_mul)->Name("gelu_add_mul_4096")->UseRealTime();

void layer_norm(benchmark::State& state) {
  const ls::Tensor x = ls::randn({kSide, kSide}).eval();
  const ls::Tensor w = ls::randn({kSide}).eval();
  const ls::Tensor b = ls::randn({kSide}).eval();
  measure(state, [&] { ls::layer_norm(x, {kSide}, w, b).eval(); });
  report_bytes(state, 2);
}
BENCHMARK(layer_norm)->Name("layer_norm_4096")->UseRealTime();

void softmax(benchmark::State& state) {
  const ls::Tensor x = ls::randn({kSide, kSide}).eval();
  measure(state, [&] { ls::softmax(x, -1).eval(); });
  report_bytes(state, 2);
}
BENCHMARK(softmax)->Name("softmax_4096")->UseRealTime();

// The bandwidth that the fused kernels are measured against: a plain copy by the same threads.
void copy(benchmark::State& state) {
  const std::vector<std::byte> from(static_cast<std::size_t>(kArray));
  std::vector<std::byte> to(from.size());
  constexpr std::int64_t kParts = 64;
  for (auto _ : state) {
    lockstep::parallel_for(kParts, 1, [&](std::int64_t begin, std::int64_t end) {
      const auto part = static_cast<std::int64_t>(from.size()) / kParts;
      std::memcpy(to.data() + begin * part, from.data() + begin * part, static_cast<std::size_t>((end - begin) * part));
    });
    benchmark::ClobberMemory();
  }
  report_bytes(state, 2);
}
BENCHMARK(copy)->Name("copy_4096")->UseRealTime();

void multiply(benchmark::State& state) {
  const ls::Tensor x = ls::randn({kSide, kSide}).eval();
  measure(state, [&] { (x * 2.0).eval(); });
  report_bytes(state, 2);
}
BENCHMARK(multiply)->Name("multiply_4096")->UseRealTime();

// Per recorded op, without the work that a flush does.
void record(benchmark::State& state) {
  const ls::Tensor x = ls::ones({16}).eval();
  for (auto _ : state) benchmark::DoNotOptimize(x + x);
}
BENCHMARK(record)->Name("record_add");

void record_chain(benchmark::State& state) {
  const ls::Tensor x = ls::ones({16}).eval();
  for (auto _ : state) {
    ls::Tensor y = x;
    for (int i = 0; i < 100; ++i) y = y * x;
  }
  state.SetItemsProcessed(state.iterations() * 100);
}
BENCHMARK(record_chain)->Name("record_chain_of_100");

// A small step that repeats: recording, the plan from the cache, and running it.
void small_step(benchmark::State& state) {
  const ls::Tensor x = ls::ones({16}).eval();
  for (auto _ : state) {
    const ls::Tensor y = ls::gelu(x * 2.0 + 1.0) - x;
    y.eval();
  }
}
BENCHMARK(small_step)->Name("small_step");

}  // namespace
