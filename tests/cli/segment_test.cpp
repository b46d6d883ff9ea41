// `lockstep segment` with the weights of the large test data. The embedding of the picture is made once and kept: all
// but the last test of it start from golden values.
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "cli/run_command.h"
#include "core/hash.h"
#include "core/os.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

struct SegmentData {
  std::string weights = test_data("sam/mobile_sam_vit_t_random_fp16.safetensors").string();
  std::string picture = test_data("sam/images/picture1.jpg").string();
  TemporaryFolder folder;
  std::string embedding = folder.path("embedding.safetensors");

  // The picture's golden embedding, as the command would have kept it.
  void keep_embedding() const { keep_embedding(weights); }
  void keep_embedding(const std::string& of_weights) const {
    const auto golden = io::load_safetensors(test_data("sam/golden_picture1.safetensors").string()).tensors;
    models::save_sam_embedding(embedding,
                               {.features = golden.at("image_embedding"),
                                .frame = {.width = 769, .height = 770},
                                .picture = models::picture_hash(io::load_image(picture))},
                               hash_bytes(os::read_file(of_weights).bytes));
  }
  CommandResult run(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"segment", "--weights", weights, "--embedding", embedding, "--device", "cpu"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  }
};

TEST(Segment, AClickGivesTheMasksOfTheOriginal) {
  const SegmentData data;
  LOCKSTEP_REQUIRE_DATA(data.weights);
  data.keep_embedding();
  const std::string out = data.folder.path("mask.png");
  const std::string overlay = data.folder.path("overlay.png");
  const CommandResult result =
      data.run({"--point", "400,400", "-o", out, "--overlay", overlay, "--json", data.picture});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const nlohmann::json masks = result.json().at(0).at("masks");
  ASSERT_EQ(masks.size(), 3u);
  EXPECT_NEAR(masks[2].at("iou").get<double>(), 0.536140, 1e-3);
  EXPECT_NEAR(masks[2].at("area").get<double>(), 257271, 8);
  EXPECT_EQ(masks[2].at("box"), (nlohmann::json{0, 0, 768, 769}));
  EXPECT_EQ(masks[2].at("rle").at("size"), (nlohmann::json{770, 769}));

  // The best mask is the picture that was written, and its runs say the same.
  const io::Image image = io::load_image(out);
  const auto mask = models::decode_runs(
      {.width = 769, .height = 770, .counts = masks[2].at("rle").at("counts").get<std::vector<std::uint32_t>>()});
  ASSERT_EQ(image.pixels.size(), 3 * mask.size());
  for (std::size_t i = 0; i < mask.size(); ++i) ASSERT_EQ(image.pixels[3 * i], mask[i] != 0 ? 255 : 0);
  EXPECT_NE(io::load_image(overlay), io::load_image(data.picture));

  // That picture is a mask to begin with.
  const CommandResult again =
      data.run({"--point", "400,400", "--mask-in", out, "--single-mask", "-o", out, data.picture});
  EXPECT_EQ(again.exit_code, 0) << again.errors;
  EXPECT_EQ(again.lines().size(), 2u) << again.output;
}

