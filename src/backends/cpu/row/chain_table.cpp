// Chains of cheap f32 ops with the intermediate results in registers: four vectors of a tile at a time go through all
// ops of the chain. One loop for every chain; the switch on the op costs little beside the four vectors of work.
//
// Results are those of making every intermediate result canonical, as docs/numerics.md section 1 asks; it is done where
// its effect can be seen (form_of). NaNs keep whatever bits they have. Lemma: every op of a chain gives NaN for
// NaN, so that none of their bits reaches a result; the last result has the one NaN.
#define HWY_TARGET_INCLUDE "backends/cpu/row/chain_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <utility>

#include "backends/cpu/row/tables.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#include "backends/cpu/row/canonical-inl.h"

/// What goes through a chain at a time: four vectors, or one of what is left.
struct Quad {
  V v0, v1, v2, v3;

  static HWY_INLINE Quad of(V all) { return {all, all, all, all}; }
  static HWY_INLINE Quad load(const float* p) {
    const D d;
    const std::size_t width = hn::Lanes(d);
    return {hn::LoadU(d, p), hn::LoadU(d, p + width), hn::LoadU(d, p + 2 * width), hn::LoadU(d, p + 3 * width)};
  }
  template <class Fn> HWY_INLINE Quad with(const Quad& y, Fn fn) const {
    return {fn(v0, y.v0), fn(v1, y.v1), fn(v2, y.v2), fn(v3, y.v3)};
  }
  HWY_INLINE Quad flushed_all() const { return {flushed(v0), flushed(v1), flushed(v2), flushed(v3)}; }
};
struct One {
  V v0;

  static HWY_INLINE One of(V all) { return {all}; }
  template <class Fn> HWY_INLINE One with(const One& y, Fn fn) const { return {fn(v0, y.v0)}; }
  HWY_INLINE One flushed_all() const { return {flushed(v0)}; }
};

/// `second` where it is better or NaN, otherwise `first`: the zeros are equal, and a NaN is never replaced by a number.
template <class Better> HWY_INLINE V better_of(V first, V second, Better is_better) {
  return hn::IfThenElse(hn::Or(is_better(second, first), hn::IsNaN(second)), second, first);
}
HWY_INLINE V larger(V first, V second) {
  return better_of(first, second, [](V x, V y) HWY_ATTR { return hn::Gt(x, y); });
}
HWY_INLINE V smaller(V first, V second) {
  return better_of(first, second, [](V x, V y) HWY_ATTR { return hn::Lt(x, y); });
}

// What form_of knows of the live value: the value as specified (X) and as it is here (Y) are equal, or neither is
// larger in magnitude than `bound`, and both have the same sign. Scaled by 2^100, so that bounds are normal numbers.
struct Drift {
  static constexpr float kScale = 0x1p100f;
  static constexpr float kFlushed = 0x1p-26f;  ///< 2^-126, the largest magnitude that becomes zero
  float bound = 0;
  bool canonical = false;  ///< X = Y, and no smaller than what becomes zero

  bool is_exact() const { return bound == 0; }
  bool is_finite() const { return bound < std::numeric_limits<float>::infinity(); }
  /// X = Y, but X is made canonical and Y not yet.
  static Drift unflushed() { return {kFlushed, false}; }
  static Drift flushed() { return {0, true}; }
};

/// Magnitudes of the scalars of some rows. NaNs do not count: all results of their rows are NaN.
struct Magnitudes {
  float least = std::numeric_limits<float>::infinity();
  float most = 0;
  bool has_nan = false;
  bool has_sign = false;

  static HWY_INLINE Magnitudes of(const ChainLink& link, std::size_t rows) {
    if (!link.scalar) return {};
    if (link.stride == 0 || rows == 1) return of(link.operand, 1, 1);
    return link.stride == 1 ? of(link.operand, 1, rows) : of(link.operand, link.stride, rows);
  }
  // On words, so that the compiler makes vectors of it where `stride` is known to be 1.
  static HWY_INLINE Magnitudes of(const float* scalars, std::ptrdiff_t stride, std::size_t count) {
    constexpr std::int32_t kInfinity = 0x7f800000;
    std::int32_t least = kInfinity, most = 0, largest = 0, signs = 0;
    for (std::size_t row = 0; row < count; ++row) {
      const auto word = std::bit_cast<std::int32_t>(scalars[static_cast<std::ptrdiff_t>(row) * stride]);
      const std::int32_t magnitude = word & 0x7fffffff;
      signs |= word;
      least = std::min(least, magnitude);
      largest = std::max(largest, magnitude);
      most = std::max(most, magnitude > kInfinity ? 0 : magnitude);
    }
    return {std::bit_cast<float>(least), std::bit_cast<float>(most), largest > kInfinity, signs < 0};
  }
  bool all_zero() const { return most == 0; }
  bool all_positive_zero() const { return all_zero() && !has_nan && !has_sign; }
};

