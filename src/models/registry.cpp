#include <lockstep/models/registry.h>

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include <lockstep/models/convnext.h>
#include <lockstep/models/efficientnet.h>
#include <lockstep/models/lenet.h>
#include <lockstep/models/mlp.h>
#include <lockstep/models/mobilenet.h>
#include <lockstep/models/regnet.h>
#include <lockstep/models/resnet.h>
#include <lockstep/models/resnet_cifar.h>
#include <lockstep/models/squeezenet.h>
#include <lockstep/models/vgg.h>
#include <lockstep/models/vision_transformer.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr std::array<float, 3> kImageNetMean{0.485f, 0.456f, 0.406f};
constexpr std::array<float, 3> kImageNetDeviation{0.229f, 0.224f, 0.225f};

// Of networks with normalisation, and of small ones without.
Recipe recipe_of_deep() {
  return {.optimizer = "sgd", .lr = 0.1, .weight_decay = 1e-4, .schedule = "cosine", .batch = 128};
}
Recipe recipe_of_transformers() {
  return {.optimizer = "adamw", .lr = 1e-3, .weight_decay = 0.05, .schedule = "cosine", .batch = 128};
}
Recipe recipe_of_small() {
  return {.optimizer = "adam", .lr = 4e-3, .schedule = "onecycle"};
}

// What MNIST's digits are to networks that take any pictures, where nothing else is said.
constexpr Preprocessing kMnist{
    .width = 28, .height = 28, .channels = 1, .mean = {0.1307f}, .deviation = {0.3081f, 1, 1}};

template <typename Network> auto of_depth(int depth) {
  return [depth](const ImageClassifierConfig& config) -> std::unique_ptr<nn::Layer> {
    return std::make_unique<Network>(config.classes, depth);
  };
}

ImageClassifier cifar_resnet(int depth) {
  return {.name = fmt::format("resnet{}-cifar", depth),
          .short_name = fmt::format("resnet{}", depth),
          .preprocessing = {.fit = Preprocessing::Fit::stretch,
                            .width = 32,
                            .height = 32,
                            .mean = kImageNetMean,
                            .deviation = kImageNetDeviation},
          .classes = 10,
          .classifier = "linear.weight",
          .recipe = recipe_of_deep(),
          .build = of_depth<CifarResNet>(depth)};
}

ImageClassifier resnet(int depth) {
  return {.name = fmt::format("resnet{}", depth),
          .preprocessing = {.fit = Preprocessing::Fit::crop,
                            .shorter_side = 256,
                            .width = 224,
                            .height = 224,
                            .mean = kImageNetMean,
                            .deviation = kImageNetDeviation},
          .classes = 1000,
          .classifier = "fc.weight",
          .published_weights = fmt::format("hf:timm/resnet{}.tv_in1k/model.safetensors", depth),
          .published_labels = "hf:datasets/huggingface/label-files/imagenet-1k-id2label.json",
          .recipe = recipe_of_deep(),
          .build = of_depth<ResNet>(depth)};
}

// torchvision's networks, with its weights IMAGENET1K_V1.
template <typename Build> ImageClassifier imagenet(std::string name, std::string classifier, Build build) {
  return {
      .name = std::move(name),
      .preprocessing = {.fit = Preprocessing::Fit::crop,
                        .shorter_side = 256,
                        .width = 224,
                        .height = 224,
                        .mean = kImageNetMean,
                        .deviation = kImageNetDeviation},
      .classes = 1000,
      .classifier = std::move(classifier),
      .recipe = recipe_of_deep(),
      .build = [build](const ImageClassifierConfig& config) -> std::unique_ptr<nn::Layer> { return build(config); }};
}

ImageClassifier mobilenet_v3(const char* name, const MobileNetV3Options& options) {
  return imagenet(name, "classifier.3.weight", [options](const ImageClassifierConfig& config) {
    return std::make_unique<MobileNetV3>(config.classes, options);
  });
}

