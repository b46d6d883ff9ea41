// Many rows in q8 numerics by each of the instructions that GPUs have for them: a device that has more is told that it
// has less, and software multiplies cooperative matrices by loops. Bits are those of the CPU.
#include <string>
#include <vector>

#include <gtest/gtest.h>

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
  /// A product with an epilogue, of activations as large as `size`.
  static void check(Encoding encoding, std::int64_t rows, std::int64_t columns, std::int64_t k, bool special,
                    float size = 1) {
    SCOPED_TRACE(std::string(info_of(encoding).name) + " " + std::to_string(rows) + " x " + std::to_string(columns) +
                 " x " + std::to_string(k) + " of " + std::to_string(size));
    const auto compute = [&](Device device) {
      const NumericsScope scope(Numerics::q8);
      const Tensor x = (random_tensor({rows, k}, DType::f32, 1, device, special) * size).eval();
      const Tensor weight = random_packed({columns, k}, encoding, 2, device, special);
      const Tensor product = linear(x, weight) * 3;
      if (size < 1) return product.eval();  // what is added would hide it
      return (product + random_tensor({rows, columns}, DType::f32, 3, device)).eval();
    };
    const Device cpu{DeviceKind::cpu, 0};
    const Tensor expected = compute(cpu);
    for (const test::Limited& limited : test::limited_devices()) {
      EXPECT_BITS_EQ(compute(limited.device).to(cpu), expected) << limited.what;
    }
  }
};

// Tiles of each size, with rows and columns that fill none: columns that begin at any byte, with factors and offsets or
// without, for 16 or for 32. All encodings, and larger tiles, are in q8_test.cpp, for devices that compile fast.
TEST_F(Q8Forms, ManyRowsHaveTheSameBits) {
  for (const Encoding encoding : {Encoding::q4_0, Encoding::q5_1, Encoding::q2_k, Encoding::q4_k, Encoding::iq4_xs}) {
    check(encoding, 20, 70, 512, true);
  }
  check(Encoding::q3_k, 70, 37, 768, false);
  check(Encoding::q6_k, 129, 70, 512, true);
}

// Some of whose sums are subnormal, or would be if a product's were not zero.
TEST_F(Q8Forms, SmallActivationsHaveTheSameBits) {
  for (const float size : {1e-26f, 1e-31f, 1e-33f, 1e-36f}) {
    for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_k, Encoding::mxfp4}) {
      check(encoding, 33, 40, 768, false, size);
    }
  }
}

}  // namespace
}  // namespace lockstep