/// After a product with a scalar of at most this magnitude. Lemma: a factor up to 1 leaves what is small small, with its sign.
HWY_INLINE Drift scaled(Drift drift, float magnitude) {
  if (drift.is_exact()) return Drift::unflushed();
  const float bound = magnitude <= 1.0f ? drift.bound : drift.bound * magnitude * 1.000001f;
  return {std::max(bound, Drift::kFlushed), false};
}

/// The live value after a link, or nothing where X must be known exactly and is not.
HWY_INLINE bool drift_after(ChainOp op, bool is_scalar, const Magnitudes& magnitude, Drift& drift) {
  switch (op) {
    case ChainOp::relu:
    case ChainOp::neg:
      if (!drift.canonical) drift.bound = std::max(drift.bound, Drift::kFlushed);
      return true;
    case ChainOp::canonical: drift = Drift::unflushed(); return true;
    case ChainOp::max:
    case ChainOp::min:
    case ChainOp::max_of:
    case ChainOp::min_of:
    case ChainOp::max_number:
    case ChainOp::min_number:
      // What is small loses against a larger scalar, or stays as it is; beside a smaller one its sign may decide.
      if (!drift.is_exact()) return is_scalar && magnitude.least * Drift::kScale > drift.bound;
      if (!is_scalar || !drift.canonical || !(magnitude.all_zero() || magnitude.least > 0x1p-126f)) {
        drift = Drift::unflushed();
      }
      return true;
    case ChainOp::mul:
      if (!is_scalar && !drift.is_exact()) return false;
      drift = scaled(drift, magnitude.most);
      return true;
    case ChainOp::div:
      if (!is_scalar && !drift.is_exact()) return false;
      drift = scaled(drift, 1.0f / magnitude.least);
      return true;
    case ChainOp::add:
    case ChainOp::sub:
    case ChainOp::from:
      // x - 0 is x for every result x, zeros of both signs among them.
      if (op == ChainOp::sub && is_scalar && !drift.is_exact() && magnitude.all_positive_zero()) return true;
      // Lemma: a sum with s, |s| >= 2^-100, is zero or larger than 2^-126: near -s it is a multiple of 2^-24 |s|. And
      // what is smaller than a quarter of the last place of s, 2^-26 |s|, gives s.
      if (is_scalar && magnitude.least >= 0x1p-100f && drift.is_finite() &&
          magnitude.least >= drift.bound * 0x1p-73f) {
        drift = Drift::flushed();
        return true;
      }
      if (!drift.is_exact()) return false;
      drift = is_scalar && magnitude.all_zero() && drift.canonical ? Drift::flushed() : Drift::unflushed();
      return true;
    case ChainOp::into:
    case ChainOp::leaky:
      if (!drift.is_exact()) return false;
      drift = Drift::unflushed();
      return true;
    case ChainOp::gate:
      if (!drift.is_exact()) return false;
      drift = Drift::flushed();
      return true;
    case ChainOp::none: break;
  }
  return true;
}

/// Decides after which links the values must be made canonical so that the last result is as specified: as late as
/// nothing can tell, in the hope of a later op that absorbs what is small, as the bias of a batch norm does.
ChainForm form_of(const ChainLink* links, std::size_t count, std::size_t rows) {
  Magnitudes magnitudes[kMostLinks];
  ChainForm form;
  for (std::size_t l = 0; l < count; ++l) {
    magnitudes[l] = Magnitudes::of(links[l], rows);
    if (links[l].scalar && !magnitudes[l].has_nan) form.numbers = static_cast<std::uint16_t>(form.numbers | 1u << l);
  }
  Drift drift;
  std::size_t latest = 0;  // where what is small can still be made zero
  for (std::size_t l = 0; l <= count;) {
    const bool known = l < count ? drift_after(links[l].op, links[l].scalar, magnitudes[l], drift) : drift.is_exact();
    if (known) {
      if (drift.bound <= Drift::kFlushed) latest = l;
      ++l;
    } else {
      form.flushes = static_cast<std::uint16_t>(form.flushes | 1u << latest);
      drift = Drift::flushed();
      l = latest + 1;
      latest = l;
    }
  }
  return form;
}

