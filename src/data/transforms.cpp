#include <lockstep/data/transforms.h>

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "data/host_rows.h"
#include "data/picture.h"

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

// False for NaN.
template <typename T> bool in_range(T value, std::type_identity_t<T> low, std::type_identity_t<T> high) {
  return value >= low && value <= high;
}

// What is wrong with a step, empty where nothing is.
std::string problem(const RandomCrop& step) {
  const bool sides = in_range(step.height, 0, kMaxSide) && in_range(step.width, 0, kMaxSide);
  return sides && in_range(step.padding, 0, kMaxSide)
             ? ""
             : fmt::format("RandomCrop of {} x {} with a padding of {}", step.height, step.width, step.padding);
}
std::string problem(const RandomHorizontalFlip& step) {
  return in_range(step.probability, 0, 1) ? ""
                                          : fmt::format("RandomHorizontalFlip with probability {}", step.probability);
}
std::string problem(const Normalize& step) {
  if (step.mean.empty() || step.deviation.empty()) return "Normalize without a mean or a deviation";
  for (const float deviation : step.deviation) {
    if (!(deviation > 0)) return fmt::format("Normalize with a deviation of {}", deviation);
  }
  return "";
}
std::string problem(const RandomAffine& step) {
  if (!in_range(step.degrees, 0, 360)) return fmt::format("RandomAffine by {} degrees", step.degrees);
  if (!in_range(step.translate, 0, 1)) return fmt::format("RandomAffine with translate {}", step.translate);
  if (!in_range(step.shear, 0, 80)) return fmt::format("RandomAffine with a shear of {} degrees", step.shear);
  if (!in_range(step.scale_min, 1e-3f, 1e3f) || !in_range(step.scale_max, step.scale_min, 1e3f)) {
    return fmt::format("RandomAffine with factors from {} to {}", step.scale_min, step.scale_max);
  }
  return "";
}
std::string problem(const Cutout& step) {
  return in_range(step.size, 0, kMaxSide) ? "" : fmt::format("Cutout of {} pixels", step.size);
}
std::string problem(const RandomVerticalFlip& step) {
  return in_range(step.probability, 0, 1) ? ""
                                          : fmt::format("RandomVerticalFlip with probability {}", step.probability);
}
std::string problem(const RandomResizedCrop& step) {
  if (!in_range(step.height, 1, kMaxSide) || !in_range(step.width, 1, kMaxSide)) {
    return fmt::format("RandomResizedCrop to {} x {}", step.height, step.width);
  }
  if (!in_range(step.scale_min, 1e-6f, 1) || !in_range(step.scale_max, step.scale_min, 1)) {
    return fmt::format("RandomResizedCrop of shares from {} to {}", step.scale_min, step.scale_max);
  }
  if (!in_range(step.ratio_min, 1e-3f, 1e3f) || !in_range(step.ratio_max, step.ratio_min, 1e3f)) {
    return fmt::format("RandomResizedCrop with ratios from {} to {}", step.ratio_min, step.ratio_max);
  }
  return "";
}
std::string problem(const ColorJitter& step) {
  const bool factors =
      in_range(step.brightness, 0, 1e3f) && in_range(step.contrast, 0, 1e3f) && in_range(step.saturation, 0, 1e3f);
  return factors && in_range(step.hue, 0, 0.5f)
             ? ""
             : fmt::format("ColorJitter of brightness {}, contrast {}, saturation {}, hue {}", step.brightness,
                           step.contrast, step.saturation, step.hue);
}

std::string problem(const RandAugment& step) {
  const bool strength = in_range(step.bins, 2, 1000) && in_range(step.magnitude, 0, step.bins - 1);
  return strength && in_range(step.ops, 0, 1000) && in_range(step.fill, 0, 1)
             ? ""
             : fmt::format("RandAugment of {} ops with magnitude {} of {} and fill {}", step.ops, step.magnitude,
                           step.bins, step.fill);
}

class TransformedDataset : public Dataset {
 public:
  TransformedDataset(DatasetPtr dataset, std::vector<Transform> steps)
      : dataset_(std::move(dataset)), steps_(std::move(steps)) {}

  std::int64_t size() const override { return dataset_->size(); }

  Batch fetch(const Request& request) const override {
    Batch batch = dataset_->fetch(request);
    const CallScope call("transform", CallSite("", 0));
    check_defined({{"input", batch.input}});
    const Shape shape = batch.input.shape();
    const auto refuse = [&](const char* what) {
      return fmt::format("{}, not {} {}", what, name_of(batch.input.dtype()), shape.to_string());
    };
    const bool bytes = batch.input.dtype() == DType::u8;
    if (!bytes && batch.input.dtype() != DType::f32) fail<DTypeError>(refuse("pictures are u8 or f32"));
    const auto count = static_cast<std::int64_t>(request.indices.size());
    bool sized = shape.rank() == 4 && shape[0] == count && count > 0;
    for (int d = 1; d < shape.rank(); ++d) sized = sized && shape[d] >= 1 && shape[d] <= kMaxSide;
    if (!sized) {
      fail<ShapeError>(refuse("pictures are [n, channels, height, width]"));
    }
    const HostRows source(batch.input);
    const std::byte* from = source.bytes().data();
    const auto elements = static_cast<std::size_t>(shape[1] * shape[2] * shape[3]);

    Picture picture{.channels = static_cast<int>(shape[1])};
    std::vector<float> values;
    for (const std::int64_t index : request.indices) {
      picture.height = static_cast<int>(shape[2]);
      picture.width = static_cast<int>(shape[3]);
      picture.values.resize(elements);
      if (bytes) {
        const auto* pixels = reinterpret_cast<const std::uint8_t*>(from);
        for (std::size_t i = 0; i < elements; ++i) picture.values[i] = static_cast<float>(pixels[i]) / 255.0f;
      } else {
        std::memcpy(picture.values.data(), from, elements * sizeof(float));
      }
      from += elements * (bytes ? 1 : sizeof(float));
      // A stream per step: a step added behind others changes nothing about them.
      for (std::size_t step = 0; step < steps_.size(); ++step) {
        RandomStream random(request.seed, Purpose::augment, request.epoch, static_cast<std::uint64_t>(index),
                            static_cast<std::uint32_t>(step));
        std::visit([&](const auto& s) { apply(s, picture, random); }, steps_[step]);
      }
      if (values.empty()) values.reserve(request.indices.size() * picture.values.size());
      values.insert(values.end(), picture.values.begin(), picture.values.end());
    }
    // All end with one size: no step changes sizes at random.
    batch.input = Tensor::from(values, {count, picture.channels, picture.height, picture.width}, Device{});
    return batch;
  }

 private:
  DatasetPtr dataset_;
  std::vector<Transform> steps_;
};

}  // namespace

DatasetPtr transform(DatasetPtr dataset, std::vector<Transform> steps, CallSite site) {
  const CallScope call("transform", site);
  if (!dataset) fail<ValueError>("there is no data set", {}, "pass one");
  for (const Transform& step : steps) {
    const std::string wrong = std::visit([](const auto& s) { return problem(s); }, step);
    if (!wrong.empty()) fail<ValueError>(wrong, {}, "use values in their ranges");
  }
  return std::make_shared<TransformedDataset>(std::move(dataset), std::move(steps));
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
