// Segment Anything and MobileSAM against their originals: MobileSAM's own code (the large test data), and the
// implementation of transformers for the plain vision transformer (tests/data/sam_vit.safetensors).
#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/lockstep.h>

#include "support/data.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using models::Sam;
using models::SamEmbedding;
using models::SamPrediction;

double sam_error(const Tensor& actual, const Tensor& expected) {
  EXPECT_EQ(actual.shape(), expected.shape());
  return amax(abs(actual.to(Device{}).to(DType::f64) - expected.to(DType::f64))).item<double>();
}

// The encoder that takes no time: two channels a head, one block a stage.
models::SamOptions tiny_options(std::int64_t image_size) {
  return {.encoder = models::SamTinyViTOptions{.channels = {8, 16, 20, 24},
                                               .depths = {1, 1, 2, 1},
                                               .heads = {1, 4, 5, 6},
                                               .windows = {3, 3, 2, 3},
                                               .classes = 2},
          .image_size = image_size,
          .decoder = {.channels = 32, .mask_channels = 8, .heads = 4, .mlp_channels = 24, .iou_channels = 16}};
}

std::unique_ptr<Sam> tiny_sam(std::int64_t image_size = 64) {
  manual_seed(16);
  auto model = std::make_unique<Sam>(tiny_options(image_size));
  model->eval();
  return model;
}

io::Image sam_picture(int width, int height) {
  io::Image image{.width = width, .height = height};
  for (int i = 0; i < width * height * 3; ++i) image.pixels.push_back(static_cast<std::uint8_t>(i * i / 7 + 31 * i));
  return image;
}

// --- the originals --------------------------------------------------------------------------------------------------

struct MobileSam {
  std::filesystem::path folder = test::test_data("sam");
  std::unique_ptr<Sam> load() const {
    return Sam::load(io::load_weights((folder / "mobile_sam_vit_t_random_fp16.safetensors").string()));
  }
  io::TensorMap golden() const {
    return io::load_safetensors((folder / "golden_picture1.safetensors").string()).tensors;
  }
};

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

// What segment_anything's generator gives for the golden embedding with these options.
TEST(Sam, AllMasksAreThoseOfTheOriginal) {
  const MobileSam data;
  LOCKSTEP_REQUIRE_DATA(data.folder);
  struct Expected {
    std::int64_t area;
    float iou;
    float stability;
    double x;
    double y;
  };
  const std::vector<Expected> expected{
      {248546, 0.670210f, 0.568044f, 480.625, 288.75}, {248837, 0.666087f, 0.537658f, 288.375, 481.25},
      {247422, 0.640640f, 0.574444f, 480.625, 481.25}, {201380, 0.624342f, 0.543425f, 672.875, 288.75},
      {251975, 0.579401f, 0.568089f, 96.125, 96.25},   {236039, 0.577784f, 0.514487f, 288.375, 288.75},
      {266744, 0.559873f, 0.586328f, 480.625, 96.25},  {246082, 0.525019f, 0.545038f, 96.125, 481.25},
      {241696, 0.511913f, 0.548800f, 480.625, 673.75}};
  const std::unique_ptr<Sam> model = data.load();
  const SamEmbedding embedding{.features = data.golden().at("image_embedding"),
                               .positions = model->prompt_encoder.grid_positions(),
                               .frame = model->frame(769, 770)};
  models::GenerateMasksOptions options{
      .points_per_side = 4, .points_per_batch = 5, .least_iou = 0.5, .least_stability = 0.5, .most_box_overlap = 1};
  std::size_t calls = 0;
  options.progress = [&](std::size_t done, std::size_t total) {
    ++calls;
    EXPECT_EQ(done, std::min<std::size_t>(16, 5 * calls));
    EXPECT_EQ(total, 16u);
  };
  const std::vector<models::SamMask> masks = models::generate_masks(*model, embedding, options);
  ASSERT_EQ(masks.size(), expected.size());
  EXPECT_EQ(calls, 4u);
  for (std::size_t i = 0; i < masks.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(masks[i].area), static_cast<double>(expected[i].area), 8);
    EXPECT_EQ(masks[i].box, (models::PixelBox{0, 0, 768, 769}));
    EXPECT_NEAR(masks[i].iou, expected[i].iou, 1e-3);
    EXPECT_NEAR(masks[i].stability, expected[i].stability, 1e-4);
    EXPECT_NEAR(masks[i].point->x, expected[i].x, 1e-9);
    EXPECT_NEAR(masks[i].point->y, expected[i].y, 1e-9);
  }
}

