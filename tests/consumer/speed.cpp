// Prints the devices, a line each, the hash of a network's results, and then the milliseconds of its forward pass on the CPU:
// the library is the same, and as fast, however a program got it (tests/consumer/same_speed).
#include <lockstep/lockstep.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

int main() {
  namespace ls = lockstep;
  for (const ls::Device& device : ls::Device::all()) std::printf("%s\n", device.to_string().c_str());
  ls::manual_seed(1);
  const auto network = ls::models::architecture("resnet20-cifar").create(10);
  network->eval();
  const ls::NoGrad no_grad;
  const ls::Tensor pictures = ls::randn({32, 3, 32, 32}, ls::Device{}).eval();
  std::printf("%016llx\n", static_cast<unsigned long long>(network->forward(pictures).hash()));
  double best = 1e9;
  for (int i = 0; i < 20; ++i) {
    const auto start = std::chrono::steady_clock::now();
    network->forward(pictures).eval();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%.3f\n", best);
}
