#include "graph/recording.h"

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

TEST(Recording, KeepsOperandsThatNodesLetGo) {
  const NoGrad no_grad;
  const Tensor x = ones({2, 3}).eval();
  const Recording recording({x});
  const Tensor y = exp(x) + 1.0;
  const RecordedNode* const sum = recording.find(Access::node(y).get());
  ASSERT_NE(sum, nullptr);
  y.eval();
  EXPECT_TRUE(Access::node(y)->inputs.empty());
  ASSERT_EQ(sum->inputs.size(), 2U);
  EXPECT_EQ(sum->inputs[1], nullptr);  // the scalar
  const RecordedNode* const power = recording.find(sum->inputs[0].get());
  ASSERT_NE(power, nullptr);
  EXPECT_EQ(power->inputs[0], Access::node(x));
  EXPECT_TRUE(power->depends);
  EXPECT_EQ(recording.find(Access::node(x).get()), nullptr);
}

TEST(Recording, NotesTheOutermostCallThatReturnsAValue) {
  const NoGrad no_grad;
  const Tensor x = ones({2, 3}).eval();
  const Recording recording({x});
  const Tensor y = softmax(x, 1);
  const RecordedNode* const node = recording.find(Access::node(y).get());
  ASSERT_TRUE(node != nullptr && node->call);
  EXPECT_EQ(node->call->op, "softmax");
  EXPECT_EQ(node->call->operands[0], Access::node(x));
  // What gives back the value that it began with is no call that made it.
  const Tensor back = y.reshape({3, 2}).reshape({2, 3});
  EXPECT_EQ(recording.find(Access::node(back).get())->call->op, "softmax");
}

TEST(Recording, RefusesReadsOfWhatDependsOnItsInputs) {
  const NoGrad no_grad;
  const Tensor x = ones({2}).eval();
  const Recording recording({x});
  EXPECT_THROW((x + 1.0).to_vector<float>(), ValueError);
  EXPECT_EQ((ones({1}) + 1.0).item<float>(), 2.0f);
}

TEST(Recording, EndsWithItsScope) {
  const Tensor x = ones({2}).eval();
  {
    const Recording recording({x});
    EXPECT_TRUE(is_recording());
  }
  EXPECT_FALSE(is_recording());
  EXPECT_EQ((x + 1.0).to_vector<float>()[0], 2.0f);
}

}  // namespace
}  // namespace graph
}  // namespace v0
}  // namespace lockstep
