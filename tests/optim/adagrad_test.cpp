#include <lockstep/optim/adagrad.h>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::Adagrad;
using optim::AdagradOptions;
using test::expect_torchs_steps;
using test::maker;

TEST(Adagrad, EqualsTorch) {
  expect_torchs_steps("adagrad", maker<Adagrad>(AdagradOptions{.lr = 0.1}));
  const auto options = maker<Adagrad>(
      AdagradOptions{.lr = 0.1, .lr_decay = 0.2, .weight_decay = 0.1, .initial_accumulator_value = 0.3, .eps = 1e-4});
  expect_torchs_steps("adagrad_options", options);
  expect_torchs_steps("adagrad_options_skipping", options, true);
}

TEST(Adagrad, RefusesOptionsOutOfRange) {
  const test::Cells cells;
  EXPECT_THROW(Adagrad(cells.parameters(), {.lr_decay = -1}), ValueError);
  EXPECT_THROW(Adagrad(cells.parameters(), {.initial_accumulator_value = -1}), ValueError);
  EXPECT_THROW(Adagrad(cells.parameters(), {.eps = -1}), ValueError);
}

}  // namespace
}  // namespace lockstep