ImageClassifier efficientnet_b0() {
  ImageClassifier row = imagenet("efficientnet_b0", "classifier.1.weight", [](const ImageClassifierConfig& config) {
    return std::make_unique<EfficientNet>(config.classes);
  });
  row.preprocessing.filter = io::ResizeFilter::bicubic;
  return row;
}

ImageClassifier convnext_tiny() {
  ImageClassifier row = imagenet("convnext_tiny", "classifier.2.weight", [](const ImageClassifierConfig& config) {
    return std::make_unique<ConvNeXt>(config.classes);
  });
  row.preprocessing.shorter_side = 236;
  row.recipe = recipe_of_transformers();
  return row;
}

ImageClassifier vit_b_16() {
  ImageClassifier row = imagenet("vit_b_16", "heads.head.weight", [](const ImageClassifierConfig& config) {
    return std::make_unique<VisionTransformer>(config.classes, VisionTransformerOptions{.image_size = config.height});
  });
  row.recipe = recipe_of_transformers();
  row.with_current_names = &VisionTransformer::with_current_names;
  return row;
}

ImageClassifier regnet(const char* name, const RegNetOptions& options) {
  return imagenet(name, "fc.weight", [options](const ImageClassifierConfig& config) {
    return std::make_unique<RegNet>(config.classes, options);
  });
}

// The design space's points that torchvision has weights of.
void add_regnets(std::vector<Model>& rows) {
  const auto add = [&](const char* name, RegNetOptions options, double squeeze) {
    options.squeeze = squeeze;
    rows.push_back(regnet(name, options));
  };
  add("regnet_x_400mf", {.depth = 22, .width = 24, .slope = 24.48, .step = 2.54, .group_width = 16}, 0);
  add("regnet_x_800mf", {.depth = 16, .width = 56, .slope = 35.73, .step = 2.28, .group_width = 16}, 0);
  add("regnet_x_1_6gf", {.depth = 18, .width = 80, .slope = 34.01, .step = 2.25, .group_width = 24}, 0);
  add("regnet_x_3_2gf", {.depth = 25, .width = 88, .slope = 26.31, .step = 2.25, .group_width = 48}, 0);
  add("regnet_x_8gf", {.depth = 23, .width = 80, .slope = 49.56, .step = 2.88, .group_width = 120}, 0);
  add("regnet_x_16gf", {.depth = 22, .width = 216, .slope = 55.59, .step = 2.1, .group_width = 128}, 0);
  add("regnet_x_32gf", {.depth = 23, .width = 320, .slope = 69.86, .step = 2.0, .group_width = 168}, 0);
  add("regnet_y_400mf", {.depth = 16, .width = 48, .slope = 27.89, .step = 2.09, .group_width = 8}, 0.25);
  add("regnet_y_800mf", {.depth = 14, .width = 56, .slope = 38.84, .step = 2.4, .group_width = 16}, 0.25);
  add("regnet_y_1_6gf", {.depth = 27, .width = 48, .slope = 20.71, .step = 2.65, .group_width = 24}, 0.25);
  add("regnet_y_3_2gf", {.depth = 21, .width = 80, .slope = 42.63, .step = 2.66, .group_width = 24}, 0.25);
  add("regnet_y_8gf", {.depth = 17, .width = 192, .slope = 76.82, .step = 2.19, .group_width = 56}, 0.25);
  add("regnet_y_16gf", {.depth = 18, .width = 200, .slope = 106.23, .step = 2.48, .group_width = 112}, 0.25);
  add("regnet_y_32gf", {.depth = 20, .width = 232, .slope = 115.89, .step = 2.53, .group_width = 232}, 0.25);
}

