#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/tensors.h"

namespace lockstep::test {
namespace {

struct Cloned : nn::Module {
  explicit Cloned(std::int64_t width = 3) : first(*this, "first", 2, width) {
    body.add<nn::BatchNorm1d>(width);
    body.add<nn::Linear>(width, width);
  }
  nn::Linear first;
  nn::Sequential body{*this, "body"};
  Tensor operator()(const Tensor& x) const { return body(first(x)); }
};

std::vector<std::uint64_t> hashes_of(const nn::Module& module) {
  std::vector<std::uint64_t> hashes;
  for (const auto& [name, tensor] : module.state_dict()) hashes.push_back(tensor.hash());
  return hashes;
}

using ModuleNames = std::vector<std::string>;

TEST(ModuleTree, NamedModulesAreInPyTorchsOrder) {
  Cloned net;
  ModuleNames names;
  for (const auto& [name, module] : net.named_modules()) names.push_back(name);
  EXPECT_EQ(names, (ModuleNames{"", "first", "body", "body.0", "body.1"}));
  EXPECT_EQ(net.named_modules()[0].second, &net);
  names.clear();
  for (const auto& [name, module] : std::as_const(net.body).named_modules()) names.push_back(name);
  EXPECT_EQ(names, (ModuleNames{"", "0", "1"})) << "relative to the module";
}

TEST(ModuleTree, ApplyVisitsChildrenBeforeTheirParent) {
  Cloned net;
  ModuleNames names;
  net.apply([&](nn::Module& module) {
    names.push_back(module.path());
    if (auto* const linear = dynamic_cast<nn::Linear*>(&module)) linear->weight.set(zeros_like(linear->weight));
  });
  EXPECT_EQ(names, (ModuleNames{"first", "body.0", "body.1", "body", ""}));
  EXPECT_EQ(net.first.weight.tensor().abs().sum().item(), 0);
}

TEST(ModuleClone, HasTheSameValuesAndItsOwnLife) {
  manual_seed(3);
  Cloned net(4);
  const Tensor x = randn(5, 2);
  net(x).sum().eval();  // moves the running statistics
  net.body[1].requires_grad(false);
  net.body[0].eval();
  const std::uint64_t draws = default_generator().draws();
  const std::unique_ptr<Cloned> copy = nn::clone(net, 4);
  EXPECT_EQ(default_generator().draws(), draws) << "cloning draws nothing";
  const nn::StateDict ours = net.state_dict();
  const nn::StateDict theirs = copy->state_dict();
  ASSERT_EQ(ours.size(), theirs.size());
  for (auto a = ours.begin(), b = theirs.begin(); a != ours.end(); ++a, ++b) {
    EXPECT_EQ(a->first, b->first);
    EXPECT_BITS_EQ(a->second, b->second);
  }
  EXPECT_FALSE(copy->body[1].training() != net.body[1].training());
  EXPECT_FALSE(copy->body[0].training());
  EXPECT_TRUE(copy->first.weight.requires_grad());
  EXPECT_FALSE(copy->body.named_parameters().back().second.requires_grad());

  const std::vector<std::uint64_t> before = hashes_of(net);
  copy->first.weight *= 2;
  EXPECT_EQ(hashes_of(net), before);
}

TEST(ModuleClone, KeepsDtypes) {
  Cloned net;
  net.to(DType::f64);
  EXPECT_EQ(nn::clone(net)->first.weight.dtype(), DType::f64);
}

TEST(ModuleClone, RebuildsWhatWasAddedToContainers) {
  nn::Sequential net;
  net.add<nn::Linear>(2, 3);
  auto& inner = net.add<nn::Sequential>();
  inner.add<nn::Linear>(3, 3);
  inner.add<nn::Softmax>(1);
  const std::unique_ptr<nn::Sequential> copy = nn::clone(net);
  const Tensor x = ones(1, 2);
  EXPECT_BITS_EQ((*copy)(x), net(x));

  nn::ModuleList<nn::Linear> list;
  list.add(2, 2);
  EXPECT_EQ(nn::clone(list)->size(), 1u);
}

TEST(ModuleClone, TakesAFunctionWhereTheTypeIsNotKnown) {
  const auto& architecture = models::architecture("resnet8-cifar");
  const std::unique_ptr<nn::Layer> model = architecture.create(4);
  const auto copy = nn::clone(*model, [&] { return architecture.create(4); });
  EXPECT_EQ(hashes_of(*copy), hashes_of(*model));
}

TEST(ModuleClone, OfOtherArgumentsSaysWhatDoesNotFit) {
  const Cloned net(4);
  expect_error<ShapeError>([&] { nn::clone(net, 5); }, {"first.weight", "misshaped"});
  nn::Sequential longer;
  longer.add<nn::ReLU>();
  nn::Sequential shorter;
  expect_error<ValueError>([&] { longer.become(shorter); }, {"same modules"});
}

}  // namespace
}  // namespace lockstep::test
