// Products of bytes with weights that stay bytes: the sums of the integers less their zero points, however these come.
#include "io/onnx/ops/integer_product.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/io/onnx.h>
#include <lockstep/ops.h>

#include "agreement/isa_backend.h"
#include "io/onnx/one_node.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::io::onnx::integer_products {
namespace {

constexpr Device kReference{DeviceKind::ref};

// Every byte, in an order that has no period in the sizes below.
Tensor bytes(const Shape& shape, DType dtype, int seed) {
  const Tensor order = arange(static_cast<double>(shape.numel()));
  const Tensor numbers = (order * 37 + seed).remainder(256).reshape(shape);
  return (dtype == DType::u8 ? numbers : numbers - 128).to(dtype);
}

std::vector<Device> devices() {
  std::vector<Device> all = test_devices();
  all.insert(all.end(), test::isa_devices().begin(), test::isa_devices().end());
  return all;
}

struct Case {
  Shape a = {2, 5, 40};
  std::int64_t columns = 33;
  DType weight = DType::i8;
  TensorMap zeros = {};  // "az" and "wz"
};

void expect_sums(const Case& c) {
  SCOPED_TRACE(testing::Message() << c.a.to_string() << " x " << c.columns << " " << name_of(c.weight));
  const Tensor a = bytes(c.a, DType::u8, 5);
  TensorMap weights = {{"w", bytes({c.a.back(), c.columns}, c.weight, 11)}};
  Tensor left = a.to(kReference).to(DType::i32);
  Tensor right = weights.at("w").to(kReference).to(DType::i32);
  for (const auto& [name, zero] : c.zeros) {
    weights.emplace(name, zero);
    const Tensor moved = zero.to(kReference).to(DType::i32);
    if (name == "az") left = left - (zero.rank() == 0 ? moved : moved.unsqueeze(-1));
    if (name == "wz") right = right - moved;
  }
  const Tensor expected = matmul(left, right).to(Device());
  const test::TemporaryFolder folder;
  const test::OneNode node{
      .op = "MatMulInteger", .operands = {"a", "w", "az", "wz"}, .results = {"y"}, .attributes = {}, .domain = ""};
  folder.write("model.onnx", test::model_of(node, {{"a", a}}, weights));
  for (const Device device : devices()) {
    const auto model = load_onnx(folder.path("model.onnx"), {.device = device});
    for (int run = 0; run < 5; ++run) {
      EXPECT_BITS_EQ(model->run({{"a", a.to(device)}}).at("y").to(Device()), expected) << device.to_string();
    }
  }
}

Tensor zero(DType dtype, double value) {
  return full({}, value).to(dtype);
}

TEST(IntegerProduct, ZeroPointsOfEveryForm) {
  for (const DType dtype : {DType::i8, DType::u8}) {
    const double middle = dtype == DType::u8 ? 128 : 0;
    expect_sums({.weight = dtype});
    expect_sums({.weight = dtype, .zeros = {{"az", zero(DType::u8, 131)}}});
    expect_sums({.weight = dtype, .zeros = {{"az", zero(DType::u8, 255)}, {"wz", zero(dtype, middle)}}});
    expect_sums({.weight = dtype, .zeros = {{"wz", zero(dtype, middle - 5)}}});
    expect_sums({.weight = dtype, .zeros = {{"az", zero(DType::u8, 7)}, {"wz", zero(dtype, middle + 9)}}});
    expect_sums({.weight = dtype, .zeros = {{"az", zero(DType::u8, 7)}, {"wz", bytes({33}, dtype, 3)}}});
    expect_sums({.a = {5, 40}, .weight = dtype, .zeros = {{"az", bytes({5}, DType::u8, 4)}}});
  }
}

TEST(IntegerProduct, SizesThatFillNoVector) {
  for (const std::int64_t k : {1, 3, 17, 300}) {
    for (const std::int64_t rows : {1, 15}) {
      expect_sums({.a = {rows, k}, .columns = 3, .zeros = {{"az", zero(DType::u8, 100)}}});
      expect_sums({.a = {rows, k}, .columns = 50, .weight = DType::u8, .zeros = {{"wz", zero(DType::u8, 100)}}});
    }
  }
}

// Sums of 32 bits wrap, with zero points taken off behind them, too.
TEST(IntegerProduct, SumsWrap) {
  const std::int64_t k = 140'000;
  for (const Device device : devices()) {
    const Tensor a = full({2, k}, 255, {DType::u8, device});
    const Tensor w = full({k, 3}, -128, {DType::i8, device});
    const ByteWeight weight = byte_weight(w, full({}, 127, {DType::i8, device}));
    const Tensor product = times_bytes(a, full({}, 0, {DType::u8, device}), weight);
    const auto sum = static_cast<std::int32_t>(static_cast<std::uint32_t>(-k * 255 * 255));
    EXPECT_EQ(product.to(Device()).to_vector<std::int32_t>(), std::vector<std::int32_t>(6, sum)) << device.to_string();
  }
}

TEST(IntegerProduct, AWeightOfOtherRowsIsAnError) {
  const ByteWeight weight = byte_weight(bytes({8, 3}, DType::i8, 1), {});
  EXPECT_THROW(times_bytes(bytes({2, 7}, DType::u8, 2), {}, weight), ShapeError);
}

}  // namespace
}  // namespace lockstep::io::onnx::integer_products
