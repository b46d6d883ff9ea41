// Masks between tensors and run lengths. Internal.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include <lockstep/models/sam_masks.h>

namespace lockstep {
inline namespace v0 {
namespace models {
namespace sam {

/// The elements of a bool tensor, as 0 and 1.
inline std::vector<std::uint8_t> bytes_of(const Tensor& mask) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(mask.numel()));
  mask.read_bytes(bytes.data());
  return bytes;
}

/// Runs, area and box; the scores are left to the caller.
SamMask describe(std::span<const std::uint8_t> mask, int width, int height);

}  // namespace sam
}  // namespace models
}  // namespace v0
}  // namespace lockstep
