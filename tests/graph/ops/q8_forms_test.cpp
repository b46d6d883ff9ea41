// Many rows in q8 numerics by each of the instructions that GPUs have for them: a device that has more is told that it
// has less, and software multiplies cooperative matrices by loops. Bits are those of the CPU.
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "support/limited_driver.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

class Q8Forms : public ::testing::Test {
 protected:
  void SetUp() override {
    if (test::limited_devices().empty()) GTEST_SKIP() << "no GPU under test: LOCKSTEP_TEST_DEVICES";
  }
  static void expect_bits_of_the_cpu(const std::string& what, const std::function<Tensor(Device)>& compute) {
    const NumericsScope scope(Numerics::q8);
    const Device cpu{DeviceKind::cpu, 0};
    const Tensor expected = compute(cpu).eval();
    for (const test::Limited& limited : test::limited_devices()) {
      EXPECT_BITS_EQ(compute(limited.device).to(cpu), expected) << what << " on " << limited.what;
    }
  }
  /// A product with an epilogue, of activations as large as `size`.
  static void check(Encoding encoding, std::int64_t rows, std::int64_t columns, std::int64_t k, bool special,
                    float size = 1) {
    const std::string what = fmt::format("{} {} x {} x {} of {}", info_of(encoding).name, rows, columns, k, size);
    expect_bits_of_the_cpu(what, [&](Device device) {
      const Tensor x = (random_tensor({rows, k}, DType::f32, 1, device, special) * size).eval();
      const Tensor weight = random_packed({columns, k}, encoding, 2, device, special);
      const Tensor product = linear(x, weight) * 3;
      if (size < 1) return product;  // what is added would hide it
      return product + random_tensor({rows, columns}, DType::f32, 3, device);
    });
  }
};

// Tiles of each size, with rows and columns that fill none: columns that begin at any byte, with factors and offsets or
// without, for 16 or for 32. All encodings, and larger tiles, are in q8_test.cpp, for devices that compile fast.
TEST_F(Q8Forms, ManyRowsHaveTheSameBits) {
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q5_1, Encoding::q2_k, Encoding::q4_k, Encoding::iq4_xs}) {
    check(encoding, 20, 70, 512, true);
  }
  check(Encoding::q3_k, 60, 30, 768, false);
  check(Encoding::q6_k, 50, 70, 512, true);
}

// Some of whose sums are subnormal, or would be if a product's were not zero.
TEST_F(Q8Forms, SmallActivationsHaveTheSameBits) {
  for (const float size : {1e-26f, 1e-31f, 1e-33f, 1e-36f}) {
    for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_k, Encoding::mxfp4}) {
      check(encoding, 33, 40, 768, false, size);
    }
  }
}

// Blocks with one element, of scales that are almost the same, so that sums of two signs are subnormal until the next
// block is added: a device that flushes them is found out.
TEST_F(Q8Forms, SubnormalSumsHaveTheSameBits) {
  constexpr std::int64_t kRows = 50, kColumns = 70, kLength = 768, kBlocks = kLength / 32;
  std::vector<float> rows(kRows * kLength);
  for (std::int64_t i = 0; i < kRows * kBlocks; ++i) {
    rows[static_cast<std::size_t>(32 * i)] = std::ldexp(127.0f * (1024.0f + static_cast<float>(i % 7)), -133);
  }
  // Of a scale and 32 codes, the first of which is 1 or -1: those of q4_0 are less 8, those of mxfp4 floats.
  struct Weights {
    Encoding encoding;
    std::vector<std::uint8_t> scale;
    std::uint8_t zeros, first[2];
  };
  for (const Weights& w : {Weights{Encoding::q4_0, {0x00, 0x34}, 0x88, {0x89, 0x87}},
                           Weights{Encoding::mxfp4, {126}, 0x00, {0x02, 0x0a}}}) {
    std::vector<std::uint8_t> blocks;
    std::uint32_t state = 1;
    for (std::int64_t i = 0; i < kColumns * kBlocks; ++i) {
      blocks.insert(blocks.end(), w.scale.begin(), w.scale.end());
      blocks.push_back(w.first[(state = state * 1664525 + 1013904223) >> 31]);
      blocks.insert(blocks.end(), 15, w.zeros);
    }
    expect_bits_of_the_cpu(std::string(info_of(w.encoding).name), [&](Device device) {
      const Tensor x = Tensor::from(rows, {kRows, kLength}, device);
      return linear(x, Tensor::from_blocks(blocks.data(), blocks.size(), {kColumns, kLength}, w.encoding, device));
    });
  }
}

}  // namespace
}  // namespace lockstep
