// Random graphs under a shadow: without a fault nothing differs, and of one flipped bit anywhere in them the op and the
// element are named, by the shadow and by comparing recordings.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include <lockstep/recorder.h>
#include <lockstep/shadow.h>

#include "agreement/case_reading.h"
#include "agreement/planted_bit.h"
#include "graph/difference.h"
#include "support/files.h"
#include "support/random_graph.h"

namespace lockstep {
inline namespace v0 {
namespace {

std::vector<RecordedKernel> recorded_graph(Device device, std::uint64_t seed, const std::string& file, bool may_fail,
                                           std::size_t case_of = 0) {
  Recorder record(file, {.case_of = static_cast<std::int64_t>(case_of)});
  try {
    RandomGraph graph(seed, device);
    graph.grow(20);
    for (const Tensor& value : graph.values()) value.eval();
  } catch (const BackendError&) {  // a planted index is out of range: the recording ends where it was met
    if (!may_fail) throw;
  }
  record.finish();
  return record.size() == 0 ? std::vector<RecordedKernel>() : read_record(file);
}

// Faults in the kernels of `device`, found by a shadow on `reference`, and by comparing recordings. So many in each
// graph: devices that compile slowly have all kernels of a graph after the first.
void plant(Device device, Device reference, int plants, int of_each_graph = 1) {
  const test::TemporaryFolder folder;
  constexpr std::uint32_t kSeed = 7;
  std::mt19937 random(kSeed);
  int planted = 0;
  for (std::uint64_t graph = 1; planted < plants; ++graph) {
    SCOPED_TRACE(testing::Message() << device.to_string() << ", seed " << kSeed << ", graph " << graph);
    std::vector<RecordedKernel> clean;
    try {
      const Shadow shadow(reference, {.cases = ""});  // throws at a difference
      clean = recorded_graph(device, graph, folder.path("clean"), false);
      ASSERT_EQ(shadow.counts().passed_over, 0u);
    } catch (const DTypeError&) {  // a device without f64, and the graph has some
      continue;
    }
    for (int i = 0; !clean.empty() && i < of_each_graph; ++i) {
      const std::uint64_t target = random() % clean.size();
      const std::uint64_t element = random();
      const auto bit = static_cast<int>(random() % 64);
      std::vector<ShadowDifference> found;
      std::optional<std::int64_t> position;
      std::vector<RecordedKernel> faulty;
      {
        const test::PlantedBit plant(device, target, element, bit);
        const Shadow shadow(reference, {.policy = ShadowPolicy::report,
                                        .cases = "",
                                        .on_difference = [&](const ShadowDifference& one) { found.push_back(one); }});
        faulty = recorded_graph(device, graph, folder.path("faulty"), true, target + 1);
        position = plant.position();
      }
      if (!position || faulty.at(target).hash == clean[target].hash)
        continue;  // nothing to flip, or one NaN for another
      ++planted;
      SCOPED_TRACE(clean[target].ops);
      ASSERT_FALSE(found.empty());  // kernels that read what no kernel makes, a subnormal, may differ after it
      EXPECT_EQ(found[0].kernel, target + 1);
      EXPECT_EQ(found[0].ops, clean[target].ops);
      EXPECT_EQ(found[0].count, 1);
      EXPECT_EQ(found[0].index, graph::index_of(*position, found[0].shape));
      const std::optional<RecordDifference> parted = compare_records(clean, faulty);
      ASSERT_TRUE(parted);
      EXPECT_EQ(parted->position, target);
      EXPECT_TRUE(parted->same_work);
      recorded_graph(device, graph, folder.path("clean"), false, target + 1);  // the other run's second pass
      test::expect_parts_at(folder.path("clean"), folder.path("faulty"), target + 1, *position);
    }
  }
}

TEST(RandomPlant, IsFoundByAShadowAndByComparingRecordings) {
  plant(Device{}, Device::parse("ref"), 100);
}

TEST(RandomPlant, OfTheReferenceIsFoundByAnotherDevice) {
  plant(Device::parse("ref"), Device{}, 20);
}

// LOCKSTEP_TEST_DEVICES: a GPU, one in software, one that is emulated.
TEST(RandomPlant, OfOtherDevicesIsFound) {
  for (const Device& device : test_devices()) {
    if (device.kind != DeviceKind::ref && device.kind != DeviceKind::cpu) plant(device, Device::parse("ref"), 100, 50);
  }
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
