// Random numbers for data sets on the host: streams of Philox words (docs/numerics.md section 8) that a seed, a
// purpose, an epoch and an index determine, whichever thread draws them.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace data {

/// Keeps streams of one seed apart from each other and from the draws of tensors.
enum class Purpose : std::uint32_t { seed = 1, split, shuffle, augment, user_code, mix, shard };

class RandomStream {
 public:
  /// Parts of one stream are 2^24 words apart.
  RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t epoch, std::uint64_t index, std::uint32_t part = 0);

  std::uint32_t word();
  std::uint64_t word64();
  /// Uniform in [0, n), n > 0: the upper half of word64() * n.
  std::uint64_t below(std::uint64_t n);
  /// Uniform in [0, 1): a multiple of 2^-24.
  float uniform();
  /// low + (high - low) * uniform(), each step rounded.
  float uniform(float low, float high);

 private:
  std::uint32_t key_[2];
  std::uint32_t epoch_;
  std::uint32_t index_[2];
  std::uint32_t block_;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

/// The numbers below `count` in random order (Fisher-Yates from the end).
std::vector<std::int64_t> permutation(std::int64_t count, RandomStream stream);

}  // namespace data
}  // namespace v0
}  // namespace lockstep
