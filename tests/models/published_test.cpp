// Published weights against logits that PyTorch computed. The tolerances are those of the data's own description.
#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "support/data.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using test::test_data;

Tensor cifar_logits(const std::string& architecture_name, const std::string& weights, Device device,
                    std::size_t first = 0, std::size_t count = 700) {
  const models::Architecture& architecture = models::architecture(architecture_name);
  const io::CifarFile file = io::CifarFile::load(test_data("cifar10/test_lossless_0000_0699.bin").string());
  const auto model = architecture.load(io::load_weights(test_data("resnet_cifar/" + weights).string()), device);
  const NoGrad no_grad;
  std::vector<Tensor> batches;
  for (std::size_t begin = first; begin < first + count; begin += 100) {
    std::vector<io::Image> images;
    for (std::size_t i = begin; i < std::min(begin + 100, first + count); ++i) images.push_back(file.image(i));
    batches.push_back(model->forward(models::preprocess(architecture.preprocessing, images, device)));
  }
  return cat(batches);
}

std::int64_t correct(const Tensor& logits) {
  const io::CifarFile file = io::CifarFile::load(test_data("cifar10/test_lossless_0000_0699.bin").string());
  return sum(eq(argmax(logits, 1), file.labels_tensor())).item<std::int64_t>();
}

double largest_error(const Tensor& actual, const Tensor& expected) {
  return amax(abs(actual.to(DType::f64) - expected.to(DType::f64))).item<double>();
}

struct Published {
  const char* architecture;
  const char* weights;
  std::int64_t correct;
  const char* golden;
};

class CifarResNetGolden : public testing::TestWithParam<Published> {};

