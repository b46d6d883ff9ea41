// Segment Anything and MobileSAM against their originals: MobileSAM's own code (the large test data), and the
// implementation of transformers for the plain vision transformer (tests/data/sam_vit.safetensors). Bits on every
// device.
#include <gtest/gtest.h>

#include <cmath>

#include "models/sam/sam_models.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace sam_tests;

// --- the originals --------------------------------------------------------------------------------------------------

void expect_prediction(const SamPrediction& found, const io::TensorMap& golden, const std::string& name) {
  SCOPED_TRACE(name);
  EXPECT_LT(sam_error(found.low_resolution, golden.at(name + ".low_res_masks")), 1e-2);
  const Tensor iou = golden.at(name + ".iou_predictions");
  EXPECT_LT(sam_error(Tensor::from(found.iou, iou.shape()), iou), 1e-3);
  const auto areas = golden.find(name + ".mask_area_original_resolution");
  if (areas == golden.end()) return;
  // Pixels whose logit is 0 but for rounding fall to either side.
  const Tensor area = sum(found.masks, {1, 2});
  EXPECT_LE(sam_error(area, areas->second), 8);
}

TEST(Sam, MobileSamGivesWhatItsOriginalGives) {
  const MobileSam data;
  LOCKSTEP_REQUIRE_DATA(data.folder);
  const io::TensorMap golden = data.golden();
  const std::unique_ptr<Sam> model = data.load();
  EXPECT_EQ(model->parameter_count(), 10130092);
  const io::Image picture = io::load_image((data.folder / "images/picture1.jpg").string());

  const Tensor input = model->preprocess(picture);
  EXPECT_EQ(sam_error(input.squeeze(0).narrow(1, 0, 4), golden.at("preprocessed_row0_to_3")), 0);
  EXPECT_LT(sam_error(sum(input.to(DType::f64), {0, 2, 3}), golden.at("preprocessed_sum_per_channel")), 0.5);

  const SamEmbedding embedding = model->embed(picture);
  EXPECT_EQ(embedding.frame, (models::SamFrame{769, 770, 1023, 1024}));
  EXPECT_LT(sam_error(embedding.features, golden.at("image_embedding")), 1e-3);
  const Tensor positions = embedding.positions.squeeze(0).slice(1, {.step = 8}).slice(2, {.step = 8});
  EXPECT_LT(sam_error(positions, golden.at("dense_pe_every_8th")), 1e-4);

  const SamPrediction one = model->predict(embedding, {.points = {{400, 400}}});
  expect_prediction(one, golden, "point_fg");
  EXPECT_EQ(one.best(), 2u);
  EXPECT_EQ(one.masks.shape(), (Shape{3, 770, 769}));
  const Tensor row = model->upscale(one.low_resolution, embedding.frame).select(1, 385).slice(1, {.step = 4});
  EXPECT_LT(sam_error(row, golden.at("point_fg.upscaled_logits_row_mid_every_4th")), 1e-2);
  expect_prediction(model->predict(embedding, {.points = {{200, 300}, {600, 500, false}}}), golden, "points_fg_bg");
  expect_prediction(model->predict(embedding, {.box = models::SamBox{100, 150, 650, 600}}, {.multimask = false}),
                    golden, "box");
  expect_prediction(
      model->predict(embedding, {.points = {{400, 400}}, .mask = one.low_resolution}, {.multimask = false}), golden,
      "mask_prompt");
}