/// Calls fn(function of two vectors).
template <class Fn> HWY_INLINE void with_op(ChainOp op, const ChainLink& link, Fn fn) {
  switch (op) {
    case ChainOp::add: return fn([](V x, V y) HWY_ATTR { return hn::Add(x, y); });
    case ChainOp::sub: return fn([](V x, V y) HWY_ATTR { return hn::Sub(x, y); });
    case ChainOp::from: return fn([](V x, V y) HWY_ATTR { return hn::Sub(y, x); });
    case ChainOp::mul: return fn([](V x, V y) HWY_ATTR { return hn::Mul(x, y); });
    case ChainOp::div: return fn([](V x, V y) HWY_ATTR { return hn::Div(x, y); });
    case ChainOp::into: return fn([](V x, V y) HWY_ATTR { return hn::Div(y, x); });
    case ChainOp::max: return fn([](V x, V y) HWY_ATTR { return larger(x, y); });
    case ChainOp::min: return fn([](V x, V y) HWY_ATTR { return smaller(x, y); });
    case ChainOp::max_of: return fn([](V x, V y) HWY_ATTR { return larger(y, x); });
    case ChainOp::min_of: return fn([](V x, V y) HWY_ATTR { return smaller(y, x); });
    case ChainOp::leaky: {
      const V z = hn::Set(D(), *link.z);
      return fn([z](V x, V y) HWY_ATTR { return hn::IfThenElse(hn::Gt(x, z), x, hn::Mul(x, y)); });
    }
    case ChainOp::gate: {
      const V z = hn::Set(D(), *link.z);
      const V otherwise = hn::BitCast(D(), hn::Set(WordTag(), std::bit_cast<std::uint32_t>(*link.otherwise)));
      return fn([=](V x, V y) HWY_ATTR { return hn::IfThenElse(hn::Gt(y, z), with_one_nan(x), otherwise); });
    }
    case ChainOp::neg: return fn([](V x, V) HWY_ATTR { return hn::Neg(x); });
    case ChainOp::relu: return fn([](V x, V) HWY_ATTR { return hn::IfThenZeroElse(hn::Le(x, hn::Zero(D())), x); });
#if HWY_ARCH_X86
    // x86 gives the second operand where one is NaN and where both are zero.
    case ChainOp::max_number: return fn([](V x, V y) HWY_ATTR { return hn::Max(y, x); });
    case ChainOp::min_number: return fn([](V x, V y) HWY_ATTR { return hn::Min(y, x); });
#else
    case ChainOp::max_number: return fn([](V x, V y) HWY_ATTR { return larger(x, y); });
    case ChainOp::min_number: return fn([](V x, V y) HWY_ATTR { return smaller(x, y); });
#endif
    case ChainOp::canonical:
    case ChainOp::none: return;
  }
}

/// A chain as the loops take it.
struct Prepared {
  HWY_INLINE Prepared(const ChainLink* links_, ChainForm form_) : links(links_), form(form_) {}
  HWY_INLINE ChainOp op(std::size_t l) const {
    const ChainOp op = links[l].op;
    if ((form.numbers >> l & 1) == 0) return op;
    return op == ChainOp::max ? ChainOp::max_number : op == ChainOp::min ? ChainOp::min_number : op;
  }
  HWY_INLINE bool flushes(std::size_t l) const { return (form.flushes >> l & 1) != 0; }

  const ChainLink* links;
  ChainForm form;
};

/// The same for rows, one after the other.
struct PreparedRows : Prepared {
  HWY_INLINE PreparedRows(ChainLink* links_, ChainForm form_) : Prepared(links_, form_), moved(links_) {}
  HWY_INLINE void next_row(std::size_t count) const {
    for (std::size_t l = 0; l < count; ++l) moved[l].operand += moved[l].stride;
  }

  ChainLink* moved;
};

