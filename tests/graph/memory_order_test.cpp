// Where results lie in the scope of fast numerics (docs/numerics.md section 13): like their operands, and otherwise as
// in every scope. No device with fast numerics is needed: nothing is multiplied here.
#include "graph/memory_order.h"

#include <functional>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "graph/make.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

using graph::read;

/// Neighbours along each dimension are this far apart.
Shape steps_of(const Tensor& tensor) {
  return read(tensor).view.strides;
}

// x [N, C, H, W], whose channels lie last.
Tensor picture() {
  manual_seed(3);
  return randn({2, 4, 5, 3}).eval().permute({0, 3, 1, 2});  // [2, 3, 4, 5]
}

TEST(MemoryOrder, ResultsLieLikeTheirOperands) {
  const Tensor x = picture();
  const Shape last{60, 1, 15, 3};
  ASSERT_EQ(steps_of(x), last);
  const std::function<Tensor()> computations[] = {
      [&] { return relu(x); },
      [&] { return x * 2.0 + x; },
      [&] { return x.to(DType::bf16); },
      [&] {
        return x - ones({3, 1, 1}) * 0.5;
      },
      [&] { return where(x > 0.0, x, -x); },
      [&] {
        return ones({2, 3, 4, 5}) + x;
      },
  };
  for (const auto& compute : computations) {
    const Tensor plain = compute();
    EXPECT_EQ(steps_of(plain), (Shape{60, 20, 5, 1}));
    const NumericsScope scope(Numerics::fast);
    const Tensor fast = compute();
    EXPECT_EQ(steps_of(fast), last);
    EXPECT_BITS_EQ(fast, plain);
  }
}

// One picture, and one column: dimensions of one element lie anywhere.
TEST(MemoryOrder, DimensionsOfOneElementDoNotMatter) {
  manual_seed(4);
  const Tensor x = randn({1, 4, 1, 3}).eval().permute({0, 3, 1, 2});
  const Tensor plain = exp(x);
  const NumericsScope scope(Numerics::fast);
  const Tensor fast = exp(x);
  EXPECT_EQ(steps_of(fast)[1], 1);
  EXPECT_EQ(steps_of(fast)[2], 3);
  EXPECT_BITS_EQ(fast, plain);
}

// Sums of the same elements in the same order.
TEST(MemoryOrder, ReductionsKeepTheirBits) {
  const Tensor x = picture();
  const std::function<Tensor()> computations[] = {
      [&] { return max_pool2d(x, {3}, {.stride = {2}, .padding = {1}}); },
      [&] { return avg_pool2d(x, {2}); },
      [&] {
        return sum(x, {0, 2, 3}, true);
      },
      [&] {
        return mean(x, {2, 3});
      },
      [&] { return argmax(x, 1); },
      [&] { return softmax(x, 1); },
      [&] { return batch_norm_training(x, {}, {}, ones({3}), zeros({3}), 0.1, 1e-5).output; },
  };
  for (const auto& compute : computations) {
    const Tensor plain = compute();
    const NumericsScope scope(Numerics::fast);
    EXPECT_BITS_EQ(compute(), plain);
  }
  const NumericsScope scope(Numerics::fast);
  EXPECT_EQ(steps_of(max_pool2d(x, {3}, {.stride = {2}, .padding = {1}})), (Shape{18, 1, 9, 3}));
}

TEST(MemoryOrder, GradientsAreThoseOfEveryScope) {
  const auto slopes = [](Numerics numerics) {
    const NumericsScope scope(numerics);
    const Tensor x = requires_grad(picture());
    const Tensor scale = requires_grad(ones({3, 1, 1}) * 0.5);
    const Tensor y = max_pool2d(relu(x * scale), {3}, {.stride = {2}, .padding = {1}});
    return gradients(sum(y * y), {x, scale});
  };
  const std::vector<Tensor> plain = slopes(Numerics::exact);
  const std::vector<Tensor> fast = slopes(Numerics::fast);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_BITS_EQ(fast[i], plain[i]) << i;
}

}  // namespace
}  // namespace lockstep
