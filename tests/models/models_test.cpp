// What needs no published weights: names, counts of parameters, preprocessing, the shipped classifier.
#include <gtest/gtest.h>

#include <set>

#include <lockstep/lockstep.h>

#include "support/data.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using models::Preprocessing;

TEST(Registry, KnowsItsArchitectures) {
  EXPECT_EQ(models::architectures().size(), 35u);
  EXPECT_EQ(&models::architecture("resnet20"), &models::architecture("resnet20-cifar"));
  EXPECT_EQ(models::architecture("resnet18").classes, 1000);
  const std::string message = test::message_of<ValueError>([] { models::architecture("resnet19"); });
  EXPECT_NE(message.find("resnet20-cifar"), std::string::npos) << message;
  EXPECT_NE(message.find("squeezenet1_1"), std::string::npos) << message;
}

// The counts are those of the papers and of torchvision.
TEST(Registry, ModelsHaveTheirPublishedNumberOfParameters) {
  const std::map<std::string, std::int64_t> published{{"resnet8-cifar", 75290},
                                                      {"resnet20-cifar", 269722},
                                                      {"resnet32-cifar", 464154},
                                                      {"resnet44-cifar", 658586},
                                                      {"resnet56-cifar", 853018},
                                                      {"resnet110-cifar", 1727962},
                                                      {"resnet18", 11689512},
                                                      {"resnet34", 21797672},
                                                      {"resnet50", 25557032},
                                                      {"resnet101", 44549160},
                                                      {"resnet152", 60192808},
                                                      {"squeezenet1_1", 1235496},
                                                      {"lenet", 61706},
                                                      {"mlp", 235146},
                                                      {"mobilenet_v2", 3504872},
                                                      {"mobilenet_v3_large", 5483032},
                                                      {"mobilenet_v3_small", 2542856},
                                                      {"efficientnet_b0", 5288548},
                                                      {"convnext_tiny", 28589128},
                                                      {"vit_b_16", 86567656},
                                                      {"vgg16", 138357544},
                                                      {"regnet_x_400mf", 5495976},
                                                      {"regnet_x_800mf", 7259656},
                                                      {"regnet_x_1_6gf", 9190136},
                                                      {"regnet_x_3_2gf", 15296552},
                                                      {"regnet_x_8gf", 39572648},
                                                      {"regnet_x_16gf", 54278536},
                                                      {"regnet_x_32gf", 107811560},
                                                      {"regnet_y_400mf", 4344144},
                                                      {"regnet_y_800mf", 6432512},
                                                      {"regnet_y_1_6gf", 11202430},
                                                      {"regnet_y_3_2gf", 19436338},
                                                      {"regnet_y_8gf", 39381472},
                                                      {"regnet_y_16gf", 83590140},
                                                      {"regnet_y_32gf", 145046770}};
  for (const models::Architecture& architecture : models::architectures()) {
    const std::unique_ptr<nn::Layer> model = architecture.create(architecture.classes);
    EXPECT_EQ(model->parameter_count(), published.at(architecture.name)) << architecture.name;
    EXPECT_NE(model->state_dict().find(architecture.classifier), nullptr) << architecture.name;
  }
}

TEST(Registry, EveryModelHasANameOfItsOwnAndATask) {
  std::set<std::string> names;
  for (const models::Model& model : models::registry()) {
    EXPECT_TRUE(names.insert(models::name_of(model)).second) << models::name_of(model);
    EXPECT_FALSE(models::task_of(model).empty());
  }
  for (const models::ImageClassifier& row : models::architectures()) {
    EXPECT_TRUE(row.short_name.empty() || names.insert(row.short_name).second) << row.short_name;
  }
}

TEST(Registry, ModelsAreFoundByNameAndTask) {
  EXPECT_NE(models::find_model<models::ObjectDetector>("yolov8n"), nullptr);
  EXPECT_EQ(models::find_model<models::ObjectDetector>("resnet18"), nullptr);
  EXPECT_EQ(models::names_of_models<models::ImageEncoder>(), "dinov2_vits14, dinov2_vitb14, dinov2_vitl14");
}

TEST(Registry, SomeAreBuiltForAnyPictures) {
  for (const char* name : {"lenet", "mlp"}) {
    const auto model = models::architecture(name).build({.classes = 4, .channels = 3, .height = 16, .width = 20});
    EXPECT_EQ(model->forward(zeros({2, 3, 16, 20})).shape(), (Shape{2, 4})) << name;
  }
}

