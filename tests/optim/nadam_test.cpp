#include <lockstep/optim/nadam.h>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::NAdam;
using optim::NAdamOptions;
using test::expect_torchs_steps;
using test::maker;

TEST(NAdam, EqualsTorch) {
  expect_torchs_steps("nadam", maker<NAdam>(NAdamOptions{.lr = 0.05}));
  expect_torchs_steps("nadam_options", maker<NAdam>(NAdamOptions{.lr = 0.05,
                                                                 .betas = {0.8, 0.95},
                                                                 .eps = 1e-4,
                                                                 .weight_decay = 0.3,
                                                                 .momentum_decay = 0.2,
                                                                 .decoupled_weight_decay = true,
                                                                 .maximize = true}));
}

TEST(NAdam, RefusesOptionsOutOfRange) {
  const test::Cells cells;
  EXPECT_THROW(NAdam(cells.parameters(), {.betas = {0.9, 1}}), ValueError);
  EXPECT_THROW(NAdam(cells.parameters(), {.eps = -1}), ValueError);
  EXPECT_THROW(NAdam(cells.parameters(), {.momentum_decay = -1}), ValueError);
}

}  // namespace
}  // namespace lockstep