TEST(Sam, ThePlainVisionTransformerGivesWhatTransformersGives) {
  const io::TensorMap file = small_vit_file().tensors;
  const std::unique_ptr<Sam> model = Sam::load(small_vit_options(), small_vit_weights(file));
  const NoGrad no_grad;
  const Tensor embedding = model->image_encoder().forward(file.at("input.pixels").to(DType::f32));
  EXPECT_LT(sam_error(embedding, file.at("golden.embedding")), 1e-4);
  const Tensor positions = model->prompt_encoder.grid_positions();

  // A point that is none stands where a box would.
  const Tensor labels = cat({file.at("input.labels"), full({1, 1}, -1, {.dtype = DType::i32})}, 1);
  const Tensor places = cat({file.at("input.points"), zeros({1, 1, 2})}, 1);
  const models::SamMaskLogits by_points = model->mask_decoder(
      embedding, positions, model->prompt_encoder.points(places, labels), model->prompt_encoder.mask({}), true);
  EXPECT_LT(sam_error(by_points.masks, file.at("golden.points.masks")), 1e-4);
  EXPECT_LT(sam_error(by_points.iou, file.at("golden.points.iou")), 1e-4);

  const Tensor corners = Tensor::from(std::vector<std::int32_t>{2, 3}, {1, 2});
  const models::SamMaskLogits by_box = model->mask_decoder(
      embedding, positions, model->prompt_encoder.points(file.at("input.box").reshape({1, 2, 2}), corners),
      model->prompt_encoder.mask(file.at("input.mask").to(DType::f32)), false);
  EXPECT_LT(sam_error(by_box.masks, file.at("golden.box.masks")), 1e-4);
  EXPECT_LT(sam_error(by_box.iou, file.at("golden.box.iou")), 1e-4);
}

TEST(Sam, PublishedNetworksHaveTheirNumberOfParameters) {
  const std::map<std::string, std::int64_t> published{
      {"mobile_sam", 10130092}, {"sam_vit_b", 93735472}, {"sam_vit_l", 312342832}, {"sam_vit_h", 641090608}};
  std::map<std::string, std::int64_t> found;
  for (const models::Model& model : models::registry()) {
    const auto* row = std::get_if<models::PromptableSegmenter>(&model);
    if (row == nullptr) continue;
    EXPECT_EQ(models::task_of(model), "promptable segmentation");
    found[models::name_of(model)] = row->create()->parameter_count();  // no weight is made: nobody reads them
  }
  EXPECT_EQ(found, published);
}

// --- bits -----------------------------------------------------------------------------------------------------------

TEST(Sam, EveryDeviceGivesTheSameBits) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const io::TensorMap vit_file = small_vit_file().tensors;
  std::vector<std::uint64_t> embeddings;
  std::vector<std::uint64_t> masks;
  std::vector<std::uint64_t> vits;
  for (const Device& device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    model->to(device);
    const SamEmbedding embedding = model->embed(sam_picture(50, 37));
    const SamPrediction found =
        model->predict(embedding, {.points = {{20, 11.5}}, .box = models::SamBox{1, 2, 30, 33}});
    embeddings.push_back(embedding.features.hash());
    masks.push_back(found.low_resolution.hash());
    const NoGrad no_grad;
    vits.push_back(Sam::load(small_vit_options(), small_vit_weights(vit_file), device)
                       ->image_encoder()
                       .forward(vit_file.at("input.pixels").to(DType::f32).to(device))
                       .hash());
    EXPECT_EQ(embeddings.back(), embeddings.front());
    EXPECT_EQ(masks.back(), masks.front());
    EXPECT_EQ(vits.back(), vits.front());
  }
}

TEST(Sam, ThreadsDoNotChangeABit) {
  const std::unique_ptr<Sam> model = tiny_sam(256);
  const int before = num_threads();
  std::vector<std::uint64_t> hashes;
  for (const int threads : {1, 2, 7}) {
    set_num_threads(threads);
    const SamEmbedding embedding = model->embed(sam_picture(120, 90));
    hashes.push_back(embedding.features.hash());
    hashes.push_back(model->predict(embedding, {.points = {{60, 40}}}).low_resolution.hash());
  }
  set_num_threads(before);
  for (std::size_t i = 2; i < hashes.size(); ++i) EXPECT_EQ(hashes[i], hashes[i % 2]);
}

// --- options --------------------------------------------------------------------------------------------------------

TEST(Sam, OptionsThatDoNotFitAreRefused) {
  models::SamOptions options = tiny_options(64);
  options.image_size = 100;
  EXPECT_THROW(Sam{options}, ValueError);
  options = tiny_options(64);
  std::get<models::SamTinyViTOptions>(options.encoder).heads[2] = 3;
  EXPECT_THROW(Sam{options}, ValueError);
  options = tiny_options(64);
  options.decoder.channels = 36;
  EXPECT_THROW(Sam{options}, ValueError);
  EXPECT_THROW(tiny_sam()->image_encoder().forward(zeros({1, 3, 64, 60})), ShapeError);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
