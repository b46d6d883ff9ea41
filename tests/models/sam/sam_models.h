// Networks and pictures that the tests of Segment Anything share.
#pragma once

#include <filesystem>
#include <memory>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "support/data.h"

namespace lockstep {
inline namespace v0 {
namespace sam_tests {

using models::Sam;
using models::SamEmbedding;
using models::SamPrediction;

/// The largest difference; the shapes must be equal.
inline double sam_error(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.shape(), expected.shape());
  return amax(abs(actual.to(Device{}).to(DType::f64) - expected.to(DType::f64))).item<double>();
}

/// The encoder that takes no time: few channels, one block a stage.
inline models::SamOptions tiny_options(std::int64_t image_size) {
  return {.encoder = models::SamTinyViTOptions{.channels = {8, 16, 20, 24},
                                               .depths = {1, 1, 2, 1},
                                               .heads = {1, 4, 5, 6},
                                               .windows = {3, 3, 2, 3},
                                               .classes = 2},
          .image_size = image_size,
          .decoder = {.channels = 32, .mask_channels = 8, .heads = 4, .mlp_channels = 24, .iou_channels = 16}};
}

/// With random weights, the same each time.
inline std::unique_ptr<Sam> tiny_sam(std::int64_t image_size = 64) {
  manual_seed(16);
  auto model = std::make_unique<Sam>(tiny_options(image_size));
  model->eval();
  return model;
}

inline io::Image sam_picture(int width, int height) {
  io::Image image{.width = width, .height = height};
  for (int i = 0; i < width * height * 3; ++i) {
    const auto n = static_cast<std::uint32_t>(i);
    image.pixels.push_back(static_cast<std::uint8_t>(n * n / 7 + 31 * n));
  }
  return image;
}

/// MobileSAM with random weights, and what its own code computes with them.
struct MobileSam {
  std::filesystem::path folder = test::test_data("sam");
  std::string weights = (folder / "mobile_sam_vit_t_random_fp16.safetensors").string();
  std::unique_ptr<Sam> load() const { return Sam::load(io::load_weights(weights)); }
  io::TensorMap golden() const {
    return io::load_safetensors((folder / "golden_picture1.safetensors").string()).tensors;
  }
};

/// The sizes of tests/data/sam_vit.safetensors, and its weights.
inline models::SamOptions small_vit_options() {
  return {.encoder =
              models::SamViTOptions{
                  .channels = 32, .depth = 3, .heads = 4, .global_blocks = {1}, .window = 3, .mlp_ratio = 2},
          .image_size = 128,
          .decoder = {.channels = 32, .mask_channels = 8, .heads = 4, .mlp_channels = 48, .iou_channels = 32}};
}
inline io::TensorFile small_vit_file() {
  return io::load_safetensors(test::repository_data("sam_vit.safetensors").string());
}
inline nn::StateDict small_vit_weights(const io::TensorMap& file) {
  nn::StateDict weights;
  for (const auto& [name, tensor] : file) {
    if (!name.starts_with("input.") && !name.starts_with("golden.")) weights.push_back(name, tensor);
  }
  return weights;
}

}  // namespace sam_tests
}  // namespace v0
}  // namespace lockstep
