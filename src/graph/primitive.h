// The closed set of primitives (docs/design.md), and of each all that the rest of the graph has to know: its members
// and what they are used for, the form of its kernels, and what its results are. Whoever has to decide something else
// for every primitive visits them (core/overloaded.h), so that a new one does not compile until it is decided.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

#include <lockstep/numerics.h>
#include <lockstep/shape.h>

#include "core/boxed.h"
#include "core/overloaded.h"
#include "core/view.h"
#include "graph/field.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// How a value comes to be.
enum class Form : std::uint8_t {
  given,        ///< its buffer exists already
  source,       ///< from nothing. Computed by each kernel that reads it rather than stored, unless the value is wanted
                ///< or is read through a padded view or at computed places
  view,         ///< where elements of its operand are: what reads it reads the operand
  elementwise,  ///< over its operands, which are expanded to its shape
  rows,         ///< from rows of its operands, which have one shape
  contraction,  ///< a kernel of its own, whose results others can take on
  irregular,    ///< a kernel of its own, which reads stored values
};

/// What the elements of a value are.
enum class Results : std::uint8_t {
  computed,  ///< results of arithmetic: always canonical, and never of a storage-only type
  moved,     ///< elements of operands, scalars and fill values, bit for bit: canonical where those are
  mixed,     ///< some computed, some moved
};

/// A fact without a default: who adds a primitive is asked for it.
template <typename T> struct Stated {
  T value;
  constexpr Stated(T stated) : value(stated) {}
  constexpr operator T() const { return value; }
};

/// What holds for all values of a primitive. Beside it, each has its `fields` and the functions
///   op_name()   for people: what errors and lists call it
///   results()   what its elements are
///   is_cheap()  whether it takes a few instructions per vector, so that it may be repeated where it is read
struct Traits {
  Stated<Form> form;
  Stated<unsigned> reads_anywhere;  ///< bits of operands that are read at computed places, so are stored before
  Stated<unsigned> reads_packed;    ///< bits of operands that may be packed (encodings.def): its kernels decode them
  Stated<bool> is_trivial;          ///< computing it costs no more than loading it: nothing is stored for a handle
  Stated<bool> checks_index;        ///< operand 1 are indices into places() places; a bad one is a fault
};
inline constexpr unsigned kAllOperands = ~0u;

// Values are dense row-major tensors of the node's shape and dtype.

/// Memory that was given: host data or an upload.
struct Data {
  static constexpr Traits traits{
      .form = Form::given, .reads_anywhere = 0, .reads_packed = 0, .is_trivial = false, .checks_index = false};
  static constexpr std::tuple<> fields{};
  static const char* op_name() { return "data"; }
  static Results results() { return Results::moved; }
  static bool is_cheap() { return false; }
};

/// Every element has one value, whose bits in the compute type of the dtype are given.
struct Full {
  Scalar value;

  static constexpr Traits traits{
      .form = Form::source, .reads_anywhere = 0, .reads_packed = 0, .is_trivial = true, .checks_index = false};
  static constexpr std::tuple fields{bound(&Full::value)};
  static const char* op_name() { return "full"; }
  static Results results() { return Results::moved; }
  static bool is_cheap() { return false; }
};

/// The row-major position of each element, as i64.
struct Iota {
  static constexpr Traits traits{
      .form = Form::source, .reads_anywhere = 0, .reads_packed = 0, .is_trivial = true, .checks_index = false};
  static constexpr std::tuple<> fields{};
  static const char* op_name() { return "iota"; }
  static Results results() { return Results::computed; }
  static bool is_cheap() { return false; }
};

/// Philox words, as u32 (docs/numerics.md section 8). Pairs of elements may share a word's partner: normal numbers
/// are made from the word of the even and of the odd element of a pair.
struct Random {
  enum class Word : std::uint8_t { own, even, odd };
  std::uint64_t seed = 0;
  std::uint64_t draw = 0;
  Word word = Word::own;

  static constexpr Traits traits{
      .form = Form::source, .reads_anywhere = 0, .reads_packed = 0, .is_trivial = false, .checks_index = false};
  static constexpr std::tuple fields{bound(&Random::seed), bound(&Random::draw), key(&Random::word)};
  static const char* op_name() { return "random"; }
  static Results results() { return Results::computed; }
  static bool is_cheap() { return false; }
};

