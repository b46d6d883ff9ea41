// Contractions: matmuls beside OpenBLAS and oneDNN, and the layers of ResNet and of small CIFAR networks.
//   OPENBLAS_CORETYPE=SkylakeX OMP_NUM_THREADS=2 bench_contraction_bench [--benchmark_filter=...]
// Threads are LOCKSTEP_NUM_THREADS, OPENBLAS_NUM_THREADS and OMP_NUM_THREADS. Rates are multiply-adds times two.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#ifdef HAVE_OPENBLAS
#include <cblas.h>
#endif
#ifdef HAVE_ONEDNN
#include <dnnl.hpp>
#endif

#include "backends/cpu/contraction/contraction.h"

namespace lockstep {
namespace {

std::vector<float> values(std::int64_t count) {
  std::vector<float> v(static_cast<std::size_t>(count));
  std::uint32_t state = 12345;
  for (float& x : v) {
    state = state * 1664525u + 1013904223u;
    x = static_cast<float>(state >> 8) * 0x1p-23f - 1.0f;
  }
  return v;
}

Shape concat(const Shape& a, const Shape& b, const Shape& c) {
  Shape all = a;
  for (const std::int64_t s : b) all.push_back(s);
  for (const std::int64_t s : c) all.push_back(s);
  return all;
}

Program store_only(const ContractionKernel& kernel) {
  Program program;
  program.rows = concat(kernel.b, kernel.m, {});
  program.inner = kernel.n;
  program.code = {{.kind = Instruction::Kind::accumulator}};
  program.outputs = {
      {.slot = 2, .value = 0, .strides = View::contiguous(concat(kernel.b, kernel.m, kernel.n)).strides}};
  return program;
}

void count_flops(benchmark::State& state, double flops) {
  state.counters["flops"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

void run(benchmark::State& state, const ContractionKernel& kernel, std::int64_t a_size, std::int64_t b_size) {
  std::vector<float> a = values(a_size);
  std::vector<float> b = values(b_size);
  std::vector<float> out(static_cast<std::size_t>(concat(kernel.b, kernel.m, kernel.n).numel()));
  std::byte* slots[] = {reinterpret_cast<std::byte*>(a.data()), reinterpret_cast<std::byte*>(b.data()),
                        reinterpret_cast<std::byte*>(out.data())};
  const Binding binding{.slots = slots, .parameters = {}};
  const auto executable = compile_contraction(kernel);
  for (auto _ : state) executable->run(binding);
  count_flops(state, 2.0 * static_cast<double>(concat(kernel.b, kernel.m, kernel.n).numel()) *
                         static_cast<double>(kernel.k.numel()));
}

// --- matrices
// -----------------------------------------------------------------------------------------------------------

void matmul(benchmark::State& state, bool transpose_b) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  ContractionKernel kernel;
  kernel.m = {m};
  kernel.n = {n};
  kernel.k = {k};
  kernel.a = {.slot = 0, .view = View::contiguous({m, k}), .canonical = true};
  kernel.b_operand = {.slot = 1,
                      .view = transpose_b ? View::contiguous({n, k}).permuted({1, 0}) : View::contiguous({k, n})};
  kernel.epilogue = store_only(kernel);
  run(state, kernel, m * k, k * n);
}

void Matmul(benchmark::State& state) {
  matmul(state, false);
}
void Linear(benchmark::State& state) {
  matmul(state, true);
}

const std::vector<std::vector<std::int64_t>> kSquares = {{512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}};
const std::vector<std::vector<std::int64_t>> kLinears = {{1, 1000, 512}, {1, 4096, 4096},  {8, 1000, 512},
                                                         {128, 10, 64},  {128, 3072, 768}, {4096, 1, 4096}};

void squares(benchmark::internal::Benchmark* b) {
  for (const auto& s : kSquares) b->Args(s);
}
void linears(benchmark::internal::Benchmark* b) {
  for (const auto& s : kLinears) b->Args(s);
}
BENCHMARK(Matmul)->Apply(squares)->Apply(linears)->UseRealTime();
BENCHMARK(Linear)->Apply(squares)->Apply(linears)->UseRealTime();

void Batched(benchmark::State& state) {
  const std::int64_t b = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  ContractionKernel kernel;
  kernel.b = {b};
  kernel.m = {n};
  kernel.n = {n};
  kernel.k = {k};
  kernel.a = {.slot = 0, .view = View::contiguous({b, n, k})};
  kernel.b_operand = {.slot = 1, .view = View::contiguous({b, n, k}).permuted({0, 2, 1})};
  kernel.epilogue = store_only(kernel);
  run(state, kernel, b * n * k, b * n * k);
}
BENCHMARK(Batched)->Args({12, 128, 64})->Args({96, 64, 32})->UseRealTime();

#ifdef HAVE_OPENBLAS
void openblas(benchmark::State& state, CBLAS_TRANSPOSE transpose) {
  const int m = static_cast<int>(state.range(0));
  const int n = static_cast<int>(state.range(1));
  const int k = static_cast<int>(state.range(2));
  std::vector<float> a = values(std::int64_t{m} * k);
  std::vector<float> b = values(std::int64_t{n} * k);
  std::vector<float> c(static_cast<std::size_t>(std::int64_t{m} * n));
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, transpose, m, n, k, 1, a.data(), k, b.data(),
                transpose == CblasTrans ? k : n, 0, c.data(), n);
  }
  count_flops(state, 2.0 * m * n * k);
}
void MatmulOpenBlas(benchmark::State& state) {
  openblas(state, CblasNoTrans);
}
void LinearOpenBlas(benchmark::State& state) {
  openblas(state, CblasTrans);
}
BENCHMARK(MatmulOpenBlas)->Apply(squares)->Apply(linears)->UseRealTime();
BENCHMARK(LinearOpenBlas)->Apply(squares)->Apply(linears)->UseRealTime();
#endif

#ifdef HAVE_ONEDNN
void onednn(benchmark::State& state, char transpose) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  std::vector<float> a = values(m * k);
  std::vector<float> b = values(n * k);
  std::vector<float> c(static_cast<std::size_t>(m * n));
  for (auto _ : state) {
    dnnl_sgemm('N', transpose, m, n, k, 1, a.data(), k, b.data(), transpose == 'T' ? k : n, 0, c.data(), n);
  }
  count_flops(state, 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
}
void MatmulOneDnn(benchmark::State& state) {
  onednn(state, 'N');
}
void LinearOneDnn(benchmark::State& state) {
  onednn(state, 'T');
}
BENCHMARK(MatmulOneDnn)->Apply(squares)->Apply(linears)->UseRealTime();
BENCHMARK(LinearOneDnn)->Apply(squares)->Apply(linears)->UseRealTime();
#endif

// --- convolutions
// -------------------------------------------------------------------------------------------------------

struct Layer {
  std::int64_t batch, groups, in, out, size, kernel, stride;  ///< channels per group; padding keeps the size
};

ContractionKernel layer_kernel(const Layer& l, bool positions_first) {
  const std::int64_t padding = l.kernel / 2;
  const std::int64_t outputs = (l.size + 2 * padding - l.kernel) / l.stride + 1;
  View view = View::contiguous({l.batch, l.groups, l.in, l.size, l.size});
  for (int d = 3; d < 5; ++d) {
    view = view.padded(d, padding, padding, 0).value();
    view = view.windowed(d, l.kernel, outputs, l.stride, 1);
  }
  // [N, G, C, oh, ow, kh, kw]
  ContractionKernel kernel;
  kernel.b = {l.batch, l.groups};
  kernel.m = {l.out};
  kernel.n = {outputs, outputs};
  kernel.k = positions_first ? Shape{l.kernel, l.kernel, l.in} : Shape{l.in, l.kernel, l.kernel};
  kernel.b_operand = {.slot = 1,
                      .view = view.permuted(positions_first ? Shape{0, 1, 5, 6, 2, 3, 4} : Shape{0, 1, 2, 5, 6, 3, 4}),
                      .canonical = true};  // as results of other layers are; weights are not known to be
  View weight = View::contiguous({l.groups, l.out, l.in, l.kernel, l.kernel});
  if (positions_first) weight = weight.permuted({0, 1, 3, 4, 2});
  kernel.a = {.slot = 0, .view = weight.expanded(concat({l.batch}, weight.shape, {}))};
  kernel.epilogue = store_only(kernel);
  return kernel;
}

void convolution(benchmark::State& state, const Layer& l, bool positions_first) {
  run(state, layer_kernel(l, positions_first), l.groups * l.out * l.in * l.kernel * l.kernel,
      l.batch * l.groups * l.in * l.size * l.size);
}

#ifdef HAVE_ONEDNN
// Layouts as oneDNN likes them; the weights are reordered before the clock starts.
void convolution_onednn(benchmark::State& state, const Layer& l) {
  using namespace dnnl;
  const engine cpu(engine::kind::cpu, 0);
  stream queue(cpu);
  const auto any = memory::format_tag::any;
  const auto f32 = memory::data_type::f32;
  const std::int64_t padding = l.kernel / 2;
  const std::int64_t outputs = (l.size + 2 * padding - l.kernel) / l.stride + 1;
  const memory::desc source({l.batch, l.groups * l.in, l.size, l.size}, f32, any);
  const memory::dims weight_dims = l.groups == 1 ? memory::dims{l.out, l.in, l.kernel, l.kernel}
                                                 : memory::dims{l.groups, l.out, l.in, l.kernel, l.kernel};
  const memory::desc weights(weight_dims, f32, any);
  const memory::desc target({l.batch, l.groups * l.out, outputs, outputs}, f32, any);
  const convolution_forward::desc description(prop_kind::forward_inference, algorithm::convolution_direct, source,
                                              weights, target, {l.stride, l.stride}, {padding, padding},
                                              {padding, padding});
  const convolution_forward::primitive_desc primitive(description, cpu);
  const memory in(primitive.src_desc(), cpu);
  const memory w(primitive.weights_desc(), cpu);
  const memory out(primitive.dst_desc(), cpu);
  std::memset(in.get_data_handle(), 0, primitive.src_desc().get_size());
  std::memset(w.get_data_handle(), 0, primitive.weights_desc().get_size());
  const convolution_forward forward(primitive);
  for (auto _ : state) {
    forward.execute(queue, {{DNNL_ARG_SRC, in}, {DNNL_ARG_WEIGHTS, w}, {DNNL_ARG_DST, out}});
    queue.wait();
  }
  count_flops(state, 2.0 * static_cast<double>(l.batch * l.groups * l.out * outputs * outputs) *
                         static_cast<double>(l.in * l.kernel * l.kernel));
}
#endif

struct Named {
  const char* name;
  Layer layer;
};
constexpr Named kLayers[] = {
    {"resnet/7x7s2_3_64_224", {1, 1, 3, 64, 224, 7, 2}},   {"resnet/3x3_64_64_56", {1, 1, 64, 64, 56, 3, 1}},
    {"resnet/3x3s2_64_128_56", {1, 1, 64, 128, 56, 3, 2}}, {"resnet/3x3_128_128_28", {1, 1, 128, 128, 28, 3, 1}},
    {"resnet/3x3_256_256_14", {1, 1, 256, 256, 14, 3, 1}}, {"resnet/3x3_512_512_7", {1, 1, 512, 512, 7, 3, 1}},
    {"resnet/1x1s2_64_128_56", {1, 1, 64, 128, 56, 1, 2}}, {"resnet/1x1_64_256_56", {1, 1, 64, 256, 56, 1, 1}},
    {"resnet/1x1_256_64_56", {1, 1, 256, 64, 56, 1, 1}},   {"resnet/1x1_512_2048_7", {1, 1, 512, 2048, 7, 1, 1}},
    {"resnet/1x1_2048_512_7", {1, 1, 2048, 512, 7, 1, 1}}, {"cifar/3x3_3_16_32", {1, 1, 3, 16, 32, 3, 1}},
    {"cifar/3x3_16_16_32", {1, 1, 16, 16, 32, 3, 1}},      {"cifar/3x3_32_32_16", {1, 1, 32, 32, 16, 3, 1}},
    {"cifar/3x3_64_64_8", {1, 1, 64, 64, 8, 3, 1}},        {"cifar128/3x3_3_16_32", {128, 1, 3, 16, 32, 3, 1}},
    {"cifar128/3x3_16_16_32", {128, 1, 16, 16, 32, 3, 1}}, {"cifar128/3x3s2_16_32_32", {128, 1, 16, 32, 32, 3, 2}},
    {"cifar128/3x3_32_32_16", {128, 1, 32, 32, 16, 3, 1}}, {"cifar128/3x3_64_64_8", {128, 1, 64, 64, 8, 3, 1}},
    {"depthwise/3x3_144_56", {1, 144, 1, 1, 56, 3, 1}},    {"depthwise/3x3s2_144_56", {1, 144, 1, 1, 56, 3, 2}},
    {"depthwise/3x3_960_7", {1, 960, 1, 1, 7, 3, 1}},      {"grouped/3x3_32x4_56", {1, 32, 4, 4, 56, 3, 1}},
};

const bool kRegistered = [] {
  for (const Named& named : kLayers) {
    const Layer layer = named.layer;
    const std::string name = named.name;
    benchmark::RegisterBenchmark((name + "/channel_first").c_str(), [layer](benchmark::State& state) {
      convolution(state, layer, false);
    })->UseRealTime();
    benchmark::RegisterBenchmark((name + "/position_first").c_str(), [layer](benchmark::State& state) {
      convolution(state, layer, true);
    })->UseRealTime();
#ifdef HAVE_ONEDNN
    benchmark::RegisterBenchmark((name + "/onednn").c_str(), [layer](benchmark::State& state) {
      convolution_onednn(state, layer);
    })->UseRealTime();
#endif
  }
  return true;
}();

}  // namespace
}  // namespace lockstep
