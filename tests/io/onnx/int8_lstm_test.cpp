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
#include "io/onnx/export/message_writer.h"
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

std::int64_t type_of(DType dtype) {
  return dtype == DType::f32 ? 1 : dtype == DType::u8 ? 2 : 3;
}

MessageWriter value_info(const std::string& name, const Tensor& value) {
  MessageWriter shape;
  for (int d = 0; d < value.rank(); ++d) {
    MessageWriter dim;
    dim.integer(1, value.size(d));
    shape.message(1, dim);
  }
  MessageWriter tensor, type, info;
  tensor.integer(1, type_of(value.dtype()));
  tensor.message(2, shape);
  type.message(1, tensor);
  info.text(1, name);
  info.message(2, type);
  return info;
}

// A model of this one node, all of whose operands are inputs.
std::string model_of(const Case& c, const Values& values) {
  MessageWriter node;
  for (const char* name : {"x", "w", "r", "b", "", "h", "c", "", "ws", "wz", "rs", "rz"}) {
    node.text(1, values.contains(name) ? name : "");
  }
  for (const char* name : {"y", "y_h", "y_c"}) node.text(2, name);
  node.text(4, "DynamicQuantizeLSTM");
  MessageWriter direction, hidden, clip;
  direction.text(1, "direction");
  direction.text(4, c.direction);
  direction.integer(20, 3);
  hidden.text(1, "hidden_size");
  hidden.integer(3, c.hidden);
  hidden.integer(20, 2);
  clip.text(1, "clip");
  clip.number(2, c.clip);
  clip.integer(20, 1);
  node.message(5, direction);
  node.message(5, hidden);
  if (c.clip != 0) node.message(5, clip);
  node.text(7, "com.microsoft");
  MessageWriter graph;
  graph.message(1, node);
  graph.text(2, "int8_lstm");
  for (const auto& [name, value] : values) graph.message(11, value_info(name, value));
  for (const char* name : {"y", "y_h", "y_c"}) {
    MessageWriter info;
    info.text(1, name);
    graph.message(12, info);
  }
  MessageWriter standard, microsoft, model;
  standard.text(1, "");
  standard.integer(2, 17);
  microsoft.text(1, "com.microsoft");
  microsoft.integer(2, 1);
  model.integer(1, 8);
  model.message(7, graph);
  model.message(8, standard);
  model.message(8, microsoft);
  return model.bytes();
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