/// inputs[0] read through a view over its dense elements. The input is never itself a ViewOf.
struct ViewOf {
  View view;

  static constexpr Traits traits{
      .form = Form::view, .reads_anywhere = 0, .reads_packed = 1u << 0, .is_trivial = false, .checks_index = false};
  static constexpr std::tuple fields{reads<0>(&ViewOf::view)};
  static const char* op_name() { return "view"; }
  static Results results() { return Results::moved; }
  static bool is_cheap() { return false; }
};

/// op over inputs, which broadcast to the node's shape. An absent input is the scalar of the same position.
struct Elementwise {
  Op op = Op::add;
  std::array<Scalar, 3> scalars{};

  static constexpr Traits traits{
      .form = Form::elementwise, .reads_anywhere = 0, .reads_packed = 0, .is_trivial = false, .checks_index = false};
  static constexpr std::tuple fields{key(&Elementwise::op), bound(&Elementwise::scalars)};
  const char* op_name() const { return info_of(op).name; }
  Results results() const { return info_of(op).kind == OpKind::move ? Results::moved : Results::computed; }
  bool is_cheap() const { return info_of(op).is_cheap; }
};

/// Changes the dtype.
struct Cast {
  static constexpr Traits traits{
      .form = Form::elementwise, .reads_anywhere = 0, .reads_packed = 0, .is_trivial = false, .checks_index = false};
  static constexpr std::tuple<> fields{};
  static const char* op_name() { return "to"; }
  static Results results() { return Results::computed; }
  static bool is_cheap() { return true; }
};

/// Over `dims` (bit d set: reduced); the result keeps them with size 1. inputs[1] only for ReduceOp::dot.
struct Reduce {
  ReduceOp op = ReduceOp::sum;
  std::uint32_t dims = 0;

  static constexpr Traits traits{
      .form = Form::rows, .reads_anywhere = 0, .reads_packed = 0, .is_trivial = false, .checks_index = false};
  static constexpr std::tuple fields{key(&Reduce::op), key(&Reduce::dims)};
  const char* op_name() const { return name_of(op); }
  static Results results() { return Results::computed; }
  static bool is_cheap() { return false; }
};

/// out[b,m,n] = sum_k a[b,m,k] * b[b,k,n]; shape is (b..., m..., n...). Views are over the dense inputs.
struct Contract {
  Shape b, m, n, k;
  View a_view, b_view;
  Numerics numerics = Numerics::exact;

  static constexpr Traits traits{.form = Form::contraction,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 1u << 1,
                                 .is_trivial = false,
                                 .checks_index = false};
  static constexpr std::tuple fields{key(&Contract::b),       key(&Contract::m),           key(&Contract::n),
                                     key(&Contract::k),       reads<0>(&Contract::a_view), reads<1>(&Contract::b_view),
                                     key(&Contract::numerics)};
  static const char* op_name() { return "contraction"; }
  static Results results() { return Results::computed; }
  static bool is_cheap() { return false; }
};

/// What an index outside its dimension means: a mistake of the user's, or that a matrix has no answer (src/linalg: the
/// index is the number of what failed, in a dimension of size 1, so that 0 is good).
enum class Failure : std::uint8_t { index, singular, not_positive_definite };

/// inputs[0] at index inputs[1] (i32 or i64) along one axis. `source` is over the node's shape: the element for index
/// 0; the axis has `size` places, `stride` elements of the dense inputs[0] apart.
struct Gather {
  View source;
  std::int64_t stride = 0;
  std::int64_t size = 0;
  Failure failure = Failure::index;

  static constexpr Traits traits{.form = Form::elementwise,
                                 .reads_anywhere = 1,
                                 .reads_packed = 1u << 0,
                                 .is_trivial = false,
                                 .checks_index = true};
  static constexpr std::tuple fields{reads<0>(&Gather::source), key(&Gather::stride), key(&Gather::size),
                                     key(&Gather::failure)};
  static const char* op_name() { return "gather"; }
  static Results results() { return Results::moved; }
  static bool is_cheap() { return false; }
  std::int64_t places(const Shape& /*shape*/) const { return size; }
};

/// inputs: self, index, values. Index and values have one shape, its dims no larger than self's outside `dim`.
struct Scatter {
  ScatterOp op = ScatterOp::set;
  int dim = 0;
  bool include_self = true;