// A file says what pictures its weights were trained on; the row follows it.
TEST(Registry, WeightsBringTheirPictures) {
  const models::ImageClassifier& lenet = models::architecture("lenet");
  const Preprocessing pictures{.width = 20, .height = 16, .channels = 3, .mean = {0.1f, 0.2f, 0.3f}};
  const std::map<std::string, std::string> texts = models::to_metadata(pictures);
  const models::ImageClassifier row = lenet.for_weights({texts.begin(), texts.end()});
  EXPECT_EQ(row.create(5)->forward(zeros({1, 3, 16, 20})).shape(), (Shape{1, 5}));
  EXPECT_EQ(lenet.for_weights({{"format", "pt"}}).preprocessing.width, 28);
  EXPECT_EQ(lenet.for_weights({{"architecture", "lenet"}}).preprocessing.width, 28);
  EXPECT_NO_THROW(lenet.for_weights({{"architecture", "a network of somebody's"}}));
  EXPECT_NO_THROW(models::architecture("resnet20-cifar").for_weights({{"architecture", "resnet20"}}));
  EXPECT_EQ(test::message_of<ValueError>([&] {
              lenet.for_weights({{"architecture", "mlp"}});
            }),
            "the weights are those of \"mlp\", not of \"lenet\"");
}

TEST(Registry, TheWeightsDecideTheNumberOfClasses) {
  const models::Architecture& architecture = models::architecture("resnet8-cifar");
  const std::unique_ptr<nn::Layer> five = architecture.create(5);
  const std::unique_ptr<nn::Layer> loaded = architecture.load(five->state_dict());
  EXPECT_FALSE(loaded->training());
  EXPECT_EQ(loaded->forward(zeros({2, 3, 32, 32})).shape(), (Shape{2, 5}));
}

TEST(Registry, OtherWeightsAreRefusedWithAList) {
  const std::unique_ptr<nn::Layer> other = models::architecture("resnet20-cifar").create(10);
  const std::string message =
      test::message_of<ValueError>([&] { models::architecture("resnet8-cifar").load(other->state_dict()); });
  EXPECT_NE(message.find("layer1.1.conv1.weight"), std::string::npos) << message;
}

TEST(Models, RefuseImpossibleDepths) {
  EXPECT_THROW(models::CifarResNet(10, 21), ValueError);
  EXPECT_THROW(models::CifarResNet(10, 2), ValueError);
  EXPECT_THROW(models::ResNet(1000, 20), ValueError);
}

TEST(Models, BottlenecksRunAndHaveTorchvisionsKeys) {
  const std::unique_ptr<nn::Layer> model = models::architecture("resnet50").create(3);
  const nn::StateDict state = model->state_dict();
  EXPECT_EQ(state.find("layer1.0.downsample.0.weight")->shape(), (Shape{256, 64, 1, 1}));
  EXPECT_EQ(state.find("layer4.2.conv3.weight")->shape(), (Shape{2048, 512, 1, 1}));
  EXPECT_EQ(state.find("layer1.1.downsample.0.weight"), nullptr);
  EXPECT_EQ(state.size(), 320u);
  model->eval();
  EXPECT_EQ(model->forward(zeros({1, 3, 64, 64})).shape(), (Shape{1, 3}));
}

TEST(Models, LeNetAndMLPHaveTheirSizes) {
  const models::LeNet lenet(10);
  EXPECT_EQ(lenet.parameter_count(), 61706);
  EXPECT_EQ(lenet.forward(zeros({2, 1, 28, 28})).shape(), (Shape{2, 10}));
  EXPECT_EQ(models::LeNet(3, {.channels = 3, .height = 12, .width = 33}).forward(zeros({1, 3, 12, 33})).shape(),
            (Shape{1, 3}));
  const nn::StateDict state = lenet.state_dict();
  EXPECT_EQ(state.find("conv2.weight")->shape(), (Shape{16, 6, 5, 5}));
  EXPECT_EQ(state.find("fc1.weight")->shape(), (Shape{120, 400}));
  EXPECT_EQ(models::MLP(10, 784).parameter_count(), 784 * 256 + 256 + 256 * 128 + 128 + 128 * 10 + 10);
  EXPECT_EQ(models::MLP(10, 12).forward(zeros({5, 3, 2, 2})).shape(), (Shape{5, 10}));
  EXPECT_THROW(models::LeNet(10, {.height = 11}), ValueError);
  EXPECT_THROW(models::LeNet(0), ValueError);
  EXPECT_THROW(models::MLP(10, 0), ValueError);
}

