// The sizes of attention that one kernel computes (fast numerics, docs/numerics.md section 13), and where its values
// lie.
#pragma once

#include <cstdint>

#include <lockstep/shape.h>

namespace lockstep {
inline namespace v0 {

/// Query [batches, heads, rows, width]; key and value [batches, key_heads, keys, width], each for heads / key_heads
/// heads of the query that are neighbours. Elements have 16 bits.
struct AttentionSizes {
  std::int64_t batches = 1, heads = 1, key_heads = 1, rows = 1, keys = 1, width = 1;

  /// Of queries and results, which lie as [batches, rows, heads, width].
  std::int64_t queries() const { return batches * rows * heads * width; }
  /// Of keys, and of values.
  std::int64_t each_keys() const { return batches * keys * key_heads * width; }
  /// What the forward kernel makes: the results, and then an f32 for each query that the gradients read again.
  std::int64_t made() const { return queries() + 2 * batches * heads * rows; }
  /// The gradients of query, key and value, one after the other; [batches, keys, key_heads, width] of the latter.
  std::int64_t gradients() const { return queries() + 2 * each_keys(); }

  friend bool operator==(const AttentionSizes&, const AttentionSizes&) = default;
};

/// Of operands of these shapes.
inline AttentionSizes attention_sizes(const Shape& query, const Shape& key) {
  return {query[0], query[1], key[1], query[2], key[2], query[3]};
}

}  // namespace v0
}  // namespace lockstep
