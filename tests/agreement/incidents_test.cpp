// What went wrong in other frameworks, as data: every row of incidents.json has the reports it comes from, and is
// computed on the reference, on the CPU with every set of instructions and with 1, 2 and 7 threads, and on what
// LOCKSTEP_TEST_DEVICES names. The bits are to be equal, whether an operand is a view or a copy of it; gradients
// likewise. What the values ought to be beside that is in tests/graph/incidents*_test.cpp.
#include <gtest/gtest.h>

#include <fstream>
#include <limits>

#include <lockstep/autograd.h>
#include <lockstep/threads.h>

#include "agreement/isa_backend.h"
#include "cli/recorded_ops/find.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using nlohmann::json;

std::vector<json> rows() {
  std::ifstream file(LOCKSTEP_SOURCE_DIR "/tests/agreement/incidents.json");
  return json::parse(file).get<std::vector<json>>();
}

double number(const json& value) {
  return value.is_string() ? std::numeric_limits<double>::infinity() : value.get<double>();
}

std::vector<double> numbers(const json& values) {
  std::vector<double> result;
  for (const json& value : values) result.push_back(number(value));
  return result;
}

Tensor viewed(const Tensor& tensor, const json& view) {
  const auto name = view.at(0).get<std::string>();
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 1; i < view.size(); ++i) sizes.push_back(view[i]);
  const auto dim = [&](std::size_t i) { return static_cast<int>(sizes.at(i)); };
  if (name == "transpose") return tensor.transpose(dim(0), dim(1));
  if (name == "narrow") return tensor.narrow(dim(0), sizes.at(1), sizes.at(2));
  if (name == "unsqueeze") return tensor.unsqueeze(dim(0));
  if (name == "expand") return tensor.expand(Shape(sizes));
  if (name == "reshape") return tensor.reshape(Shape(sizes));
  if (name == "permute") {
    return tensor.permute(Dims(sizes));
  }
  throw ValueError("incidents.json: no view is called " + name);
}

// The leaf of an operand: what lies in memory before it is viewed.
Tensor leaf_of(const json& input, DType otherwise, std::uint64_t seed, Device device) {
  const Shape shape(input.at("shape").get<std::vector<std::int64_t>>());
  const DType dtype = input.contains("below")   ? DType::i64
                      : input.contains("dtype") ? parse_dtype(input["dtype"].get<std::string>())
                                                : otherwise;
  const Device host = Device::parse("ref");
  Tensor tensor;
  if (input.contains("values")) {
    const std::vector<double> values = numbers(input["values"]);
    tensor = Tensor::from<double>(values, shape, host).to(dtype);
  } else if (input.contains("fill")) {
    tensor = full(shape, input["fill"].get<double>(), {.dtype = dtype, .device = host});
  } else if (input.contains("below")) {
    tensor = remainder(random_tensor(shape, DType::i64, seed, host), input["below"].get<std::int64_t>());
  } else {
    tensor = random_tensor(shape, dtype, seed, host);
    if (input.contains("scale")) tensor = (tensor.to(DType::f64) * input["scale"].get<double>()).to(dtype);
    if (input.contains("offset")) tensor = tensor + input["offset"].get<double>();
  }
  return tensor.eval().to(device);
}

// Results of the row's op, then the gradients of their sum by every float leaf.
std::vector<Tensor> computed(const json& row, DType dtype, Device device, bool copies) {
  cli::Case one;
  one.path = "incidents.json";
  one.op = row.at("op");
  one.attributes = row.value("attributes", json::object());
  const bool wants_gradients = row.value("gradients", false);
  std::vector<Tensor> leaves;
  for (std::size_t i = 0; i < row.at("inputs").size(); ++i) {
    const json& input = row["inputs"][i];
    Tensor tensor = leaf_of(input, dtype, i + 1, device);
    const bool tracked = wants_gradients && is_float(tensor.dtype());
    if (tracked) leaves.push_back(tensor = requires_grad(tensor));
    for (const json& view : input.value("view", json::array())) tensor = viewed(tensor, view);
    if (copies && !tracked) tensor = tensor.clone().eval();
    one.inputs.push_back({"x" + std::to_string(i), tensor});
  }
  cli::Arguments arguments(one, device);
  std::vector<Tensor> results = cli::find_recorded_op(one.op).call(arguments);
  arguments.check_all_used();
  if (wants_gradients) {
    // Not the same for every element, so that a gradient at the wrong place shows.
    const Tensor weights = random_tensor(results.at(0).shape(), dtype, 99, device);
    for (const Tensor& gradient : gradients(sum(results[0] * weights), leaves)) results.push_back(gradient);
  }
  for (const Tensor& result : results) result.eval();
  return results;
}

void expect_equal(const std::vector<Tensor>& expected, const std::vector<Tensor>& found, const std::string& who) {
  ASSERT_EQ(expected.size(), found.size()) << who;
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_TRUE(bits_equal("ref", who.c_str(), expected[i], found[i])) << "result " << i;
  }
}

void try_row(const json& row, DType dtype) {
  const std::vector<Tensor> expected = computed(row, dtype, Device::parse("ref"), false);
  if (row.contains("expected")) {
    const std::vector<double> values = numbers(row["expected"]);
    const Tensor exact = Tensor::from<double>(values, expected.at(0).shape(), Device::parse("ref"));
    EXPECT_BITS_EQ(exact.to(expected[0].dtype()), expected[0]);
  }
  const bool finite = row.value("finite", true);
  for (const Tensor& result : expected) {
    EXPECT_TRUE(!finite || !is_float(result.dtype()) || all(isfinite(result)).item<bool>());
  }
  const int threads_before = num_threads();
  for (const int threads : {1, 2, 7}) {
    set_num_threads(threads);
    expect_equal(expected, computed(row, dtype, Device{}, false), std::to_string(threads) + " threads");
  }
  set_num_threads(threads_before);
  for (const Device& device : test::isa_devices()) {
    expect_equal(expected, computed(row, dtype, device, false), backend_of(device).description());
  }
  for (const Device& device : test_devices()) {
    if (device.kind == DeviceKind::ref) continue;
    try {
      for (const bool copies : {false, true}) {
        expect_equal(expected, computed(row, dtype, device, copies),
                     device.to_string() + (copies ? ", operands copied" : ""));
      }
    } catch (const DTypeError&) {  // the device says so, and computes nothing
      EXPECT_TRUE(dtype == DType::f64 && !backend_of(device).holds(DType::f64)) << device.to_string();
    }
  }
}

class Incident : public testing::TestWithParam<json> {};

TEST_P(Incident, HasTheSameBitsEverywhere) {
  const json& row = GetParam();
  EXPECT_FALSE(row.at("reports").empty());
  for (const json& dtype : row.value("dtypes", json{"f32"})) {
    SCOPED_TRACE(row.at("name").get<std::string>() + ", " + dtype.get<std::string>());
    try_row(row, parse_dtype(dtype.get<std::string>()));
  }
}

std::string name_of_row(const testing::TestParamInfo<json>& info) {
  std::string name = info.param.at("name");
  std::erase_if(name, [](char c) { return c == ','; });
  for (char& c : name) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(Reports, Incident, testing::ValuesIn(rows()), name_of_row);

}  // namespace
}  // namespace v0
}  // namespace lockstep