std::unique_ptr<Sam> small_vit(const io::TensorMap& file, Device device = {}) {
  auto model = std::make_unique<Sam>(models::SamOptions{
      .encoder =
          models::SamViTOptions{
              .channels = 32, .depth = 3, .heads = 4, .global_blocks = {1}, .window = 3, .mlp_ratio = 2},
      .image_size = 128,
      .decoder = {.channels = 32, .mask_channels = 8, .heads = 4, .mlp_channels = 48, .iou_channels = 32}});
  nn::StateDict weights;
  for (const auto& [name, tensor] : file) {
    if (!name.starts_with("input.") && !name.starts_with("golden.")) weights.push_back(name, tensor);
  }
  model->load_state_dict(weights);
  model->eval();
  model->to(device);
  return model;
}

TEST(Sam, ThePlainVisionTransformerGivesWhatTransformersGives) {
  const io::TensorMap file = io::load_safetensors(test::repository_data("sam_vit.safetensors").string()).tensors;
  const std::unique_ptr<Sam> model = small_vit(file);
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
  using models::SamKind;
  const std::map<SamKind, std::int64_t> published{
      {SamKind::vit_t, 10130092}, {SamKind::vit_b, 93735472}, {SamKind::vit_l, 312342832}, {SamKind::vit_h, 641090608}};
  for (const auto& [kind, count] : published) {
    const Sam model(models::SamOptions::of(kind));  // no weight is made: nobody reads them
    EXPECT_EQ(model.parameter_count(), count);
  }
}

// --- bits -----------------------------------------------------------------------------------------------------------

TEST(Sam, EveryDeviceGivesTheSameBits) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const io::TensorMap vit_file = io::load_safetensors(test::repository_data("sam_vit.safetensors").string()).tensors;
  const nn::StateDict weights = model->state_dict();
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
    vits.push_back(small_vit(vit_file, device)
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

TEST(Sam, PromptsComputedTogetherHaveTheBitsOfEachAlone) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const SamEmbedding embedding = model->embed(sam_picture(64, 48));
  std::vector<std::vector<models::SamMask>> runs;
  for (const int batch : {1, 4, 9}) {
    runs.push_back(models::generate_masks(*model, embedding,
                                          {.points_per_side = 3,
                                           .points_per_batch = batch,
                                           .least_iou = -100,
                                           .least_stability = 0,
                                           .most_box_overlap = 1}));
    ASSERT_EQ(runs.back().size(), runs.front().size());
    for (std::size_t i = 0; i < runs.back().size(); ++i) {
      EXPECT_EQ(runs.back()[i].runs, runs.front()[i].runs);
      EXPECT_EQ(runs.back()[i].iou, runs.front()[i].iou);
    }
  }
  EXPECT_GT(runs.front().size(), 0u);
}

// --- pictures and prompts -------------------------------------------------------------------------------------------

TEST(Sam, PicturesOfAllSizesAreSegmented) {
  const std::unique_ptr<Sam> model = tiny_sam();
  for (const auto& [width, height] : {std::pair{1, 1}, {4000, 30}, {1, 700}, {64, 64}, {65, 63}}) {
    SCOPED_TRACE(std::to_string(width) + " x " + std::to_string(height));
    const SamEmbedding embedding = model->embed(sam_picture(width, height));
    const SamPrediction found = model->predict(embedding, {.points = {{width * 0.5, height * 0.5}}});
    EXPECT_EQ(found.masks.shape(), (Shape{3, height, width}));
    EXPECT_EQ(found.iou.size(), 3u);
    EXPECT_TRUE(std::isfinite(found.iou[0]));
  }
}

TEST(Sam, FramesFillTheSquare) {
  const std::unique_ptr<Sam> model = tiny_sam(1024);
  EXPECT_EQ(model->frame(769, 770), (models::SamFrame{769, 770, 1023, 1024}));
  EXPECT_EQ(model->frame(4000, 30), (models::SamFrame{4000, 30, 1024, 8}));
  EXPECT_EQ(model->frame(30000, 1), (models::SamFrame{30000, 1, 1024, 1}));
  EXPECT_EQ(model->frame(1, 1), (models::SamFrame{1, 1, 1024, 1024}));
  EXPECT_THROW(model->frame(0, 5), ValueError);
}

