// Wrong calls: the right class of error, at the call, with the whole story.
#include <gtest/gtest.h>

#include <functional>
#include <utility>

#include <lockstep/autograd.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

const Device kReference{DeviceKind::ref, 0};

TEST(Errors, DifferentDevicesNameBothAndTheFix) {
  const Tensor x = ones({2, 3}).named("pred");
  const Tensor y = ones({2, 3}, {.device = kReference});
  expect_error<DeviceError>([&] { x + y; },
                            {"add: a and b are on different devices", "pred", "f32 [2, 3]  cpu", "f32 [2, 3]  ref",
                             "fix: move one of them, e.g. pred.to(Device::parse(\"ref\"))", "errors_test.cpp:"});
  expect_error<DeviceError>(
      [&] {
        conv2d(ones({1, 3, 8, 8}), ones({4, 3, 3, 3}, {.device = kReference}).named("conv1.weight"));
      },
      {"conv2d", "conv1.weight"});
}

TEST(Errors, TwoHandlesOfOneDeviceAreOneDevice) {
  const Tensor x = ones({3}, {.device = Device::parse("cpu")});
  const Tensor y = ones({3}, {.device = Device::parse("cpu:0")}) * 2.0;
  EXPECT_EQ((x + y).to_vector<float>(), (std::vector<float>{3, 3, 3}));
}

TEST(Errors, DifferentDTypesNameTheCast) {
  expect_error<DTypeError>([] { ones({2}) + ones({2}, {.dtype = DType::f16}); },
                           {"different dtypes", "fix: cast one of them, e.g. b.to(DType::f32)"});
  expect_error<DTypeError>([] { ones({2}, {.dtype = DType::i32}) / 2; }, {"div", "i32", "to(DType::f32)"});
  expect_error<DTypeError>([] { ones({2}, {.dtype = DType::i32}) + 0.5; }, {"scalar 0.5 is not a value of i32"});
  expect_error<DTypeError>([] { ones({2}, {.dtype = DType::u8}) + 256; }, {"scalar 256 is not a value of u8"});
  expect_error<DTypeError>([] { exp(ones({2}, {.dtype = DType::i64})); }, {"exp", "i64"});
  expect_error<DTypeError>([] { mean(ones({2}, {.dtype = DType::i64})); }, {"mean", "to(DType::f32)"});
  expect_error<DTypeError>([] { where(ones({2}), 1.0, 0.0); }, {"where", "bool"});
}

TEST(Errors, ShapesThatDoNotFit) {
  expect_error<ShapeError>([] { ones({2, 3}) + ones({4}); }, {"do not broadcast", "3 against 4", "[2, 3]", "[4]"});
  expect_error<ShapeError>([] { matmul(ones({8, 64}), ones({128, 64})); }, {"64 and 128", "transpose"});
  expect_error<ShapeError>([] { ones({6}).reshape({4, -1}); }, {"reshape", "6 elements", "[4, -1]"});
  expect_error<ShapeError>([] { conv2d(ones({1, 4, 8, 8}), ones({4, 3, 3, 3})); }, {"conv2d", "4 input channels"});
  expect_error<ShapeError>([] { conv2d(ones({1, 3, 2, 2}), ones({4, 3, 3, 3})); }, {"spans 3", "input of 2"});
  expect_error<ShapeError>([] { cat({ones({2, 3}), ones({3, 3})}, 1); }, {"cat", "tensors[1]"});
  expect_error<ShapeError>([] { linear(ones({2, 3}), ones({4, 5})); }, {"linear", "in-features"});
  expect_error<ShapeError>([] { layer_norm(ones({2, 3}), {4}); }, {"layer_norm", "[4]"});
  expect_error<ShapeError>([] { ones({2, 2}).item<float>(); }, {"item", "[2, 2]"});
  expect_error<ShapeError>([] { Tensor::from<float>({1, 2, 3}, {2, 2}); }, {"3 values given", "holds 4"});
  expect_error<ShapeError>([] { ones({1, 2}).expand({3}); }, {"expand"});
}

