// The plan of a row program: which value is computed in which pass over a unit of work, where it lives, and which loop
// computes it. Made once per kernel (planner.h), executed by frame.h.
//
// Two layouts; both give the order of reductions that docs/numerics.md section 4 asks for.
//   rows      a unit is one row; tiles run along the row. Row values are scalars.
//             Of short rows a unit has `width`: tiles are blocks of whole rows. Row values are arrays of `width`
//             values, and loops that take one as a scalar run row by row. Tiles of epilogues are parts of several rows.
//             Of long rows that lie in pieces all over memory, as a channel of many pictures does, tiles are several
//             whole pieces, which are read and written where they lie.
//   columns   a unit is a block of `width` rows; tiles run across the rows, for `depth` elements of each row at a time.
//             For rows that are short or strided in memory. Row values are arrays of `width` values.
// A program without row values is one long row.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/cpu/row/access.h"
#include "backends/cpu/row/exponentials_table.h"
#include "backends/cpu/row/space.h"
#include "backends/cpu/row/tables.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// A position, for the standard library.
constexpr std::size_t idx(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

/// Where a value lives while a frame executes.
struct Place {
  enum class Kind : std::uint8_t {
    none,       ///< not stored by this step
    parameter,  ///< number `at` of the binding
    fixed,      ///< `at` bytes into the frame's memory: row values and uniforms
    slot,       ///< slot number `at`, for one tile
    kept,       ///< the whole row (or block of rows), `at` bytes into the frame's memory
  };
  Kind kind = Kind::none;
  std::size_t at = 0;
};

/// An op of a chain whose other operand is the chain's live value.
struct Link {
  ChainOp op = ChainOp::none;
  int value = -1;       ///< the operand, if the op has a second one
  bool scalar = false;  ///< it is one value rather than an array
  int z = -1;           ///< leaky, gate: its bound, a uniform
  int otherwise = -1;   ///< gate: what there is where the operand is not above the bound, a uniform
};

struct Step {
  enum class Kind : std::uint8_t {
    load,          ///< input `index`
    iota,          ///< position `index`
    gather,        ///< table `index`: indices a, first elements b
    compute,       ///< fn(a, b, c)
    accumulator,   ///< fn(the contraction's results)
    spread,        ///< n copies of a scalar, or (columns) `depth` copies of a row value
    chain,         ///< a through all links
    exponentials,  ///< exp(a - b) of a row value b, added to reduction `index`; c: the largest a, if it is known
    reduce,        ///< adds the tile (a through all links) to reduction `index`
    store,         ///< a to output `index`
  };
  Kind kind = Kind::compute;
  ComputeType type = ComputeType::f32;  ///< of the value defined
  ElementwiseFn fn = nullptr;
  LoadFn load = nullptr;
  StoreFn put = nullptr;
  int out = -1, a = -1, b = -1, c = -1;  ///< values
  int otherwise = -1;                    ///< of a gate, until it is a chain
  int index = -1;
  int ahead = -1;                    ///< exponentials: the input of which they ask for the next row
  Place place;                       ///< of `out`
  bool alias = false;                ///< load: memory holds the values as they are. store: the same
  int direct = -1;                   ///< an output that the value may be computed into
  Op op = Op::copy;                  ///< compute: the elementwise op, if it is one on f32
  ChainOp chain_op = ChainOp::none;  ///< compute: what it would be in a chain,
  int scalars = 0;                   ///< and which operands are one value (as in ElementwiseTable)
  std::vector<Link> links;
  std::size_t form = 0;  ///< of the chain, among those in the frame's memory
  bool raw = false;  ///< chain: a is the contraction's results as they were accumulated
  bool by_row = false;   ///< blocks of rows: it takes the rows one by one (epilogues: every step does)
  bool one_row = false;  ///< load: all rows are the same, and only one is there
};

/// Calls fn(value) for each value that a step reads.
template <typename Fn> void for_each_value_read(const Step& step, Fn fn) {
  for (int value : {step.a, step.b, step.c, step.otherwise}) {
    if (value >= 0) fn(value);
  }
  for (const Link& link : step.links) {
    if (link.value >= 0) fn(link.value);
    if (link.z >= 0) fn(link.z);
    if (link.otherwise >= 0) fn(link.otherwise);
  }
}

struct RowReduction {
  ReduceOp op = ReduceOp::sum;
  ComputeType type = ComputeType::f32;  ///< of the operand
  int value = -1;                       ///< the row value defined
  // In the frame's memory: the 64 lanes, or the winner so far and its index; and what is left of each chunk.
  std::size_t lanes_at = 0, lane_indices_at = 0, partials_at = 0, indices_at = 0;

  bool is_best() const { return op != ReduceOp::sum && op != ReduceOp::prod && op != ReduceOp::dot; }
  bool gives_index() const { return op == ReduceOp::argmax || op == ReduceOp::argmin; }
  ReduceTable::Kind kind() const;
  ReduceTable::Order order() const;
};

struct Pass {
  std::vector<Step> row_steps;   ///< before the pass, once per unit
  std::vector<Step> steps;       ///< for each tile
  std::vector<int> reductions;   ///< that end with the pass
  std::vector<int> kept_inputs;  ///< values of earlier passes, read from where they were kept
};

struct RowPlan {
  Layout layout = Layout::rows;
  const ElementwiseTable* elementwise = nullptr;
  const ChainTable* chain = nullptr;
  const ConvertTable* convert = nullptr;
  const ReduceTable* reduce = nullptr;
  const ExponentialsTable* exponentials = nullptr;

  Space space;  ///< rows: outer = rows; columns: outer = inner dims, along = rows
  std::vector<Access> inputs, outputs, positions;
  std::vector<Table> tables;
  std::int64_t units = 1;
  std::int64_t sequence = 1;   ///< elements of one row: what is tiled and reduced
  std::int64_t width = 1;      ///< rows of a unit
  std::int64_t row_batch = 1;  ///< epilogues: rows whose values are computed at once, as arrays
  std::int64_t block = 0;      ///< epilogues: elements of a tile of several rows
  std::int64_t depth = 1;      ///< columns: elements of each row in one tile
  std::int64_t tile = 0;       ///< rows: elements of a tile
  std::int64_t piece = 0;      ///< rows in pieces: elements of each; else 0
  std::int64_t elements = 0;   ///< of the whole iteration space
  std::int64_t cost = 1;       ///< per element, in simple operations

  std::vector<ComputeType> types;   ///< per value
  std::vector<Place> places;        ///< per value: of what lives longer than a tile
  std::vector<Step> uniform_steps;  ///< once per frame
  std::vector<Pass> passes;         ///< never empty
  std::vector<Step> last_steps;     ///< after the last pass, once per unit: row values and their stores
  std::vector<RowReduction> reductions;
  std::vector<int> row_values;     ///< the values that are arrays, one element for each row of a unit
  std::vector<int> fetched_ahead;  ///< inputs of which the last pass asks for the next row
  bool streams = false;            ///< the outputs are larger than the caches
  bool is_epilogue = false;
  ComputeType accumulator_type = ComputeType::f32;

  // The memory of a frame: pointers to the values and their strides, forms of chains, what is fixed, kept rows, state
  // of reductions, slots.
  std::size_t slots_at = 0, slot_bytes = 0, pointers_at = 0, strides_at = 0, forms_at = 0, total_bytes = 0;

  /// Units are several whole rows.
  bool has_blocks() const { return layout == Layout::rows && width > 1; }
  std::int64_t chunks() const { return (sequence + kChunk - 1) / kChunk; }
};

}  // namespace v0
}  // namespace lockstep
