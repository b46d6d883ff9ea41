#include "graph/plan.h"

#include <gtest/gtest.h>

#include <vector>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "graph/make.h"

namespace lockstep::graph {
namespace {

TEST(Plan, LaunchesSayWhatStepsSay) {
  const Tensor x = randn({6, 6}).eval();
  const Tensor places = Tensor::from(std::vector<std::int64_t>{0, 5, 2}, {3});
  const Tensor y = softmax(index_select(matmul(x, x) * 2.0, 0, places), -1);
  const Tensor z = cumsum(y + 1.0, 0);
  const std::vector<NodeRef> roots = {node_of(y), node_of(z)};
  const Window window = describe(roots);
  const std::shared_ptr<const Plan> plan = make_plan(backend_of(Device{}), window);

  ASSERT_GE(plan->steps.size(), 3u);
  EXPECT_EQ(&plan->launches_of(true), &plan->launches);  // no steps run together on the CPU
  ASSERT_EQ(plan->launches.kernels.size(), plan->steps.size());
  std::vector<int> checked;
  const std::vector<int>& entries = plan->launches.entries;
  const auto part = [&](std::uint32_t first, std::uint32_t last) {
    return std::vector<int>(entries.begin() + first, entries.begin() + last);
  };
  for (std::size_t s = 0; s < plan->steps.size(); ++s) {
    const Plan::Prepared& prepared = plan->steps[s];
    const Plan::Launch& launch = plan->launches.kernels[s];
    EXPECT_EQ(launch.step, s);
    EXPECT_EQ(launch.executable, prepared.executable.get());
    EXPECT_EQ(part(launch.slots, launch.made), prepared.step.slots);
    EXPECT_EQ(part(launch.made, launch.released), prepared.step.writes);
    EXPECT_EQ(part(launch.released, launch.end), prepared.released);
    for (std::uint32_t i = launch.made; i < launch.released; ++i) {
      EXPECT_EQ(plan->launches.bytes[i], window.nodes[static_cast<std::size_t>(entries[i])]->bytes());
    }
    EXPECT_EQ(launch.parameters_end - launch.parameters, prepared.step.parameters.size());
    EXPECT_EQ(launch.checks, prepared.step.checks.size());
    EXPECT_EQ(launch.bytes, prepared.bytes);
    checked.insert(checked.end(), prepared.step.checks.begin(), prepared.step.checks.end());
  }
  EXPECT_EQ(plan->checked, checked);
  EXPECT_EQ(plan->checks, 1u);
}

}  // namespace
}  // namespace lockstep::graph
