// Attention and the positions that queries and keys carry.
#pragma once

#include <cstdint>
#include <optional>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// Where the diagonal of a causal mask lies when there are more keys (S) than queries (L), or fewer.
enum class CausalAlignment : std::uint8_t {
  top_left,      ///< query i sees keys up to i.  PyTorch: is_causal=True
  bottom_right,  ///< query i sees keys up to i + S - L: the last query sees all, as with a cache of earlier keys
};

struct AttentionOptions {
  /// bool: true where a key takes part. Float: added to the scaled scores. Broadcasts to [..., H, L, S].
  std::optional<Tensor> mask = std::nullopt;
  bool causal = false;
  CausalAlignment alignment = CausalAlignment::top_left;
  /// The key position of the first query, instead of `alignment`: the length of a cache, whose memory may be longer than
  /// The key position of the first query, instead of `alignment`: the length of a cache, whose memory may be longer than
  /// what it holds. Keys and values that no query sees must be finite. A loop over the positions finds its plan again,
  /// since they are no part of it. With `causal` or `window_right`, and L + first_query <= S (ValueError).
  std::optional<std::int64_t> first_query = std::nullopt;
  /// Query i, at key position p (i, i + S - L or i + first_query), sees the keys from p - window_left to p +
  /// window_right.
  std::optional<std::int64_t> window_left = std::nullopt;
  std::optional<std::int64_t> window_right = std::nullopt;
  /// Key and value may have fewer heads (dimension -3), each for as many neighbouring heads of the query.
  bool enable_gqa = false;
  std::optional<double> scale = std::nullopt;  ///< absent: 1 / sqrt(E)
  double softcap = 0;                          ///< > 0: scores become softcap * tanh(score / softcap)
};

/// softmax(query key^T * scale + bias) value.  PyTorch: scaled_dot_product_attention.
/// query [..., H, L, E], key [..., H, S, E], value [..., H, S, V] to [..., H, L, V]; the dimensions before L broadcast.
/// One float dtype (DTypeError); f16 and bf16 compute in f32 and round once. The order is score * scale, + bias,
/// softcap, masks, softmax, product with value; a query that sees no key gives zeros. Scores are never in memory as a
/// whole: a few megabytes of rows at a time. Rows belong to tiles of 128 queries; keys that causality or a window hide
/// from all queries of a tile do not exist for it (docs/numerics.md section 6). ShapeError where sizes do not fit,
/// ValueError for a negative window or softcap.
LOCKSTEP_API Tensor scaled_dot_product_attention(const Operand& query, const Operand& key, const Operand& value,
                                                 const AttentionOptions& options = {});

/// Rotary embeddings: pairs of elements turn by position * base^(-2i / dims), i the number of the pair.
struct RopeOptions {
  double base = 10000;
  /// Pairs are (0, 1), (2, 3), ... as in GPT-J; otherwise (i, i + dims / 2), as in GPT-NeoX and Llama of Hugging Face.
  bool interleaved = false;
  std::int64_t dims = 0;      ///< rotated elements at the front of the last dimension, even; 0: all
  std::int64_t offset = 0;    ///< position of the first row, e.g. the length of a cache
  double position_scale = 1;  ///< positions are multiplied by it (linear interpolation)
};
/// cos and sin [length, dims / 2] as f32 (f64 for f64): computed on the host in f64 and rounded once.
struct RopeTables {
  Tensor cos;
  Tensor sin;
};
/// Tables for positions offset ... offset + length - 1, to be used again and again. ValueError for odd dims.
LOCKSTEP_API RopeTables rope_tables(std::int64_t length, std::int64_t dims, const RopeOptions& options = {},
                                    TensorOptions tensor = {}, CallSite site = {});
/// x [..., L, D], ranks 2 to 7, rotated by tables made for L positions: (a, b) become a cos - b sin, b cos + a sin.
/// Elements behind those that the tables rotate stay as they are. Floats (DTypeError); f16 and bf16 round once.
LOCKSTEP_API Tensor rope(const Operand& x, const RopeTables& tables, bool interleaved = false);
/// The same with tables of its own.
LOCKSTEP_API Tensor rope(const Operand& x, const RopeOptions& options = {});

/// The slopes of ALiBi, f32 [heads]: powers of 2^(-8 / heads), as in the paper also for heads that are no power of two.
/// The bias of a head is slope * (key position - query position).
LOCKSTEP_API Tensor alibi_slopes(std::int64_t heads, TensorOptions options = {}, CallSite site = {});

}  // namespace v0
}  // namespace lockstep
