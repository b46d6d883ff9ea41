// lockstep detect, embed, and classify by texts, with networks of random weights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include <lockstep/lockstep.h>

#include "cli/detection_drawing.h"
#include "cli/run_command.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

std::string picture(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/assets/demo/images/" + name;
}

std::string saved(const TemporaryFolder& folder, const std::string& name, const nn::Module& model) {
  io::save_safetensors(folder.path(name), model.state_dict());
  return folder.path(name);
}

TEST(Detect, PrintsAndDrawsWhatTheLibraryFinds) {
  const TemporaryFolder folder;
  models::YoloV8 model;
  const std::string weights = saved(folder, "yolov8n.safetensors", model);
  model.eval();
  const std::string star = picture("star.png");
  const std::string out = folder.path("out.png");
  const CommandResult result = run_command({"detect", "--weights", weights, "--device", "cpu", "--size", "64", "--most",
                                            "5", "--confidence", "0.3", "--json", "-o", out, star});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const nlohmann::json line = result.json().at(0);
  const io::Image image = io::load_image(star);
  const auto expected = models::detect(model, image, {.confidence = 0.3, .most = 5, .size = 64});
  ASSERT_EQ(line.at("objects").size(), expected.size());
  ASSERT_FALSE(expected.empty());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const nlohmann::json& object = line.at("objects").at(i);
    EXPECT_EQ(object.at("label"), models::coco_labels().at(static_cast<std::size_t>(expected[i].label)));
    EXPECT_EQ(object.at("score").get<float>(), expected[i].score);
    EXPECT_EQ(object.at("box").get<std::vector<float>>(),
              (std::vector<float>{expected[i].x0, expected[i].y0, expected[i].x1, expected[i].y1}));
  }
  EXPECT_EQ(io::load_image(out), cli::draw_detections(image, expected, models::coco_labels()));
  EXPECT_NE(io::load_image(out), image);
  const CommandResult text = run_command({"detect", "--weights", weights, "--size", "64", "--most", "5", star, star});
  EXPECT_THAT(text.output, HasSubstr("10 objects in 2 pictures"));
}

TEST(Detect, NamesWhatIsWrong) {
  const TemporaryFolder folder;
  const std::string weights = saved(folder, "yolov8n.safetensors", models::YoloV8());
  const std::string star = picture("star.png");
  EXPECT_EQ(run_command({"detect", star}).exit_code, 2);
  EXPECT_EQ(run_command({"detect", "--weights", weights, "-o", "x.png", star, star}).exit_code, 2);
  const CommandResult size = run_command({"detect", "--weights", weights, "--size", "100", star});
  EXPECT_EQ(size.exit_code, 1);
  EXPECT_THAT(size.errors, HasSubstr("multiple of 32"));
  const CommandResult missing = run_command({"detect", "--weights", weights, "--size", "64", "/no/such.png", star});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(missing.errors, HasSubstr("/no/such.png"));
  EXPECT_THAT(missing.output, HasSubstr("in 1 picture"));
  std::ofstream(folder.path("labels.txt")) << "one\ntwo\n";
  const CommandResult labels =
      run_command({"detect", "--weights", weights, "--labels", folder.path("labels.txt"), star});
  EXPECT_THAT(labels.errors, HasSubstr("2 labels for a network of 80 classes"));
  const std::string other = saved(folder, "lenet.safetensors", models::LeNet(10));
  EXPECT_THAT(run_command({"detect", "--weights", other, star}).errors, HasSubstr("no weights of YOLOv8"));
}

struct ClipFiles {
  TemporaryFolder folder;
  models::Clip model{{.text = {.channels = 64, .heads = 1, .depth = 1, .mlp_channels = 64},
                      .vision = {.channels = 64, .heads = 1, .depth = 1, .mlp_channels = 64},
                      .vocabulary = 1000,
                      .context = 12,
                      .image_size = 32,
                      .patch = 16,
                      .projection = 16}};
  std::string weights = saved(folder, "clip.safetensors", model);
  std::string tokenizer = folder.write(
      "tokenizer.json",
      nlohmann::json::parse(read_whole_file(repository_data("tokenizers/clip.json"))).at("tokenizer").dump());

