#include <memory>

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>

#include "support/files.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using test::message_of;
using Names = std::vector<std::string>;

struct Block : nn::Layer {
  using nn::Layer::Layer;
  nn::Conv2d conv1{*this, "conv1", 2, 3, {3}, {.bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 3};
  Tensor forward(const Operand& x) const override { return bn1(conv1(x)); }
};

struct Net : nn::Module {
  Net() {
    layer1.add<Block>();
    layer1.add<nn::ReLU>();
    layer1.add<Block>();
  }
  nn::Linear hidden{*this, "hidden", 4, 3};
  nn::Sequential layer1{*this, "layer1"};
  nn::Parameter scale{*this, "scale", ones({2})};
};

Names names_of(const nn::StateDict& state) {
  Names names;
  for (const auto& [name, tensor] : state) names.push_back(name);
  return names;
}

TEST(Module, StateDictHasPyTorchsNamesInPyTorchsOrder) {
  const Net net;
  Names expected{"scale", "hidden.weight", "hidden.bias"};
  for (const std::string block : {"layer1.0.", "layer1.2."}) {
    for (const char* name :
         {"conv1.weight", "bn1.weight", "bn1.bias", "bn1.running_mean", "bn1.running_var", "bn1.num_batches_tracked"}) {
      expected.push_back(block + name);
    }
  }
  EXPECT_EQ(names_of(net.state_dict()), expected);
  EXPECT_EQ(net.named_parameters().size(), 9u);
  EXPECT_EQ(net.named_buffers().size(), 6u);
  EXPECT_EQ(net.parameter_count(), 2 + 12 + 3 + 2 * (54 + 6));
  EXPECT_EQ(net.state_dict().find("layer1.0.bn1.num_batches_tracked")->dtype(), DType::i64);
  EXPECT_EQ(net.state_dict().find("absent"), nullptr);
}

TEST(Module, TensorsBearTheirFullPath) {
  const Net net;
  for (const auto& [name, parameter] : net.named_parameters()) {
    EXPECT_EQ(parameter.name(), name);
    EXPECT_EQ(parameter.tensor().name(), name);
  }
  // Keys are relative to the module that is asked, paths start at the root.
  const nn::Module& block = net.layer1[0];
  EXPECT_EQ(block.path(), "layer1.0");
  EXPECT_EQ(block.named_parameters()[0].first, "conv1.weight");
  EXPECT_EQ(block.named_parameters()[0].second.name(), "layer1.0.conv1.weight");
}

TEST(Module, ErrorsNameTheParameterAndTheCaller) {
  const Net net;
  const std::string message = message_of<ShapeError>([&] { net.layer1(zeros({1, 5, 8, 8})); });
  EXPECT_NE(message.find("layer1.0.conv1.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("[3, 2, 3, 3]"), std::string::npos) << message;
  EXPECT_NE(message.find("module_test.cpp"), std::string::npos) << message;
}

TEST(Module, RefusesBadNames) {
  nn::Module root;
  nn::Linear taken(root, "taken", 1, 1);
  EXPECT_THROW(nn::Linear(root, "taken", 1, 1), ValueError);
  EXPECT_THROW(nn::Parameter(root, "taken", ones({1})), ValueError);
  EXPECT_THROW(nn::Linear(root, "a.b", 1, 1), ValueError);
  EXPECT_THROW(nn::Linear(root, "", 1, 1), ValueError);
  EXPECT_EQ(root.children().size(), 1u);
}

TEST(Module, AChildThatEndsLeavesItsParent) {
  nn::Module root;
  {
    const nn::Linear child(root, "child", 1, 1);
    EXPECT_EQ(root.state_dict().size(), 2u);
  }
  EXPECT_EQ(root.state_dict().size(), 0u);
}

TEST(Module, CopiesOfAParameterShareItsSlot) {
  nn::Module root;
  nn::Linear layer(root, "layer", 2, 1);
  nn::Parameter weight = root.parameters()[0];
  weight.set(full({1, 2}, 3));
  EXPECT_TRUE(same_slot(weight, layer.weight));
  EXPECT_EQ(layer.weight.tensor().to_vector<float>(), (std::vector<float>{3, 3}));
  EXPECT_THROW(weight.set(full({2, 1}, 3)), ShapeError);
  EXPECT_THROW(weight.set(Tensor()), ValueError);
  EXPECT_THROW(nn::Parameter().set(full({1}, 0)), ValueError);
}

TEST(Module, ParametersAreOperands) {
  nn::Module root;
  const nn::Parameter a(root, "a", full({2}, 3));
  const nn::Parameter b(root, "b", full({2}, 4));
  const std::vector<float> expected{25, 25};
  EXPECT_EQ((a * a + b * b).to_vector<float>(), expected);
  EXPECT_EQ((2.0 * a + 19.0).to_vector<float>(), expected);
  EXPECT_EQ(sum(a).item<float>(), 6);
}

TEST(Module, TrainAndEvalReachEveryChild) {
  Net net;
  EXPECT_TRUE(net.layer1[2].training());
  net.eval();
  EXPECT_FALSE(net.layer1[2].training());
  EXPECT_FALSE(net.layer1[2].children()[1]->training());
  net.train();
  EXPECT_TRUE(net.layer1[2].children()[1]->training());
}

TEST(Module, ToDTypeCastsFloatsOnly) {
  Net net;
  net.to(DType::f16);
  for (const auto& [name, tensor] : net.state_dict()) {
    const bool counter = name.ends_with("num_batches_tracked");
    EXPECT_EQ(tensor.dtype(), counter ? DType::i64 : DType::f16) << name;
    EXPECT_EQ(tensor.name(), name);
  }
  EXPECT_THROW(net.to(DType::i32), DTypeError);
}

TEST(Module, ToDeviceMovesEverything) {
  Net net;
  const std::uint64_t before = net.hidden.weight.tensor().hash();
  net.to(Device::parse("ref"));
  for (const auto& [name, tensor] : net.state_dict()) EXPECT_EQ(tensor.device(), Device::parse("ref")) << name;
  EXPECT_EQ(net.hidden.weight.tensor().hash(), before);
}

TEST(LoadStateDict, TakesEveryTensor) {
  Net a;
  Net b;
  EXPECT_NE(a.hidden.weight.tensor().hash(), b.hidden.weight.tensor().hash());
  b.load_state_dict(a.state_dict());
  for (const auto& [name, tensor] : a.state_dict()) EXPECT_EQ(tensor.hash(), b.state_dict().find(name)->hash()) << name;
}

TEST(LoadStateDict, CastsToTheModulesDTypeAndKeepsItsDevice) {
  Net single;
  Net half;
  half.to(DType::f16);
  half.to(Device::parse("ref"));
  half.load_state_dict(single.state_dict());
  EXPECT_EQ(half.hidden.weight.dtype(), DType::f16);
  EXPECT_EQ(half.hidden.weight.device(), Device::parse("ref"));
  EXPECT_EQ(half.hidden.weight.tensor().hash(), single.hidden.weight.tensor().to(DType::f16).hash());
  single.load_state_dict(half.state_dict());
  EXPECT_EQ(single.hidden.weight.dtype(), DType::f32);
  EXPECT_EQ(single.hidden.weight.device(), Device{});
  EXPECT_EQ(single.hidden.weight.tensor().to(DType::f16).hash(), half.hidden.weight.tensor().hash());
}

TEST(LoadStateDict, OneErrorListsAllThatIsWrongAndNothingIsLoaded) {
  Net net;
  nn::StateDict::Map tensors = Net().state_dict();
  tensors.erase("hidden.bias");
  tensors.erase("layer1.2.bn1.running_var");
  tensors["fc.weight"] = zeros({7, 2});
  tensors["layer1.0.conv1.weight"] = zeros({3, 2, 5, 5});
  const std::uint64_t before = net.hidden.weight.tensor().hash();
  const std::string message = message_of<ValueError>([&] { net.load_state_dict(tensors); });
  for (const char* part :
       {"2 missing, 1 unexpected, 1 misshaped", "hidden.bias", "layer1.2.bn1.running_var", "fc.weight", "[7, 2]",
        "layer1.0.conv1.weight", "[3, 2, 5, 5]", "[3, 2, 3, 3]", "module_test.cpp"}) {
    EXPECT_NE(message.find(part), std::string::npos) << part << "\n" << message;
  }
  EXPECT_EQ(net.hidden.weight.tensor().hash(), before);
}

TEST(LoadStateDict, OnlyShapesWrongIsAShapeError) {
  Net net;
  nn::StateDict::Map tensors = net.state_dict();
  tensors["hidden.bias"] = zeros({4});
  EXPECT_THROW(net.load_state_dict(tensors), ShapeError);
  EXPECT_THROW(net.load_state_dict(tensors, {.strict = false}), ShapeError);
}

TEST(LoadStateDict, NamesWhatIsOfADTypeThatDoesNotCast) {
  Net net;
  const std::vector<float> before = net.hidden.bias.tensor().to_vector<float>();
  nn::StateDict::Map tensors = net.state_dict();
  tensors["layer1.2.conv1.weight"] = zeros({3, 2, 3, 3}, DType::complex64);
  tensors["hidden.bias"] = full({3}, 7);
  std::string message = message_of<DTypeError>([&] { net.load_state_dict(tensors); });
  EXPECT_NE(message.find("layer1.2.conv1.weight"), std::string::npos) << message;
  EXPECT_NE(message.find("complex64 [3, 2, 3, 3], the module has f32"), std::string::npos) << message;
  EXPECT_NE(message.find("Tensor::from"), std::string::npos) << message;
  EXPECT_EQ(message.find("hidden.bias"), std::string::npos) << message;
  EXPECT_THROW(net.load_state_dict(tensors, {.strict = false}), DTypeError);
  tensors.erase("scale");
  message = message_of<ValueError>([&] { net.load_state_dict(tensors); });
  EXPECT_NE(message.find("1 missing, 0 unexpected, 0 misshaped, 1 of a dtype"), std::string::npos) << message;
  EXPECT_EQ(net.hidden.bias.tensor().to_vector<float>(), before) << "nothing is loaded";
}

TEST(LoadStateDict, NotStrictLoadsWhatFitsByName) {
  Net net;
  net.load_state_dict(nn::StateDict::Map{{"hidden.bias", full({3}, 7)}, {"other", zeros({1})}}, {.strict = false});
  EXPECT_EQ(net.hidden.bias.tensor().to_vector<float>(), (std::vector<float>{7, 7, 7}));
}

TEST(LoadStateDict, CheckpointsOfOldPyTorchLackCounters) {
  Net net;
  nn::StateDict::Map tensors = net.state_dict();
  EXPECT_EQ(std::erase_if(tensors, [](const auto& entry) { return entry.first.ends_with("num_batches_tracked"); }), 2u);
  EXPECT_NO_THROW(net.load_state_dict(tensors));
}

TEST(Module, BackwardFillsTheGradientsOfItsParameters) {
  Net net;
  const Tensor x = ones({5, 4});
  EXPECT_FALSE(net.hidden.weight.grad().defined());
  backward(sum(net.hidden(x)));
  EXPECT_BITS_EQ(net.hidden.weight.grad(), full({3, 4}, 5.0));
  EXPECT_FALSE(net.scale.grad().defined());
  backward(sum(net.hidden(x)));
  EXPECT_BITS_EQ(net.hidden.weight.grad(), full({3, 4}, 10.0));
  net.zero_grad();
  EXPECT_FALSE(net.hidden.weight.grad().defined());
}

TEST(Module, AGradientOutlivesAChangeOfTheValue) {
  Net net;
  backward(sum(net.hidden(ones({5, 4}))));
  net.hidden.weight.set(zeros({3, 4}));
  EXPECT_BITS_EQ(net.hidden.weight.grad(), full({3, 4}, 5.0));
  net.to(DType::f64);
  EXPECT_EQ(net.hidden.weight.grad().dtype(), DType::f64);
}

TEST(Module, FrozenParametersHaveNoGradient) {
  Net net;
  net.hidden.weight.requires_grad(false);
  backward(sum(net.hidden(ones({5, 4}))));
  EXPECT_FALSE(net.hidden.weight.grad().defined());
  EXPECT_TRUE(net.hidden.bias.grad().defined());
  net.requires_grad(false);
  EXPECT_FALSE(is_tracked(net.hidden(ones({5, 4}))));
  EXPECT_THROW(net.hidden.weight.set_grad(zeros({3, 4})), ValueError);
}

TEST(Module, SetGradChecksWhatItGets) {
  Net net;
  EXPECT_THROW(net.scale.set_grad(zeros({3})), ShapeError);
  EXPECT_THROW(net.scale.set_grad(zeros({2}, {.dtype = DType::f64})), DTypeError);
  EXPECT_THROW(net.scale.set_grad(zeros({2}, {.device = Device::parse("ref")})), DeviceError);
  net.scale.set_grad(ones({2}));
  EXPECT_BITS_EQ(net.scale.grad(), ones({2}));
}

TEST(Module, StateAndBuffersHaveNoHistory) {
  struct Root : nn::Module {
    Block block{*this, "block"};
  } net;
  net.block(ones({2, 2, 9, 9}));
  for (const auto& [name, tensor] : net.state_dict()) EXPECT_FALSE(is_tracked(tensor)) << name;
  for (const auto& [name, buffer] : net.named_buffers()) EXPECT_FALSE(is_tracked(buffer.tensor())) << name;
}

TEST(Module, ContainersMayDestroyAParentFirst) {
  auto parent = std::make_unique<nn::Module>();
  const nn::Module child(*parent, "child");
  parent.reset();  // AddressSanitizer would see the child look for it
  EXPECT_TRUE(child.named_parameters().empty());
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
