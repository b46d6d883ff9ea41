#include <lockstep/optim/adafactor.h>

#include "optim/cases.h"

namespace lockstep {
namespace {

using optim::Adafactor;
using optim::AdafactorOptions;
using test::expect_torchs_steps;
using test::maker;

TEST(Adafactor, EqualsTorch) {
  expect_torchs_steps("adafactor", maker<Adafactor>(AdafactorOptions{.lr = 0.1}));
  expect_torchs_steps("adafactor_options",
                      maker<Adafactor>(AdafactorOptions{
                          .lr = 0.05, .beta2_decay = -0.5, .eps1 = 1e-4, .eps2 = 1e-2, .d = 1.5, .weight_decay = 0.1}));
}

TEST(Adafactor, MatricesKeepRowsAndColumnsOnly) {
  test::Cells cells;
  Adafactor optimizer(cells.parameters());
  cells.set_gradients(1);
  optimizer.step();
  const nn::StateDict state = optimizer.state_dict();
  EXPECT_EQ(state.find("state.a.row_var")->shape(), (Shape{3, 1}));
  EXPECT_EQ(state.find("state.a.col_var")->shape(), (Shape{1, 5}));
  EXPECT_EQ(state.find("state.b.variance")->shape(), Shape{4});
  EXPECT_EQ(state.find("state.c.row_var")->shape(), (Shape{2, 3, 2, 1}));
  EXPECT_NO_THROW(optimizer.load_state_dict(state));
}

TEST(Adafactor, RefusesOptionsOutOfRange) {
  const test::Cells cells;
  EXPECT_THROW(Adafactor(cells.parameters(), {.beta2_decay = 1}), ValueError);
  EXPECT_THROW(Adafactor(cells.parameters(), {.eps2 = -1}), ValueError);
  EXPECT_THROW(Adafactor(cells.parameters(), {.d = 0.5}), ValueError);
}

}  // namespace
}  // namespace lockstep