// The order of the words is that of the documentation.
TEST(Segment, TheCheckpointOfPyTorchIsTheSameNetwork) {
  const SegmentData data;
  LOCKSTEP_REQUIRE_DATA(data.weights);
  const std::string checkpoint = data.folder.path("mobile_sam.pt");
  io::save_pytorch(checkpoint, io::load_weights(data.weights));
  data.keep_embedding(checkpoint);
  const CommandResult result =
      run_command({"segment", "--weights", checkpoint, data.picture, "--box", "100,150,650,600", "--single-mask", "-o",
                   data.folder.path("mask.png"), "--embedding", data.embedding, "--device", "cpu", "--json"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const nlohmann::json masks = result.json().at(0).at("masks");
  ASSERT_EQ(masks.size(), 1u);
  EXPECT_NEAR(masks[0].at("iou").get<double>(), -0.699135, 1e-3);
}

// What cameras store turned is seen, and pointed at, upright.
TEST(Segment, CoordinatesAreThoseOfTheUprightPicture) {
  const SegmentData data;
  LOCKSTEP_REQUIRE_DATA(data.weights);
  const std::string file = read_whole_file(data.picture);
  const std::string exif(
      "\xff\xe1\0\x22"
      "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0",
      36);
  const std::string turned = data.folder.write("turned.jpg", file.substr(0, 2) + exif + file.substr(2));
  const auto error_of = [&](const std::string& point) {
    const CommandResult result = data.run({"--point", point, "-o", data.folder.path("mask.png"), turned});
    EXPECT_EQ(result.exit_code, 1);
    return result.errors;
  };
  EXPECT_NE(error_of("3,769.5").find("(3, 769.5) lies outside the picture of 770 x 769"), std::string::npos);
  // The other way round it is inside, and what was kept is not of this picture.
  data.keep_embedding();
  EXPECT_NE(error_of("769.5,3").find("another picture"), std::string::npos);
}

TEST(Segment, LogitsAreTakenAsTheyAre) {
  const SegmentData data;
  LOCKSTEP_REQUIRE_DATA(data.weights);
  data.keep_embedding();
  const auto golden = io::load_safetensors(test_data("sam/golden_picture1.safetensors").string()).tensors;
  const std::string logits = data.folder.path("logits.npy");
  io::save_npy(logits, golden.at("point_fg.low_res_masks").narrow(0, 0, 1));
  const CommandResult result = data.run({"--point", "400,400,1", "--mask-in", logits, "--single-mask", "--json", "-o",
                                         data.folder.path("mask.png"), data.picture});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  EXPECT_NEAR(result.json().at(0).at("masks").at(0).at("iou").get<double>(), -0.240342, 1e-3);
}

TEST(Segment, EverythingIsFound) {
  const SegmentData data;
  LOCKSTEP_REQUIRE_DATA(data.weights);
  data.keep_embedding();
  const CommandResult result =
      data.run({"--everything", "--points-per-side", "2", "--least-iou", "0.3", "--least-stability", "0.4", "--json",
                "-o", data.folder.path("segments.png"), "--overlay", data.folder.path("overlay.png"), data.picture});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const nlohmann::json masks = result.json().at(0).at("masks");
  ASSERT_EQ(masks.size(), 1u);  // all boxes are the whole picture
  EXPECT_GT(masks[0].at("stability").get<double>(), 0.4);
  EXPECT_EQ(masks[0].at("point").size(), 2u);
  EXPECT_EQ(io::load_image(data.folder.path("segments.png")).width, 769);
}

TEST(Segment, WhatMakesNoSenseIsRefused) {
  const SegmentData data;
  LOCKSTEP_REQUIRE_DATA(data.weights);
  data.keep_embedding();
  const std::string out = data.folder.path("mask.png");
  const auto refused = [&](std::vector<std::string> words, int code, const std::string& part) {
    words.insert(words.end(), {"-o", out, data.picture});
    const CommandResult result = data.run(words);
    EXPECT_EQ(result.exit_code, code);
    EXPECT_NE(result.errors.find(part), std::string::npos) << result.errors;
  };
  refused({}, 2, "--everything");
  refused({"--everything", "--point", "3,4"}, 2, "takes no --point");
  refused({"--point", "3;4"}, 2, "is not X,Y");
  refused({"--point", "3,4,2"}, 2, "is not X,Y");
  refused({"--box", "3,4,5"}, 2, "is not X0,Y0,X1,Y1");
  refused({"--point", "3,771"}, 1, "the point (3, 771) lies outside the picture of 769 x 770");
  refused({"--box", "30,4,5,60"}, 1, "is empty");
  refused({"--mask-in", asset("images/star.png")}, 1, "does not fit the picture of 769 x 770");
  refused({"--mask-in", data.weights}, 1, "256 x 256 logits");
  refused({"--mask-in", data.folder.path("none.npy")}, 1, "none.npy");
  const CommandResult no_picture = data.run({"--point", "3,4", "-o", out, data.weights});
  EXPECT_EQ(no_picture.exit_code, 1);
  EXPECT_NE(no_picture.errors.find("neither a PNG nor a JPEG image"), std::string::npos) << no_picture.errors;
  EXPECT_FALSE(std::filesystem::exists(out));

  // An embedding of another picture, and other weights.
  const CommandResult other = data.run({"--point", "3,4", "-o", out, test_data("sam/images/picture2.jpg").string()});
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_NE(other.errors.find("another picture"), std::string::npos) << other.errors;
  const CommandResult wrong = run_command({"segment", "--weights", asset("weights.safetensors"), "--point", "3,4", "-o",
                                           out, data.picture, "--device", "cpu"});
  EXPECT_EQ(wrong.exit_code, 1);
  EXPECT_NE(wrong.errors.find("not the weights of Segment Anything"), std::string::npos) << wrong.errors;
}

TEST(Segment, TheEmbeddingIsKeptAndUsedAgain) {
  const SegmentData data;
  LOCKSTEP_REQUIRE_DATA(data.weights);
  const std::vector<std::string> words{"--point",   "400,400", "--json", "-o", data.folder.path("mask.png"),
                                       data.picture};
  const CommandResult first = data.run(words);
  ASSERT_EQ(first.exit_code, 0) << first.errors;
  ASSERT_TRUE(std::filesystem::exists(data.embedding));
  const std::string kept = read_whole_file(data.embedding);
  const CommandResult second = data.run(words);
  EXPECT_EQ(second.output, first.output);
  EXPECT_EQ(read_whole_file(data.embedding), kept);
}

}  // namespace
}  // namespace lockstep::test
