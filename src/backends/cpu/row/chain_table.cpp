// Chains of cheap f32 ops with the intermediate results in registers: four vectors of a tile at a time go through all
// ops of the chain. One loop for every chain; the switch on the op costs little beside the four vectors of work.
//
// Intermediate results are made canonical after every op, as docs/numerics.md section 1 asks, but for NaNs, which keep
// whatever bits they have. Lemma: every op of a chain gives NaN for NaN, so that none of their bits reaches a result; the
// last result has the one NaN.
#define HWY_TARGET_INCLUDE "backends/cpu/row/chain_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "backends/cpu/row/tables.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
using Words = hn::RebindToUnsigned<D>;

struct Quad {
  V v0, v1, v2, v3;
};

/// Magnitudes up to the smallest normal are the zero of their sign.
HWY_INLINE V flushed(V v) {
  const Words words;
  const auto bits = hn::BitCast(words, v);
#if HWY_TARGET == HWY_AVX3
  // Twice the bits is twice the magnitude; and comparisons give masks.
  const auto small = hn::Lt(hn::Add(bits, bits), hn::Set(words, 0x01000001u));
  return hn::BitCast(D(), hn::IfThenElse(small, hn::And(bits, hn::Set(words, 0x80000000u)), bits));
#else
  const hn::RebindToSigned<D> integers;
  const auto magnitude_bits = hn::Set(words, 0x7fffffffu);
  const auto magnitude = hn::BitCast(integers, hn::And(bits, magnitude_bits));
  const auto small = hn::VecFromMask(integers, hn::Lt(magnitude, hn::Set(integers, 0x00800001)));
  return hn::BitCast(D(), hn::AndNot(hn::And(hn::BitCast(words, small), magnitude_bits), bits));
#endif
}

HWY_INLINE V with_one_nan(V v) {
  const auto nan = hn::BitCast(D(), hn::Set(Words(), 0x7fc00000u));
  return hn::IfThenElse(hn::IsNaN(v), nan, v);
}

/// `second` where it is better or NaN, otherwise `first`: the zeros are equal, and a NaN is never replaced by a number.
template <class Better>
HWY_INLINE V better_of(V first, V second, Better is_better) {
  return hn::IfThenElse(hn::Or(is_better(second, first), hn::IsNaN(second)), second, first);
}
HWY_INLINE V larger(V first, V second) {
  return better_of(first, second, [](V x, V y) HWY_ATTR { return hn::Gt(x, y); });
}
HWY_INLINE V smaller(V first, V second) {
  return better_of(first, second, [](V x, V y) HWY_ATTR { return hn::Lt(x, y); });
}

/// Whether a link's result may have to be made canonical. Extrema give one of their operands: of a link that is not the
/// first, one is canonical already, and the other shows when it is a scalar.
HWY_INLINE bool may_be_small(const ChainLink& link, bool is_first) {
  switch (link.op) {
    case ChainOp::relu: return is_first;
    case ChainOp::max:
    case ChainOp::min:
    case ChainOp::max_of:
    case ChainOp::min_of: {
      if (is_first || !link.scalar) return true;
      std::uint32_t bits;
      std::memcpy(&bits, link.operand, sizeof bits);
      return (bits & 0x7fffffffu) - 1u < 0x00800000u;
    }
    default: return true;
  }
}

/// Calls fn(function of two vectors).
template <class Fn>
HWY_INLINE void with_op(ChainOp op, Fn fn) {
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
    case ChainOp::relu: return fn([](V x, V) HWY_ATTR { return hn::IfThenZeroElse(hn::Le(x, hn::Zero(D())), x); });
    case ChainOp::none: return;
  }
}

