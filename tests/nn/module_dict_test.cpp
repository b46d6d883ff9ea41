#include <lockstep/nn/module_dict.h>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/tensors.h"

namespace lockstep::test {
namespace {

TEST(ModuleDict, HoldsModulesUnderTheirNames) {
  nn::Module root;
  nn::ModuleDict<nn::Layer> heads(root, "heads");
  heads.add<nn::Linear>("classes", 4, 10);
  heads.add<nn::ReLU>("none");
  EXPECT_EQ(heads.size(), 2u);
  EXPECT_TRUE(heads.contains("classes"));
  EXPECT_FALSE(heads.contains("boxes"));
  EXPECT_EQ(heads.keys(), (std::vector<std::string>{"classes", "none"}));
  EXPECT_EQ(heads["classes"](ones(1, 4)).shape(), (Shape{1, 10}));
  EXPECT_EQ(root.named_parameters()[0].first, "heads.classes.weight");
  expect_error<IndexError>([&] { heads["boxes"]; }, {"heads", "boxes", "classes, none"});
  expect_error<ValueError>([&] { heads.add<nn::ReLU>("none"); }, {"none"});
}

TEST(ModuleDict, IsCloned) {
  nn::ModuleDict<nn::Layer> heads;
  heads.add<nn::Linear>("a", 2, 2);
  const auto copy = nn::clone(heads);
  EXPECT_BITS_EQ((*copy)["a"](ones(1, 2)), heads["a"](ones(1, 2)));
}

}  // namespace
}  // namespace lockstep::test
