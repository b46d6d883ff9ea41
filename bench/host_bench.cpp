// What launching kernels costs the host: recording ops, finding the cached plan, binding memory and launching, without
// waiting for the device. One JSON object per line: {"name", "kernels", "us_per_kernel", "ms_per_step", "replays"}:
// medians, and how many lists of launches were replayed in a step; "first_ms" is the first step with all waiting, and
// "compiled" how many kernels were compiled in it (with XDG_CACHE_HOME at an empty folder all, the next time none).
//
//   host_bench [device]        default: cuda:0; "none" is a device that computes nothing, on machines without a GPU
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "backends/gpu/backend.h"
#include "graph/window.h"
#include "support/fake_driver.h"

namespace ls = lockstep;

namespace {

/// What a driver is asked for takes no time here, also where launches are replayed.
class NoDriver : public ls::test::FakeDriver {
 public:
  NoDriver() : FakeDriver(std::make_shared<ls::test::FakeDevice>()) {}
  std::unique_ptr<ls::gpu::Recording> record(std::span<const ls::gpu::Command>) override {
    return std::make_unique<ls::gpu::Recording>();
  }
  bool can_change() const override { return true; }
};

ls::Device open_device(const std::string& name) {
  if (name != "none") return ls::Device::parse(name);
  constexpr ls::Device kNone{ls::DeviceKind::cuda, 900};
  ls::register_backend(std::make_unique<ls::gpu::GpuBackend>(kNone, std::make_unique<NoDriver>(), ""));
  return kNone;
}

void measure(const char* name, ls::Device device, const std::function<void()>& step) {
  ls::Backend& backend = ls::backend_of(device);
  const ls::BufferRef mark = backend.allocate(4);
  const auto wait = [&] {
    std::uint32_t word = 0;
    backend.download(&word, *mark, 4);
  };
  const auto* const gpu = dynamic_cast<const ls::gpu::GpuBackend*>(&backend);
  const std::size_t compiled_before = gpu == nullptr ? 0 : gpu->compiled_kernels();
  const auto first_start = std::chrono::steady_clock::now();
  step();
  wait();
  const double first = std::chrono::duration<double>(std::chrono::steady_clock::now() - first_start).count();
  const std::size_t compiled = gpu == nullptr ? 0 : gpu->compiled_kernels() - compiled_before;
  for (int i = 0; i < 40; ++i) step();  // until memory comes again, too
  std::vector<double> seconds;
  const std::uint64_t replays_before = gpu == nullptr ? 0 : gpu->replays();
  const std::uint64_t before = ls::graph::window_statistics(device).kernels;
  for (int i = 0; i < 50; ++i) {
    wait();  // the queue is empty, so that no launch waits for a place in it
    const auto start = std::chrono::steady_clock::now();
    step();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  const double kernels =
      static_cast<double>(ls::graph::window_statistics(device).kernels - before) / static_cast<double>(seconds.size());
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  const double median = seconds[seconds.size() / 2];
  const double replays = gpu == nullptr ? 0 : static_cast<double>(gpu->replays() - replays_before) / 50;
  std::printf(
      "{\"name\": \"%s\", \"kernels\": %.0f, \"us_per_kernel\": %.3f, \"ms_per_step\": %.3f, \"replays\": %.1f, "
      "\"first_ms\": %.1f, \"compiled\": %zu}\n",
      name, kernels, 1e6 * median / kernels, 1e3 * median, replays, 1e3 * first, compiled);
  std::fflush(stdout);
}

}  // namespace

int main(int count, char** arguments) {
  try {
    const ls::Device device = open_device(count > 1 ? arguments[1] : "cuda:0");
    ls::manual_seed(1);
    const ls::Tensor x = ls::randn({64, 64}, {.device = device}).eval();
    measure("one_op", device, [&] { (x * 2.0).eval(); });
    measure("chain_of_100", device, [&] {
      ls::Tensor y = x;
      for (int i = 0; i < 100; ++i) y = ls::matmul(y, x);
      y.eval();
    });

    ls::models::CifarResNet net(10, 20);
    net.to(device);
    ls::optim::SGD optimizer(net.parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 1e-4});
    const ls::Tensor images = ls::randn({2, 3, 8, 8}, {.device = device}).eval();
    const ls::Tensor classes = ls::zeros({2}, {.dtype = ls::DType::i64, .device = device}).eval();
    measure("resnet20_train", device, [&] { optimizer.step(ls::cross_entropy(net.forward(images), classes)); });

    const std::shared_ptr<ls::nn::Layer> large = ls::models::architecture("resnet50").create(1000);
    large->to(device);
    large->eval();
    const ls::Tensor image = ls::randn({1, 3, 224, 224}, {.device = device}).eval();
    measure("resnet50", device, [&] {
      const ls::NoGrad no_grad;
      large->forward(image).eval();
    });
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
