// Random programs: whatever is fused, stored, flushed or run where, the bits are the same.
#include <gtest/gtest.h>

#include "support/long_forms.h"
#include "support/random_graph.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

// What a graph's values are, computed on `device` under `limits`.
std::vector<Tensor> run(std::uint64_t seed, Device device, graph::WindowLimits limits) {
  const WithWindow window(limits);
  RandomGraph graph(seed, device);
  graph.grow(40);
  for (const Tensor& value : graph.values()) value.eval();
  return graph.values();
}

void compare(std::uint64_t first, std::uint64_t last) {
  for (std::uint64_t seed = first; seed < last; ++seed) {
    const std::vector<Tensor> expected = run(seed, {DeviceKind::ref, 0}, kEveryNode);
    for (const graph::WindowLimits& limits : {kUnbounded, graph::WindowLimits{8, 6, 4000}, kEveryNode}) {
      const std::vector<Tensor> values = run(seed, {DeviceKind::cpu, 0}, limits);
      ASSERT_EQ(values.size(), expected.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        ASSERT_TRUE(bits_equal("ref", "cpu", expected[i], values[i])) << "seed " << seed << ", value " << i;
      }
    }
    const std::vector<Tensor> fused = run(seed, {DeviceKind::ref, 0}, kUnbounded);
    for (std::size_t i = 0; i < fused.size(); ++i) {
      ASSERT_TRUE(bits_equal("node by node", "fused", expected[i], fused[i])) << "seed " << seed << ", value " << i;
    }
  }
}

TEST(RandomGraphs, HaveTheSameBitsHoweverTheyAreFusedAndFlushed) {
  compare(1, enough_of(100));
}

TEST(RandomGraphs, MoreOfThem) { compare(100, 400); }

TEST(RandomGraphs, DISABLED_ExhaustivelyMany) { compare(1000, 200000); }

}  // namespace
}  // namespace lockstep