ImageClassifier squeezenet1_1() {
  return {.name = "squeezenet1_1",
          .preprocessing = {.fit = Preprocessing::Fit::crop_if_needed,
                            .shorter_side = 256,
                            .width = 227,
                            .height = 227,
                            .bgr = true,
                            .scale = 1,
                            .mean = {104, 117, 123}},
          .classes = 1000,
          .classifier = "classifier.1.weight",
          .recipe = recipe_of_deep(),
          .build = [](const ImageClassifierConfig& config) -> std::unique_ptr<nn::Layer> {
            return std::make_unique<SqueezeNet>(config.classes);
          }};
}

ImageClassifier lenet() {
  return {.name = "lenet",
          .preprocessing = kMnist,
          .classes = 10,
          .classifier = "fc3.weight",
          .any_pictures = true,
          .recipe = recipe_of_small(),
          .build = [](const ImageClassifierConfig& config) -> std::unique_ptr<nn::Layer> {
            return std::make_unique<LeNet>(
                config.classes,
                LeNetOptions{.channels = config.channels, .height = config.height, .width = config.width});
          }};
}

ImageClassifier mlp() {
  return {.name = "mlp",
          .preprocessing = kMnist,
          .classes = 10,
          .classifier = "fc3.weight",
          .any_pictures = true,
          .recipe = recipe_of_small(),
          .build = [](const ImageClassifierConfig& config) -> std::unique_ptr<nn::Layer> {
            return std::make_unique<MLP>(config.classes, config.channels * config.height * config.width);
          }};
}

ImageTextModel clip(const char* name, const char* repository) {
  return {.name = name,
          .published_weights = fmt::format("hf:{}/pytorch_model.bin", repository),
          .published_tokenizer = fmt::format("hf:{}/tokenizer.json", repository)};
}

ImageEncoder dinov2(const char* name, const char* repository) {
  return {.name = name,
          .preprocessing = DinoV2::preprocessing(),
          .published_weights = fmt::format("hf:{}/model.safetensors", repository),
          .load = [](const nn::StateDict& weights, Device device) -> std::unique_ptr<nn::Layer> {
            return DinoV2::load(weights, device);
          }};
}

std::vector<Model> all() {
  std::vector<Model> result;
  for (const int depth : {8, 20, 32, 44, 56, 110}) result.push_back(cifar_resnet(depth));
  for (const int depth : {18, 34, 50, 101, 152}) result.push_back(resnet(depth));
  result.insert(result.end(), {squeezenet1_1(), lenet(), mlp()});
  result.push_back(imagenet("mobilenet_v2", "classifier.1.weight", [](const ImageClassifierConfig& config) {
    return std::make_unique<MobileNetV2>(config.classes);
  }));
  result.insert(result.end(), {mobilenet_v3("mobilenet_v3_large", MobileNetV3Options::large()),
                               mobilenet_v3("mobilenet_v3_small", MobileNetV3Options::small()), efficientnet_b0(),
                               convnext_tiny(), vit_b_16()});
  result.push_back(imagenet("vgg16", "classifier.6.weight",
                            [](const ImageClassifierConfig& config) { return std::make_unique<VGG>(config.classes); }));
  add_regnets(result);
  result.insert(result.end(),
                {PromptableSegmenter{"mobile_sam", SamKind::vit_t}, PromptableSegmenter{"sam_vit_b", SamKind::vit_b},
                 PromptableSegmenter{"sam_vit_l", SamKind::vit_l}, PromptableSegmenter{"sam_vit_h", SamKind::vit_h}});
  result.insert(result.end(), {ObjectDetector{"yolov8n", YoloSize::n}, ObjectDetector{"yolov8s", YoloSize::s},
                               ObjectDetector{"yolov8m", YoloSize::m}, ObjectDetector{"yolov8l", YoloSize::l},
                               ObjectDetector{"yolov8x", YoloSize::x}});
  result.insert(result.end(), {clip("clip_vit_b_32", "openai/clip-vit-base-patch32"),
                               clip("clip_vit_b_16", "openai/clip-vit-base-patch16"),
                               clip("clip_vit_l_14", "openai/clip-vit-large-patch14")});
  result.insert(result.end(), {dinov2("dinov2_vits14", "facebook/dinov2-small"),
                               dinov2("dinov2_vitb14", "facebook/dinov2-base"),
                               dinov2("dinov2_vitl14", "facebook/dinov2-large")});
  return result;
}