  static constexpr Traits traits{.form = Form::irregular,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 0,
                                 .is_trivial = false,
                                 .checks_index = true};
  static constexpr std::tuple fields{key(&Scatter::op), key(&Scatter::dim), key(&Scatter::include_self)};
  static const char* op_name() { return "scatter"; }
  Results results() const { return op == ScatterOp::set ? Results::moved : Results::mixed; }
  static bool is_cheap() { return false; }
  std::int64_t places(const Shape& shape) const { return shape[dim]; }
};

struct Scan {
  ScanOp op = ScanOp::sum;
  int dim = 0;

  static constexpr Traits traits{.form = Form::irregular,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 0,
                                 .is_trivial = false,
                                 .checks_index = false};
  static constexpr std::tuple fields{key(&Scan::op), key(&Scan::dim)};
  const char* op_name() const;
  static Results results() { return Results::computed; }
  static bool is_cheap() { return false; }
};

/// The positions (i64) that sort along `dim`.
struct Sort {
  int dim = 0;
  bool descending = false;

  static constexpr Traits traits{.form = Form::irregular,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 0,
                                 .is_trivial = false,
                                 .checks_index = false};
  static constexpr std::tuple fields{key(&Sort::dim), key(&Sort::descending)};
  static const char* op_name() { return "sort"; }
  static Results results() { return Results::computed; }
  static bool is_cheap() { return false; }
};

/// inputs[0], dense, with the elements `region` replaced by inputs[1], which has the region's shape. No element is
/// in the region twice. It lies `start` elements further on: a multiple of kAligned, so that how it is aligned is part
/// of the structure and where it lies is not. A cache that is filled step by step is filled by one plan.
struct Update {
  static constexpr std::int64_t kAligned = 64;
  View region;
  Scalar start;

  static constexpr Traits traits{.form = Form::irregular,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 0,
                                 .is_trivial = false,
                                 .checks_index = false};
  static constexpr std::tuple fields{key(&Update::region), bound(&Update::start)};
  static const char* op_name() { return "update"; }
  static Results results() { return Results::moved; }
  static bool is_cheap() { return false; }
};

/// The discrete Fourier transforms of inputs[0] along dim 1, times `scale`; inputs[1] is the table of roots, dense, as
/// FourierPlan has it. Shapes are [before, n, after] for real signals, [before, n, after, 2] for pairs of a real and an
/// imaginary part.
struct Fourier {
  FourierKind kind = FourierKind::forward;
  std::int64_t n = 1;
  Scalar scale;

  static constexpr Traits traits{.form = Form::irregular,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 0,
                                 .is_trivial = false,
                                 .checks_index = false};
  static constexpr std::tuple fields{key(&Fourier::kind), key(&Fourier::n), bound(&Fourier::scale)};
  static const char* op_name() { return "fourier"; }
  static Results results() { return Results::computed; }
  static bool is_cheap() { return false; }
};

/// Attention as one kernel, in fast numerics by the device's own library: inputs query, key and value, of a 16-bit
/// dtype (exact: f32) and the shapes of AttentionSizes; the node's elements lie as that says, in one dimension. Exact
/// attention of one row may have a mask behind them, bool [batches, heads, rows, keys]. Or its gradients: inputs query,
/// key, value, what the forward node made, and the gradient of the results, of the query's shape.
struct Attend {
  Numerics numerics = Numerics::fast;
  bool gradients = false;
  bool causal = false;          ///< query i sees the keys up to i + behind
  bool masked = false;          ///< keys are hidden by a fourth input
  bool finite_padding = false;  ///< masked: values behind the last key that is seen are finite
  std::int64_t behind = 0;      ///< causal: 0, or keys - rows; exact: any from 0 on
  Scalar scale;                 ///< f32: of the scores

  static constexpr Traits traits{.form = Form::irregular,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 0,
                                 .is_trivial = false,
                                 .checks_index = false};
  static constexpr std::tuple fields{key(&Attend::numerics), key(&Attend::gradients),      key(&Attend::causal),
                                     key(&Attend::masked),   key(&Attend::finite_padding), key(&Attend::behind),
                                     bound(&Attend::scale)};
  static const char* op_name() { return "attention"; }
  static Results results() { return Results::mixed; }
  static bool is_cheap() { return false; }
};

