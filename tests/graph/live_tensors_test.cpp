// What the names of values in memory cost: each is kept once.
#include "graph/live_tensors.h"

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/nn/linear.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

TEST(NamedElements, AreKeptOnceHoweverOftenAParameterIsRead) {
  nn::Linear layer(3, 2);
  const Tensor x = ones({1, 3});
  const auto read = [&] {
    const Tensor tracked = layer(x);
    const NoGrad no_grad;
    const Tensor untracked = layer(x);
  };
  read();
  const std::size_t before = named_elements().size();
  for (int i = 0; i < 100; ++i) read();
  EXPECT_EQ(named_elements().size(), before);
}

TEST(NamedElements, HaveTheNameThatWasGivenLastBehind) {
  const Tensor x = ones({3}).eval();
  const auto names_of_x = [&] {
    std::vector<std::string> names;
    for (const NamedElements& elements : named_elements()) {
      if (elements.name.starts_with("names_test.")) names.push_back(elements.name);
    }
    return names;
  };
  const Tensor first = x.named("names_test.first");
  const Tensor second = x.named("names_test.second");
  EXPECT_EQ(names_of_x(), (std::vector<std::string>{"names_test.first", "names_test.second"}));
  const Tensor again = x.named("names_test.first");
  EXPECT_EQ(names_of_x(), (std::vector<std::string>{"names_test.second", "names_test.first"}));
}

TEST(NamedElements, GoWithTheirValue) {
  { const Tensor gone = ones({3}).eval().named("names_test.gone"); }
  for (const NamedElements& elements : named_elements()) EXPECT_NE(elements.name, "names_test.gone");
}

}  // namespace
}  // namespace graph
}  // namespace v0
}  // namespace lockstep
