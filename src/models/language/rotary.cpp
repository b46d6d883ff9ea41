#include "models/language/rotary.h"

#include <algorithm>
#include <bitset>
#include <cmath>
#include <functional>
#include <mutex>
#include <numbers>
#include <thread>
#include <unordered_map>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

constexpr double kPi = std::numbers::pi;

// "Llama 3.1": long wavelengths are stretched, short ones kept, those between interpolated.
std::vector<float> llama3(const RotaryConfig& config, std::vector<float> frequencies) {
  const double longest = config.original_length / config.low_frequency;
  const double shortest = config.original_length / config.high_frequency;
  for (float& f : frequencies) {
    const float wavelength = static_cast<float>(2 * kPi) / f;
    const float stretched = f / static_cast<float>(config.factor);
    if (static_cast<double>(wavelength) > longest) {
      f = stretched;
    } else if (static_cast<double>(wavelength) >= shortest) {
      const float share =
          (static_cast<float>(config.original_length) / wavelength - static_cast<float>(config.low_frequency)) /
          static_cast<float>(config.high_frequency - config.low_frequency);
      f = (1.0f - share) * stretched + share * f;
    }
  }
  return frequencies;
}

// "YaRN: Efficient Context Window Extension of Large Language Models", Peng et al., 2023.
std::vector<float> yarn(const RotaryConfig& config, const std::vector<float>& powers) {
  const double dims = static_cast<double>(config.dims);
  const auto turn = [&](double rotations) {
    return dims * scalar::ls_log(config.original_length / (rotations * 2 * kPi)) / (2 * scalar::ls_log(config.base));
  };
  double low = turn(config.fast);
  double high = turn(config.slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, dims - 1);
  if (low == high) high += 0.001;
  std::vector<float> result;
  for (std::size_t i = 0; i < powers.size(); ++i) {
    const float ramp = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    const float kept = 1.0f - std::clamp(ramp, 0.0f, 1.0f);
    const float stretched = 1.0f / (static_cast<float>(config.factor) * powers[i]);
    result.push_back(stretched * (1.0f - kept) + 1.0f / powers[i] * kept);
  }
  return result;
}

// A row takes some 15 us: those of a long prompt are worth threads.
void by_threads(std::size_t count, const std::function<void(std::size_t)>& compute) {
  constexpr std::size_t kLeast = 128;  // of a thread
  constexpr std::size_t kMostThreads = 8;
  const std::size_t most = std::min<std::size_t>(kMostThreads, std::max(1u, std::thread::hardware_concurrency()));
  const std::size_t threads = std::clamp<std::size_t>(count / kLeast, 1, most);
  const auto work = [&](std::size_t thread) {
    for (std::size_t i = thread; i < count; i += threads) compute(i);
  };
  std::vector<std::jthread> others;
  for (std::size_t t = 1; t < threads; ++t) others.emplace_back(work, t);
  work(0);
}

}  // namespace

std::vector<float> rotary_frequencies(const RotaryConfig& config) {
  std::vector<float> powers;
  double base = config.base;
  if (config.scaling == RotaryConfig::Scaling::dynamic) {
    const double dims = static_cast<double>(config.dims);
    const double stretch = config.factor * config.length / config.original_length - (config.factor - 1);
    base *= scalar::ls_pow(stretch, dims / (dims - 2));
  }
  for (std::int64_t i = 0; i < config.dims; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(config.dims);
    powers.push_back(static_cast<float>(scalar::ls_pow(base, static_cast<double>(exponent))));
  }
  if (config.scaling == RotaryConfig::Scaling::yarn) return yarn(config, powers);
  std::vector<float> frequencies;
  if (config.scaling == RotaryConfig::Scaling::longrope) {
    for (std::size_t i = 0; i < powers.size(); ++i) frequencies.push_back(1.0f / (config.factors[i] * powers[i]));
    return frequencies;
  }
  for (const float power : powers) frequencies.push_back(1.0f / power);
  if (config.scaling == RotaryConfig::Scaling::llama3) return llama3(config, std::move(frequencies));
  if (config.scaling == RotaryConfig::Scaling::linear) {
    for (float& f : frequencies) f /= static_cast<float>(config.factor);
  }
  for (std::size_t i = 0; i < config.factors.size(); ++i) frequencies[i] /= config.factors[i];
  return frequencies;
}

