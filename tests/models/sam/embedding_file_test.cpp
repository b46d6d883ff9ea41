#include <gtest/gtest.h>

#include "models/sam/sam_models.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace sam_tests;

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

}  // namespace
}  // namespace v0
}  // namespace lockstep
