#include "io/onnx/node_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include "io/onnx/value_file.h"
#include "support/data.h"
#include "support/tensors.h"

namespace lockstep::io::onnx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Tensor floats(const std::vector<float>& values, const Shape& shape) {
  return Tensor::from(values, shape, Device{});
}

TEST(NodeCheck, NamesTheFirstElementThatDiffersWithBothValues) {
  const Value expected = floats({1, 2, 3, 4, 5, 6}, {2, 3});
  EXPECT_EQ(difference_of(0, expected, floats({1, 2, 3, 4, 5, 6}, {2, 3})), "");
  EXPECT_EQ(difference_of(1, floats({1, 2, 3, 4, 0.5, 0}, {2, 3}), expected),
            "output 1 [1, 1]: 0.5 (0x3f000000) instead of 5 (0x40a00000); 2 of 6 elements differ");
  EXPECT_EQ(difference_of(0, Tensor::from(std::vector<std::int64_t>{7}, {}, Device{}),
                          Tensor::from(std::vector<std::int64_t>{-7}, {}, Device{})),
            "output 0 []: 7 instead of -7");
}

TEST(NodeCheck, ComparesBits) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THAT(difference_of(0, floats({0}, {1}), floats({-0.0f}, {1})),
              HasSubstr("(0x00000000) instead of -0 (0x8000"));
  EXPECT_EQ(difference_of(0, floats({kNaN}, {1}), floats({-kNaN}, {1})), "");
  EXPECT_THAT(difference_of(0, floats({kNaN}, {1}), floats({1}, {1})), HasSubstr("nan"));
  const auto halves = [](float value) { return floats({value}, {1}).to(DType::f16); };
  EXPECT_EQ(difference_of(0, halves(kNaN), halves(kNaN)), "");
  EXPECT_THAT(difference_of(0, halves(1), halves(2)), HasSubstr("1 (0x3c00) instead of 2 (0x4000)"));
}

TEST(NodeCheck, ComparesKindsDtypesAndShapes) {
  const Value one = floats({1}, {1});
  EXPECT_EQ(difference_of(0, Value(), Value()), "");
  EXPECT_EQ(difference_of(2, Value(), one), "output 2 is another kind of value");
  EXPECT_EQ(difference_of(0, one, Value(std::vector<Value>{one})), "output 0 is another kind of value");
  EXPECT_EQ(difference_of(0, floats({1}, {1}).to(DType::f64), one), "output 0 is f64 instead of f32");
  EXPECT_EQ(difference_of(0, floats({1}, {}), one), "output 0 has shape [] instead of [1]");
  EXPECT_EQ(difference_of(0, Value(std::vector<Value>{one}), Value(std::vector<Value>{one, one})),
            "output 0 has 1 elements instead of 2");
  EXPECT_THAT(difference_of(0, Value(std::vector<Value>{one, floats({3}, {1})}), Value(std::vector<Value>{one, one})),
              HasSubstr("element 1 [0]: 3"));
  EXPECT_EQ(difference_of(0, HostArray{.dtype = DType::f32, .shape = {1}, .integers = {}, .numbers = {1}}, one), "");
}

TEST(NodeCheck, RunsEveryNodeOnEveryDeviceInnerOnesFirst) {
  const auto model = load_onnx((test::repository_data("onnx") / "if_true/model.onnx").string(), {.device = Device{}});
  const NoGrad no_grad;
  const std::vector<Device> devices = {Device{DeviceKind::ref, 0}, Device{}};
  std::vector<std::string> seen;
  const ValueMap outputs = check_nodes(
      model->program(), {{"flag", full({}, 1, {.dtype = DType::boolean})}, {"x", floats({1, 2, 3, 4}, {1, 4})}},
      devices, [&](const NodeFinding& finding) {
        EXPECT_EQ(finding.outcome, NodeOutcome::equal) << finding.detail;
        seen.push_back(std::string(finding.node->op) + std::to_string(finding.device));
      });
  EXPECT_THAT(seen, ElementsAre("Add0", "Add1", "If0", "If1"));
  EXPECT_EQ(outputs.at("y").tensor(Device{}).to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
}

TEST(NodeCheck, FindsNoDifferenceOnAnyTestDevice) {
  const std::vector<Device> devices = test_devices();
  for (const char* name : {"convolution", "loop", "scan", "sequence", "function", "shape_arithmetic"}) {
    const std::filesystem::path folder = test::repository_data("onnx") / name;
    const auto model = load_onnx((folder / "model.onnx").string(), {.device = Device{}});
    const NoGrad no_grad;
    ValueMap inputs;
    for (std::size_t i = 0; i < model->inputs().size(); ++i) {
      const std::filesystem::path file = folder / fmt::format("test_data_set_0/input_{}.pb", i);
      inputs.emplace(model->inputs()[i].name, parse_value(os::read_file(file.string()), ValueKind::tensor));
    }
    std::size_t runs = 0;
    check_nodes(model->program(), std::move(inputs), devices, [&](const NodeFinding& finding) {
      ++runs;
      EXPECT_EQ(finding.outcome, NodeOutcome::equal) << name << ": " << finding.detail;
    });
    EXPECT_GE(runs, devices.size()) << name;
  }
}

}  // namespace
}  // namespace lockstep::io::onnx
