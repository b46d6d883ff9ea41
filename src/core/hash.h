// The hash that identifies values across machines: XXH3-64 of little-endian bits, with every NaN of a floating type
// counted as the type's one quiet NaN (payloads are the only bits that hardware may disagree on). ±0 stay different.
// Used by Tensor::hash, by checkpoints and by everything that compares two devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/dtype.h>

namespace lockstep {
inline namespace v0 {

/// Hashes elements piece by piece; the result does not depend on how they were cut into pieces.
class ElementHasher {
 public:
  explicit ElementHasher(DType dtype);
  ~ElementHasher();
  ElementHasher(ElementHasher&&) noexcept;
  ElementHasher& operator=(ElementHasher&&) noexcept;

  /// Adds whole elements, from any address. Throws ValueError if `bytes` ends within one.
  void update(std::span<const std::byte> bytes);
  /// The hash of everything added so far.
  std::uint64_t digest() const;

 private:
  struct State;
  DType dtype_;
  std::unique_ptr<State> state_;
};

/// The hash of `bytes` as elements of `dtype`, in one call.
std::uint64_t hash_elements(DType dtype, std::span<const std::byte> bytes);

/// XXH3-64 of the bytes as they are.
std::uint64_t hash_bytes(std::span<const std::byte> bytes);

}  // namespace v0
}  // namespace lockstep