// --- preprocessing --------------------------------------------------------------------------------------------------

io::Image striped(int width, int height) {
  io::Image image{.width = width, .height = height};
  for (int i = 0; i < width * height; ++i) {
    for (int channel = 0; channel < 3; ++channel)
      image.pixels.push_back(static_cast<std::uint8_t>(7 * i + 31 * channel));
  }
  return image;
}

TEST(Preprocess, ScalesAndNormalisesInF32) {
  const Preprocessing rule{.width = 2, .height = 1, .mean = {0.5f, 0.25f, 0.125f}, .deviation = {0.5f, 2, 4}};
  const io::Image image{.width = 2, .height = 1, .pixels = {0, 51, 255, 255, 102, 0}};
  const std::vector<float> expected{(0.0f / 255 - 0.5f) / 0.5f,  (255.0f / 255 - 0.5f) / 0.5f,
                                    (51.0f / 255 - 0.25f) / 2,   (102.0f / 255 - 0.25f) / 2,
                                    (255.0f / 255 - 0.125f) / 4, (0.0f / 255 - 0.125f) / 4};
  const Tensor tensor = models::preprocess(rule, {image});
  EXPECT_EQ(tensor.shape(), (Shape{1, 3, 1, 2}));
  EXPECT_EQ(tensor.to_vector<float>(), expected);
}

TEST(Preprocess, BgrPutsBlueFirst) {
  const Preprocessing rule{.width = 1, .height = 1, .bgr = true, .scale = 1, .mean = {104, 117, 123}};
  const io::Image image{.width = 1, .height = 1, .pixels = {10, 20, 30}};
  EXPECT_EQ(models::preprocess(rule, {image}).to_vector<float>(), (std::vector<float>{30 - 104, 20 - 117, 10 - 123}));
}

TEST(Preprocess, OneChannelIsGray) {
  const Preprocessing rule{
      .width = 4, .height = 1, .channels = 1, .scale = 1, .mean = {1, 0, 0}, .deviation = {2, 1, 1}};
  const io::Image image{.width = 4, .height = 1, .pixels = {7, 7, 7, 255, 0, 0, 0, 255, 0, 0, 0, 255}};
  const Tensor tensor = models::preprocess(rule, {image});
  EXPECT_EQ(tensor.shape(), (Shape{1, 1, 1, 4}));
  // Pillow 12: Image.new("RGB", (1, 1), (255, 0, 0)).convert("L") is 76, green 150, blue 29.
  EXPECT_EQ(tensor.to_vector<float>(), (std::vector<float>{3, 37.5f, 74.5f, 14}));
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<std::uint8_t>(value);
    const io::Image pixel{.width = 1, .height = 1, .pixels = {byte, byte, byte}};
    const Preprocessing plain{.width = 1, .height = 1, .channels = 1, .scale = 1};
    EXPECT_EQ(models::preprocess(plain, {pixel}).item<float>(), static_cast<float>(value));
  }
  EXPECT_THROW(models::preprocess({.width = 1, .height = 1, .channels = 2}, {image}), ValueError);
}

TEST(Preprocess, ComesBackFromMetadataToTheBit) {
  const auto through_texts = [](const Preprocessing& rule) {
    const std::map<std::string, std::string> texts = models::to_metadata(rule);
    return models::preprocessing_of({texts.begin(), texts.end()});
  };
  for (const models::ImageClassifier& row : models::architectures()) {
    EXPECT_EQ(through_texts(row.preprocessing), row.preprocessing) << row.name;
  }
  const Preprocessing odd{.width = 1,
                          .height = 16'384,
                          .scale = 1.0f / 3,
                          .mean = {-1e-38f, 0.1f, 3.4e38f},
                          .deviation = {1e-45f, 1.0f / 3, 7}};
  EXPECT_EQ(through_texts(odd), odd);
  EXPECT_EQ(models::preprocessing_of({}), std::nullopt);
  EXPECT_EQ(models::preprocessing_of({{"format", "pt"}, {"pictures", "none"}}), std::nullopt);
}

