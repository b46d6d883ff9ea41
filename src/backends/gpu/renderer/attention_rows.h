// Keys or values of exact attention of one row, read as vectors of 4.
#pragma once

#include <optional>

#include "backends/gpu/renderer/fast_parts.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Where they lie: as they are, or a copy.
struct AttentionRows {
  const Input* input;
  std::int64_t copy = -1;  ///< bytes of scratch memory in front of it
  std::int64_t offset = 0;
  Shape strides;

  std::string memory(Words& words) const {
    return copy < 0 ? words.memory(Patch::Kind::address, input->slot) : words.memory(Patch::Kind::scratch, 0, copy);
  }
};
AttentionRows attention_rows(const Input& input, FastParts& parts);

/// Attention of one row with a mask where heads that share keys are many, as one launch; nothing where they are few.
std::optional<Rendered> render_many_attention(const AttentionKernel& kernel, const RenderLimits& limits);

/// Causal attention of many rows as one launch; nothing where tiles of them are few.
std::optional<Rendered> render_causal_tiles(const AttentionKernel& kernel, const RenderLimits& limits);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
