// Pairs (key, position), no two of which are equal, sorted by a bitonic network: any order of its exchanges gives the
// same result. What sorts and scatters are made of.
#pragma once

#include <string>

#include "backends/gpu/renderer/writer.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Rows of `padded` pairs in scratch memory: all keys (LONG), then all positions (UINT).
struct Pairs {
  std::int64_t rows = 1;
  std::int64_t padded = 1;  ///< a power of two

  std::int64_t count() const { return rows * padded; }
  std::string keys(Words& words) const { return words.memory(Patch::Kind::scratch, 0); }
  std::string positions(Words& words) const { return words.memory(Patch::Kind::scratch, 0, 8 * count()); }
  std::size_t bytes() const { return static_cast<std::size_t>(12 * count()); }
};

/// The launches that sort them.
void add_sort(Rendered& rendered, const Pairs& pairs, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
