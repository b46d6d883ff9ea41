// Products in every shape that backends treat differently: one element to many, k below, at and above the block of 256,
// operands contiguous along their own dimensions, along k, or along neither, windows, batches that one operand repeats.
#include <gtest/gtest.h>

#include <algorithm>

#include <fmt/format.h>

#include <lockstep/autograd.h>

#include "backends/backend.h"
#include "support/long_forms.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

struct Product {
  std::int64_t batch, m, n, k;
};

Tensor operand(const Shape& shape, bool transposed, DType dtype, std::uint64_t seed, Device device) {
  if (!transposed) return random_tensor(shape, dtype, seed, device, true);
  Shape swapped = shape;
  std::swap(swapped[shape.rank() - 1], swapped[shape.rank() - 2]);
  return random_tensor(swapped, dtype, seed, device, true).transpose(-1, -2);
}

TEST(ContractionForms, MatricesOfEveryShape) {
  int seed = 0;
  for (const Product& p : {Product{1, 65, 66, 33},
                           {1, 64, 64, 256},
                           {1, 20, 30, 700},
                           {1, 68, 132, 516},
                           {1, 130, 17, 257},
                           {3, 17, 18, 40},
                           {2, 33, 35, 520},
                           {1, 1, 100, 600},
                           {1, 100, 1, 600},
                           {1, 600, 3, 516},
                           {1, 8, 640, 260},
                           {2, 40, 2, 300},
                           {40, 3, 5, 7},
                           {1, 16, 16, 1100},
                           {1, 1, 1, 2000}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        ++seed;
        const auto s = static_cast<std::uint64_t>(seed);
        SCOPED_TRACE(
            fmt::format("{} x [{}, {}] x [{}, {}] {}{}", p.batch, p.m, p.k, p.k, p.n, a_transposed, b_transposed));
        const DType dtype = seed % 5 == 0 ? DType::bf16 : seed % 7 == 0 ? DType::f16 : DType::f32;
        same_everywhere([&](Device device) {
          return matmul(operand({p.batch, p.m, p.k}, a_transposed, dtype, s, device),
                        operand({p.batch, p.k, p.n}, b_transposed, dtype, s + 100, device));
        });
      }
    }
  }
}

// A block of k that is not whole at the end, and rows that end within a workgroup.
TEST(ContractionForms, HalvesTimesAVector) {
  const std::int64_t m = long_forms() ? 2420 : 148;
  for (const bool transposed : {false, true}) {
    SCOPED_TRACE(transposed);
    same_everywhere([&](Device device) {
      return matmul(operand({1, m, 1112}, transposed, DType::f16, 1, device),
                    operand({1, 1112, 1}, false, DType::f16, 2, device));
    });
  }
}

// Rows enough for workgroups that have all of k, more of it than they have at once.
TEST(ContractionForms, MatricesTimesAFewVectors) {
  int seed = 200;
  for (const Product& p : {Product{1, 4300, 1, 2100},
                           {1, 300, 1, 5000},
                           {1, 100, 2, 2304},
                           {1, 130, 5, 4100},
                           {1, 260, 8, 1032},
                           {3, 70, 1, 2200},
                           {1, 600, 1, 3000},
                           {1, 2150, 1, 4608}}) {
    const auto s = static_cast<std::uint64_t>(++seed);
    const std::int64_t m = long_forms() ? p.m : std::min<std::int64_t>(p.m, 130);
    SCOPED_TRACE(fmt::format("{} x [{}, {}] x [{}, {}]", p.batch, m, p.k, p.k, p.n));
    const bool left = seed % 2 == 1;
    const DType dtype = seed % 3 == 0 ? DType::bf16 : seed % 3 == 1 ? DType::f16 : DType::f32;
    same_everywhere([&](Device device) {
      const Tensor a = operand({p.batch, m, p.k}, false, dtype, s, device);
      const Tensor x = operand({p.batch, p.k, p.n}, true, dtype, s + 100, device);
      const Tensor product = left ? matmul(a, x) : matmul(x.transpose(-1, -2), a.transpose(-1, -2));
      return gelu(product + random_tensor({left ? p.n : m}, dtype, s + 200, device)) * 2.0;
    });
  }
}

// Which streams through shared memory on a device that has as much as a Hopper, over columns enough for its units.
TEST(ContractionForms, AFewRowsTimesMatricesOfSixteenBits) {
  std::uint64_t seed = 300;
  for (const Product& p : {Product{1, 1, 2112, 2816},
                           {1, 1, 1088, 4352},
                           {1, 3, 4224, 768},
                           {1, 4, 1600, 1280},
                           {1, 2, 2128, 4096},
                           {1, 1, 2112, 14336}}) {
    seed += 10;
    const std::int64_t n = long_forms() ? p.n : p.n / 16;
    SCOPED_TRACE(fmt::format("[{}, {}] x [{}, {}]", p.m, p.k, p.k, n));
    for (const DType dtype : {DType::bf16, DType::f16}) {
      same_everywhere([&](Device device) {
        const Tensor x = random_tensor({p.m, p.k}, dtype, seed, device, true);
        const Tensor w = random_tensor({n, p.k}, dtype, seed + 1, device, true);
        return silu(linear(x, w) + random_tensor({n}, dtype, seed + 2, device));
      });
    }
  }
  // Rows that lie between others, and a part of a matrix.
  same_everywhere([](Device device) {
    const Tensor x = random_tensor({2, 3, 1024}, DType::bf16, 1, device).select(1, 1);
    const Tensor w = random_tensor({1632, 1280}, DType::bf16, 2, device).narrow(0, 16, 1600).narrow(1, 128, 1024);
    return linear(x, w);
  });
}

