// What an error in a step names, and checks in an optimiser of the user's.
#include <gtest/gtest.h>

#include <string>

#include <lockstep/check.h>
#include <lockstep/check_finite.h>
#include <lockstep/optim.h>

#include "optim/cases.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::optim {
namespace {

using test::Cells;
using test::message_of;

TEST(OptimizerCallSites, OfAnOverflowInAnUpdateAreTheStep) {
  Cells cells(DType::f32);
  SGD optimizer(cells.parameters(), {.lr = 1e30});
  cells.a.set_grad(full(cells.a.shape(), 1e30));
  const CheckFinite scope;
  const int line = __LINE__ + 1;
  const std::string message = message_of<ValueError>([&] { optimizer.step(); });
  EXPECT_TRUE(message.starts_with("step: in its mul the result holds an infinity")) << message;
  EXPECT_TRUE(message.ends_with("call_sites_test.cpp:" + std::to_string(line))) << message;
}

// As a user writes one, with the checks that the library's have.
class Signs : public Optimizer {
 public:
  Signs(ParameterGroups parameters, double lr, CallSite site = {})
      : Optimizer("Signs", std::move(parameters), {.lr = lr}, site) {
    const CallScope call("Signs", site);
    check<ValueError>(lr < 1, "the learning rate is no share", {}, "use one below 1");
  }
  std::vector<State> states(const Shape&) const override { return {}; }
  void update(Change& change) const override { change.value = change.value - change.lr * sign(change.gradient); }
};

TEST(OptimizerCallSites, OfAUsersOptimizerAreTheCallers) {
  Cells cells(DType::f32);
  const int line = __LINE__ + 1;
  const std::string message = message_of<ValueError>([&] { Signs(cells.parameters(), 2); });
  EXPECT_EQ(message.substr(0, message.find('\n')), "Signs: the learning rate is no share");
  EXPECT_TRUE(message.ends_with("call_sites_test.cpp:" + std::to_string(line))) << message;
  Signs optimizer(cells.parameters(), 0.5);
  const Tensor before = detach(cells.a);
  cells.a.set_grad(ones(cells.a.shape()));
  optimizer.step();
  EXPECT_BITS_EQ(cells.a.tensor(), before - 0.5);
}

}  // namespace
}  // namespace lockstep::optim
