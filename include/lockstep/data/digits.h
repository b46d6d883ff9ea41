// A data set that needs no download: the ten digits, drawn as strokes in several styles and distorted at random.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/data/dataset.h>
#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace data {

/// White digits on black, rows from the top.
struct DigitImages {
  static constexpr int kSide = 28;
  static constexpr std::int64_t kPixels = kSide * kSide;

  std::vector<std::uint8_t> pixels;  ///< kPixels per image
  std::vector<std::uint8_t> labels;  ///< 0 to 9, one per image
};

/// `count` images; image i shows the digit i % 10 and depends on `seed` and i alone, so a smaller set is the beginning
/// of a larger one. All arithmetic is of integers: the bytes are the same on every machine. ValueError if count is
/// negative.
LOCKSTEP_API DigitImages draw_digits(std::int64_t count, std::uint64_t seed);

/// The same as a data set of the form of MNIST: input u8 [count, 1, 28, 28], target i64 [count].
LOCKSTEP_API std::shared_ptr<const TensorDataset> digits(std::int64_t count, std::uint64_t seed);

}  // namespace data
}  // namespace v0
}  // namespace lockstep