TEST(Sam, PicturesOfAllKindsAreSegmented) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const auto load = [](const std::string& name) {
    return io::load_image(test::repository_data("images/" + name).string());
  };
  for (const char* name : {"gray8.png", "gray1_1x1.png", "gray16.png", "gray_alpha8.png", "rgba16.png", "cmyk.jpg"}) {
    SCOPED_TRACE(name);
    const SamEmbedding embedding = model->embed(load(name));
    EXPECT_EQ(embedding.features.shape(), (Shape{1, 32, 4, 4}));
    const SamPrediction found = model->predict(embedding, {.points = {{0.5, 0.5}}});
    EXPECT_EQ(found.masks.shape(), (Shape{3, embedding.frame.height, embedding.frame.width}));
  }
  // Grey is the same in all channels, before each is normalised.
  const Tensor grey = model->preprocess(load("gray8.png")).squeeze(0);
  const Tensor red = grey.select(0, 0) * 58.395 + 123.675;
  const Tensor blue = grey.select(0, 2) * 57.375 + 103.53;
  const models::SamFrame frame = model->frame(load("gray8.png").width, load("gray8.png").height);
  const Tensor difference = (red - blue).narrow(0, 0, frame.scaled_height).narrow(1, 0, frame.scaled_width);
  EXPECT_LT(amax(abs(difference)).item<float>(), 1e-3);
}

TEST(Sam, PaddingIsZero) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const Tensor input = model->preprocess(sam_picture(32, 16));
  EXPECT_EQ(amax(abs(input.narrow(2, 32, 32))).item<float>(), 0);
  EXPECT_GT(amax(abs(input.narrow(2, 0, 32))).item<float>(), 0);
}

TEST(Sam, PromptsThatMakeNoSenseAreRefused) {
  const std::unique_ptr<Sam> model = tiny_sam();
  const SamEmbedding embedding = model->embed(sam_picture(40, 30));
  const auto refused = [&](const models::SamPrompt& prompt, const std::string& part) {
    expect_error<ValueError>([&] { model->predict(embedding, prompt); }, {part});
  };
  refused({}, "the prompt is empty");
  refused({.points = {{5, 5}, {41, 5}}}, "the point (41, 5) lies outside the picture of 40 x 30");
  refused({.points = {{5, -0.5}}}, "outside");
  refused({.points = {{std::nan(""), 3}}}, "outside");
  refused({.box = models::SamBox{1, 2, 41, 20}}, "the box (1, 2, 41, 20) is empty or reaches out");
  refused({.box = models::SamBox{10, 2, 10, 20}}, "is empty");
  refused({.mask = zeros({3, 8, 8})}, "[n, 16, 16]");
  refused({.mask = Tensor()}, "undefined");
  EXPECT_THROW(model->embed(io::Image{}), ValueError);
  EXPECT_THROW(models::generate_masks(*model, embedding, {.points_per_side = 0}), ValueError);
  // A mask alone says enough.
  EXPECT_EQ(model->predict(embedding, {.mask = zeros({1, 16, 16})}).masks.shape(), (Shape{3, 30, 40}));
}

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

// --- weights and embeddings -----------------------------------------------------------------------------------------

TEST(Sam, WrongWeightsAreRefused) {
  expect_error<ValueError>([] { Sam::load(models::architecture("resnet8-cifar").create(10)->state_dict()); },
                           {"not the weights of Segment Anything or MobileSAM"});
  nn::StateDict odd;
  odd.push_back("image_encoder.pos_embed", zeros({1, 8, 8, 32}));
  expect_error<ValueError>([&] { Sam::load(odd); }, {"32 channels", "768"});
  expect_error<ValueError>([] { Sam::load(tiny_sam()->state_dict()); }, {"image_encoder.layers.2.blocks.5"});
}

TEST(Sam, AnEmbeddingBelongsToItsPictureAndItsWeights) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("embedding.safetensors");
  const std::unique_ptr<Sam> model = tiny_sam();
  const SamEmbedding embedding = model->embed(sam_picture(40, 30));
  models::save_sam_embedding(path, embedding, 7);
  const SamEmbedding read = models::load_sam_embedding(path, *model, 7, embedding.picture);
  EXPECT_BITS_EQ(read.features, embedding.features);
  EXPECT_BITS_EQ(read.positions, embedding.positions);
  EXPECT_EQ(read.frame, embedding.frame);
  EXPECT_EQ(read.picture, models::picture_hash(sam_picture(40, 30)));
  EXPECT_NE(read.picture, models::picture_hash(sam_picture(30, 40)));
  expect_error<ValueError>([&] { models::load_sam_embedding(path, *model, 8, embedding.picture); }, {"other weights"});
  expect_error<ValueError>([&] { models::load_sam_embedding(path, *model, 7, 1); }, {"another picture"});
  expect_error<FormatError>([&] { models::load_sam_embedding(path, *tiny_sam(128), 7); }, {"[1, 32, 8, 8]"});

  io::save_safetensors(path, {{"image_embedding", embedding.features}});
  expect_error<FormatError>([&] { models::load_sam_embedding(path, *model, 7); },
                            {"is not the embedding of a picture"});
  io::save_safetensors(path, {{"image_embedding", embedding.features}},
                       {{"format", "lockstep sam embedding 1"},
                        {"weights", "0000000000000007"},
                        {"picture", "0000000000000001"},
                        {"width", "-3"},
                        {"height", "4"}});
  expect_error<FormatError>([&] { models::load_sam_embedding(path, *model, 7); }, {"width \"-3\""});
}

