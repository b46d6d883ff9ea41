// The loops of a softmax's middle (exponentials_table.h), four vectors at a time (together-inl.h).
#define HWY_TARGET_INCLUDE "backends/cpu/row/exponentials_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/row/exponentials_table.h"
#include "kernels/order.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

// Where MulAdd rounds twice, the loops stay those of the other tables.
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

ExponentialsTable make_table() {
  return {};
}

#else

#include "backends/cpu/row/canonical-inl.h"
#include "backends/cpu/row/together-inl.h"

using together::Floats;

// Of a difference that is not made canonical first: the lemma stands in binary_table.cpp. No result is a negative
// number or -0, so that one minimum makes every NaN the one.
struct Any {
  static HWY_INLINE Floats apply(const Floats& x) {
    const together::Words result = together::bits_of(together::ls_exp(x));
    Floats one_nan;
    for (std::size_t i = 0; i < together::kVectors; ++i) {
      one_nan.v[i] = hn::BitCast(D(), hn::Min(result.v[i], hn::Set(WordTag(), 0x7fc00000u)));
    }
    return one_nan;
  }
};

// What is left of ls_exp where x is a number that is not above 0, or -infinity.
struct NoneAbove {
  static HWY_INLINE Floats apply(const Floats& x) {
    Floats high, low;
    together::Integers n;
    together::exp_parts(x, together::copies(-0.0f), high, low, n);
    const together::Words result = together::bits_of(high) + (together::Words(n) << 23);
    const auto least = hn::BitCast(D(), hn::Set(WordTag(), 0xc2aeac4fu));
    Floats flushed;
    for (std::size_t i = 0; i < together::kVectors; ++i) {
      flushed.v[i] = hn::IfThenZeroElse(hn::Lt(x.v[i], least), hn::BitCast(D(), result.v[i]));
    }
    return flushed;
  }
};

template <class F>
void exponentials(float* out, float* lanes, const float* x, float shift, const float* ahead, std::size_t n) {
  const Floats one = together::copies(shift);
  const std::size_t step = together::kVectors * hn::Lanes(D());
  std::size_t i = 0;
  for (; i + step <= n; i += step) {
    for (std::size_t line = 0; ahead != nullptr && line < step; line += 64 / sizeof(float)) {
      __builtin_prefetch(ahead + i + line, 0, 2);
    }
    const Floats result = F::apply(together::load(x + i) - one);
    together::store(result, out + i);
    float* const lane = lanes + i % order::kLanes;
    together::store(together::load(lane) + result, lane);
  }
  if (i == n) return;
  HWY_ALIGN float rest[together::kVectors * hn::MaxLanes(D())] = {};
  std::copy_n(x + i, n - i, rest);
  together::store(F::apply(together::load(rest) - one), rest);
  std::copy_n(rest, n - i, out + i);
  for (; i < n; ++i) lanes[i % order::kLanes] += out[i];
}

ExponentialsTable make_table() {
  return {exponentials<Any>, exponentials<NoneAbove>};
}

#endif

}  // namespace

LOCKSTEP_TARGET_END(ExponentialsTable, exponentials_table, make_table())
