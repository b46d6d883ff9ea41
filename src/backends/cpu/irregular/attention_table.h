// Attention of some queries over the keys of their head, in loops for an instruction set. Queries lie across vectors:
// what is asked of a whole row (its largest score, the sum of its exponentials) is then asked of lanes, and no operand
// but the queries has to be turned.
#pragma once

#include <cstdint>

#include "backends/cpu/isa.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
inline constexpr std::int64_t kAttentionTile = 8;      ///< widths are multiples of it, and there are so many keys
inline constexpr std::int64_t kAttentionVectors = 3;   ///< of queries that are taken together, at most
inline constexpr std::int64_t kAttentionTogether = 4;  ///< keys; scores have room for a multiple of them
inline constexpr std::int64_t kMostAttentionWidth = order::kBlock;

struct AttentionBlock {
  std::int64_t width = 0;
  std::int64_t keys = 0;         ///< whose values are read
  std::int64_t seen = 0;         ///< of these, from the first one on; the others are hidden from all queries here
  std::int64_t behind = 0;       ///< query i sees the keys up to i + behind
  std::int64_t vectors = 1;      ///< of queries
  float scale = 1;               ///< magnitude at most 1
  const float* query = nullptr;  ///< [width][queries]
  const float* key = nullptr;    ///< [keys][width]
  const float* value = nullptr;  ///< [keys][width]
  float* scores = nullptr;       ///< [keys][queries]: room
  float* out = nullptr;          ///< [width][queries]
};

struct AttentionTable {
  std::int64_t lanes = 1;
  void (*run)(const AttentionBlock& block) = nullptr;  ///< null where multiply-adds are not fused
};
const AttentionTable& attention_table(Isa isa);

}  // namespace v0
}  // namespace lockstep
