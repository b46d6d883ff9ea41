// Prints the devices, a line each, and then the milliseconds of a product of matrices: the library is as fast however a
// program got it (scripts/test_stages/subproject).
#include <lockstep/lockstep.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

int main() {
  namespace ls = lockstep;
  for (const ls::Device& device : ls::Device::all()) std::printf("%s\n", device.to_string().c_str());
  const ls::Tensor a = (ls::ones({512, 512}) * 0.5).eval();
  double best = 1e9;
  for (int i = 0; i < 30; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ls::exp(ls::matmul(a, a) * 1e-3).eval();
    best = std::min(best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::printf("%.3f\n", best);
}
