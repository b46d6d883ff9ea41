#include "cli/train_setup.h"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/command.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kDigits = 12000;
constexpr std::int64_t kTestDigits = 2000;
constexpr std::uint64_t kDigitSeed = 1;
constexpr std::uint64_t kTestDigitSeed = 2;

const std::vector<std::string> kFashionLabels{"t-shirt", "trouser", "pullover", "dress", "coat",
                                              "sandal",  "shirt",   "sneaker",  "bag",   "ankle boot"};
const std::vector<std::string> kCifarLabels{"airplane", "automobile", "bird",  "cat",  "deer",
                                            "dog",      "frog",       "horse", "ship", "truck"};
const std::vector<std::string> kDigitLabels{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"};

// As published weights take their pictures; networks that take any pictures, as CIFAR's do. Pixels are already divided
// by 255.
data::Normalize normalisation(const models::ImageClassifier& architecture) {
  const models::Preprocessing& rule =
      architecture.any_pictures ? models::architecture("resnet20-cifar").preprocessing : architecture.preprocessing;
  data::Normalize step;
  for (std::size_t c = 0; c < 3; ++c) {
    step.mean.push_back(rule.mean[c] * rule.scale / 255);
    step.deviation.push_back(rule.deviation[c]);
  }
  return step;
}

// What the readers and this step make of a picture, for the file of weights. Folders are stretched, and data sets have
// their size.
models::Preprocessing preprocessing_of(const data::Normalize& step, std::int64_t height, std::int64_t width) {
  models::Preprocessing result{.width = static_cast<int>(width),
                               .height = static_cast<int>(height),
                               .channels = static_cast<int>(step.mean.size())};
  std::copy(step.mean.begin(), step.mean.end(), result.mean.begin());
  std::copy(step.deviation.begin(), step.deviation.end(), result.deviation.begin());
  return result;
}

data::DatasetPtr first(data::DatasetPtr dataset, std::int64_t count) {
  if (count <= 0 || count >= dataset->size()) return dataset;
  std::vector<std::int64_t> indices(static_cast<std::size_t>(count));
  std::iota(indices.begin(), indices.end(), std::int64_t{0});
  return std::make_shared<data::Subset>(std::move(dataset), std::move(indices));
}

std::int64_t kept_for_test(std::int64_t limit) {
  return std::max<std::int64_t>(limit / 10, 1);
}

// Both parts with the same normalisation, and what is done to training pictures before it.
TrainingData parts(data::DatasetPtr train, data::DatasetPtr test, const data::Normalize& normalise,
                   std::vector<data::Transform> augmentation, std::int64_t limit) {
  const std::int64_t index = 0;
  const Shape shape = test->fetch({.indices = std::span(&index, 1)}).input.shape();
  augmentation.push_back(normalise);
  return {.train = data::transform(first(std::move(train), limit), std::move(augmentation)),
          .test = data::transform(first(std::move(test), limit > 0 ? std::max<std::int64_t>(limit / 10, 1) : 0),
                                  {normalise}),
          .preprocessing = preprocessing_of(normalise, shape[2], shape[3])};
}

TrainingData of_folders(const std::string& folder, const DataOptions& options,
                        const models::ImageClassifier& architecture) {
  std::int64_t side = options.side;
  if (side == 0) side = architecture.any_pictures ? 64 : architecture.preprocessing.width;
  const data::ImageFolderOptions size{.height = static_cast<int>(side), .width = static_cast<int>(side)};
  std::vector<data::Transform> augmentation;
  if (options.augment) augmentation.push_back(data::RandomHorizontalFlip{});
  std::error_code ignored;
  TrainingData result;
  if (fs::is_directory(fs::path(folder) / "train", ignored)) {
    const auto train = std::make_shared<data::ImageFolder>((fs::path(folder) / "train").string(), size);
    const char* const name = fs::is_directory(fs::path(folder) / "test", ignored) ? "test" : "val";
    const auto test = std::make_shared<data::ImageFolder>((fs::path(folder) / name).string(), size);
    if (train->classes() != test->classes()) {
      throw ValueError(fmt::format("{}: train and {} have different classes: {} and {}", folder, name,
                                   fmt::join(train->classes(), ", "), fmt::join(test->classes(), ", ")));
    }
    result = parts(train, test, normalisation(architecture), augmentation, options.limit);
    result.labels = train->classes();
  } else {
    const auto all = std::make_shared<data::ImageFolder>(folder, size);
    const std::int64_t test_size = std::max<std::int64_t>(all->size() / 10, 1);
    if (all->size() < 2) throw ValueError(fmt::format("{}: one picture is too few to train and to test", folder));
    Generator generator(options.seed);
    const auto split = data::random_split(all, {all->size() - test_size, test_size}, &generator);
    result = parts(split[0], split[1], normalisation(architecture), augmentation, options.limit);
    result.labels = all->classes();
  }
  return result;
}

}  // namespace

