// Fixed amounts of work, for scripts/bench_check to count the instructions of: what users run, each a given number of
// times after it was compiled and its weights were met. No times are taken here.
//
//   fixed_work          the names, a line each
//   fixed_work --key    whose figures these are: the compiler and the instruction set
//   fixed_work NAME     does it; what counts happens inside lockstep_counted_work()
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include <lockstep/lockstep.h>

#include "backends/cpu/isa.h"

namespace ls = lockstep;

/// The function that valgrind counts.
extern "C" [[gnu::noinline, gnu::used]] void lockstep_counted_work(const std::function<void()>& step, int times) {
  for (int i = 0; i < times; ++i) step();
}

namespace {

struct Work {
  const char* name;
  int times;
  /// Made before counting starts.
  std::function<std::function<void()>()> prepare;
};

std::function<void()> network(const char* name, const ls::Shape& shape) {
  const auto& architecture = ls::models::architecture(name);
  const std::shared_ptr<ls::nn::Layer> model = architecture.create(architecture.classes);
  model->eval();
  return [model, x = ls::randn(shape).eval()] {
    const ls::NoGrad no_grad;
    model->forward(x).eval();
  };
}

std::function<void()> replayed_network(const char* name, const ls::Shape& shape) {
  const auto& architecture = ls::models::architecture(name);
  const std::shared_ptr<ls::nn::Layer> model = architecture.create(architecture.classes);
  model->eval();
  return [model, replayed = std::make_shared<ls::nn::Replayed>(*model), x = ls::randn(shape).eval()] {
    const ls::NoGrad no_grad;
    (*replayed)(x).eval();
  };
}

// Pictures so small that recording, planning and launching are what takes time.
std::function<void()> training_step() {
  const std::shared_ptr<ls::nn::Layer> model = ls::models::architecture("resnet20-cifar").create(10);
  const auto optimizer =
      std::make_shared<ls::optim::SGD>(model->parameters(), ls::optim::SGDOptions{.lr = 0.01, .momentum = 0.9});
  return [model, optimizer, x = ls::randn({2, 3, 8, 8}).eval(), y = ls::randint(0, 10, {2}).eval()] {
    ls::backward(ls::cross_entropy(model->forward(x), y));
    optimizer->step();
    optimizer->zero_grad();
  };
}

template <typename Op> std::function<void()> of_matrix(std::int64_t rows, std::int64_t columns, Op op) {
  return [x = ls::randn({rows, columns}).eval(), op] {
    const ls::Tensor y = op(x);
    y.eval();
  };
}

const Work kWork[] = {
    {"record", 1000, [] { return [x = ls::ones({16}).eval()] { const ls::Tensor y = x + x; }; }},
    {"small_step", 200,
     [] { return of_matrix(1, 16, [](const ls::Tensor& x) { return ls::gelu(x * 2.0 + 1.0) - x; }); }},
    {"sum", 4, [] { return of_matrix(64, 4096, [](const ls::Tensor& x) { return ls::sum(x, {1}); }); }},
    {"softmax", 4, [] { return of_matrix(64, 1024, [](const ls::Tensor& x) { return ls::softmax(x, -1); }); }},
    {"layer_norm", 4,
     [] { return of_matrix(64, 1024, [](const ls::Tensor& x) { return ls::layer_norm(x, {1024}); }); }},
    {"gelu", 4, [] { return of_matrix(64, 1024, [](const ls::Tensor& x) { return ls::gelu(x); }); }},
    {"argsort", 2, [] { return of_matrix(16, 1024, [](const ls::Tensor& x) { return ls::argsort(x, -1); }); }},
    {"cumsum", 4, [] { return of_matrix(64, 1024, [](const ls::Tensor& x) { return ls::cumsum(x, -1); }); }},
    {"matmul", 4, [] { return of_matrix(128, 128, [](const ls::Tensor& x) { return ls::matmul(x, x); }); }},
    {"one_row", 4,
     [] {
       return [x = ls::randn({1, 512}).eval(), w = ls::randn({512, 512}).eval()] { ls::linear(x, w).eval(); };
     }},
    {"max_pool", 4,
     [] {
       return [x = ls::randn({1, 16, 56, 56}).eval()] {
         ls::max_pool2d(x, {3, 3}, {.stride = {2, 2}, .padding = {1, 1}}).eval();
       };
     }},
    {"cat", 4,
     [] {
       return [x = ls::randn({1, 16, 28, 28}).eval(), y = ls::randn({1, 32, 28, 28}).eval()] {
         ls::cat({x, y}, 1).eval();
       };
     }},
    {"resnet20", 1,
     [] {
       return network("resnet20-cifar", {1, 3, 32, 32});
     }},
    {"squeezenet", 1,
     [] {
       return network("squeezenet1_1", {1, 3, 64, 64});
     }},
    {"mobilenet_v3", 1,
     [] {
       return network("mobilenet_v3_small", {1, 3, 64, 64});
     }},
    {"training_step", 4, training_step},
    {"replayed", 1,
     [] {
       return replayed_network("mobilenet_v3_small", {1, 3, 64, 64});
     }},
};

}  // namespace

int main(int count, char** arguments) {
  const std::string wanted = count > 1 ? arguments[1] : "";
  if (wanted == "--key") {
    const std::string isa(ls::name_of(ls::selected_isa()));
#ifdef __clang__
    std::printf("clang %d.%d.%d %s\n", __clang_major__, __clang_minor__, __clang_patchlevel__, isa.c_str());
#else
    std::printf("g++ %d.%d.%d %s\n", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__, isa.c_str());
#endif
    return 0;
  }
  ls::set_num_threads(1);
  for (const Work& work : kWork) {
    if (wanted.empty()) std::printf("%s\n", work.name);
    if (wanted != work.name) continue;
    const std::function<void()> step = work.prepare();
    for (int i = 0; i < 4; ++i) step();
    lockstep_counted_work(step, work.times);
    return 0;
  }
  if (!wanted.empty()) std::fprintf(stderr, "fixed_work: no work is called %s\n", wanted.c_str());
  return wanted.empty() ? 0 : 2;
}