/// Sends four vectors through the links; load(pointer) reads four of an operand.
template <class Load>
HWY_INLINE Quad through(const float* first, const Prepared& chain, std::size_t count, Load load) {
  Quad x = load(first);
  for (std::size_t l = 0; l < count; ++l) {
    const ChainLink& link = chain.links[l];
    const Quad y = link.scalar ? Quad::of(hn::Set(D(), *link.operand)) : load(link.operand);
    with_op(chain.op(l), link, [&](auto fn) HWY_ATTR { x = x.with(y, fn); });
    if (chain.flushes(l)) x = x.flushed_all();
  }
  return x;
}

/// Runs elements [0, n) through the links: full(values, i) gets four vectors at a time, part(values, i, count) what
/// is left, a vector with `count` elements at a time.
template <class Full, class Part>
HWY_INLINE void run_chain(const Prepared& chain, const float* first, std::size_t count, std::size_t n, Full full,
                          Part part) {
  const D d;
  const std::size_t width = hn::Lanes(d);
  std::size_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    full(through(first, chain, count, [&](const float* p) HWY_ATTR { return Quad::load(p + i); }), i);
  }
  // Vectors under a mask read nothing beyond it, so that all that are left go through the chain together.
  constexpr std::size_t kTogether = HWY_ARCH_X86 ? 4 : 1;
  for (; i < n; i += kTogether * width) {
    const auto left = [&](std::size_t v) HWY_ATTR {
      return v >= kTogether || n - i <= v * width ? std::size_t{0} : std::min(width, n - i - v * width);
    };
    const auto m0 = hn::FirstN(d, left(0)), m1 = hn::FirstN(d, left(1)), m2 = hn::FirstN(d, left(2)),
               m3 = hn::FirstN(d, left(3));
    const Quad x = through(first, chain, count, [&](const float* p) HWY_ATTR {
      const V v0 = hn::MaskedLoad(m0, d, p + i);
      if (kTogether == 1) return Quad{v0, v0, v0, v0};
      return Quad{v0, hn::MaskedLoad(m1, d, p + i + width), hn::MaskedLoad(m2, d, p + i + 2 * width),
                  hn::MaskedLoad(m3, d, p + i + 3 * width)};
    });
    part(x.v0, i, left(0));
    if (left(1) != 0) part(x.v1, i + width, left(1));
    if (left(2) != 0) part(x.v2, i + 2 * width, left(2));
    if (left(3) != 0) part(x.v3, i + 3 * width, left(3));
  }
}

/// A link that is known to the compiler.
template <ChainOp op_, bool scalar_> struct Known {
  static constexpr ChainOp op = op_;
  static constexpr bool scalar = scalar_;
  static bool is(const Prepared& chain, std::size_t l) {
    return chain.op(l) == op && (chain.links[l].scalar == scalar || op == ChainOp::relu || op == ChainOp::canonical);
  }
  template <class Vectors, class Load>
  static HWY_INLINE Vectors apply(Vectors x, const ChainLink& link, V all, bool flushes, Load load) {
    const Vectors y = scalar ? Vectors::of(all) : load(link.operand);
    with_op(op, link, [&](auto fn) HWY_ATTR { x = x.with(y, fn); });
    return flushes ? x.flushed_all() : x;
  }
};

