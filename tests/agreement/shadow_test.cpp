#include <lockstep/shadow.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "agreement/isa_backend.h"
#include "agreement/planted_bit.h"
#include "support/random_graph.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using ::testing::HasSubstr;

const Device kReference{DeviceKind::ref, 0};

// The third value that is computed here.
Tensor computed(const nn::Linear& layer) {
  const Tensor x = exp(ones({2, 3}).eval()).eval();
  return relu(layer(x)).eval();
}

TEST(Shadow, StopsWhereABitDiffersAndSaysWhich) {
  manual_seed(1);
  const nn::Linear layer(3, 4);
  const Tensor expected = computed(layer);
  const Shadow shadow(kReference, {.cases = ""});
  EXPECT_TRUE(equal(computed(layer), expected));
  EXPECT_GT(shadow.counts().compared, 0u);
  EXPECT_EQ(shadow.counts().different, 0u);
  std::uint64_t last = 0;
  {
    const test::PlantedBit count(Device{}, ~std::uint64_t{0}, 0, 0);
    computed(layer);
    last = count.values() - 1;
  }
  const test::PlantedBit plant(Device{}, last, 5, 30);
  try {
    computed(layer);
    FAIL();
  } catch (const ShadowError& error) {
    const ShadowDifference& found = error.difference();
    EXPECT_EQ(found.shape, (Shape{2, 4}));
    EXPECT_EQ(found.index, (Shape{1, 1}));
    EXPECT_THAT(found.ops, HasSubstr("linear"));
    EXPECT_THAT(found.file, HasSubstr("shadow_test.cpp"));
    ASSERT_TRUE(found.ulps);
    EXPECT_EQ(*found.ulps, std::uint64_t{1} << 30);
    EXPECT_THAT(error.what(), HasSubstr("1 of 8 elements, the first at [1, 1]"));
  }
}

TEST(Shadow, FollowsTheOtherDevice) {
  manual_seed(1);
  const nn::Linear layer(3, 4);
  const Tensor expected = computed(layer);
  int differences = 0;
  const Shadow shadow(
      kReference,
      {.policy = ShadowPolicy::follow, .cases = "", .on_difference = [&](const ShadowDifference&) { ++differences; }});
  const test::PlantedBit plant(Device{}, 1, 2, 13);
  EXPECT_TRUE(equal(computed(layer), expected));
  EXPECT_EQ(differences, 1);
}

TEST(Shadow, LooksAtAChoiceOfKernels) {
  const auto run = [](ShadowOptions options) {
    const Shadow shadow(kReference, std::move(options));
    for (int i = 0; i < 6; ++i) {
      exp(full({4}, 0.1 * i)).eval();
      sin(full({4}, 0.1 * i)).eval();
    }
    return shadow.counts();
  };
  EXPECT_EQ(run({}).compared, 12u);
  EXPECT_EQ(run({.ops = {"sin"}}).compared, 6u);
  EXPECT_EQ(run({.ops = {"sin"}}).passed_over, 6u);
  EXPECT_EQ(run({.every = 3}).compared, 4u);
}

// One row of fifty, another each time: a fault in one of them is found sooner or later, and nothing else is.
TEST(Shadow, LooksAtAChoiceOfRows) {
  const Tensor x = random_tensor({50, 8}, DType::f32, 3).eval();
  const Tensor weight = random_tensor({6, 8}, DType::f32, 4).eval();
  int found = 0;
  const Shadow shadow(
      kReference,
      {.policy = ShadowPolicy::report, .rows = 5, .cases = "", .on_difference = [&](const ShadowDifference& one) {
         ++found;
         EXPECT_EQ(one.index[0], 7);
       }});
  constexpr int kRuns = 100;
  for (int i = 0; i < kRuns; ++i) {
    const test::PlantedBit plant(Device{}, 0, 7 * 6, 20);
    i % 2 == 0 ? linear(x, weight).eval() : softmax(x.narrow(1, 0, 6) * 2.0, 1).eval();
  }
  EXPECT_GT(found, 2);
  EXPECT_LT(found, 40);
  const int before = found;
  for (std::uint64_t seed = 1; seed < 40; ++seed) {
    RandomGraph graph(seed, Device{});
    graph.grow(15);
    for (const Tensor& value : graph.values()) value.eval();
  }
  EXPECT_EQ(found, before);
}

struct SmallBackend : test::IsaBackend {
  SmallBackend() : IsaBackend(available_isas().front()) {}
  Device device() const override { return {DeviceKind::cpu, 30}; }
  std::size_t memory_bytes() const override { return 5000; }
};

TEST(Shadow, WhatItsMemoryCannotHoldIsKnownBeforeAnythingRuns) {
  register_backend(std::make_unique<SmallBackend>());
  const Shadow shadow(Device{DeviceKind::cpu, 30});
  const Tensor x = random_tensor({40}, DType::f32, 1).eval();
  const auto large = [&] { return sum(matmul(x.reshape({40, 1}), x.reshape({1, 40}))); };  // 6400 bytes in between
  try {
    large().eval();
    FAIL();
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr("the shadow on cpu:30 needs "));
    EXPECT_THAT(error.what(), HasSubstr("and the device has 5000"));
  }
  EXPECT_EQ(shadow.counts().compared, 0u);
}

TEST(Shadow, UpdatesInPlaceAndBadIndicesAreAsWithout) {
  const Shadow shadow(kReference);
  Tensor x = (zeros({100}) + 1).eval();
  for (int i = 0; i < 4; ++i) {
    x[Slice{.start = 10 * i, .stop = 10 * i + 5}] = full({5}, i);
    x.eval();
  }
  EXPECT_EQ(x.sum().item<float>(), 80 + 5 * 6);
  const Tensor index = Tensor::from(std::vector<std::int64_t>{0, 100}, {2});
  EXPECT_THROW(gather(x, 0, index).eval(), IndexError);
  EXPECT_EQ(shadow.counts().different, 0u);
}

TEST(Shadow, BadOptions) {
  EXPECT_THROW(Shadow(kReference, {.every = 0}), ValueError);
  EXPECT_THROW(Shadow(kReference, {.rows = -1}), ValueError);
  EXPECT_THROW(Shadow(Device{DeviceKind::cuda, 77}), DeviceError);
  const Shadow shadow(kReference);
  EXPECT_THROW(Shadow{kReference}, ValueError);
  EXPECT_THROW(parse_shadow_policy("later"), ValueError);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
