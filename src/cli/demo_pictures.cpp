// The first part of `lockstep demo`: a network that was trained before, on every device.
#include <algorithm>
#include <chrono>
#include <span>

#include "cli/assets.h"
#include "cli/demo.h"
#include "core/hash.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

std::vector<Picture> load_pictures(const std::filesystem::path& folder) {
  std::vector<Picture> pictures;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string stem = entry.path().stem().string();
    pictures.push_back(
        {entry.path().filename().string(), stem.substr(0, stem.find('_')), io::load_image(entry.path().string())});
  }
  std::sort(pictures.begin(), pictures.end(), [](const Picture& a, const Picture& b) { return a.name < b.name; });
  return pictures;
}

PictureResult run_on(Device device, const models::Architecture& architecture, const io::TensorMap& weights,
                     const PictureDemo& demo) {
  const WorkCounter work(device);  // weights are prepared when they are moved or when they are used
  const Classifier classifier(architecture, weights, device);
  std::vector<io::Image> images;
  for (const Picture& picture : demo.pictures) images.push_back(classifier.fit(picture.image));
  const auto start = std::chrono::steady_clock::now();
  PictureResult result{.device = device, .predictions = classifier.classify(images)};
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  result.work = work.count();
  ElementHasher hasher(DType::f32);
  for (std::size_t i = 0; i < demo.pictures.size(); ++i) {
    hasher.update(std::as_bytes(std::span(result.predictions[i].logits)));
    if (demo.labels.at(result.predictions[i].top(1).front()) == demo.pictures[i].truth) ++result.right;
  }
  result.hash = hasher.digest();
  return result;
}

}  // namespace

bool PictureDemo::equal() const {
  return std::all_of(results.begin(), results.end(),
                     [&](const PictureResult& result) { return result.hash == results.front().hash; });
}

PictureDemo classify_pictures(const std::vector<Device>& devices) {
  const std::filesystem::path folder = demo_assets();
  PictureDemo demo{.labels = read_labels((folder / "labels.txt").string()),
                   .pictures = load_pictures(folder / "images")};
  const io::TensorMap weights = io::load_weights((folder / "weights.safetensors").string());
  const models::Architecture& architecture = models::architecture("resnet8-cifar");
  for (const Device& device : devices) demo.results.push_back(run_on(device, architecture, weights, demo));
  return demo;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