/// The chains that networks consist of: no switch, and scalars in registers.
template <class... Links> struct KnownChain {
  template <class Vectors, class Load, std::size_t... l>
  static HWY_INLINE Vectors through(const Prepared& chain, const float* first, const V* scalars, Load load,
                                    std::index_sequence<l...>) {
    Vectors x = load(first);
    ((x = Links::apply(x, chain.links[l], scalars[l], chain.flushes(l), load)), ...);
    return x;
  }
  template <class Put, std::size_t... l>
  static HWY_INLINE void store_row(const Prepared& chain, float* out, const float* first, std::size_t n, Put put,
                                   std::index_sequence<l...> indices) {
    const D d;
    const std::size_t width = hn::Lanes(d);
    const V scalars[] = {(Links::scalar ? hn::Set(d, *chain.links[l].operand) : hn::Zero(d))...};
    std::size_t i = 0;
    for (; i + 4 * width <= n; i += 4 * width) {
      const Quad x = through<Quad>(
          chain, first, scalars, [&](const float* p) HWY_ATTR { return Quad::load(p + i); }, indices);
      put(with_one_nan(x.v0), out + i);
      put(with_one_nan(x.v1), out + i + width);
      put(with_one_nan(x.v2), out + i + 2 * width);
      put(with_one_nan(x.v3), out + i + 3 * width);
    }
    for (; i + width <= n; i += width) {
      const One x = through<One>(
          chain, first, scalars, [&](const float* p) HWY_ATTR { return One{hn::LoadU(d, p + i)}; }, indices);
      hn::StoreU(with_one_nan(x.v0), d, out + i);
    }
    if (i == n) return;
    const auto some = hn::FirstN(d, n - i);
    const One x = through<One>(
        chain, first, scalars, [&](const float* p) HWY_ATTR { return One{hn::MaskedLoad(some, d, p + i)}; }, indices);
    hn::BlendedStore(with_one_nan(x.v0), some, d, out + i);
  }
  template <std::size_t... l> static bool is(const Prepared& chain, std::index_sequence<l...>) {
    return (Links::is(chain, l) && ...);
  }
  static bool run(const PreparedRows& chain, float* out, const float* first, std::size_t count, const ChainRows& rows) {
    return run(chain, out, first, count, rows, [](V x, float* to) HWY_ATTR { hn::StoreU(x, D(), to); });
  }
  /// put(values, pointer) writes a vector.
  template <class Put>
  static bool run(const PreparedRows& chain, float* out, const float* first, std::size_t count, const ChainRows& rows,
                  Put put) {
    using Indices = std::index_sequence_for<Links...>;
    if (count != sizeof...(Links) || !is(chain, Indices())) return false;
    for (std::size_t row = 0; row < rows.count; ++row) {
      store_row(chain, out, first, rows.n, put, Indices());
      out += rows.out_stride;
      first += rows.first_stride;
      chain.next_row(sizeof...(Links));
    }
    return true;
  }
};

using Canonical = Known<ChainOp::canonical, false>;
using Relu = Known<ChainOp::relu, false>;
using Shift = Known<ChainOp::add, true>;
using Center = Known<ChainOp::sub, true>;
using Leaky = Known<ChainOp::leaky, true>;
using Scale = Known<ChainOp::mul, true>;
using Residual = Known<ChainOp::add, false>;
using LayerNorm = KnownChain<Center, Scale, Known<ChainOp::mul, false>, Known<ChainOp::add, false>>;

// Bias; batch norm; both with a residual and an activation behind; layer norm; hardswish.
bool store_known(const PreparedRows& chain, float* out, const float* first, std::size_t count, const ChainRows& rows) {
  return KnownChain<Canonical, Scale>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Shift>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Shift, Relu>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Shift, Leaky>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Shift, Residual>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Residual>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Residual, Residual>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Center, Scale, Shift>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Center, Scale, Shift, Relu>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Center, Scale, Shift, Residual>::run(chain, out, first, count, rows) ||
         KnownChain<Canonical, Center, Scale, Shift, Residual, Relu>::run(chain, out, first, count, rows) ||
         LayerNorm::run(chain, out, first, count, rows) ||
         KnownChain<Shift, Known<ChainOp::max_number, true>, Known<ChainOp::min_number, true>,
                    Known<ChainOp::mul, false>, Known<ChainOp::div, true>>::run(chain, out, first, count, rows);
}

/// Any chain; put(values, pointer) writes a vector.
template <class Put>
HWY_INLINE void store_rows(const PreparedRows& chain, float* out, const float* first, std::size_t count,
                           const ChainRows& rows, Put put) {
  const D d;
  const std::size_t width = hn::Lanes(d);
  // What a gate lets through has one NaN already, and the word that takes its place keeps its bits.
  const bool is_gate = count > 0 && chain.links[count - 1].op == ChainOp::gate;
  const auto last = [is_gate](V x) HWY_ATTR { return is_gate ? x : with_one_nan(x); };
  for (std::size_t row = 0; row < rows.count; ++row) {
    run_chain(
        chain, first, count, rows.n,
        [&](Quad x, std::size_t i) HWY_ATTR {
          put(last(x.v0), out + i);
          put(last(x.v1), out + i + width);
          put(last(x.v2), out + i + 2 * width);
          put(last(x.v3), out + i + 3 * width);
        },
        [&](V x, std::size_t i, std::size_t left)
            HWY_ATTR { hn::BlendedStore(last(x), hn::FirstN(d, left), d, out + i); });
    out += rows.out_stride;
    first += rows.first_stride;
    chain.next_row(count);
  }
}