TEST_P(CifarResNetGolden, MeetsItsAccuracyAndLogits) {
  const Published& published = GetParam();
  LOCKSTEP_REQUIRE_DATA(test_data(std::string("resnet_cifar/") + published.weights));
  const Tensor logits = cifar_logits(published.architecture, published.weights, {});
  EXPECT_EQ(correct(logits), published.correct);
  if (published.golden != nullptr) {
    const auto golden = io::load_safetensors(test_data(std::string("resnet_cifar/") + published.golden).string());
    EXPECT_LT(largest_error(logits, golden.tensors.at("logits_lossless_dev700_f32")), 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CifarResNetGolden,
    testing::Values(Published{"resnet20-cifar", "resnet20-12fca82f.th", 642, "golden_resnet20.safetensors"},
                    Published{"resnet20-cifar", "resnet20.safetensors", 642, "golden_resnet20.safetensors"},
                    Published{"resnet32-cifar", "resnet32-d509ac18.th", 654, nullptr},
                    Published{"resnet56-cifar", "resnet56-4bfd9763.th", 655, "golden_resnet56.safetensors"},
                    Published{"resnet56-cifar", "resnet56.safetensors", 655, "golden_resnet56.safetensors"}),
    [](const auto& test) { return "Case" + std::to_string(test.index); });

// All pictures on the devices of LOCKSTEP_TEST_DEVICES, as many as it has time for on the reference.
TEST(Published, EveryDeviceGivesTheSameBits) {
  LOCKSTEP_REQUIRE_DATA(test_data("resnet_cifar/resnet20.safetensors"));
  for (const Device device : test_devices()) {
    const std::size_t count = is_software(device) ? 8 : device.kind == DeviceKind::ref ? 20 : 700;
    if (device == Device{}) continue;
    SCOPED_TRACE(device.to_string());
    const Tensor expected = cifar_logits("resnet20-cifar", "resnet20.safetensors", {}, 0, count);
    EXPECT_BITS_EQ(cifar_logits("resnet20-cifar", "resnet20.safetensors", device, 0, count).to(Device{}), expected);
  }
}

TEST(Published, ThreadsDoNotChangeABit) {
  LOCKSTEP_REQUIRE_DATA(test_data("resnet_cifar/resnet20.safetensors"));
  const int before = num_threads();
  std::vector<std::uint64_t> hashes;
  for (const int threads : {1, 2, 7}) {
    set_num_threads(threads);
    hashes.push_back(cifar_logits("resnet20-cifar", "resnet20.safetensors", {}, 0, 150).hash());
  }
  set_num_threads(before);
  EXPECT_EQ(hashes[1], hashes[0]);
  EXPECT_EQ(hashes[2], hashes[0]);
}

TEST(Published, HalfPrecisionIsDeterministicToo) {
  LOCKSTEP_REQUIRE_DATA(test_data("resnet_cifar/resnet20.safetensors"));
  const models::Architecture& architecture = models::architecture("resnet20-cifar");
  const auto weights = io::load_weights(test_data("resnet_cifar/resnet20.safetensors").string());
  const io::CifarFile file = io::CifarFile::load(test_data("cifar10/test_lossless_0000_0699.bin").string());
  const Tensor image = models::preprocess(architecture.preprocessing, {file.image(3)});
  const NoGrad no_grad;
  std::vector<Tensor> results;
  for (const Device& device : test_devices()) {
    const auto model = architecture.load(weights, device);
    model->to(DType::f16);
    results.push_back(model->forward(image.to(DType::f16).to(device)).to(Device{}));
    EXPECT_BITS_EQ(results.back(), results.front());
  }
}

// u8 [N, H, W, 3] as pictures.
std::vector<io::Image> pictures(const Tensor& nhwc) {
  const std::vector<std::uint8_t> bytes = nhwc.to_vector<std::uint8_t>();
  const auto size = static_cast<std::ptrdiff_t>(nhwc.size(1) * nhwc.size(2) * 3);
  std::vector<io::Image> images;
  for (std::ptrdiff_t i = 0; i < nhwc.size(0); ++i) {
    images.push_back({.width = static_cast<int>(nhwc.size(2)),
                      .height = static_cast<int>(nhwc.size(1)),
                      .pixels = {bytes.begin() + i * size, bytes.begin() + (i + 1) * size}});
  }
  return images;
}

TEST(Published, ResNet18GoldenLogits) {
  const auto folder = test_data("vision/resnet18_random");
  LOCKSTEP_REQUIRE_DATA(folder);
  const auto golden = io::load_safetensors((folder / "golden_dev.safetensors").string()).tensors;
  const models::Architecture& architecture = models::architecture("resnet18");
  models::Preprocessing as_cropped = architecture.preprocessing;  // the golden images are cropped already
  as_cropped.fit = models::Preprocessing::Fit::crop_if_needed;
  const auto model = architecture.load(io::load_weights((folder / "resnet18_random_fp16.safetensors").string()));
  const NoGrad no_grad;
  const Tensor logits = model->forward(models::preprocess(as_cropped, pictures(golden.at("images_u8_nhwc"))));
  EXPECT_LT(largest_error(logits, golden.at("logits_f64")), 1e-3);
  EXPECT_EQ(argmax(logits, 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{215, 58, 613, 215}));
}

TEST(Published, SqueezeNetGoldenLogits) {
  const auto folder = test_data("vision/squeezenet1_1");
  LOCKSTEP_REQUIRE_DATA(folder);
  const auto golden = io::load_safetensors((folder / "golden.safetensors").string()).tensors;
  const models::Architecture& architecture = models::architecture("squeezenet1_1");
  const auto model = architecture.load(io::load_weights((folder / "squeezenet1_1_fp16.safetensors").string()));
  const Tensor input = models::preprocess(architecture.preprocessing, pictures(golden.at("images_u8_rgb_227")));
  const NoGrad no_grad;
  const Tensor logits = model->forward(input);
  EXPECT_LT(largest_error(logits, golden.at("logits_f64")), 1e-3);
  EXPECT_EQ(argmax(logits, 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{917, 21, 7}));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
