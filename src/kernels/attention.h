// The sizes of attention that one kernel computes (docs/numerics.md sections 6, 12 and 13), and where its values lie.
#pragma once

#include <cstdint>

#include <lockstep/numerics.h>
#include <lockstep/shape.h>

namespace lockstep {
inline namespace v0 {

/// Query [batches, heads, rows, width]; key and value [batches, key_heads, keys, width], each for heads / key_heads
/// heads of the query that are neighbours. Elements have 16 bits but in exact numerics.
struct AttentionSizes {
  std::int64_t batches = 1, heads = 1, key_heads = 1, rows = 1, keys = 1, width = 1;
  std::int64_t kept = 1;  ///< values in f32 for each query that the gradients read again

  /// Of queries and results, which lie as [batches, rows, heads, width].
  std::int64_t queries() const { return batches * rows * heads * width; }
  /// Of keys, and of values.
  std::int64_t each_keys() const { return batches * keys * key_heads * width; }
  /// What the forward kernel makes: the results, and then what is kept.
  std::int64_t made() const { return queries() + 2 * kept * batches * heads * rows; }
  /// The gradients of query, key and value, one after the other; [batches, keys, key_heads, width] of the latter.
  std::int64_t gradients() const { return queries() + 2 * each_keys(); }

  friend bool operator==(const AttentionSizes&, const AttentionSizes&) = default;
};

/// Of operands of these shapes. Blocked numerics keep what is subtracted from a query's scores, the sum of their
/// exponentials and its reciprocal, in four values; fast ones the library's; exact ones nothing.
inline AttentionSizes attention_sizes(const Shape& query, const Shape& key, Numerics numerics) {
  const std::int64_t kept = numerics == Numerics::blocked ? 4 : numerics == Numerics::fast ? 1 : 0;
  return {query[0], query[1], key[1], query[2], key[2], query[3], kept};
}

}  // namespace v0
}  // namespace lockstep