  CommandResult classify(const std::vector<std::string>& more) const {
    std::vector<std::string> arguments{"classify",    "--arch",  "clip_vit_b_32", "--weights",        weights,
                                       "--tokenizer", tokenizer, "--json",        picture("star.png")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_command(arguments);
  }
};

TEST(ClassifyByTexts, ComparesThePictureWithEachText) {
  const ClipFiles files;
  const CommandResult result = files.classify({"--labels", "a photo of a dog, a star ,x"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const nlohmann::json top = result.json().at(0).at("top");
  ASSERT_EQ(top.size(), 3u);
  const NoGrad no_grad;
  const auto tokenizer = text::Tokenizer::load(files.tokenizer);
  const std::vector<std::string> texts{"a photo of a dog", "a star", "x"};
  const Tensor x = models::preprocess(models::Clip::preprocessing(32), {io::load_image(picture("star.png"))});
  const Tensor logits = files.model.logits(files.model.image_features(x),
                                           files.model.text_features(models::clip_tokens(tokenizer, texts, 12)));
  const std::vector<float> expected = softmax(logits, -1).to_vector<float>();
  for (const nlohmann::json& one : top) {
    const auto index = one.at("index").get<std::size_t>();
    EXPECT_EQ(one.at("label"), texts.at(index));
    EXPECT_EQ(one.at("probability").get<float>(), expected.at(index));
  }
  std::ofstream(files.folder.path("labels.txt")) << "a photo of a dog\na star\nx\n";
  EXPECT_EQ(files.classify({"--labels", files.folder.path("labels.txt")}).json().at(0).at("top"), top);
}

TEST(ClassifyByTexts, NamesWhatIsWrong) {
  const ClipFiles files;
  EXPECT_THAT(files.classify({}).errors, HasSubstr("--labels is required"));
  EXPECT_THAT(files.classify({"--labels", "a,,b"}).errors, HasSubstr("a text is empty"));
  EXPECT_THAT(files.classify({"--labels", "one two three four five six seven eight nine ten eleven"}).errors,
              HasSubstr("at most 12 fit"));
  const CommandResult other = run_command(
      {"classify", "--arch", "lenet", "--weights", files.weights, "--tokenizer", files.tokenizer, picture("star.png")});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.errors, HasSubstr("takes no --tokenizer"));
}

TEST(Embed, WritesAVectorForEachPicture) {
  const TemporaryFolder folder;
  models::DinoV2 model({.channels = 64, .heads = 1, .depth = 1, .mlp_channels = 64, .patch = 14, .image_size = 28});
  const std::string weights = saved(folder, "dino.safetensors", model);
  const std::string out = folder.path("out.npy");
  const CommandResult result = run_command({"embed", "--arch", "dinov2_vits14", "--weights", weights, "--device", "cpu",
                                            "--out", out, "--json", picture("star.png"), picture("cross.png")});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const Tensor vectors = io::load_npy(out);
  EXPECT_EQ(vectors.shape(), (Shape{2, 64}));
  const NoGrad no_grad;
  const Tensor expected =
      model(models::preprocess(models::DinoV2::preprocessing(), {io::load_image(picture("star.png"))}));
  EXPECT_EQ(vectors.narrow(0, 0, 1).contiguous().to_vector<float>(), expected.to_vector<float>());
  EXPECT_EQ(result.json().at(0).at("vector").get<std::vector<float>>(), expected.to_vector<float>());
  const CommandResult unknown = run_command({"embed", "--arch", "dino", picture("star.png")});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.errors, HasSubstr("dinov2_vits14"));
}

}  // namespace
}  // namespace lockstep::test
