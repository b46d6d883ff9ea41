// The f32 functions of which networks consist, four vectors at a time (together-inl.h), in place of the compiler's
// loops.
#define HWY_TARGET_INCLUDE "backends/cpu/row/function_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "backends/cpu/row/tables.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

// Where MulAdd rounds twice, the loops stay those of the other tables.
#if HWY_TARGET == HWY_EMU128 || HWY_TARGET == HWY_SCALAR

FunctionTable make_table() {
  return {};
}

#else

#include "backends/cpu/row/canonical-inl.h"
#include "backends/cpu/row/together-inl.h"

using together::Floats;

// No result is a negative number or -0, so that one minimum makes every NaN the one.
HWY_INLINE Floats exponential(const Floats& x) {
  const together::Words result = together::bits_of(together::ls_exp(x));
  Floats least;
  for (std::size_t i = 0; i < together::kVectors; ++i) {
    least.v[i] = hn::BitCast(D(), hn::Min(result.v[i], hn::Set(WordTag(), 0x7fc00000u)));
  }
  return least;
}
struct Exp {
  static HWY_INLINE Floats apply(const Floats& x) { return exponential(x); }
};
struct Log {
  static HWY_INLINE Floats apply(const Floats& x) { return together::canonical_result(together::ls_log(x)); }
};
struct Tanh {
  static HWY_INLINE Floats apply(const Floats& x) { return together::canonical_result(together::ls_tanh(x)); }
};
struct Sigmoid {
  static HWY_INLINE Floats apply(const Floats& x) { return together::canonical_result(together::ls_sigmoid(x)); }
};
struct Erf {
  static HWY_INLINE Floats apply(const Floats& x) { return together::canonical_result(together::ls_erf(x)); }
};
struct Gelu {
  static HWY_INLINE Floats apply(const Floats& x) { return together::canonical_result(together::ls_gelu(x)); }
};

// Of a sum or difference that is not made canonical first: the lemma stands in binary_table.cpp.
struct ExpOfSub {
  static HWY_INLINE Floats apply(const Floats& x, const Floats& y) { return exponential(x - y); }
};
struct GeluOfAdd {
  static HWY_INLINE Floats apply(const Floats& x, const Floats& y) { return Gelu::apply(x + y); }
};

constexpr std::size_t kMostStep = together::kVectors * hn::MaxLanes(D());

/// Elements of less than a step, then zeros.
struct Rest {
  HWY_ALIGN float elements[kMostStep] = {};
  HWY_INLINE Rest(const float* from, std::size_t n) { std::copy_n(from, n, elements); }
};

template <class F> void loop(void* out, const void* a, const void*, const void*, std::size_t n) {
  auto* const to = static_cast<float*>(out);
  const auto* const x = static_cast<const float*>(a);
  const std::size_t step = together::kVectors * hn::Lanes(D());
  std::size_t i = 0;
  for (; i + step <= n; i += step) together::store(F::apply(together::load(x + i)), to + i);
  if (i == n) return;
  Rest rest(x + i, n - i);
  together::store(F::apply(together::load(rest.elements)), rest.elements);
  std::copy_n(rest.elements, n - i, to + i);
}

/// Bit i of `scalars`: operand i is `one`.
template <class F, int scalars>
HWY_INLINE void step_of_two(const float* x, const float* y, const Floats& one, float* to) {
  if constexpr (scalars == 0) together::store(F::apply(together::load(x), together::load(y)), to);
  if constexpr (scalars == 1) together::store(F::apply(one, together::load(y)), to);
  if constexpr (scalars == 2) together::store(F::apply(together::load(x), one), to);
}

template <class F, int scalars> void loop_of_two(void* out, const void* a, const void* b, const void*, std::size_t n) {
  if (n == 0) return;
  auto* const to = static_cast<float*>(out);
  const auto* const x = static_cast<const float*>(a);
  const auto* const y = static_cast<const float*>(b);
  const Floats one = together::copies(scalars == 1 ? *x : *y);
  const std::size_t step = together::kVectors * hn::Lanes(D());
  std::size_t i = 0;
  for (; i + step <= n; i += step) step_of_two<F, scalars>(x + i, y + i, one, to + i);
  if (i == n) return;
  const Rest first(x + (scalars == 1 ? 0 : i), scalars == 1 ? 0 : n - i);
  const Rest second(y + (scalars == 2 ? 0 : i), scalars == 2 ? 0 : n - i);
  Rest result(x, 0);
  step_of_two<F, scalars>(first.elements, second.elements, one, result.elements);
  std::copy_n(result.elements, n - i, to + i);
}

template <class F> constexpr std::array<ElementwiseFn, 3> loops_of_two() {
  return {loop_of_two<F, 0>, loop_of_two<F, 1>, loop_of_two<F, 2>};
}

FunctionTable make_table() {
  FunctionTable table;
  table.op[index_of(Op::exp)] = loop<Exp>;
  table.op[index_of(Op::log)] = loop<Log>;
  table.op[index_of(Op::tanh)] = loop<Tanh>;
  table.op[index_of(Op::sigmoid)] = loop<Sigmoid>;
  table.op[index_of(Op::erf)] = loop<Erf>;
  table.op[index_of(Op::gelu_erf)] = loop<Gelu>;
  table.exp_of_sub = loops_of_two<ExpOfSub>();
  table.gelu_of_add = loops_of_two<GeluOfAdd>();
  return table;
}

#endif

}  // namespace

LOCKSTEP_TARGET_END(FunctionTable, function_table, make_table())
