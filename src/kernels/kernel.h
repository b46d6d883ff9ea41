// The kernel language: what the scheduler hands to a backend, and all that a backend has to understand.
//
// A kernel names its buffers by slot; the buffers themselves and the user's scalars are bound at each run, so that
// one kernel serves every step of a loop. Kinds form a closed set: a backend that forgets one does not compile.
//
//   RowKernel          a Program over an iteration space (elementwise chains, reductions, softmax, norms, pools)
//   ContractionKernel  out[b,m,n] = sum_k A[b,m,k] * B[b,k,n] with A, B views, and a Program as its epilogue
//   ScatterKernel      values to computed places of a copy of a tensor
//   ScanKernel         running sums, products and extrema
//   SortKernel         the stable permutation that sorts each row
//   UpdateKernel       one region of a tensor replaced
//   FourierKernel      discrete Fourier transforms of lines
//   AttentionKernel    attention and its gradients, on devices that have it as one kernel
//   RecurrenceKernel   all steps of a recurrent layer
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <lockstep/dtype.h>
#include <lockstep/encoding.h>
#include <lockstep/numerics.h>
#include <lockstep/shape.h>

#include "core/view.h"
#include "kernels/attention.h"
#include "kernels/fourier.h"

namespace lockstep {
inline namespace v0 {

/// The elementwise ops, generated from ops.def.
enum class Op : std::uint8_t {
#define ROW(name, ...) name,
#include "kernels/ops.def"
#undef ROW
};
/// How many rows the table has: ops are the numbers below it.
inline constexpr int kOpCount = 0
#define ROW(...) +1
#include "kernels/ops.def"
#undef ROW
    ;

enum class OpKind : std::uint8_t { arithmetic, comparison, move };

/// Where the floats lie that an op is tried with: where it has values and slopes.
enum class Domain : std::uint8_t {
  any,       ///< (-2, 2)
  positive,  ///< (0.1, 3)
  inside,    ///< (0.05, 0.95)
  beyond,    ///< (1.1, 3)
};
inline constexpr int kDomains = 4;

struct OpInfo {
  const char* name;
  int arity;
  OpKind kind;
  unsigned types;  ///< bits of OperandTypes
  bool is_cheap;
  Domain domain;
  const char* what;
};
enum OperandTypes : unsigned { kTypeF32 = 1, kTypeF64 = 2, kTypeInt = 4, kTypeBool = 8 };
const OpInfo& info_of(Op op);

enum class ReduceOp : std::uint8_t { sum, prod, max, min, argmax, argmin, dot };
const char* name_of(ReduceOp op);
enum class ScatterOp : std::uint8_t { set, add, prod, max, min };
const char* name_of(ScatterOp op);
enum class ScanOp : std::uint8_t { sum, prod, max, min, argmax, argmin };
const char* name_of(ScanOp op);

/// The types that instructions compute in. Every dtype computes in one of them:
/// f16 bf16 f32 -> f32; f64 -> f64; bool u8 i8 i16 i32 -> i32; u32 i64 -> i64. Storage-only types: as kernel_dtype.
enum class ComputeType : std::uint8_t { f32, f64, i32, i64 };
constexpr bool is_integer(ComputeType type) {
  return type == ComputeType::i32 || type == ComputeType::i64;
}
struct KernelTypes {
  ComputeType word, compute;
  DType kernel;
};
inline constexpr KernelTypes kKernelTypes[] = {
#define LOCKSTEP_DTYPE(name, text, element, bytes, kind, use, word, compute, kernel, ...) \
  {ComputeType::word, ComputeType::compute, DType::kernel},
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
};
constexpr ComputeType compute_type(DType dtype) {
  return kKernelTypes[static_cast<std::size_t>(dtype)].compute;
}
/// How kernels, which only move them, see elements of a storage-only type: a computing type of the same size.
constexpr DType kernel_dtype(DType dtype) {
  return kKernelTypes[static_cast<std::size_t>(dtype)].kernel;
}
/// The word that holds a dtype's bits when values are moved (MOVE ops): 8 bytes -> i64, less -> i32 (zero extended).
constexpr ComputeType word_type(DType dtype) {
  return kKernelTypes[static_cast<std::size_t>(dtype)].word;
}
/// The dtype whose elements are all values of a compute type, as they are.
constexpr DType dtype_of(ComputeType type) {
  switch (type) {
    case ComputeType::f32: return DType::f32;
    case ComputeType::f64: return DType::f64;
    case ComputeType::i32: return DType::i32;
    case ComputeType::i64: break;
  }
  return DType::i64;
}

/// Whether a value exists once per row of the iteration space or once per element of each row.
enum class Extent : std::uint8_t { row, vector };

/// One step of a Program, in SSA form: it defines the value with its own index.
struct Instruction {
  enum class Kind : std::uint8_t {
    load,  ///< input `index`, decoded to compute_type(dtype) (f32, bf16: subnormals read as zero unless the input says
           ///< canonical)
    load_bits,  ///< input `index`, the unsigned words as they are
    constant,   ///< parameter `index`, already converted to `type`
    iota,       ///< linear position: offset + sum strides[d] * i[d] of `positions[index]`, as i64
    random,     ///< Philox word; operand a is an i64 element position, parameters index, index + 1: seed, draw. As i32
                ///< bits
    elementwise,  ///< op(a, b, c), canonical for arithmetic ops, in `type`
    cast,  ///< operand a from dtype `from` to dtype `dtype`, rounded once. from == dtype rounds a result to its storage
           ///< type
    to_bits,      ///< value -> words of `dtype`
    from_bits,    ///< words of `dtype` -> value (as load does)
    reduce,       ///< reduce(a) (dot: a, b) over the row; extent becomes row
    gather,       ///< element b + stride * a of table `index`, decoded as load does; a: i32 or i64, b: i64
    gather_bits,  ///< the same as load_bits. In both, where a is outside the table's axis: zero, and a fault
    accumulator,  ///< the contraction's result for this element, canonical (epilogues only); index 1: of `second`
  };
  Kind kind = Kind::load;
  ComputeType type = ComputeType::f32;  ///< of the value defined (comparisons: i32; argmax: i64)
  DType dtype = DType::f32;
  DType from = DType::f32;  ///< casts, reductions, comparisons: dtype of the operands (i32 widens to i64)
  Extent extent = Extent::vector;
  Op op = Op::add;
  ReduceOp reduce = ReduceOp::sum;
  int a = -1, b = -1, c = -1;  ///< operands: earlier instructions. A row operand of a vector op is broadcast.
  int index = -1;
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// A buffer read through a view over the iteration space (rows, then inner dims). What is loaded as a row value has
/// coefficients 0 along the inner dims. `canonical` is a hint: a backend may look for subnormals all the same.
struct Input {
  int slot = 0;
  DType dtype = DType::f32;
  View view;
  bool canonical = false;               ///< known to hold no subnormal f32/bf16 (so that loading need not look)
  Encoding encoding = Encoding::dense;  ///< packed only as a contraction's b; `view` is over the elements
  friend bool operator==(const Input&, const Input&) = default;
};

/// A value written to a dense output: elements are at offset + sum strides[d] * i[d]; row values have inner strides 0.
/// Outputs never overlap inputs or each other, so values may be computed right into them.
struct Output {
  int slot = 0;
  DType dtype = DType::f32;
  int value = 0;      ///< instruction
  bool bits = false;  ///< the value is words (from MOVE ops or load_bits), else it is encoded
  Shape strides;
  std::int64_t offset = 0;
  friend bool operator==(const Output&, const Output&) = default;
};

/// What `gather` reads: `size` places along an axis of a buffer, `stride` elements apart, from an element that the
/// instruction computes.
struct Table {
  int slot = 0;
  DType dtype = DType::f32;
  bool canonical = false;
  std::int64_t stride = 0;
  std::int64_t size = 0;
  Encoding encoding = Encoding::dense;
  friend bool operator==(const Table&, const Table&) = default;
};

struct Position {
  std::int64_t offset = 0;
  Shape strides;
  friend bool operator==(const Position&, const Position&) = default;
};

/// A parameter of a kernel, bound at each run: the bits of an f32 (low word), f64, i32 (sign extended) or i64.
struct Scalar {
  std::uint64_t bits = 0;
  friend bool operator==(const Scalar&, const Scalar&) = default;
};

/// Straight-line code over an iteration space [rows..., inner...].
struct Program {
  Shape rows;
  Shape inner;
  std::vector<Instruction> code;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Position> positions;
  std::vector<Table> tables;
  int parameters = 0;

  int rank() const { return rows.rank() + inner.rank(); }
  friend bool operator==(const Program&, const Program&) = default;
};

struct RowKernel {
  Program program;
};

/// Whether products with packed weights may be in q8 numerics (docs/numerics.md section 14): k walks along whole
/// blocks, from the beginning of one on. `view` is over groups of `b`, `k` and some more dims.
bool has_q8_form(Encoding encoding, const View& view, int b, int k);
/// Whether products with weights of 8-bit floats may be in fast numerics (section 13): the same, and no batches.
bool has_fast_form(Encoding encoding, const View& view, int b, int k);

/// b, m, n, k are groups of up to four dims each; either may be empty (size 1).
struct ContractionKernel {
  Shape b, m, n, k;
  ComputeType type = ComputeType::f32;  ///< of accumulators; operands convert exactly (i8 .. i32 -> i32 wrapping)
  /// But exact: type is f32, operands are f16, bf16 or f32. q8: b_operand has_q8_form.
  Numerics numerics = Numerics::exact;
  Input a, b_operand;  ///< views over (b, m, k) and (b, k, n); dims in the groups' order
  /// Where `paired`: a right operand like b_operand, whose results the epilogue has as accumulator 1
  /// (Instruction::index).
  bool paired = false;
  Input second;
  /// Iteration space rows = (b, m), inner = n. At least one output.
  Program epilogue;
};

/// out = self, and then for each index p of `space` in row-major order: out[sum strides[d] * p[d] + stride * index[p]]
/// op= values[p]. Values for one place are combined by R in ascending order of p, then with self's (unless it is left
/// out), and rounded once: docs/numerics.md section 7. `set`: the last one. Places that nothing goes to keep self's
/// bits.
struct ScatterKernel {
  ScatterOp op = ScatterOp::set;
  bool include_self = true;  ///< else places that values go to forget self's
  DType dtype = DType::f32;  ///< of self, values and out
  Shape space;
  Shape strides;            ///< of out, in elements; 0 along the axis
  std::int64_t stride = 0;  ///< of the axis
  std::int64_t size = 0;    ///< of the axis; an index outside it is a fault and writes nothing
  Input self;               ///< view over out's shape
  Input index;              ///< i32 or i64, over `space`
  Input values;             ///< over `space`
  int out = 0;              ///< slot; dense, of self.view's shape
};

/// Each row's running sum, product, largest or smallest element, or the position of that, in the order of
/// docs/numerics.md section 5. Floats of 16 bits accumulate in f32 and round at each element.
struct ScanKernel {
  ScanOp op = ScanOp::sum;
  Shape rows;
  std::int64_t n = 0;
  Input input;        ///< over (rows..., n)
  int out = 0;        ///< slot; the input's dtype, i64 for positions
  Shape out_strides;  ///< over (rows..., n)
};

/// The permutation (i64) that sorts each row: stable, by the key of docs/numerics.md section 4.
struct SortKernel {
  bool descending = false;
  Shape rows;
  std::int64_t n = 0;
  Input input;        ///< over (rows..., n)
  int out = 0;        ///< slot
  Shape out_strides;  ///< over (rows..., n)
};

/// out = self with its elements `region` replaced by values, bit for bit. Where both are the same memory, self's other
/// elements are in place already.
struct UpdateKernel {
  DType dtype = DType::f32;
  std::int64_t elements = 0;  ///< of self and out, dense
  int self = 0;               ///< slot
  View region;                ///< over values' shape, into out; no bounds, no element twice
  int start = -1;             ///< parameter: how many elements further on the region lies (i64); -1: none
  Input values;
  int out = 0;  ///< slot
};

/// The transform of each line, times a factor: docs/numerics.md section 4. What is complex has one dim more, the last,
/// of a real and an imaginary part.
struct FourierKernel {
  FourierKind kind = FourierKind::forward;
  std::int64_t n = 1;
  int scale = 0;  ///< parameter, f32 or f64
  Shape lines;
  Input input;        ///< f32 or f64, over (lines..., elements[, 2])
  int table = 0;      ///< slot: the roots, dense, as FourierPlan has them
  int out = 0;        ///< slot
  Shape out_strides;  ///< over (lines..., results[, 2])
};

/// Attention, on a device whose backend says that it has it in these numerics. Or, with `gradients`, what
/// belongs to the gradient `upstream` of its results.
struct AttentionKernel {
  Numerics numerics = Numerics::fast;
  AttentionSizes sizes;
  bool gradients = false;
  bool causal = false;          ///< query i sees the keys up to i + behind
  std::int64_t behind = 0;      ///< causal: 0, or keys - rows; exact: any from 0 on
  int scale = 0;                ///< parameter, f32: of the scores
  Input query, key, value;      ///< of one dtype: f32 (exact), or of 16 bits; over (batches, heads, positions, width)
  bool masked = false;          ///< exact, one row: the keys for which `mask` has false are hidden
  bool finite_padding = false;  ///< masked: values behind the last key that is seen are finite
  Input mask;                   ///< bool, over (batches, heads, rows, keys)
  int made = -1;                ///< gradients: slot of what the forward kernel made
  Input upstream;               ///< gradients: as the query
  int out = 0;                  ///< slot: AttentionSizes::made(), or gradients()
};

/// `int8_lstm`: as com.microsoft.DynamicQuantizeLSTM has it. In each step the hidden states of the whole batch become
/// unsigned bytes by their range, and are multiplied by weights that are bytes (io/onnx/ops/recurrent.cpp).
enum class RecurrentCell : std::uint8_t { rnn_tanh, rnn_relu, gru, lstm, int8_lstm };
/// Whether there is a cell state.
constexpr bool has_memory(RecurrentCell cell) {
  return cell == RecurrentCell::lstm || cell == RecurrentCell::int8_lstm;
}
/// How many blocks of `hidden` the gates are.
constexpr std::int64_t gates_of(RecurrentCell cell) {
  return has_memory(cell) ? 4 : cell == RecurrentCell::gru ? 3 : 1;
}

/// What one direction of a recurrent layer reads.
struct RecurrenceDirection {
  bool reverse = false;  ///< from the last step to the first
  Input shares;          ///< what the inputs give the gates, over (steps, batch, gates * hidden)
  Input weight;          ///< over (gates * hidden, hidden); int8_lstm: u8 or i8 over (hidden, gates * hidden)
  Input bias;            ///< over (gates * hidden)
  Input hidden, memory;  ///< before the first step, over (batch, hidden); memory: the cell state
  Input scale, zero;     ///< int8_lstm, of the weights, over (gates * hidden); zero: of their dtype
};

/// All steps of a recurrent layer, in f32 and exact numerics, on a device whose backend has them. Elsewhere, and for
/// gradients, the layer is composed of its steps (graph/ops/recurrent.cpp), with the same bits.
struct RecurrenceKernel {
  RecurrentCell cell = RecurrentCell::gru;
  std::vector<RecurrenceDirection> directions;  ///< one or two
  int out = 0;  ///< slot: dense (steps, batch, directions * hidden); with memory a step more, which is its last state
};

using Kernel = std::variant<RowKernel, ContractionKernel, ScatterKernel, ScanKernel, SortKernel, UpdateKernel,
                            FourierKernel, AttentionKernel, RecurrenceKernel>;

/// Whether a device's own library computes it (fast numerics), so that its bits are not specified.
bool is_fast(const Kernel& kernel);
/// Whether only some devices have it, in place of a composition that all have.
bool is_whole(const Kernel& kernel);

/// How many indices a kernel checks: for each there is one word that it sets to 1 when it meets a bad one.
std::size_t faults_of(const Kernel& kernel);

/// One line for people and tests, e.g. "row[64x4096] max sub exp sum div".
std::string to_string(const Kernel& kernel);

}  // namespace v0
}  // namespace lockstep