// In the index as it was given, however it is flattened and spread inside; and with the table's name.
TEST(Errors, BadIndicesAreFoundWhereTheUserPutThem) {
  const Tensor table = ones({10, 4}).named("encoder.embedding.weight");
  const auto ids = [](const std::vector<std::int64_t>& values, const Shape& shape) {
    return Tensor::from<std::int64_t>(values, shape);
  };
  const auto message = [](const std::function<Tensor()>& op) {
    try {
      op().eval();
    } catch (const IndexError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string first = message([&] { return embedding(table, ids({3, 12}, {2})); });
  EXPECT_NE(first.find("embedding: index 12 at position [1] is outside a dimension of size 10"), std::string::npos)
      << first;
  EXPECT_NE(first.find("encoder.embedding.weight"), std::string::npos) << first;
  EXPECT_NE(first.find("f32 [10, 4]"), std::string::npos) << first;
  const std::vector<std::pair<std::function<Tensor()>, const char*>> cases{
      {[&] {
         return embedding(table, ids({3, 2, 1, 0, 10, 5}, {2, 3}));
       },
       "index 10 at position [1, 1] "},
      {[&] {
         return embedding(ones({10, 1}), ids({3, 2, 1, 11}, {2, 2}));
       },
       "index 11 at position [1, 1] "},
      {[&] {
         return index_select(table, 1, ids({3, 4}, {2}));
       },
       "index 4 at position [1] is outside a dimension of size 4"},
      {[&] {
         return gather(table, 1, ids({0, 1, 2, 4}, {2, 2}));
       },
       "index 4 at position [1, 1] "},
      {[&] {
         return take(table, ids({0, 1, 40, 2}, {2, 2}));
       },
       "index 40 at position [1, 0] is outside a dimension of size 40"},
      {[&] {
         return take_along_dim(table, ids({0, 9, 10}, {3, 1}), 0);
       },
       "index 10 at position [2, 0] "},
      {[&] {
         return scatter(table, 0, ids({0, 9, 3, 10}, {2, 2}), 1.0);
       },
       "index 10 at position [1, 1] "},
      {[&] {
         return index_add(table, 0, ids({0, 11}, {2}), ones({2, 4}));
       },
       "index 11 at position [1] "},
      {[&] { return index_fill(table, 0, ids({-1}, {1}), 1.0); }, "index -1 at position [0] "},
      {[&] { return embedding(table, ids({11}, {1}).expand({3})); }, "embedding: index 11 "},
  };
  for (const auto& [op, expected] : cases) {
    EXPECT_NE(message(op).find(expected), std::string::npos) << expected << "\n" << message(op);
  }
  const std::string counted = message([&] { return one_hot(ids({1, 7}, {2}), 5); });
  EXPECT_NE(counted.find("one_hot: index 7 at position [1] is outside a dimension of size 5"), std::string::npos)
      << counted;
}

TEST(Errors, ACustomGradientOfAWrongShapeNamesTheFunction) {
  const Tensor x = requires_grad(ones({2, 3}));
  const auto differentiate = [&](const Shape& shape) {
    return gradients(sum(custom_gradient(x * 2.0, {x}, [&](const Tensor&) { return std::vector{ones(shape)}; })),
                     {x})[0];
  };
  expect_error<ShapeError>(
      [&] {
        differentiate({2, 4});
      },
      {"custom_gradient", "input 0, which is [2, 3]", "f32 [2, 4]", "errors_test.cpp"});
  expect_error<ShapeError>([&] { differentiate({3}); }, {"custom_gradient"});
  EXPECT_EQ(differentiate({2, 3}).shape(), (Shape{2, 3}));
}

TEST(Errors, AddressesThatAreNull) {
  expect_error<ValueError>([] { Tensor::from_bytes(nullptr, 8, {2}, DType::f32); }, {"8 bytes is null"});
  expect_error<ValueError>([] { Tensor::from_blob(nullptr, {2}, DType::f32); }, {"from_blob", "8 bytes is null"});
  EXPECT_EQ(Tensor::from_bytes(nullptr, 0, {0, 2}, DType::f32).numel(), 0);
  EXPECT_EQ(Tensor::from_blob(nullptr, {0}, DType::f32).numel(), 0);
}

TEST(Errors, ViewsKeepTheNameOfWhatTheyLookAt) {
  const Tensor weight = ones({128, 64}).named("layers.3.weight");
  expect_error<ShapeError>(
      [&] {
        matmul(ones({8, 128}), weight.transpose(0, 1));
      },
      {"layers.3.weight", "f32 [64, 128]"});
}

TEST(Errors, SizesThatOverflow) {
  expect_error<ShapeError>([] { zeros({std::int64_t{1} << 31, std::int64_t{1} << 31, 4}); }, {"2^63"});
  expect_error<ShapeError>([] { zeros({std::int64_t{1} << 61}); }, {"bytes"});
  expect_error<ShapeError>([] { zeros({-1}); }, {"negative"});
  expect_error<ShapeError>([] { zeros({1, 1, 1, 1, 1, 1, 1, 1, 1}); }, {"at most 8"});
  const Tensor wide = ones({1}).expand({std::int64_t{1} << 40}).reshape({1, std::int64_t{1} << 40});
  expect_error<ShapeError>([&] { wide + wide.transpose(0, 1); }, {"2^63"});
  expect_error<ShapeError>([] { pad(ones({2}), {INT64_MAX, INT64_MAX}); }, {"pad"});
}

TEST(Errors, DimensionsAndIndices) {
  expect_error<IndexError>([] { sum(ones({2, 3}), {2}); }, {"dimension 2", "from -2 to 1"});
  expect_error<IndexError>([] { ones({2, 3}).size(-3); }, {"dimension -3"});
  expect_error<IndexError>([] { ones({2, 3}).select(0, 2); }, {"index 2", "size 2"});
  expect_error<IndexError>([] { ones({5}).narrow(0, 3, 3); }, {"start 3", "length 3"});
  expect_error<ValueError>([] { sum(ones({2, 3}), {0, -2}); }, {"twice"});
  expect_error<ValueError>([] { ones({5}).slice(0, {.step = 0}); }, {"step"});
  expect_error<ShapeError>([] { ones({2, 3}).permute({0}); }, {"permute"});
}

TEST(Errors, OptionsOutOfRange) {
  expect_error<ValueError>([] { conv2d(ones({1, 3, 8, 8}), ones({4, 3, 3, 3}), {}, {.stride = {0}}); }, {"stride"});
  expect_error<ValueError>([] { conv2d(ones({1, 3, 8, 8}), ones({4, 3, 3, 3}), {}, {.padding = {-1}}); }, {"padding"});
  expect_error<ValueError>([] { max_pool2d(ones({1, 1, 8, 8}), 2, {.padding = {2}}); }, {"half the kernel"});
  expect_error<ValueError>([] { max_pool2d(ones({1, 1, 8, 8}), {}); }, {"kernel"});
  expect_error<ValueError>([] { clamp(ones({2}), {}, {}); }, {"bound"});
  expect_error<ValueError>([] { arange(0, 1, 0); }, {"steps of 0"});
}

TEST(Errors, UndefinedTensors) {
  const Tensor nothing;
  expect_error<ValueError>([&] { nothing + 1.0; }, {"undefined"});
  expect_error<ValueError>([&] { nothing.shape(); }, {"undefined"});
  expect_error<ValueError>([&] { matmul(nothing, nothing); }, {"matmul", "undefined"});
}

TEST(Errors, WrongDTypeToRead) {
  expect_error<DTypeError>([] { ones({2}).to_vector<double>(); }, {"f32", "f64"});
}

TEST(Errors, Devices) {
  expect_error<DeviceError>([] { Device::parse("gpu"); }, {"\"gpu\"", "ref, cpu"});
  expect_error<DeviceError>([] { Device::parse("cuda:x"); }, {"cuda:x"});
  expect_error<DeviceError>([] { ones({2}, {.device = Device::parse("metal:9999")}); },
                            {"metal:9999", "not available"});
  expect_error<DeviceError>([] { ones({2}).to(Device::parse("cpu:1")); }, {"cpu:1"});
  EXPECT_EQ(Device::parse("cpu"), (Device{DeviceKind::cpu, 0}));
  EXPECT_EQ(Device::parse("cuda:3").to_string(), "cuda:3");
}

TEST(Errors, CallSitesNameTheCaller) {
  const Tensor x = ones({2});
  const int line = __LINE__ + 1;
  expect_error<ShapeError>([&] { x* ones({3}); }, {"errors_test.cpp:" + std::to_string(line)});
}

}  // namespace
}  // namespace lockstep
