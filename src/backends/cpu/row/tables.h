// The loops of row programs, compiled once per instruction set. They work on dense arrays of a compute type, in and out
// of conversions excepted; the executor (frame.h) sees them through these tables of function pointers.
//
// Arrays of one call are either the same array or do not overlap. Sizes may be 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/dtype.h>

#include "backends/cpu/isa.h"
#include "kernels/kernel.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {

inline constexpr int kComputeTypes = 4;

constexpr std::size_t index_of(ComputeType type) {
  return static_cast<std::size_t>(type);
}
constexpr std::size_t index_of(DType dtype) {
  return static_cast<std::size_t>(dtype);
}
constexpr std::size_t index_of(Op op) {
  return static_cast<std::size_t>(op);
}
constexpr std::size_t size_of(ComputeType type) {
  return type == ComputeType::f32 || type == ComputeType::i32 ? 4 : 8;
}

/// out[i] = f(a[i], b[i], c[i]); operands that f does not have are ignored.
using ElementwiseFn = void (*)(void* out, const void* a, const void* b, const void* c, std::size_t n);
/// Elements of a buffer, `stride` elements apart (unaligned, any sign), to or from a dense array of a compute type.
using LoadFn = void (*)(void* out, const std::byte* from, std::int64_t stride, std::size_t n);
using StoreFn = void (*)(std::byte* to, std::int64_t stride, const void* values, std::size_t n);

/// Whether memory that holds elements of `dtype` holds values of `type` as they are, so that nothing is decoded or
/// encoded. Lemma: of elements as long as their values, only a subnormal f32 decodes to something else, namely zero.
/// `canonical`: there is none, as in everything that is computed; `bits`: the values are words.
constexpr bool is_stored_as(DType dtype, ComputeType type, bool bits, bool canonical) {
  if (lockstep::size_of(dtype) != size_of(type)) return false;
  return bits || (compute_type(dtype) == type && (dtype != DType::f32 || canonical));
}

/// Which operands of an elementwise loop are one value rather than an array: bit 0 for a, 1 for b, 2 for c.
inline constexpr int kScalarVariants = 8;

struct ElementwiseTable {
  /// [op][type of the operands][scalar operands]; null where ops.def has no such row, and for useless variants
  /// (of a unary op; with all operands scalar).
  std::array<std::array<std::array<ElementwiseFn, kScalarVariants>, kComputeTypes>, kOpCount> op{};
  /// exp(a - b) and gelu_erf(a + b), of f32: [scalar operands], not both.
  std::array<ElementwiseFn, 3> exp_of_sub{}, gelu_of_add{};
};

/// Loops that take the places of those that the compiler makes of the kernel texts; null: no such loop. Of f32.
struct FunctionTable {
  std::array<ElementwiseFn, kOpCount> op{};                  ///< of one operand
  std::array<ElementwiseFn, 3> exp_of_sub{}, gelu_of_add{};  ///< as in ElementwiseTable
};

struct ConvertTable {
  std::array<LoadFn, kDTypeCount> load;            ///< decodes; f32 and bf16: subnormals read as zero
  std::array<LoadFn, kDTypeCount> load_canonical;  ///< decodes data known to hold no subnormals
  std::array<LoadFn, kDTypeCount> load_bits;       ///< unsigned words, zero extended to the word type
  std::array<StoreFn, kDTypeCount> store;          ///< encodes
  std::array<StoreFn, kDTypeCount> store_bits;     ///< the low bits of words
  std::array<std::array<ElementwiseFn, kDTypeCount>, kDTypeCount> cast;  ///< [from][to], on compute types
  std::array<ElementwiseFn, kDTypeCount> to_bits;
  std::array<ElementwiseFn, kDTypeCount> from_bits;
  std::array<ElementwiseFn, kComputeTypes> splat;      ///< n copies of a[0]
  std::array<ElementwiseFn, kComputeTypes> canonical;  ///< raw results of arithmetic -> canonical
  ElementwiseFn widen;                                 ///< i32 -> i64
  ElementwiseFn random;  ///< a: i64 positions; b: seed, c: draw (one value each); i32 words
  /// out[i] = start + step * i, as i64.
  void (*iota)(std::int64_t* out, std::int64_t start, std::int64_t step, std::size_t n);
  /// Copies past the caches; for results larger than they are. No alignment needed.
  void (*stream)(std::byte* to, const std::byte* from, std::size_t bytes);
};

/// The 64 lanes of docs/numerics.md section 4. Sums of floats keep subnormals: results are made canonical at the end.
inline constexpr std::size_t kLanes = order::kLanes;
inline constexpr std::int64_t kChunk = order::kChunk;

