#include "data/random.h"

#include <numeric>
#include <utility>

#include "kernels/scalar.h"

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

std::uint32_t low_half(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}
std::uint32_t high_half(std::uint64_t value) {
  return static_cast<std::uint32_t>(value >> 32);
}

}  // namespace

RandomStream::RandomStream(std::uint64_t seed, Purpose purpose, std::uint64_t epoch, std::uint64_t index,
                           std::uint32_t part)
    : key_{low_half(seed), high_half(seed) ^ 0x9e3779b9u * static_cast<std::uint32_t>(purpose)},
      epoch_(low_half(epoch)),
      index_{low_half(index), high_half(index)},
      block_(part << 22) {}

std::uint32_t RandomStream::word() {
  if (used_ == 4) {
    scalar::philox4x32(key_[0], key_[1], block_++, epoch_, index_[0], index_[1], words_[0], words_[1], words_[2],
                       words_[3]);
    used_ = 0;
  }
  return words_[static_cast<std::size_t>(used_++)];
}

std::uint64_t RandomStream::word64() {
  const std::uint64_t low = word();
  return low | std::uint64_t{word()} << 32;
}

std::uint64_t RandomStream::below(std::uint64_t n) {
  // The upper half of a product of 64 bits by 64, without a 128-bit type.
  const std::uint64_t x = word64();
  const std::uint64_t low = low_half(x) * std::uint64_t{low_half(n)};
  const std::uint64_t middle = high_half(x) * std::uint64_t{low_half(n)} + high_half(low);
  const std::uint64_t other = low_half(x) * std::uint64_t{high_half(n)} + low_half(middle);
  return high_half(x) * std::uint64_t{high_half(n)} + high_half(middle) + high_half(other);
}

float RandomStream::uniform() {
  return static_cast<float>(word() >> 8) * 0x1p-24f;
}

float RandomStream::uniform(float low, float high) {
  return low + (high - low) * uniform();
}

std::vector<std::int64_t> permutation(std::int64_t count, RandomStream stream) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t left = order.size(); left > 1; --left) std::swap(order[left - 1], order[stream.below(left)]);
  return order;
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