void store(float* out, const float* first, ChainLink* links, std::size_t count, ChainForm form, const ChainRows& rows) {
  if (rows.n == 0) return;
  const PreparedRows chain(links, form);
  if (store_known(chain, out, first, count, rows)) return;
  store_rows(chain, out, first, count, rows, [](V x, float* to) HWY_ATTR { hn::StoreU(x, D(), to); });
}

void stream(float* out, const float* first, ChainLink* links, std::size_t count, ChainForm form,
            const ChainRows& rows) {
  if (rows.n == 0) return;
  const PreparedRows chain(links, form);
  const auto put = [](V x, float* to) HWY_ATTR { hn::Stream(x, D(), to); };
  if (LayerNorm::run(chain, out, first, count, rows, put)) return;
  store_rows(chain, out, first, count, rows, put);
}

/// Of first[0..n) - center, n a multiple of the lanes, as of the differences to a mean: lanes in registers.
template <class Step>
HWY_INLINE void reduce_differences(float* lanes, const float* first, float center, std::size_t n, Step step) {
  const D d;
  const std::size_t width = hn::Lanes(d);
  constexpr std::size_t kTogether = std::min<std::size_t>(8, kLanes / hn::MaxLanes(D()));
  const V y = hn::Set(d, center);
  for (std::size_t lane = 0; lane < kLanes; lane += kTogether * width) {
    V sum[kTogether];
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kTogether; ++v) sum[v] = hn::LoadU(d, lanes + lane + v * width);
    for (std::size_t i = lane; i < n; i += kLanes) {
#pragma GCC unroll 8
      for (std::size_t v = 0; v < kTogether; ++v) {
        sum[v] = step(sum[v], hn::Sub(hn::LoadU(d, first + i + v * width), y));
      }
    }
#pragma GCC unroll 8
    for (std::size_t v = 0; v < kTogether; ++v) hn::StoreU(sum[v], d, lanes + lane + v * width);
  }
}

/// step(lane, x): the lane after one more element.
template <class Step>
HWY_INLINE void reduce_lanes(float* lanes, const float* first, const ChainLink* links, std::size_t count, ChainForm form,
                             std::size_t n, Step step) {
  const Prepared chain(links, form);
  if (count == 1 && Center::is(chain, 0) && !chain.flushes(0)) {
    const std::size_t whole = n / kLanes * kLanes;
    reduce_differences(lanes, first, *links[0].operand, whole, step);
    first += whole;
    n -= whole;
  }
  if (n == 0) return;
  const D d;
  const std::size_t width = hn::Lanes(d);
  run_chain(
      chain, first, count, n,
      [&](Quad x, std::size_t i) HWY_ATTR {
        float* lane = lanes + i % kLanes;
        hn::StoreU(step(hn::LoadU(d, lane), x.v0), d, lane);
        hn::StoreU(step(hn::LoadU(d, lane + width), x.v1), d, lane + width);
        hn::StoreU(step(hn::LoadU(d, lane + 2 * width), x.v2), d, lane + 2 * width);
        hn::StoreU(step(hn::LoadU(d, lane + 3 * width), x.v3), d, lane + 3 * width);
      },
      [&](V x, std::size_t i, std::size_t left) HWY_ATTR {
        float* lane = lanes + i % kLanes;
        hn::BlendedStore(step(hn::LoadU(d, lane), x), hn::FirstN(d, left), d, lane);
      });
}

void sum(float* lanes, const float* first, const ChainLink* links, std::size_t count, ChainForm form, std::size_t n) {
  reduce_lanes(lanes, first, links, count, form, n, [](V lane, V x) HWY_ATTR { return hn::Add(lane, x); });
}

void sum_of_squares(float* lanes, const float* first, const ChainLink* links, std::size_t count, ChainForm form,
                    std::size_t n) {
  reduce_lanes(lanes, first, links, count, form, n, [](V lane, V x) HWY_ATTR { return hn::MulAdd(x, x, lane); });
}

// Where MulAdd rounds twice there are no chains.
constexpr bool kHasChains = HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR;

constexpr ChainTable make_table() {
  return kHasChains ? ChainTable{form_of, store, stream, sum, sum_of_squares} : ChainTable{};
}

}  // namespace

LOCKSTEP_TARGET_END(ChainTable, chain_table, make_table())