TEST(Preprocess, RefusesMetadataThatMakeNoSense) {
  const std::map<std::string, std::string> texts = models::to_metadata(models::architecture("resnet18").preprocessing);
  const auto refusal = [&](const std::string& field, const char* text) {
    io::Metadata metadata(texts.begin(), texts.end());
    text == nullptr ? void(metadata.erase("picture." + field)) : void(metadata["picture." + field] = text);
    const std::string message = test::message_of<FormatError>([&] { models::preprocessing_of(metadata); });
    EXPECT_NE(message.find("\"picture." + field + "\""), std::string::npos) << message;
  };
  for (const auto& [key, text] : texts) refusal(key.substr(std::string("picture.").size()), nullptr);
  for (const char* text : {"", "0", "-1", "16385", "1e3", "28 ", " 28", "99999999999999999999"}) refusal("width", text);
  for (const char* text : {"0", "2", "4"}) refusal("channels", text);
  refusal("shorter_side", "223");  // less than the crop
  for (const char* text : {"0", "-1", "nan", "inf", "1, 2"}) refusal("scale", text);
  for (const char* text : {"1", "1, 2", "1, 2, 3, 4", "1 2 3", "1, 2, nan", "1, 2, 3 "}) refusal("mean", text);
  refusal("deviation", "1, 0, 1");
  refusal("fit", "squeeze");
  refusal("bgr", "1");
}

TEST(Preprocess, FitsAsTheArchitectureSays) {
  const io::Image wide = striped(60, 40);
  const Preprocessing& cifar = models::architecture("resnet20-cifar").preprocessing;
  EXPECT_EQ(models::fit(cifar, wide), io::resize(wide, 32, 32));
  EXPECT_EQ(models::fit(cifar, striped(32, 32)), striped(32, 32));

  const Preprocessing& imagenet = models::architecture("resnet18").preprocessing;
  EXPECT_EQ(models::fit(imagenet, wide), io::center_crop(io::resize_shorter_side(wide, 256), 224, 224));
  EXPECT_NE(models::fit(imagenet, striped(224, 224)), striped(224, 224));

  const Preprocessing& squeezenet = models::architecture("squeezenet1_1").preprocessing;
  EXPECT_EQ(models::fit(squeezenet, striped(227, 227)), striped(227, 227));
  EXPECT_EQ(models::fit(squeezenet, wide), io::center_crop(io::resize_shorter_side(wide, 256), 227, 227));
}

TEST(Preprocess, RefusesWhatIsNoPicture) {
  const Preprocessing& rule = models::architecture("resnet18").preprocessing;
  EXPECT_THROW(models::preprocess(rule, {io::Image{}}), ValueError);
  EXPECT_THROW(models::preprocess(rule, {io::Image{.width = 2, .height = 2, .pixels = {1, 2, 3}}}), ValueError);
  EXPECT_THROW(models::preprocess(rule, {io::Image{.width = 1, .height = 1, .channels = 1, .pixels = {1}}}),
               ValueError);
  EXPECT_EQ(models::preprocess(rule, {}).shape(), (Shape{0, 3, 224, 224}));
}

// --- the shipped classifier -----------------------------------------------------------------------------------------

TEST(Demo, TheShippedClassifierAgreesOnEveryDeviceToTheBit) {
  const std::filesystem::path assets = std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "assets/demo";
  const models::Architecture& architecture = models::architecture("resnet8-cifar");
  const io::TensorMap weights = io::load_weights((assets / "weights.safetensors").string());
  std::vector<io::Image> images;
  for (const char* name : {"star.png", "heart.png", "spiral.png"}) {
    images.push_back(io::load_image((assets / "images" / name).string()));
  }
  const Tensor input = models::preprocess(architecture.preprocessing, images);
  std::vector<Tensor> results;
  for (const Device& device : test_devices()) {
    results.push_back(architecture.load(weights, device)->forward(input.to(device)).to(Device{}));
    EXPECT_BITS_EQ(results.back(), results.front());
  }
  EXPECT_EQ(argmax(results.front(), 1).to_vector<std::int64_t>(), (std::vector<std::int64_t>{3, 5, 9}));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
