// A recording that tools/record_torch.py made (torch_net.py) against ours of the same network.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <lockstep/lockstep.h>

#include "support/files.h"

namespace lockstep {
inline namespace v0 {
namespace {

using ::testing::HasSubstr;

// As in torch_net.py.
Tensor formula(const Shape& shape, std::int64_t seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < shape.numel(); ++i)
    values.push_back(static_cast<float>((37 * i + 11 * seed) % 101 - 50) / 256);
  return Tensor::from(values, shape);
}

struct TorchNet : nn::Module {
  nn::Conv2d conv{*this, "conv", 2, 4, 3};
  nn::BatchNorm2d norm{*this, "norm", 4};
  nn::ReLU act{*this, "act"};
  nn::Linear hidden{*this, "hidden", 144, 8};
  nn::Linear out{*this, "out", 8, 5};
  Tensor forward(const Tensor& x) { return out(tanh(hidden(act(norm(conv(x))).flatten(1)))); }

  TorchNet() {
    const NoGrad no_grad;
    std::int64_t seed = 0;
    for (auto& [name, parameter] : named_parameters()) {
      Cell& slot = parameter;
      slot = formula(parameter.tensor().shape(), seed++);
    }
    norm.running_mean = formula({4}, 20);
    norm.running_var = abs(formula({4}, 21)) + 0.5;
    eval();
  }
};

std::vector<RecordedKernel> recorded(TorchNet& net, Device device) {
  const test::TemporaryFolder folder;
  net.to(device);
  const NoGrad no_grad;
  Recorder recorder(folder.path("ours"), {.modules = true});
  net.forward(formula({3, 2, 8, 8}, 30).to(device));
  recorder.finish();
  return read_record(folder.path("ours"));
}

const std::string kTorch = std::string(LOCKSTEP_SOURCE_DIR) + "/tests/agreement/torch_net.rec";

TEST(RecordTorch, ModulesOfBothAgreeWithinRounding) {
  TorchNet net;
  const std::vector<RecordedKernel> ours = recorded(net, Device{});
  EXPECT_FALSE(compare_records(ours, recorded(net, Device::parse("ref"))));
  const std::vector<ModuleError> errors = compare_modules(read_record(kTorch), ours);
  ASSERT_EQ(errors.size(), 5u);
  const std::vector<std::string> names{"conv", "norm", "act", "hidden", "out"};
  for (std::size_t i = 0; i < errors.size(); ++i) {
    EXPECT_EQ(errors[i].module, names[i]);
    EXPECT_EQ(errors[i].a, errors[i].b);
    EXPECT_LT(errors[i].error, 1e-6) << errors[i].module;
  }
  EXPECT_EQ(errors[3].ops, "Linear");
}

// A variance that was loaded otherwise, as porting goes: the first module that is off is the one that is wrong.
TEST(RecordTorch, TheFirstModuleThatPartsIsTheWrongOne) {
  TorchNet net;
  net.norm.running_var = net.norm.running_var.tensor() + 0.1;
  const std::vector<ModuleError> errors = compare_modules(read_record(kTorch), recorded(net, Device{}));
  EXPECT_LT(errors.at(0).error, 1e-6);
  EXPECT_GT(errors.at(1).error, 1e-3);
  EXPECT_GT(errors.at(4).error, 1e-4);
}

TEST(RecordTorch, NothingInCommonIsAnError) {
  std::vector<RecordedKernel> other = read_record(kTorch);
  for (RecordedKernel& one : other) one.module += "x";
  EXPECT_THROW(compare_modules(read_record(kTorch), other), ValueError);
  other = read_record(kTorch);
  other[1].sample[2] = std::numeric_limits<double>::quiet_NaN();
  other[2].shape = {1};
  const std::vector<ModuleError> errors = compare_modules(read_record(kTorch), other);
  EXPECT_EQ(errors.at(0).error, 0);
  EXPECT_TRUE(errors[0].is_equal);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