TEST(ContractionForms, OtherTypes) {
  for (const DType dtype : {DType::i8, DType::i32, DType::i64, DType::f64}) {
    for (const Product& p : {Product{1, 70, 65, 300}, {2, 20, 21, 9}, {1, 33, 1, 600}}) {
      same_everywhere([&](Device device) {
        const auto random = [&](const Shape& shape, std::uint64_t seed) {
          return (random_tensor(shape, dtype == DType::f64 ? dtype : DType::f32, seed, device) * 50.0).to(dtype);
        };
        return matmul(random({p.batch, p.m, p.k}, 1), random({p.k, p.n}, 2));
      });
    }
  }
}

TEST(ContractionForms, RepeatedBatchesAndEpilogues) {
  same_everywhere([](Device device) {
    const Tensor x = random_tensor({5, 30, 300}, DType::f32, 1, device);
    const Tensor w = random_tensor({300, 44}, DType::f32, 2, device);
    return gelu(matmul(x, w) + random_tensor({44}, DType::f32, 3, device)) *
           random_tensor({5, 30, 44}, DType::f32, 4, device);
  });
  same_everywhere([](Device device) {
    return matmul(random_tensor({70, 40}, DType::f32, 1, device), random_tensor({6, 40, 20}, DType::f32, 2, device)) *
           2.0;
  });
}

TEST(ContractionForms, ConvolutionsOfEveryKind) {
  struct Conv {
    std::int64_t images, channels, side, outputs, kernel, stride, groups;
  };
  for (const Conv& c : {Conv{2, 16, 12, 20, 3, 1, 1},
                        {3, 64, 7, 70, 3, 1, 1},
                        {2, 8, 16, 72, 1, 1, 1},
                        {1, 3, 20, 24, 7, 2, 1},
                        {2, 32, 9, 32, 3, 1, 32},
                        {2, 24, 9, 48, 3, 2, 2},
                        {4, 80, 8, 16, 1, 2, 1}}) {
    SCOPED_TRACE(
        fmt::format("{} images of {} x {}, {} outputs, kernel {}", c.images, c.channels, c.side, c.outputs, c.kernel));
    const auto convolve = [&](Device device, int which) {
      const Tensor x = requires_grad(random_tensor({c.images, c.channels, c.side, c.side}, DType::f32, 1, device));
      const Tensor w =
          requires_grad(random_tensor({c.outputs, c.channels / c.groups, c.kernel, c.kernel}, DType::f32, 2, device));
      const Tensor y =
          conv2d(x, w, std::nullopt, {.stride = {c.stride}, .padding = {c.kernel / 2}, .groups = c.groups});
      return which == 0 ? detach(y) : gradients(sum(y * y), {which == 1 ? x : w})[0];
    };
    for (const int which : {0, 1, 2}) same_everywhere([&](Device device) { return convolve(device, which); });
  }
}

// Too much for the reference and for software devices: those are held against it by the tests above.
TEST(ContractionForms, LargeOnesEqualTheCpusSlow) {
  for (const Product& p : {Product{1, 2048, 2100, 520},
                           {1, 2100, 2048, 512},
                           {1, 4100, 4100, 64},
                           {1, 1030, 3000, 300},
                           {1, 8192, 1, 4096},
                           {1, 1, 8192, 4096},
                           {1, 4096, 5, 2048},
                           {1, 128, 128, 20000},
                           {24, 256, 256, 300}}) {
    for (const bool b_transposed : {false, true}) {
      SCOPED_TRACE(fmt::format("{} x [{}, {}] x [{}, {}] {}", p.batch, p.m, p.k, p.k, p.n, b_transposed));
      Tensor expected;
      for (const Device& device : test_devices()) {
        if (device.kind == DeviceKind::ref || is_software(device)) continue;
        if (!expected.defined() && device.kind != DeviceKind::cpu) continue;
        const Tensor value = matmul(operand({p.batch, p.m, p.k}, false, DType::f32, 1, device),
                                    operand({p.batch, p.k, p.n}, b_transposed, DType::f32, 2, device));
        if (device.kind == DeviceKind::cpu) {
          if (test_devices().size() == 2) return;  // nothing to compare with
          expected = value.eval();
        } else {
          EXPECT_BITS_EQ(expected, value);
        }
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