TrainingData training_data(const DataOptions& options, const models::ImageClassifier& architecture) {
  const std::size_t colon = options.source.find(':');
  const std::string kind = options.source.substr(0, colon);
  const std::string folder = colon == std::string::npos ? "" : options.source.substr(colon + 1);
  const bool known = kind == "digits" || kind == "mnist" || kind == "fashion" || kind == "cifar10" || kind == "images";
  if (!known || (kind == "digits") != folder.empty()) {
    throw UsageError(fmt::format("--data: \"{}\" is none of digits, mnist:DIR, fashion:DIR, cifar10:DIR, images:DIR",
                                 options.source));
  }
  if (kind == "images") return of_folders(folder, options, architecture);

  TrainingData result;
  if (kind == "digits") {
    const std::int64_t count = options.limit > 0 ? std::min(options.limit, kDigits) : kDigits;
    result = parts(data::digits(count, kDigitSeed),
                   data::digits(options.limit > 0 ? kept_for_test(count) : kTestDigits, kTestDigitSeed),
                   {{0.2f}, {0.25f}}, {}, 0);
    result.labels = kDigitLabels;
  } else if (kind == "cifar10") {
    std::vector<data::Transform> augmentation;
    if (options.augment) augmentation = {data::RandomCrop{.padding = 4}, data::RandomHorizontalFlip{}};
    result = parts(data::cifar10(folder, data::Split::train), data::cifar10(folder, data::Split::test),
                   normalisation(architecture), std::move(augmentation), options.limit);
    result.labels = kCifarLabels;
  } else {
    const bool fashion = kind == "fashion";
    result =
        parts(data::mnist(folder, data::Split::train), data::mnist(folder, data::Split::test),
              fashion ? data::Normalize{{0.286f}, {0.353f}} : data::Normalize{{0.1307f}, {0.3081f}}, {}, options.limit);
    result.labels = fashion ? kFashionLabels : kDigitLabels;
  }
  return result;
}

std::unique_ptr<nn::Layer> build_network(const models::ImageClassifier& architecture, const TrainingData& data) {
  const models::Preprocessing& pictures = data.preprocessing;
  if (!architecture.any_pictures && pictures.channels != architecture.preprocessing.channels) {
    throw UsageError(
        fmt::format("--arch {} takes pictures of {} channels, the data have {}\n  fix: --arch lenet or mlp",
                    architecture.name, architecture.preprocessing.channels, pictures.channels));
  }
  return architecture.build({.classes = static_cast<std::int64_t>(data.labels.size()),
                             .channels = pictures.channels,
                             .height = pictures.height,
                             .width = pictures.width});
}

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names{"sgd", "adam", "adamw"};
  return names;
}

const std::vector<std::string>& schedule_names() {
  static const std::vector<std::string> names{"constant", "cosine", "onecycle", "step"};
  return names;
}

std::unique_ptr<optim::Optimizer> make_optimizer(const models::Recipe& recipe, const nn::Layer& model) {
  const std::vector<nn::Parameter> parameters = model.parameters();
  if (recipe.optimizer == "sgd") {
    return std::make_unique<optim::SGD>(
        parameters, optim::SGDOptions{.lr = recipe.lr, .momentum = 0.9, .weight_decay = recipe.weight_decay});
  }
  if (recipe.optimizer == "adam") {
    return std::make_unique<optim::Adam>(parameters,
                                         optim::AdamOptions{.lr = recipe.lr, .weight_decay = recipe.weight_decay});
  }
  return std::make_unique<optim::AdamW>(parameters,
                                        optim::AdamWOptions{.lr = recipe.lr, .weight_decay = recipe.weight_decay});
}

std::unique_ptr<optim::Schedule> make_schedule(const models::Recipe& recipe, optim::Optimizer& optimizer,
                                               std::int64_t steps) {
  if (recipe.schedule == "constant") return nullptr;
  if (recipe.schedule == "onecycle") {
    return std::make_unique<optim::Schedule>(
        optimizer, optim::OneCycleLR{.max_lr = recipe.lr, .total_steps = std::max<std::int64_t>(steps, 2)});
  }
  // A twentieth of the steps to warm up, the rest along half a cosine; or a tenth of the rate after half and after
  // three quarters of the steps.
  if (recipe.schedule == "cosine") {
    return std::make_unique<optim::Schedule>(
        optimizer, optim::warmup_cosine(std::max<std::int64_t>(steps / 20, 1), std::max<std::int64_t>(steps, 2)));
  }
  return std::make_unique<optim::Schedule>(
      optimizer, optim::MultiStepLR{
                     .milestones = {std::max<std::int64_t>(steps / 2, 1), std::max<std::int64_t>(steps * 3 / 4, 2)}});
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
