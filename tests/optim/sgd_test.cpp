#include <lockstep/optim/sgd.h>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::SGD;
using optim::SGDOptions;
using test::expect_torchs_steps;
using test::maker;

TEST(SGD, EqualsTorch) {
  expect_torchs_steps("sgd", maker<SGD>(SGDOptions{.lr = 0.1}));
  expect_torchs_steps("sgd_decay", maker<SGD>(SGDOptions{.lr = 0.1, .weight_decay = 0.3}));
}

TEST(SGD, MomentumEqualsTorch) {
  const auto momentum = maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.25, .weight_decay = 0.1});
  expect_torchs_steps("sgd_momentum", momentum);
  expect_torchs_steps("sgd_momentum_skipping", momentum, true);
  expect_torchs_steps("sgd_nesterov", maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.8, .nesterov = true}));
  expect_torchs_steps("sgd_maximize", maker<SGD>(SGDOptions{.lr = 0.1, .momentum = 0.5, .maximize = true}));
}

TEST(SGD, RefusesOptionsOutOfRange) {
  const test::Cells cells;
  EXPECT_THROW(SGD(cells.parameters(), {.lr = -1}), ValueError);
  EXPECT_THROW(SGD(cells.parameters(), {.momentum = 1}), ValueError);
  EXPECT_THROW(SGD(cells.parameters(), {.weight_decay = -1}), ValueError);
  EXPECT_THROW(SGD(cells.parameters(), {.nesterov = true}), ValueError);
}

}  // namespace
}  // namespace lockstep
