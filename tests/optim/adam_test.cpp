#include <lockstep/optim/adam.h>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::Adam;
using optim::AdamOptions;
using optim::AdamW;
using optim::AdamWOptions;
using test::expect_torchs_steps;
using test::maker;

TEST(Adam, EqualsTorch) {
  expect_torchs_steps("adam", maker<Adam>(AdamOptions{.lr = 0.05}));
  expect_torchs_steps(
      "adam_options",
      maker<Adam>(AdamOptions{.lr = 0.05, .betas = {0.4, 0.9}, .eps = 1e-3, .weight_decay = 0.2, .amsgrad = true}));
}

TEST(Adam, ParametersThatSkipStepsHaveTheirOwnCount) {
  expect_torchs_steps("adam_skipping", maker<Adam>(AdamOptions{.lr = 0.05}), true);
}

TEST(AdamW, EqualsTorch) {
  expect_torchs_steps("adamw", maker<AdamW>(AdamWOptions{.lr = 0.05}));
  expect_torchs_steps(
      "adamw_options",
      maker<AdamW>(AdamWOptions{
          .lr = 0.05, .betas = {0.8, 0.95}, .eps = 1e-4, .weight_decay = 0.3, .amsgrad = true, .maximize = true}));
}

TEST(Adam, RefusesOptionsOutOfRange) {
  const test::Cells cells;
  EXPECT_THROW(Adam(cells.parameters(), {.betas = {0.9, 1}}), ValueError);
  EXPECT_THROW(Adam(cells.parameters(), {.betas = {-0.1, 0.9}}), ValueError);
  EXPECT_THROW(Adam(cells.parameters(), {.eps = -1}), ValueError);
}

}  // namespace
}  // namespace lockstep
