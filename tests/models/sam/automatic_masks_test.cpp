#include <gtest/gtest.h>

#include "models/sam/sam_models.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace sam_tests;

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

}  // namespace
}  // namespace v0
}  // namespace lockstep
