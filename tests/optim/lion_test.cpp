#include <lockstep/optim/lion.h>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::Lion;
using optim::LionOptions;
using test::expect_torchs_steps;
using test::maker;

TEST(Lion, EqualsThePapersAlgorithm) {
  expect_torchs_steps("lion", maker<Lion>(LionOptions{.lr = 0.01}));
  expect_torchs_steps("lion_options", maker<Lion>(LionOptions{.lr = 0.01, .betas = {0.7, 0.8}, .weight_decay = 0.3}));
}

TEST(Lion, RefusesOptionsOutOfRange) {
  const test::Cells cells;
  EXPECT_THROW(Lion(cells.parameters(), {.betas = {0.9, 1}}), ValueError);
}

}  // namespace
}  // namespace lockstep