void use_context(DecoderConfig& config, std::int64_t context) {
  const auto depends = [](const RotaryConfig& rotary, RotaryConfig::Scaling on) { return rotary.scaling == on; };
  bool longer = false;  // Whether it can be stretched to any length.
  std::int64_t own = config.context;
  for (const RotaryConfig& rotary : config.rotary) {
    longer = longer || depends(rotary, RotaryConfig::Scaling::dynamic);
    if (context == 0 && depends(rotary, RotaryConfig::Scaling::longrope))
      own = std::min(own, static_cast<std::int64_t>(rotary.original_length));
  }
  if (context < 0 || (context > own && own > 0 && !longer)) {
    throw ValueError(fmt::format("{}: a context of {} tokens is asked for, and the model was made for {}",
                                 config.family, context, own));
  }
  config.context = context > 0 ? context : own;
  for (RotaryConfig& rotary : config.rotary) {
    const double length = static_cast<double>(config.context);
    if (depends(rotary, RotaryConfig::Scaling::dynamic)) rotary.length = std::max(length, rotary.original_length);
    if (depends(rotary, RotaryConfig::Scaling::longrope) && length > rotary.original_length)
      rotary.factors = rotary.long_factors;
  }
}

// Rows, cosines and then sines, in blocks of neighbouring positions.
struct RotaryTurns::Kept {
  static constexpr std::int64_t kBlockRows = 256;
  static constexpr std::size_t kMostBlocks = 256;
  struct Block {
    std::vector<float> rows;
    std::bitset<kBlockRows> known;
  };
  std::mutex mutex;
  std::unordered_map<std::int64_t, Block> blocks;
};

RotaryTurns::RotaryTurns(const RotaryConfig& config)
    : frequencies_(rotary_frequencies(config)),
      amplitude_(static_cast<float>(config.amplitude)),
      kept_(std::make_shared<Kept>()) {}

void RotaryTurns::compute(std::int64_t position, float* row) const {
  for (std::size_t i = 0; i < frequencies_.size(); ++i) {
    const double angle = static_cast<double>(static_cast<float>(position) * frequencies_[i]);
    row[i] = static_cast<float>(scalar::ls_cos(angle)) * amplitude_;
    row[frequencies_.size() + i] = static_cast<float>(scalar::ls_sin(angle)) * amplitude_;
  }
}

RopeTables RotaryTurns::at(std::span<const std::int64_t> positions, Device device) const {
  const std::size_t half = frequencies_.size();
  std::vector<float> cosines(positions.size() * half);
  std::vector<float> sines(positions.size() * half);
  {
    // Nobody else could compute anything meanwhile but the same rows.
    const std::lock_guard lock(kept_->mutex);
    std::vector<float> passing(2 * half);  // a row that is not kept
    std::vector<float*> rows(positions.size());
    std::vector<std::size_t> missing;
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const std::int64_t number = positions[i] / Kept::kBlockRows;
      const auto place = static_cast<std::size_t>(positions[i] % Kept::kBlockRows);
      auto found = kept_->blocks.find(number);
      if (found == kept_->blocks.end()) {
        if (kept_->blocks.size() >= Kept::kMostBlocks) continue;
        found = kept_->blocks.emplace(number, Kept::Block{std::vector<float>(Kept::kBlockRows * 2 * half), {}}).first;
      }
      rows[i] = found->second.rows.data() + place * 2 * half;
      if (found->second.known[place]) continue;
      found->second.known.set(place);
      missing.push_back(i);
    }
    try {
      by_threads(missing.size(), [&](std::size_t i) { compute(positions[missing[i]], rows[missing[i]]); });
    } catch (...) {  // a thread that the system refused
      kept_->blocks.clear();
      throw;
    }
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const float* row = rows[i];
      if (row == nullptr) {
        compute(positions[i], passing.data());
        row = passing.data();
      }
      std::copy_n(row, half, cosines.begin() + static_cast<std::ptrdiff_t>(i * half));
      std::copy_n(row + half, half, sines.begin() + static_cast<std::ptrdiff_t>(i * half));
    }
  }
  const Shape shape{static_cast<std::int64_t>(positions.size()), static_cast<std::int64_t>(half)};
  return {Tensor::from(cosines, shape, device), Tensor::from(sines, shape, device)};
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
