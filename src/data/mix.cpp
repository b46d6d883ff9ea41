#include <lockstep/data/mix.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/data/dataset.h>

#include "data/host_rows.h"
#include "data/random.h"
#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

double uniform64(RandomStream& random) {
  return static_cast<double>(random.word64() >> 11) * 0x1p-53;
}

// Marsaglia's polar method; logarithms are the project's own, so that every machine draws the same.
double normal(RandomStream& random) {
  while (true) {
    const double x = 2 * uniform64(random) - 1;
    const double y = 2 * uniform64(random) - 1;
    const double s = x * x + y * y;
    if (s > 0 && s < 1) return x * std::sqrt(-2 * scalar::ls_log(s) / s);
  }
}

// Marsaglia and Tsang, "A Simple Method for Generating Gamma Variables" (2000).
double gamma(double shape, RandomStream& random) {
  if (shape < 1) {
    const double larger = gamma(shape + 1, random);
    return larger * scalar::ls_pow(uniform64(random), 1 / shape);
  }
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal(random);
    const double root = 1 + c * x;
    if (root <= 0) continue;
    const double v = root * root * root;
    const double u = uniform64(random);
    if (u > 0 && scalar::ls_log(u) < 0.5 * x * x + d - d * v + d * scalar::ls_log(v)) return d * v;
  }
}

double beta(double alpha, RandomStream& random) {
  if (alpha == 1) return uniform64(random);
  const double one = gamma(alpha, random);
  const double other = gamma(alpha, random);
  // For a tiny alpha both can be too small to be told from 0; the distribution is then nothing but its two ends.
  if (!(one + other > 0)) return random.below(2) == 0 ? 0 : 1;
  return one / (one + other);
}

// share * row + (1 - share) * the row before it.
std::vector<float> mixed_rows(const float* rows, std::size_t count, std::size_t length, double share) {
  const auto own = static_cast<float>(share);
  const auto other = static_cast<float>(1 - share);
  std::vector<float> result(count * length);
  for (std::size_t i = 0; i < count; ++i) {
    const float* const row = rows + i * length;
    const float* const before = rows + (i == 0 ? count - 1 : i - 1) * length;
    for (std::size_t k = 0; k < length; ++k) result[i * length + k] = before[k] * other + row[k] * own;
  }
  return result;
}

std::vector<float> floats_of(const HostRows& rows) {
  std::vector<float> values(rows.bytes().size() / sizeof(float));
  std::memcpy(values.data(), rows.bytes().data(), rows.bytes().size());
  return values;
}

// Targets as distributions over the classes: [n, classes].
std::vector<float> distributions(const Tensor& target, std::int64_t count, std::int64_t classes) {
  const auto n = static_cast<std::size_t>(count);
  const auto width = static_cast<std::size_t>(classes);
  const HostRows rows(target);
  if (target.dtype() == DType::f32) {
    if (target.shape() != Shape{count, classes}) {
      fail<ShapeError>(fmt::format("distributions are [n, classes], here [{}, {}]", count, classes),
                       {{"target", target}});
    }
    return floats_of(rows);
  }
  const bool narrow = target.dtype() == DType::i32;
  if (!narrow && target.dtype() != DType::i64) {
    fail<DTypeError>("targets are classes in i64 or i32, or distributions in f32", {{"target", target}});
  }
  if (target.shape() != Shape{count}) fail<ShapeError>("targets are one class for each example", {{"target", target}});
  std::vector<float> result(n * width);
  for (std::size_t i = 0; i < n; ++i) {
    std::int64_t label = 0;
    std::int32_t small = 0;
    if (narrow) {
      std::memcpy(&small, rows.bytes().data() + i * sizeof(small), sizeof(small));
      label = small;
    } else {
      std::memcpy(&label, rows.bytes().data() + i * sizeof(label), sizeof(label));
    }
    if (label < 0 || label >= classes) {
      fail<IndexError>(fmt::format("class {} of example {} is not one of {}", label, i, classes), {}, "set classes");
    }
    result[i * width + static_cast<std::size_t>(label)] = 1;
  }
  return result;
}

// How much of an example is its own, after its input was mixed.
double mix_input(const MixUp& way, Tensor& input, RandomStream& random) {
  if (input.dtype() != DType::f32) {
    fail<DTypeError>("MixUp takes f32", {{"input", input}}, "data::transform makes f32 of bytes");
  }
  const double share = beta(way.alpha, random);
  const HostRows rows(input);
  const auto count = static_cast<std::size_t>(input.size(0));
  const std::vector<float> values = floats_of(rows);
  input = Tensor::from(mixed_rows(values.data(), count, values.size() / count, share), input.shape(), Device{});
  return share;
}

