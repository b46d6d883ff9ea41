// ZeRO 3: what a rank holds of the parameters, and when.
#include "parallel/parameter_keeper.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>
#include <lockstep/parallel.h>

#include "support/ranks.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

using test::expect_success;
using test::run_ranks;
using ::testing::HasSubstr;

constexpr std::int64_t kWidth = 256;
constexpr int kLayers = 12;

struct Tower : nn::Module {
  std::vector<std::unique_ptr<nn::Linear>> layers;
  Tower() {
    for (int i = 0; i < kLayers; ++i) {
      layers.push_back(std::make_unique<nn::Linear>(*this, "layer" + std::to_string(i), kWidth, kWidth));
    }
  }
  Tensor forward(Tensor x) const {
    for (const auto& layer : layers) x = tanh((*layer)(x));
    return x;
  }
};

// The most that all ranks together held in steps that follow a first one, in models of weights. Ranks are threads here.
double most_of(int ranks, int zero) {
  const std::size_t before = memory_statistics().live;
  std::size_t peak = 0;
  expect_success(run_ranks(ranks, [&](const Group& group) {
    manual_seed(3);
    Tower net;
    optim::AdamW optimizer(net.parameters(), {.lr = 1e-3});
    Parallel parallel(net, optimizer, group,
                      {.shards = ranks, .zero = zero, .bucket_bytes = 300'000, .gather_bytes = 0});
    Generator generator(5);
    const data::Batch batch{randn({ranks, kWidth}, {}, &generator), {}};
    for (int step = 0; step < 3; ++step) {
      group.barrier();
      if (step == 1 && group.rank() == 0) reset_peak_memory();
      group.barrier();
      parallel.step(batch, [&](const data::Batch& b) { return square(net.forward(b.input)).mean(); });
    }
    group.barrier();
    if (group.rank() == 0) peak = memory_statistics().peak - before;
    group.barrier();
  }));
  return static_cast<double>(peak) / (4.0 * kLayers * kWidth * kWidth);
}

TEST(ParameterKeeper, ARankHoldsItsShareAndThreeLayers) {
  const double replicated = most_of(4, 0);
  const double optimizer_divided = most_of(4, 1);
  const double divided = most_of(4, 3);
  EXPECT_GE(replicated, 4 * 3);  // weights and two moments
  EXPECT_GE(optimizer_divided, 4 + 2);
  // Weights, moments and gradients once; on each rank three layers that came, and gradients that go in up to three
  // buckets.
  EXPECT_LE(divided, 4 + 4 * (3 + 6) / static_cast<double>(kLayers) + 1.0);
  EXPECT_LT(divided, 0.8 * optimizer_divided);
  std::printf("models of weights on 4 ranks: ZeRO 0 %.2f, 1 %.2f, 3 %.2f\n", replicated, optimizer_divided, divided);
}

TEST(ParameterKeeper, ValuesAreReadInStepsAndTogetherOnly) {
  expect_success(run_ranks(2, [](const Group& group) {
    manual_seed(3);
    Tower net;
    const Tensor x = ones({1, kWidth});
    const std::uint64_t expected = net.forward(x).hash();
    optim::SGD optimizer(net.parameters(), {.lr = 0.0});
    {
      Parallel parallel(net, optimizer, group, {.shards = 2, .zero = 3});
      try {
        net.forward(x);
        ADD_FAILURE();
      } catch (const ValueError& error) {
        EXPECT_THAT(error.what(), HasSubstr(".weight lies with rank " + std::to_string(1 - group.rank())));
        EXPECT_THAT(error.what(), HasSubstr("Parallel::together()"));
      }
      EXPECT_EQ(net.layers[0]->weight.shape(), (Shape{kWidth, kWidth}));  // known without
      for (int one = 0; one < 3; ++one) {
        parallel.together(one == 2 || group.rank() == one, [&] {
          const NoGrad no_grad;
          EXPECT_EQ(net.forward(x).hash(), expected);
        });
      }
      const nn::StateDict all = parallel.module_state();
      parallel.make_whole();
      EXPECT_EQ(net.forward(x).hash(), expected);
      if (group.rank() == 0) {
        EXPECT_EQ(nn::state_hash(all), nn::state_hash(net.state_dict()));
      }
      parallel.step(data::Batch{ones({2, kWidth}), {}},
                    [&](const data::Batch& b) { return net.forward(b.input).mean(); });
    }
    try {
      net.forward(x);
      ADD_FAILURE();
    } catch (const ValueError& error) {
      EXPECT_THAT(error.what(), HasSubstr("make_whole()"));
    }
  }));
}

TEST(ParameterKeeper, ShardsThatReadOtherParametersAreTold) {
  const std::vector<std::string> ends = run_ranks(2, [](const Group& group) {
    manual_seed(3);
    Tower net;
    optim::SGD optimizer(net.parameters(), {.lr = 0.1});
    Parallel parallel(net, optimizer, group, {.shards = 2, .zero = 3, .gather_bytes = 0});
    parallel.step(data::Batch{ones({2, kWidth}), {}},
                  [&](const data::Batch& b) { return (*net.layers[group.rank() == 0 ? 3 : 5])(b.input).mean(); });
  });
  for (const std::string& end : ends) EXPECT_THAT(end, HasSubstr("rank "));
}

}  // namespace
}  // namespace dist
}  // namespace v0
}  // namespace lockstep