struct ReduceTable {
  /// lanes[i mod 64] op= a[i] (dot: fma(a[i], b[i], lane)), i ascending.
  using LanesFn = void (*)(void* lanes, const void* a, const void* b, std::size_t n);
  /// Combines the 64 lanes by halving and leaves the result in the first.
  using CombineFn = void (*)(void* lanes);
  /// The first winner of a[0..n), n > 0; of NaNs one of them.
  using BestFn = void (*)(void* best, const void* a, std::size_t n);
  /// accumulators[t] op= a[t] (dot: fma(a[t], b[t], accumulator)).
  using ColumnsFn = void (*)(void* accumulators, const void* a, const void* b, std::size_t n);
  /// Index of the first of a[0..n) that is as good as *best; n if none is.
  using FindFn = std::size_t (*)(const void* best, const void* a, std::size_t n);
  /// Whether *b beats *a.
  using BeatsFn = bool (*)(const void* b, const void* a);
  /// For columns: where a[t] beats best[t] it is the new best.
  using BestValuesFn = void (*)(void* best, const void* a, std::size_t n);
  /// For columns: where a[t] beats best[t], both it and indices[t] are replaced (by a[t] and `index`).
  using BestColumnsFn = void (*)(void* best, std::int64_t* indices, const void* a, std::int64_t index, std::size_t n);

  enum Kind { sum, prod, dot, kinds };
  enum Order { max, min, orders };
  std::array<std::array<LanesFn, kComputeTypes>, kinds> lanes;
  std::array<std::array<CombineFn, kComputeTypes>, kinds> combine;
  std::array<std::array<ColumnsFn, kComputeTypes>, kinds> columns;
  std::array<std::array<BestFn, kComputeTypes>, orders> best;
  std::array<std::array<FindFn, kComputeTypes>, orders> find;
  std::array<std::array<BeatsFn, kComputeTypes>, orders> beats;
  std::array<std::array<BestValuesFn, kComputeTypes>, orders> best_values;
  std::array<std::array<BestColumnsFn, kComputeTypes>, orders> best_columns;
};

/// The ops of a chain; x is the live value, y the operand of the link.
enum class ChainOp : std::uint8_t {
  none,
  add,         ///< x + y
  sub,         ///< x - y
  mul,         ///< x * y
  div,         ///< x / y
  from,        ///< y - x
  into,        ///< y / x
  max,         ///< maximum(x, y): equal values give the first
  min,         ///< minimum(x, y)
  max_of,      ///< maximum(y, x)
  min_of,      ///< minimum(y, x)
  relu,        ///< 0 where x is not above it
  leaky,       ///< x where x > z, else x * y; z is one value
  gate,        ///< x where y > z, else the word `otherwise`; these are one value each. Last of its chain
  neg,         ///< -x
  canonical,   ///< x: first of a chain that begins with raw results of a contraction
  max_number,  ///< within the loops: max where y is no NaN,
  min_number,  ///< and min
};
struct ChainLink {  // nothing is set: each step of each tile has room for kMostLinks
  ChainOp op;
  bool scalar;  ///< the operand is one value rather than an array
  const float* operand;
  std::ptrdiff_t stride;   ///< elements from the operand of a row to that of the next
  const float* z;          ///< leaky, gate
  const float* otherwise;  ///< gate
};
inline constexpr std::size_t kMostLinks = 10;

/// What the scalars of a chain decide, a bit for each link.
struct ChainForm {
  std::uint16_t flushes = 0;  ///< the results after it are made canonical
  std::uint16_t numbers = 0;  ///< its scalars are no NaNs
};

/// Rows of n elements that go through one chain; strides are elements from row to row.
struct ChainRows {
  std::size_t n = 0, count = 1;
  std::ptrdiff_t out_stride = 0, first_stride = 0;
};

/// Loops over first[0..n) sent through `count` links. Null members where the instruction set has no vectors with fma.
struct ChainTable {
  /// One form that suits the scalars of all `rows` rows.
  using FormFn = ChainForm (*)(const ChainLink* links, std::size_t count, std::size_t rows);
  /// Leaves the links at the row behind the last.
  using StoreFn = void (*)(float* out, const float* first, ChainLink* links, std::size_t count, ChainForm form,
                           const ChainRows& rows);
  using LanesFn = void (*)(float* lanes, const float* first, const ChainLink* links, std::size_t count, ChainForm form,
                           std::size_t n);
  FormFn form = nullptr;
  StoreFn store = nullptr;           ///< canonical results to out
  StoreFn stream = nullptr;          ///< the same past the caches; all rows of out are aligned to 64
  LanesFn sum = nullptr;             ///< lanes[i mod 64] += x
  LanesFn sum_of_squares = nullptr;  ///< lanes[i mod 64] = fma(x, x, lane)
};

const ChainTable& chain_table(Isa isa);
const ElementwiseTable& elementwise_table(Isa isa);
const ConvertTable& convert_table(Isa isa);
const ReduceTable& reduce_table(Isa isa);

}  // namespace v0
}  // namespace lockstep
