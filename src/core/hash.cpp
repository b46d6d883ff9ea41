#include "core/hash.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include <lockstep/error.h>

#include "core/elements.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace lockstep {
inline namespace v0 {
namespace {

static_assert(std::endian::native == std::endian::little, "hashes are of little-endian bits");

constexpr std::size_t kBlockBytes = 16384;

// Where an IEEE format of so many bits and digits keeps its magnitude, what infinity looks like in it, and the one
// quiet NaN.
template <typename Bits> struct NanRule {
  explicit constexpr NanRule(int digits)
      : magnitude(static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1)),
        infinity(static_cast<Bits>(magnitude >> (digits - 1) << (digits - 1))),
        quiet_nan(static_cast<Bits>(infinity | Bits{1} << (digits - 2))) {}
  Bits magnitude;
  Bits infinity;
  Bits quiet_nan;
};

template <typename Bits> void canonicalise(std::span<std::byte> block, const NanRule<Bits> rule) {
  for (std::size_t at = 0; at < block.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, block.data() + at, sizeof(Bits));
    bits = static_cast<Bits>(bits & rule.magnitude) > rule.infinity ? rule.quiet_nan : bits;
    std::memcpy(block.data() + at, &bits, sizeof(Bits));
  }
}

// Whether a block has a NaN: few have one, and those that have none are hashed where they are.
template <typename Bits> bool has_nan(std::span<const std::byte> block, const NanRule<Bits> rule) {
  using Signed = std::make_signed_t<Bits>;  // magnitudes are no negative numbers, and compare in one instruction
  Signed any = 0;
  for (std::size_t at = 0; at < block.size(); at += sizeof(Bits)) {
    Signed bits;
    std::memcpy(&bits, block.data() + at, sizeof(Bits));
    bits = static_cast<Signed>(bits & static_cast<Signed>(rule.magnitude));
    any = static_cast<Signed>(any | (bits > static_cast<Signed>(rule.infinity) ? Signed{-1} : Signed{0}));
  }
  return any != 0;
}

// Calls visit(rule) with that of a floating dtype.
template <typename Visit> void with_nan_rule(DType dtype, Visit visit) {
  visit_element(dtype, [&]<typename T>(std::type_identity<T>) {
    constexpr DType self = lockstep::dtype_of<T>();
    if constexpr (is_float(self)) {
      using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t,
                                      std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>;
      static_assert(sizeof(T) == sizeof(Bits));
      visit(NanRule<Bits>(limits_of(self).digits));
    }
  });
}

}  // namespace

struct ElementHasher::State {
  XXH3_state_t xxh;
};

ElementHasher::ElementHasher(DType dtype) : dtype_(dtype), state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->xxh);
}
ElementHasher::~ElementHasher() = default;
ElementHasher::ElementHasher(ElementHasher&&) noexcept = default;
ElementHasher& ElementHasher::operator=(ElementHasher&&) noexcept = default;

void ElementHasher::update(std::span<const std::byte> bytes) {
  if (bytes.size() % size_of(dtype_) != 0) {
    throw ValueError("hash: " + std::to_string(bytes.size()) + " bytes are not whole elements of " +
                     std::string(name_of(dtype_)));
  }
  if (!is_float(dtype_)) {
    XXH3_64bits_update(&state_->xxh, bytes.data(), bytes.size());
    return;
  }
  with_nan_rule(dtype_, [&]<typename Rule>(const Rule rule) {
    std::array<std::byte, kBlockBytes> block;
    while (!bytes.empty()) {
      const std::span<const std::byte> part = bytes.first(std::min(bytes.size(), block.size()));
      if (has_nan(part, rule)) {
        std::memcpy(block.data(), part.data(), part.size());
        canonicalise(std::span(block).first(part.size()), rule);
        XXH3_64bits_update(&state_->xxh, block.data(), part.size());
      } else {
        XXH3_64bits_update(&state_->xxh, part.data(), part.size());
      }
      bytes = bytes.subspan(part.size());
    }
  });
}

std::uint64_t ElementHasher::digest() const {
  return XXH3_64bits_digest(&state_->xxh);
}

std::uint64_t hash_elements(DType dtype, std::span<const std::byte> bytes) {
  ElementHasher hasher(dtype);
  hasher.update(bytes);
  return hasher.digest();
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace v0
}  // namespace lockstep
