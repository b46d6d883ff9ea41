// Cosines and sines of positions: those that are kept are those that one position alone has.
#include "models/language/rotary.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include <lockstep/ops.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

using models::RotaryConfig;
using models::RotaryTurns;

RotaryConfig turns_of(std::int64_t dims) {
  RotaryConfig config;
  config.dims = dims;
  config.base = 500000;
  return config;
}

void expect_each_alone(const RotaryTurns& turns, const RotaryConfig& config,
                       const std::vector<std::int64_t>& positions) {
  const Device device;
  const RopeTables together = turns.at(positions, device);
  ASSERT_EQ(together.cos.shape(), Shape({static_cast<std::int64_t>(positions.size()), config.dims / 2}));
  for (std::size_t i = 0; i < positions.size(); i += 97) {
    const RopeTables alone = RotaryTurns(config).at({&positions[i], 1}, device);
    const auto row = static_cast<std::int64_t>(i);
    EXPECT_BITS_EQ(together.cos.narrow(0, row, 1), alone.cos) << positions[i];
    EXPECT_BITS_EQ(together.sin.narrow(0, row, 1), alone.sin) << positions[i];
  }
}

TEST(RotaryTurns, AreThoseOfEachPositionAlone) {
  const RotaryConfig config = turns_of(64);
  const RotaryTurns turns(config);
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < 700; ++i) positions.push_back(i);  // more than one thread
  expect_each_alone(turns, config, positions);
  expect_each_alone(turns, config, positions);                                 // now kept
  for (std::int64_t& position : positions) position = position * 7919 % 1024;  // some of them
  positions.insert(positions.end(), 200, 5);
  expect_each_alone(turns, config, positions);
}

TEST(RotaryTurns, AreRightBeyondWhatIsKept) {
  const RotaryConfig config = turns_of(8);
  const RotaryTurns turns(config);
  std::vector<std::int64_t> positions;
  for (std::int64_t block = 0; block < 400; ++block) positions.push_back(block * 256 + block % 3);
  expect_each_alone(turns, config, positions);
  expect_each_alone(turns, config, positions);
}

}  // namespace
}  // namespace lockstep
