// DynamicQuantizeLSTM whose steps are one kernel has the bits of its composition, which the reference runs: with each
// set of instructions, for states that fill vectors and that do not, and for numbers that have no range.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/io/onnx.h>
#include <lockstep/ops.h>
#include <lockstep/shadow.h>

#include "agreement/isa_backend.h"
#include "io/onnx/one_node.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::io::onnx {
namespace {

using Values = TensorMap;

struct Case {
  std::int64_t steps = 3, batch = 1, inputs = 4, hidden = 8;
  std::string direction = "bidirectional";
  DType weights = DType::u8;
  bool by_gate = false;  // a scale and a zero point for each column
  bool biases = true;
  float clip = 0;
  std::optional<float> special = std::nullopt;  // a number among the initial states

  std::int64_t directions() const { return direction == "bidirectional" ? 2 : 1; }
};

std::string model_of(const Case& c, const Values& values) {
  test::OneNode node{.op = "DynamicQuantizeLSTM",
                     .operands = {"x", "w", "r", "b", "", "h", "c", "", "ws", "wz", "rs", "rz"},
                     .results = {"y", "y_h", "y_c"},
                     .attributes = {{"direction", c.direction}, {"hidden_size", c.hidden}},
                     .domain = "com.microsoft"};
  if (c.clip != 0) node.attributes.emplace_back("clip", c.clip);
  return test::model_of(node, values);
}

Tensor bytes(const Shape& shape, DType dtype, std::uint64_t seed) {
  const Tensor numbers = random_tensor(shape, DType::f32, seed) * 40 + (dtype == DType::u8 ? 120.0 : 3.0);
  return clamp(round(numbers), dtype == DType::u8 ? 0.0 : -128.0, dtype == DType::u8 ? 255.0 : 127.0).to(dtype);
}

Values values_of(const Case& c) {
  const std::int64_t d = c.directions();
  const std::int64_t gates = 4 * c.hidden;
  const Shape each = c.by_gate ? Shape{d, gates} : Shape{d};
  const auto floats = [](const Shape& shape, std::uint64_t seed) { return random_tensor(shape, DType::f32, seed); };
  Values values = {{"x", floats({c.steps, c.batch, c.inputs}, 1)},
                   {"w", bytes({d, c.inputs, gates}, c.weights, 2)},
                   {"r", bytes({d, c.hidden, gates}, c.weights, 3)},
                   {"h", floats({d, c.batch, c.hidden}, 4)},
                   {"c", floats({d, c.batch, c.hidden}, 5)},
                   {"ws", abs(floats(each, 6)) * 0.01},
                   {"wz", bytes(each, c.weights, 7)},
                   {"rs", abs(floats(each, 8)) * 0.01},
                   {"rz", bytes(each, c.weights, 9)}};
  if (c.biases) values["b"] = floats({d, 2 * gates}, 10);
  if (c.special) {
    std::vector<float> hidden = values["h"].to_vector<float>();
    hidden[hidden.size() / 2] = *c.special;
    values["h"] = Tensor::from(hidden, {d, c.batch, c.hidden});
  }
  return values;
}

Values on(Device device, const Values& values) {
  Values moved;
  for (const auto& [name, value] : values) moved[name] = value.to(device);
  return moved;
}

void expect_the_composition(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.steps << " steps of " << c.batch << " x " << c.hidden << " " << c.direction
                                  << ", by gate " << c.by_gate << ", special " << c.special.value_or(0));
  const Values values = values_of(c);
  const test::TemporaryFolder folder;
  folder.write("model.onnx", model_of(c, values));
  const Device reference{DeviceKind::ref};
  const Values expected = load_onnx(folder.path("model.onnx"), {.device = reference})->run(on(reference, values));
  for (const Device device : test::isa_devices()) {
    const auto model = load_onnx(folder.path("model.onnx"), {.device = device});
    const Values given = on(device, values);
    for (int run = 0; run < 4; ++run) {
      for (const auto& [name, result] : model->run(given)) {
        EXPECT_BITS_EQ(result.to(Device()), expected.at(name).to(Device())) << name << " on " << device.to_string();
      }
    }
  }
}

TEST(Int8Lstm, StepsAsOneKernelHaveTheBitsOfEach) {
  for (const std::int64_t hidden : {1, 2, 5, 16, 33, 100}) {
    expect_the_composition({.hidden = hidden});
    expect_the_composition({.batch = 3, .hidden = hidden, .weights = DType::i8, .by_gate = true});
  }
  for (const std::int64_t batch : {2, 4, 5, 11, 16, 17}) expect_the_composition({.batch = batch, .hidden = 20});
  for (const char* direction : {"forward", "reverse"}) {
    expect_the_composition({.steps = 5, .direction = direction, .by_gate = true});
    expect_the_composition({.steps = 1, .direction = direction, .biases = false});
  }
  expect_the_composition({.hidden = 16, .clip = 0.2f});
}

TEST(Int8Lstm, StatesWithoutARange) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const float special : {kInfinity, -kInfinity, std::nanf(""), 1e38f, -3e38f, 1e-40f}) {
    expect_the_composition({.batch = 2, .hidden = 20, .special = special});
  }
  Case small;  // a range whose 255th part is no number
  Values values = values_of(small);
  const test::TemporaryFolder folder;
  folder.write("model.onnx", model_of(small, values));
  for (const double scale : {0.0, 1e-36, 1e-37}) {
    values["h"] = values_of(small)["h"] * scale;
    const auto last = [&](Device device) {
      return load_onnx(folder.path("model.onnx"), {.device = device})->run(on(device, values)).at("y_c").to(Device());
    };
    const Tensor expected = last({DeviceKind::ref});
    for (const Device device : test::isa_devices()) EXPECT_BITS_EQ(last(device), expected);
  }
}

TEST(Int8Lstm, IsOneKernelUnlessKernelsAreWatched) {
  const Device device = test::isa_devices().back();
  const auto recurrences = [&](const Case& c) {
    const Values values = values_of(c);
    const test::TemporaryFolder folder;
    folder.write("model.onnx", model_of(c, values));
    const auto kernels =
        plan({load_onnx(folder.path("model.onnx"), {.device = device})->run(on(device, values)).at("y")});
    return std::count_if(kernels.begin(), kernels.end(), [](const auto& k) { return k.starts_with("int8_lstm["); });
  };
  EXPECT_EQ(recurrences({}), 1);
  EXPECT_EQ(recurrences({.batch = 17}), 0);
  EXPECT_EQ(recurrences({.clip = 1}), 0);
  const Shadow shadow({DeviceKind::ref});
  EXPECT_EQ(recurrences({}), 0);
}

}  // namespace
}  // namespace lockstep::io::onnx