double mix_input(const CutMix& way, Tensor& input, RandomStream& random) {
  const Shape shape = input.shape();
  if (shape.rank() < 3) fail<ShapeError>("CutMix takes pictures [n, ..., height, width]", {{"input", input}});
  const std::int64_t height = shape[shape.rank() - 2];
  const std::int64_t width = shape[shape.rank() - 1];
  if (height == 0 || width == 0) fail<ShapeError>("pictures are empty", {{"input", input}});
  const double share = beta(way.alpha, random);
  const auto x = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(width)));
  const auto y = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(height)));
  const double half = 0.5 * std::sqrt(1 - share);
  const auto half_width = static_cast<std::int64_t>(half * static_cast<double>(width));
  const auto half_height = static_cast<std::int64_t>(half * static_cast<double>(height));
  const std::int64_t left = std::max<std::int64_t>(x - half_width, 0);
  const std::int64_t top = std::max<std::int64_t>(y - half_height, 0);
  const std::int64_t right = std::min(x + half_width, width);
  const std::int64_t bottom = std::min(y + half_height, height);

  const HostRows rows(input);
  const auto count = static_cast<std::size_t>(shape[0]);
  const std::size_t element = size_of(input.dtype());
  const std::size_t line = static_cast<std::size_t>(width) * element;
  const std::size_t example = rows.bytes().size() / count;
  const std::size_t plane = line * static_cast<std::size_t>(height);
  std::vector<std::byte> result(rows.bytes().begin(), rows.bytes().end());
  for (std::size_t i = 0; i < count && right > left; ++i) {
    const std::size_t before = (i == 0 ? count - 1 : i - 1) * example;
    for (std::size_t at = 0; at < example; at += plane) {
      for (std::int64_t v = top; v < bottom; ++v) {
        const std::size_t begin = at + static_cast<std::size_t>(v) * line + static_cast<std::size_t>(left) * element;
        std::memcpy(result.data() + i * example + begin, rows.bytes().data() + before + begin,
                    static_cast<std::size_t>(right - left) * element);
      }
    }
  }
  input = Tensor::from_bytes(result.data(), result.size(), shape, input.dtype(), Device{});
  return 1 - static_cast<double>((right - left) * (bottom - top)) / static_cast<double>(width * height);
}

class MixedDataset : public Dataset {
 public:
  MixedDataset(DatasetPtr dataset, std::vector<Mix> ways) : dataset_(std::move(dataset)), ways_(std::move(ways)) {}

  std::int64_t size() const override { return dataset_->size(); }

  Batch fetch(const Request& request) const override {
    Batch batch = dataset_->fetch(request);
    const CallScope call("mix", CallSite("", 0));
    check_defined({{"input", batch.input}, {"target", batch.target}});
    const auto count = static_cast<std::int64_t>(request.indices.size());
    if (count == 0) return batch;
    if (batch.input.rank() < 1 || batch.input.size(0) != count || batch.input.numel() == 0) {
      fail<ShapeError>("inputs are [n, ...]", {{"input", batch.input}});
    }
    RandomStream random(request.seed, Purpose::mix, request.epoch, static_cast<std::uint64_t>(request.indices[0]));
    const Mix& chosen = ways_[ways_.size() == 1 ? 0 : random.below(ways_.size())];
    std::visit(
        [&](const auto& way) {
          const std::vector<float> targets = distributions(batch.target, count, way.classes);
          const double share = mix_input(way, batch.input, random);
          const auto width = static_cast<std::size_t>(way.classes);
          batch.target = Tensor::from(mixed_rows(targets.data(), targets.size() / width, width, share),
                                      {count, way.classes}, Device{});
        },
        chosen);
    return batch;
  }

 private:
  DatasetPtr dataset_;
  std::vector<Mix> ways_;
};

}  // namespace

DatasetPtr mix(DatasetPtr dataset, std::vector<Mix> ways, CallSite site) {
  const CallScope call("mix", site);
  if (!dataset) fail<ValueError>("there is no data set", {}, "pass one");
  if (ways.empty()) fail<ValueError>("there is no way to mix", {}, "MixUp{.classes = ...} or CutMix{.classes = ...}");
  std::int64_t classes = 0;
  for (const Mix& each : ways) {
    std::visit(
        [&](const auto& way) {
          if (way.classes < 1) fail<ValueError>(fmt::format("{} classes", way.classes), {}, "set classes");
          if (!(way.alpha > 0 && std::isfinite(way.alpha))) {
            fail<ValueError>(fmt::format("alpha is {}", way.alpha), {}, "use a number above 0");
          }
          if (classes != 0 && way.classes != classes) fail<ValueError>("the ways have different numbers of classes");
          classes = way.classes;
        },
        each);
  }
  return std::make_shared<MixedDataset>(std::move(dataset), std::move(ways));
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
