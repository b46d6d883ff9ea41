// Values that kernels compute again rather than read: the same bits, with less memory.
#include "graph/recompute.h"

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/tensors.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t kSide = 256;
constexpr std::size_t kBytes = kSide * kSide * sizeof(float);

// As in the gradient of a batch norm: one kernel makes g, another reads g and d and wants g * d, too.
TEST(Recompute, ProductOfWhatIsReadAnywayIsNotStored) {
  const Tensor x = random_tensor({kSide, 8}, DType::f32, 1).eval();
  const Tensor w = random_tensor({8, kSide}, DType::f32, 2).eval();
  const Tensor d = random_tensor({kSide, kSide}, DType::f32, 3).eval();
  const std::size_t live = memory_statistics().live;
  reset_peak_memory();
  Tensor y;
  {
    const Tensor g = matmul(x, w);
    y = g * d - d * sum(g, {0}, true);
  }
  y.eval();
  const std::size_t peak = memory_statistics().peak - live;
  EXPECT_LT(peak, 2 * kBytes + kBytes / 2);  // g and y

  const Tensor g = matmul(x, w).eval();
  const Tensor product = (g * d).eval();
  const Tensor scaled = (d * sum(g, {0}, true).eval()).eval();
  EXPECT_BITS_EQ(y, product - scaled);
}

}  // namespace
}  // namespace lockstep::test
