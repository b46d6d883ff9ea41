#include <lockstep/optim/rmsprop.h>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::RMSprop;
using optim::RMSpropOptions;
using test::expect_torchs_steps;
using test::maker;

TEST(RMSprop, EqualsTorch) {
  expect_torchs_steps("rmsprop", maker<RMSprop>(RMSpropOptions{.lr = 0.05}));
  expect_torchs_steps(
      "rmsprop_centered",
      maker<RMSprop>(RMSpropOptions{
          .lr = 0.05, .alpha = 0.9, .eps = 1e-4, .weight_decay = 0.1, .momentum = 0.7, .centered = true}));
}

TEST(RMSprop, RefusesOptionsOutOfRange) {
  const test::Cells cells;
  EXPECT_THROW(RMSprop(cells.parameters(), {.alpha = -1}), ValueError);
  EXPECT_THROW(RMSprop(cells.parameters(), {.eps = -1}), ValueError);
}

}  // namespace
}  // namespace lockstep
