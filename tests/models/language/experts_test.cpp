#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/models/language.h>
#include <lockstep/ops.h>

#include "support/data.h"

namespace lockstep::models {
namespace {

// Where gradients are asked for every expert computes every token, else its own alone.
TEST(Experts, OwnTokensAloneGiveTheBitsOfAllTokens) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  for (const char* name : {"deepseek_v2", "deepseek_v3", "gpt_oss", "mixtral", "qwen3_moe", "qwen3_next"}) {
    const auto model = load_language_model((root / name).string());
    model->requires_grad(true);
    for (const std::int64_t length : {1, 2, 7, 40}) {
      std::vector<std::int64_t> tokens;
      for (std::int64_t i = 0; i < length; ++i) tokens.push_back((i * 37 + 11) % model->vocabulary());
      const Tensor ids = Tensor::from(tokens, {1, length});
      const Tensor all = model->forward(ids);
      EXPECT_TRUE(is_tracked(all)) << name;
      const NoGrad no_grad;
      EXPECT_EQ(model->forward(ids).hash(), all.hash()) << name << ", " << length << " tokens";
    }
  }
}

// A token's result does not depend on who else is there, even if that is something that has no finite result.
TEST(Experts, AnExpertThatIsNotUsedDoesNotMatter) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  const auto model = load_language_model((root / "mixtral").string());
  const NoGrad no_grad;
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{7}, {1, 1});
  const std::uint64_t before = model->forward(ids).hash();
  int unused = 0;
  for (const std::string name : {"0", "1", "2", "3"}) {
    const std::string path = "model.layers.0.block_sparse_moe.experts." + name + ".w2.weight";
    const Tensor weight = model->state_dict().find(path)->clone().eval();
    nn::StateDict changed;
    changed.push_back(path, weight * std::numeric_limits<double>::infinity());
    model->load_state_dict(changed, {.strict = false});
    unused += model->forward(ids).hash() == before;
    changed = {};
    changed.push_back(path, weight);
    model->load_state_dict(changed, {.strict = false});
  }
  EXPECT_EQ(unused, 2);  // of four
  EXPECT_EQ(model->forward(ids).hash(), before);
}

}  // namespace
}  // namespace lockstep::models