/// All steps of a recurrent layer: inputs of each direction, all f32, what the layer's inputs give the gates
/// [steps, batch, gates * hidden], weights [gates * hidden, hidden], biases [gates * hidden], the hidden state
/// [batch, hidden] and, where the cell has memory, its state. Of int8_lstm the weights are u8 or i8
/// [hidden, gates * hidden], and their scales and zero points [gates * hidden] are inputs, too. The hidden state after
/// each step, [steps, batch, directions * hidden]; with memory a step more, which is its last state.
struct Recur {
  enum class Direction : std::uint8_t { forward, reverse, both };
  RecurrentCell cell = RecurrentCell::gru;
  Direction direction = Direction::forward;

  std::size_t directions() const { return direction == Direction::both ? 2 : 1; }
  /// Of one direction.
  std::size_t operands() const { return cell == RecurrentCell::int8_lstm ? 7 : has_memory(cell) ? 5 : 4; }

  static constexpr Traits traits{.form = Form::irregular,
                                 .reads_anywhere = kAllOperands,
                                 .reads_packed = 0,
                                 .is_trivial = false,
                                 .checks_index = false};
  static constexpr std::tuple fields{key(&Recur::cell), key(&Recur::direction)};
  static const char* op_name() { return "recurrence"; }
  static Results results() { return Results::computed; }
  static bool is_cheap() { return false; }
};

/// A primitive of more than a view is boxed, so that nodes, most of which are elementwise, do not have its size.
template <typename P> using Held = std::conditional_t<(sizeof(P) <= sizeof(ViewOf)), P, Boxed<P>>;

using Primitive = std::variant<Data, Full, Iota, Random, ViewOf, Elementwise, Cast, Reduce, Held<Contract>,
                               Held<Gather>, Scatter, Scan, Sort, Held<Update>, Fourier, Attend, Recur>;

template <typename P> inline P& unboxed(P& primitive) {
  return primitive;
}
template <typename P> inline P& unboxed(Boxed<P>& primitive) {
  return *primitive;
}
template <typename P> inline const P& unboxed(const Boxed<P>& primitive) {
  return *primitive;
}

/// std::visit for primitives, whether they are boxed or not.
template <typename Visit, OneOf<Primitive, const Primitive> P> decltype(auto) visit_primitive(Visit&& visit, P& op) {
  return std::visit([&](auto& held) -> decltype(auto) { return visit(unboxed(held)); }, op);
}
/// std::get_if for primitives that may be boxed.
template <typename T, OneOf<Primitive, const Primitive> P> auto* primitive_if(P& op) {
  auto* const held = std::get_if<Held<T>>(&op);
  return held == nullptr ? nullptr : &unboxed(*held);
}

/// What the compiler asks of each alternative of a variant of primitives.
template <typename P> struct UnboxedType { using type = P; };
template <typename P> struct UnboxedType<Boxed<P>> { using type = P; };
template <typename Variant> struct TraitsTable;
template <typename... P> struct TraitsTable<std::variant<P...>> {
  static_assert((lists_every_member<typename UnboxedType<P>::type>() && ...),
                "the fields of a primitive are its members, each once");
  static constexpr std::array<Traits, sizeof...(P)> rows{UnboxedType<P>::type::traits...};
};

inline const Traits& traits_of(const Primitive& op) {
  return TraitsTable<Primitive>::rows[op.index()];
}
inline Form form_of(const Primitive& op) {
  return traits_of(op).form;
}
/// Whether operand `position` of `op` is read at places that its kernel computes, so that it must be stored before.
inline bool reads_anywhere(const Primitive& op, std::size_t position) {
  return (traits_of(op).reads_anywhere >> position & 1u) != 0;
}
/// Whether operand `position` of `op` may be packed.
inline bool reads_packed(const Primitive& op, std::size_t position) {
  return (traits_of(op).reads_packed >> position & 1u) != 0;
}

const char* name_of(const Primitive& op);
Results results_of(const Primitive& op);
bool is_cheap(const Primitive& op);
/// The view that `op` itself has of its operand `position`; null where it reads the operand as that is.
const View* own_view_of(const Primitive& op, std::size_t position);
/// The parameters of `op` are numbered through its fields that are bound at each run, the elements of arrays one by
/// one.
Scalar parameter_of(const Primitive& op, int position);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
