// Wrong calls: the right class of error, at the call, with the whole story.
#include <gtest/gtest.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

const Device kRef{DeviceKind::ref, 0};

TEST(Errors, DifferentDevicesNameBothAndTheFix) {
  const Tensor x = ones({2, 3}).named("pred");
  const Tensor y = ones({2, 3}, {.device = kRef});
  expect_error<DeviceError>([&] { x + y; },
                            {"add: a and b are on different devices", "pred", "f32 [2, 3]  cpu", "f32 [2, 3]  ref",
                             "fix: move one of them, e.g. pred.to(Device::parse(\"ref\"))", "errors_test.cpp:"});
  expect_error<DeviceError>([&] { conv2d(ones({1, 3, 8, 8}), ones({4, 3, 3, 3}, {.device = kRef}).named("conv1.weight")); },
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

TEST(Errors, ViewsKeepTheNameOfWhatTheyLookAt) {
  const Tensor weight = ones({128, 64}).named("layers.3.weight");
  expect_error<ShapeError>([&] { matmul(ones({8, 128}), weight.transpose(0, 1)); }, {"layers.3.weight", "f32 [64, 128]"});
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
  expect_error<DeviceError>([] { ones({2}, {.device = Device::parse("metal:9999")}); }, {"metal:9999", "not available"});
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
