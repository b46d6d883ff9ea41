// One flipped bit, in any kernel of a training step: a shadow and a comparison of recordings name its op and element.
#include "agreement/planted_bit.h"
#include "agreement/case_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include <lockstep/lockstep.h>

#include "graph/difference.h"
#include "support/files.h"

namespace lockstep {
inline namespace v0 {
namespace {

struct Net : nn::Module {
  nn::Conv2d conv{*this, "conv", 2, 4, 3};
  nn::BatchNorm2d norm{*this, "norm", 4};
  nn::Linear hidden{*this, "hidden", 36, 8};
  nn::LayerNorm layer{*this, "layer", {8}};
  nn::Linear out{*this, "out", 8, 5};
  Tensor forward(const Tensor& x) { return out(gelu(layer(hidden(max_pool2d(relu(norm(conv(x))), 2).flatten(1))))); }
};

// A step of training, and some ops without gradients: the same kernels each time.
void work() {
  manual_seed(1);
  Net net;
  optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  const Tensor x = randn({3, 2, 8, 8});
  const Tensor classes = Tensor::from(std::vector<std::int64_t>{0, 2, 4}, {3});
  optimizer.step(cross_entropy(net.forward(x), classes));
  const NoGrad no_grad;
  const Tensor y = net.forward(x);
  topk(y, 2).indices.eval();  // which nobody reads: a wrong one would be an error
  cumsum(y.to(DType::f16), 1).eval();
  (y > 0.0).eval();
  y.to(DType::bf16).matmul(y.to(DType::bf16).transpose(0, 1)).eval();
}

std::vector<RecordedKernel> recorded(const std::string& file, std::size_t case_of = 0) {
  Recorder record(file, {.case_of = static_cast<std::int64_t>(case_of)});
  work();
  record.finish();
  return read_record(file);
}

TEST(PlantedBit, IsFoundByAShadowAndByComparingRecordings) {
  const test::TemporaryFolder folder;
  const std::vector<RecordedKernel> clean = recorded(folder.path("clean"));
  ASSERT_GT(clean.size(), 25u);
  EXPECT_FALSE(compare_records(clean, recorded(folder.path("again"))));
  constexpr std::uint32_t kSeed = 20261124;
  std::mt19937 random(kSeed);
  for (int i = 0; i < 100; ++i) {
    const std::uint64_t target = random() % clean.size();
    const std::uint64_t element = random();
    const auto bit = static_cast<int>(random() % 64);
    SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", plant " << i << " in " << clean[target].ops);
    std::vector<ShadowDifference> found;
    std::optional<std::int64_t> position;
    std::vector<RecordedKernel> planted;
    {
      const test::PlantedBit plant(Device{}, target, element, bit);
      const Shadow shadow(Device::parse("ref"),
                          {.policy = ShadowPolicy::report,
                           .cases = "",
                           .on_difference = [&](const ShadowDifference& one) { found.push_back(one); }});
      planted = recorded(folder.path("planted"), target + 1);
      position = plant.position();
      EXPECT_EQ(shadow.counts().compared, clean.size());
    }
    ASSERT_TRUE(position);
    ASSERT_EQ(found.size(), 1u);
    EXPECT_EQ(found[0].kernel, target + 1);
    EXPECT_EQ(found[0].ops, clean[target].ops);
    EXPECT_EQ(found[0].module, clean[target].module);
    EXPECT_EQ(found[0].count, 1);
    EXPECT_EQ(found[0].index, graph::index_of(*position, found[0].shape));
    const std::optional<RecordDifference> parted = compare_records(clean, planted);
    ASSERT_TRUE(parted);
    EXPECT_EQ(parted->position, target);
    EXPECT_TRUE(parted->same_work);
    // The second pass of the other run: the element, by comparing what both kept.
    recorded(folder.path("clean"), target + 1);
    test::expect_parts_at(folder.path("clean"), folder.path("planted"), target + 1, *position);
  }
}

// Of a step of training, too: its kernels run when the parameters have their next values already.
TEST(PlantedBit, ModulesAreNamed) {
  const test::TemporaryFolder folder;
  const std::vector<RecordedKernel> kernels = recorded(folder.path("record"));
  const auto first =
      std::ranges::find_if(kernels, [](const RecordedKernel& one) { return one.ops.starts_with("conv2d"); });
  ASSERT_NE(first, kernels.end());
  EXPECT_EQ(first->module, "conv");
  std::vector<std::string> modules;
  for (const RecordedKernel& kernel : kernels) {
    if (!kernel.module.empty() && (modules.empty() || modules.back() != kernel.module))
      modules.push_back(kernel.module);
  }
  EXPECT_THAT(modules, ::testing::Contains("conv"));
  for (const char* name : {"norm", "hidden", "layer", "out"}) {
    EXPECT_THAT(modules, ::testing::Contains(name));
  }
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
