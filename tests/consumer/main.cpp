#include <lockstep/lockstep.h>

#include <cstdio>

int main() {
  lockstep::Tensor x = lockstep::full({2, 3}, 1.5);
  std::printf("%g\n", double(lockstep::sum(x + 1.0).item<float>()));
}
