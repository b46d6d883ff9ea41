#include <lockstep/models/registry.h>

#include <vector>

#include <fmt/format.h>

#include <lockstep/models/resnet.h>
#include <lockstep/models/resnet_cifar.h>
#include <lockstep/models/squeezenet.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr std::array<float, 3> kImageNetMean{0.485f, 0.456f, 0.406f};
constexpr std::array<float, 3> kImageNetDeviation{0.229f, 0.224f, 0.225f};

Architecture cifar_resnet(int depth) {
  return {.name = fmt::format("resnet{}-cifar", depth),
          .preprocessing = {.fit = Preprocessing::Fit::stretch,
                            .width = 32,
                            .height = 32,
                            .mean = kImageNetMean,
                            .deviation = kImageNetDeviation},
          .classes = 10,
          .classifier = "linear.weight",
          .build = [](std::int64_t classes, int own_depth) -> std::unique_ptr<nn::Layer> {
            return std::make_unique<CifarResNet>(classes, own_depth);
          },
          .depth = depth};
}

Architecture resnet(int depth) {
  return {.name = fmt::format("resnet{}", depth),
          .preprocessing = {.fit = Preprocessing::Fit::crop,
                            .shorter_side = 256,
                            .width = 224,
                            .height = 224,
                            .mean = kImageNetMean,
                            .deviation = kImageNetDeviation},
          .classes = 1000,
          .classifier = "fc.weight",
          .build = [](std::int64_t classes, int own_depth) -> std::unique_ptr<nn::Layer> {
            return std::make_unique<ResNet>(classes, own_depth);
          },
          .depth = depth};
}

Architecture squeezenet1_1() {
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
          .build = [](std::int64_t classes, int) -> std::unique_ptr<nn::Layer> {
            return std::make_unique<SqueezeNet>(classes);
          }};
}

std::vector<Architecture> all() {
  std::vector<Architecture> result;
  for (const int depth : {8, 20, 32, 44, 56, 110}) result.push_back(cifar_resnet(depth));
  for (const int depth : {18, 34, 50, 101, 152}) result.push_back(resnet(depth));
  result.push_back(squeezenet1_1());
  return result;
}

}  // namespace

std::unique_ptr<nn::Layer> Architecture::load(const nn::StateDict& weights, Device device, CallSite site) const {
  const CallScope call(site);
  const Tensor* last = weights.find(classifier);
  // Without the classifier the published number does: load_state_dict then names everything that is wrong.
  const bool tells = last != nullptr && last->defined() && last->rank() > 0 && last->shape()[0] > 0;
  std::unique_ptr<nn::Layer> model = create(tells ? last->shape()[0] : classes);
  model->load_state_dict(weights, {});
  model->eval();
  model->to(device);
  return model;
}

std::span<const Architecture> architectures() {
  static const std::vector<Architecture> table = all();
  return table;
}

const Architecture& architecture(std::string_view name) {
  std::string known;
  for (const Architecture& candidate : architectures()) {
    if (candidate.name == name) return candidate;
    known += (known.empty() ? "" : ", ") + candidate.name;
  }
  throw ValueError(fmt::format("\"{}\" is no known architecture\n  known: {}", name, known));
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