// --- masks ----------------------------------------------------------------------------------------------------------

TEST(SamMasks, RunsGoColumnByColumn) {
  const std::vector<std::uint8_t> mask{0, 1, 1,  //
                                       1, 1, 0};
  const models::RunLengths runs = models::encode_runs(mask, 3, 2);
  EXPECT_EQ(runs.counts, (std::vector<std::uint32_t>{1, 4, 1}));
  EXPECT_EQ(models::decode_runs(runs), mask);
  EXPECT_EQ(models::encode_runs(std::vector<std::uint8_t>{1, 0}, 2, 1).counts, (std::vector<std::uint32_t>{0, 1, 1}));
  EXPECT_EQ(models::encode_runs(std::vector<std::uint8_t>(6), 3, 2).counts, (std::vector<std::uint32_t>{6}));
  EXPECT_THROW(models::encode_runs(mask, 2, 2), ValueError);
  EXPECT_THROW(models::encode_runs({}, 0, 0), ValueError);
  EXPECT_THROW(models::decode_runs({.width = 3, .height = 2, .counts = {1, 4}}), ValueError);
}

TEST(SamMasks, AreasAndBoxesAreThoseOfThePixels) {
  // Of random pixels in a random rectangle, and of columns that a run joins.
  std::uint32_t state = 12345;
  const auto random = [&](int limit) {
    state = state * 1664525 + 1013904223;
    return static_cast<int>((state >> 8) % static_cast<std::uint32_t>(limit));
  };
  for (int trial = 0; trial < 200; ++trial) {
    const int width = 1 + random(9);
    const int height = 1 + random(9);
    const int left = random(width);
    const int top = random(height);
    const int most = 1 + random(4);  // 1: all pixels
    std::vector<bool> pixels(static_cast<std::size_t>(width * height));
    models::PixelBox box{width, height, -1, -1};
    std::int64_t area = 0;
    for (int y = top; y < height; ++y) {
      for (int x = left; x < width; ++x) {
        if (random(most) != 0) continue;
        pixels[static_cast<std::size_t>(y * width + x)] = true;
        box = {std::min(box.x0, x), std::min(box.y0, y), std::max(box.x1, x), std::max(box.y1, y)};
        ++area;
      }
    }
    if (area == 0) box = {};
    const SamPrediction prediction{.masks = Tensor::from(pixels, {1, height, width}), .iou = {0.5f}};
    const models::SamMask mask = models::masks_of(prediction).front();
    EXPECT_EQ(mask.area, area) << "trial " << trial;
    EXPECT_EQ(mask.box, box) << "trial " << trial;
    EXPECT_EQ(mask.iou, 0.5f);
  }
}

TEST(SamMasks, AreDrawn) {
  const SamPrediction prediction{
      .masks = Tensor::from(std::vector<bool>{true, true, true, false, true, false, false, false}, {2, 2, 2}),
      .iou = {0.2f, 0.9f}};
  EXPECT_EQ(prediction.best(), 1u);
  const std::vector<models::SamMask> masks = models::masks_of(prediction);
  EXPECT_EQ(models::draw_mask(masks[1]).pixels, (std::vector<std::uint8_t>{255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  const io::Image segments = models::draw_segments(2, 2, masks);
  // The smaller mask lies over the larger one, and outside both it is black.
  EXPECT_NE(segments.pixels[0], segments.pixels[3]);
  EXPECT_EQ((std::vector<std::uint8_t>(segments.pixels.begin() + 9, segments.pixels.end())),
            (std::vector<std::uint8_t>{0, 0, 0}));
  io::Image picture = sam_picture(2, 2);
  EXPECT_EQ(models::draw_overlay(picture, {}), picture);
  EXPECT_NE(models::draw_overlay(picture, masks), picture);
  EXPECT_NE(models::draw_overlay(picture, {}, {.points = {{1, 1}}}), picture);
  EXPECT_THROW(models::draw_overlay(sam_picture(3, 2), masks), ValueError);
  EXPECT_THROW(models::draw_segments(3, 2, masks), ValueError);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
