// Sums and products whose terms or partial results are subnormal: accumulators keep those on every device, also on one
// that flushes them (docs/numerics.md section 1).
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "support/long_forms.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

/// Values of both signs with exponents in [least, most]; one in eight is ordinary, or zero.
Tensor tiny(const Shape& shape, int least, int most, std::uint64_t seed, Device device) {
  std::mt19937_64 random(seed);
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) {
    const double significand = 1 + static_cast<double>(random() >> 41) * 0x1p-23;
    const int exponent = least + static_cast<int>(random() % static_cast<std::uint64_t>(most - least + 1));
    value = static_cast<float>(std::ldexp(significand, exponent)) * (random() % 2 == 0 ? 1.0F : -1.0F);
    if (random() % 8 == 0) value = random() % 4 == 0 ? 0.0F : static_cast<float>(significand) * 0x1p-126F;
  }
  return Tensor::from(values, shape, device);
}

TEST(TinySums, ProductsOfEveryForm) {
  constexpr std::int64_t kSizes[][3] = {{70, 66, 40}, {70, 66, 300}, {17, 5, 100},
                                        {3, 3, 2000}, {1, 700, 600}, {300, 4, 516}};
  for (const auto& [m, n, k] : kSizes) {
    SCOPED_TRACE(std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k));
    same_everywhere([&, rows = m, columns = n, length = k](Device device) {
      return matmul(tiny({rows, length}, -75, -50, 1, device), tiny({length, columns}, -75, -60, 2, device));
    });
    // Most terms are harmless, so that both ways of a tile meet in one product.
    same_everywhere([&, rows = m, columns = n, length = k](Device device) {
      const Tensor ordinary = random_tensor({rows, length}, DType::f32, 3, device);
      const Tensor late =
          cat({ordinary.narrow(1, 0, length / 2), tiny({rows, length - length / 2}, -75, -30, 4, device)}, 1);
      return matmul(late, random_tensor({length, columns}, DType::f32, 5, device) * 0x1p-60);
    });
  }
}

// Rows enough for workgroups that have all of k.
TEST(TinySums, MatricesTimesAVector) {
  const std::int64_t rows = long_forms() ? 2400 : 150;
  for (const std::int64_t k : {512, 2104}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(std::string(name_of(dtype)) + " " + std::to_string(k));
      same_everywhere([&](Device device) {
        return matmul(tiny({rows, k}, -75, -50, 1, device).to(dtype), tiny({k, 1}, -75, -60, 2, device).to(dtype));
      });
      same_everywhere([&](Device device) {
        const Tensor ordinary = random_tensor({rows, k / 2}, DType::f32, 3, device);
        const Tensor late = cat({ordinary, tiny({rows, k / 2}, -75, -30, 4, device)}, 1).to(dtype);
        return matmul(random_tensor({1, k}, dtype, 5, device) * 0x1p-60, late.transpose(0, 1));
      });
    }
  }
}

// Squares of which some, or all, are so small that sums of them could be subnormal.
TEST(TinySums, SumsOfSquaresInRowsAndColumns) {
  constexpr std::int64_t kSizes[][2] = {{5, 60},   {5, 300},  {3, 1024}, {3, 3000},
                                        {2, 4096}, {2, 9000}, {300, 70}, {5000, 24}};
  for (const auto& [rows, columns] : kSizes) {
    SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
    for (const std::int64_t dim : {0, 1}) {
      same_everywhere([&, m = rows, n = columns](Device device) {
        return var(tiny({m, n}, -75, -55, 1, device), {dim}, false, 0);
      });
      same_everywhere([&, m = rows, n = columns](Device device) {
        const Tensor late = tiny({m, n - n / 2}, -75, -30, 4, device);
        const Tensor x = cat({random_tensor({m, n / 2}, DType::f32, 3, device) * 0x1p-20, late}, 1);
        return cat({norm(x, {dim}), cosine_similarity(x, x * 0x1p-30, static_cast<int>(dim), 0)}, 0);
      });
      // What is added exactly stays so, though all that comes behind is zero or harmless.
      same_everywhere([&, m = rows, n = columns](Device device) {
        const Tensor ordinary = random_tensor({m, n - n / 2}, DType::f32, 3, device);
        const Tensor zeros_behind = cat({tiny({m, n / 2}, -75, -65, 4, device), ordinary * 0.0}, 1);
        const Tensor more_behind = cat({tiny({m, n / 2}, -75, -65, 5, device), ordinary * 0x1p-37}, 1);
        return cat({norm(zeros_behind, {dim}), cosine_similarity(more_behind, zeros_behind, static_cast<int>(dim), 0)},
                   0);
      });
    }
  }
}

TEST(TinySums, SumsProductsScansAndScatters) {
  for (const std::int64_t length : {3, 100, 5000}) {
    SCOPED_TRACE(length);
    const auto of = [&](Device device) { return tiny({7, length}, -126, -120, 1, device); };
    same_everywhere([&](Device device) { return sum(of(device), {1}); });
    same_everywhere([&](Device device) { return sum(of(device), {0}); });
    same_everywhere([&](Device device) { return cumsum(of(device), 1); });
    same_everywhere([&](Device device) { return prod(tiny({7, length}, -20, 18, 2, device), {1}); });
    same_everywhere([&](Device device) { return cumprod(tiny({7, length}, -20, 18, 3, device), 1); });
    same_everywhere([&](Device device) {
      const Tensor index = remainder(arange(static_cast<double>(length), {.dtype = DType::i64, .device = device}), 4);
      return scatter_add(zeros({7, 4}, {.device = device}), 1, index.reshape({1, length}).expand({7, length}),
                         of(device));
    });
    same_everywhere([&](Device device) { return var(tiny({7, length}, -70, -60, 4, device), {1}); });
  }
}

}  // namespace
}  // namespace lockstep