bool is_called(const ImageClassifier& row, std::string_view name) {
  return row.name == name || (!row.short_name.empty() && row.short_name == name);
}

}  // namespace

std::unique_ptr<nn::Layer> ImageClassifier::create(std::int64_t class_count) const {
  return build({.classes = class_count,
                .channels = preprocessing.channels,
                .height = preprocessing.height,
                .width = preprocessing.width});
}

std::unique_ptr<nn::Layer> ImageClassifier::load(const nn::StateDict& given, Device device, CallSite site) const {
  const CallScope call(site);
  const nn::StateDict weights = with_current_names ? with_current_names(given) : given;
  const Tensor* last = weights.find(classifier);
  // Without the classifier the published number does: load_state_dict then names everything that is wrong.
  const bool tells = last != nullptr && last->defined() && last->rank() > 0 && last->shape()[0] > 0;
  std::unique_ptr<nn::Layer> model = create(tells ? last->shape()[0] : classes);
  model->load_state_dict(weights, {});
  model->eval();
  model->to(device);
  return model;
}

ImageClassifier ImageClassifier::for_weights(const io::Metadata& metadata) const {
  const auto named = metadata.find("architecture");
  if (named != metadata.end()) {
    const std::string other = named->second.to_string();
    const auto rows = architectures();
    const bool is_row = std::any_of(rows.begin(), rows.end(), [&](const auto& row) { return is_called(row, other); });
    if (is_row && !is_called(*this, other)) {
      throw ValueError(fmt::format("the weights are those of \"{}\", not of \"{}\"", other, name));
    }
  }
  ImageClassifier result = *this;
  if (const std::optional<Preprocessing> trained = preprocessing_of(metadata)) result.preprocessing = *trained;
  return result;
}

ImageClassifier ImageTextModel::classifier(const nn::StateDict& weights, const text::Tokenizer& tokenizer,
                                           const std::vector<std::string>& texts) const {
  const ClipOptions options = Clip::options_of(weights);
  return {.name = name,
          .preprocessing = Clip::preprocessing(options.image_size),
          .classes = static_cast<std::int64_t>(texts.size()),
          .classifier = "",
          .recipe = recipe_of_transformers(),
          .build = [options, tokens = clip_tokens(tokenizer, texts, options.context)](const ImageClassifierConfig&)
              -> std::unique_ptr<nn::Layer> { return std::make_unique<ClipClassifier>(options, tokens); },
          .with_current_names = &Clip::with_current_names};
}

std::span<const Model> registry() {
  static const auto& table = *new std::vector<Model>(all());
  return table;
}

const std::string& name_of(const Model& model) {
  return std::visit([](const auto& row) -> const std::string& { return row.name; }, model);
}

std::string_view task_of(const Model& model) {
  return std::visit([](const auto& row) { return row.kTask; }, model);
}

std::span<const ImageClassifier> architectures() {
  static const auto& table = *new std::vector<ImageClassifier>([] {
    std::vector<ImageClassifier> rows;
    for (const Model& model : registry()) {
      if (const auto* row = std::get_if<ImageClassifier>(&model)) rows.push_back(*row);
    }
    return rows;
  }());
  return table;
}

const ImageClassifier& architecture(std::string_view name) {
  std::string known;
  for (const ImageClassifier& candidate : architectures()) {
    if (is_called(candidate, name)) return candidate;
    known += (known.empty() ? "" : ", ") + candidate.name;
  }
  throw ValueError(fmt::format("\"{}\" is no known architecture\n  known: {}", name, known));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
