#include <lockstep/optim/radam.h>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::RAdam;
using optim::RAdamOptions;
using test::expect_torchs_steps;
using test::maker;

TEST(RAdam, EqualsTorch) {
  expect_torchs_steps("radam", maker<RAdam>(RAdamOptions{.lr = 0.05}));
  expect_torchs_steps("radam_options", maker<RAdam>(RAdamOptions{.lr = 0.05,
                                                                 .betas = {0.8, 0.95},
                                                                 .eps = 1e-4,
                                                                 .weight_decay = 0.3,
                                                                 .decoupled_weight_decay = true,
                                                                 .maximize = true}));
}

TEST(RAdam, RefusesOptionsOutOfRange) {
  const test::Cells cells;
  EXPECT_THROW(RAdam(cells.parameters(), {.betas = {0.9, 1}}), ValueError);
  EXPECT_THROW(RAdam(cells.parameters(), {.eps = -1}), ValueError);
}

}  // namespace
}  // namespace lockstep