/// Runs elements [0, n) through the links: full(values, i) gets four vectors at a time, part(values, i, count) what is
/// left, a vector with `count` elements at a time.
template <class Full, class Part>
HWY_INLINE void run_chain(const float* first, const ChainLink* links, std::size_t count, std::size_t n, Full full,
                          Part part) {
  const D d;
  const std::size_t width = hn::Lanes(d);
  const ChainLink* const end = links + count;
  bool small[kMostLinks];
  for (std::size_t l = 0; l < count; ++l) small[l] = may_be_small(links[l], l == 0);
  std::size_t i = 0;
  for (; i + 4 * width <= n; i += 4 * width) {
    const auto load = [&](const float* p) HWY_ATTR {
      return Quad{hn::LoadU(d, p + i), hn::LoadU(d, p + i + width), hn::LoadU(d, p + i + 2 * width),
                  hn::LoadU(d, p + i + 3 * width)};
    };
    Quad x = load(first);
    for (const ChainLink* link = links; link != end; ++link) {
      Quad y;
      if (link->scalar) {
        const V all = hn::Set(d, *link->operand);
        y = {all, all, all, all};
      } else {
        y = load(link->operand);
      }
      with_op(link->op, [&](auto fn) HWY_ATTR {
        x = {fn(x.v0, y.v0), fn(x.v1, y.v1), fn(x.v2, y.v2), fn(x.v3, y.v3)};
      });
      if (small[link - links]) x = {flushed(x.v0), flushed(x.v1), flushed(x.v2), flushed(x.v3)};
    }
    full(x, i);
  }
  for (; i < n; i += width) {
    const std::size_t left = std::min(width, n - i);
    const auto some = hn::FirstN(d, left);
    V x = hn::MaskedLoad(some, d, first + i);
    for (const ChainLink* link = links; link != end; ++link) {
      const V y = link->scalar ? hn::Set(d, *link->operand) : hn::MaskedLoad(some, d, link->operand + i);
      with_op(link->op, [&](auto fn) HWY_ATTR { x = flushed(fn(x, y)); });
    }
    part(x, i, left);
  }
}

void store(float* out, const float* first, const ChainLink* links, std::size_t count, std::size_t n) {
  const D d;
  const std::size_t width = hn::Lanes(d);
  run_chain(
      first, links, count, n,
      [&](Quad x, std::size_t i) HWY_ATTR {
        hn::StoreU(with_one_nan(x.v0), d, out + i);
        hn::StoreU(with_one_nan(x.v1), d, out + i + width);
        hn::StoreU(with_one_nan(x.v2), d, out + i + 2 * width);
        hn::StoreU(with_one_nan(x.v3), d, out + i + 3 * width);
      },
      [&](V x, std::size_t i, std::size_t left) HWY_ATTR { hn::BlendedStore(with_one_nan(x), hn::FirstN(d, left), d, out + i); });
}

void stream(float* out, const float* first, const ChainLink* links, std::size_t count, std::size_t n) {
  const D d;
  const std::size_t width = hn::Lanes(d);
  run_chain(
      first, links, count, n,
      [&](Quad x, std::size_t i) HWY_ATTR {
        hn::Stream(with_one_nan(x.v0), d, out + i);
        hn::Stream(with_one_nan(x.v1), d, out + i + width);
        hn::Stream(with_one_nan(x.v2), d, out + i + 2 * width);
        hn::Stream(with_one_nan(x.v3), d, out + i + 3 * width);
      },
      [&](V x, std::size_t i, std::size_t left) HWY_ATTR { hn::BlendedStore(with_one_nan(x), hn::FirstN(d, left), d, out + i); });
}

/// step(lane, x): the lane after one more element.
template <class Step>
HWY_INLINE void reduce_lanes(float* lanes, const float* first, const ChainLink* links, std::size_t count, std::size_t n,
                             Step step) {
  const D d;
  const std::size_t width = hn::Lanes(d);
  run_chain(
      first, links, count, n,
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

void sum(float* lanes, const float* first, const ChainLink* links, std::size_t count, std::size_t n) {
  reduce_lanes(lanes, first, links, count, n, [](V lane, V x) HWY_ATTR { return hn::Add(lane, x); });
}

void sum_of_squares(float* lanes, const float* first, const ChainLink* links, std::size_t count, std::size_t n) {
  reduce_lanes(lanes, first, links, count, n, [](V lane, V x) HWY_ATTR { return hn::MulAdd(x, x, lane); });
}

// Where MulAdd rounds twice there are no chains.
constexpr bool kHasChains = HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR;

constexpr ChainTable make_table() {
  return kHasChains ? ChainTable{store, stream, sum, sum_of_squares} : ChainTable{};
}

}  // namespace

LOCKSTEP_TARGET_END(ChainTable, chain_table, make_table())
