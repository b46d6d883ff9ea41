// The loops of reductions (docs/numerics.md section 4), for rows (64 lanes) and for columns (an accumulator each).
#define HWY_TARGET_INCLUDE "backends/cpu/row/reduce_table.cpp"
#include "backends/cpu/simd_table.h"

#include <type_traits>

#include "backends/cpu/row/tables.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#include "kernels/texts.h"

HWY_INLINE float fused(float a, float b, float c) { return FMA(a, b, c); }
HWY_INLINE double fused(double a, double b, double c) { return FMA64(a, b, c); }
HWY_INLINE std::int32_t fused(std::int32_t a, std::int32_t b, std::int32_t c) { return wrap_add(wrap_mul(a, b), c); }
HWY_INLINE std::int64_t fused(std::int64_t a, std::int64_t b, std::int64_t c) { return wrap_add(wrap_mul(a, b), c); }
HWY_INLINE float plus(float a, float b) { return a + b; }
HWY_INLINE double plus(double a, double b) { return a + b; }
HWY_INLINE std::int32_t plus(std::int32_t a, std::int32_t b) { return wrap_add(a, b); }
HWY_INLINE std::int64_t plus(std::int64_t a, std::int64_t b) { return wrap_add(a, b); }
HWY_INLINE float times(float a, float b) { return a * b; }
HWY_INLINE double times(double a, double b) { return a * b; }
HWY_INLINE std::int32_t times(std::int32_t a, std::int32_t b) { return wrap_mul(a, b); }
HWY_INLINE std::int64_t times(std::int64_t a, std::int64_t b) { return wrap_mul(a, b); }

/// One more element for an accumulator: uncanonical, as the specification wants it.
template <int kind, typename T>
HWY_INLINE T step(T accumulator, T a, T b) {
  if constexpr (kind == ReduceTable::sum) return plus(accumulator, a);
  if constexpr (kind == ReduceTable::prod) return times(accumulator, a);
  if constexpr (kind == ReduceTable::dot) return fused(a, b, accumulator);
}
template <int kind, class V>
HWY_INLINE V step_vector(V accumulator, V a, V b) {
  if constexpr (kind == ReduceTable::sum) return hn::Add(accumulator, a);
  if constexpr (kind == ReduceTable::prod) return hn::Mul(accumulator, a);
  if constexpr (kind == ReduceTable::dot) return hn::MulAdd(a, b, accumulator);
}

/// Whether vector registers do it: they need a fused MulAdd, which the scalar fallback's is not.
template <typename T>
constexpr bool kInRegisters = std::is_floating_point_v<T> && HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR;

/// `count` vectors of neighbouring lanes; `n`: elements from the first of them on, in whole chunks of 64.
template <int kind, std::size_t count, class D, typename T>
HWY_INLINE void add_lanes(D d, T* lane, const T* a, const T* b, std::size_t n, std::size_t width) {
  hn::Vec<D> sum[count];
#pragma GCC unroll 8
  for (std::size_t v = 0; v < count; ++v) sum[v] = hn::LoadU(d, lane + v * width);
  for (std::size_t i = 0; i < n; i += kLanes) {
#pragma GCC unroll 8
    for (std::size_t v = 0; v < count; ++v) {
      sum[v] = step_vector<kind>(sum[v], hn::LoadU(d, a + i + v * width), hn::LoadU(d, b + i + v * width));
    }
  }
#pragma GCC unroll 8
  for (std::size_t v = 0; v < count; ++v) hn::StoreU(sum[v], d, lane + v * width);
}

template <int kind, typename T>
void lanes(void* lanes_, const void* a_, const void* b_, std::size_t n) {
  auto* lane = static_cast<T*>(lanes_);
  const auto* a = static_cast<const T*>(a_);
  const auto* b = kind == ReduceTable::dot ? static_cast<const T*>(b_) : a;
  const std::size_t full = n / kLanes * kLanes;
  if constexpr (kInRegisters<T>) {
    // As many registers as there are lanes for, but no more than eight: no compiler spills these.
    const hn::ScalableTag<T> d;
    constexpr std::size_t width = hn::MaxLanes(hn::ScalableTag<T>());
    constexpr std::size_t count = width * 8 < kLanes ? 8 : kLanes / width;
    if (hn::Lanes(d) == width) {
      for (std::size_t group = 0; group < kLanes; group += count * width) {
        add_lanes<kind, count>(d, lane + group, a + group, b + group, full, width);
      }
    } else {
      for (std::size_t group = 0; group < kLanes; group += hn::Lanes(d)) {
        add_lanes<kind, 1>(d, lane + group, a + group, b + group, full, hn::Lanes(d));
      }
    }
  } else {
    for (std::size_t i = 0; i < full; i += kLanes) {
      LOCKSTEP_INDEPENDENT
      for (std::size_t l = 0; l < kLanes; ++l) lane[l] = step<kind>(lane[l], a[i + l], b[i + l]);
    }
  }
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = full; i < n; ++i) lane[i - full] = step<kind>(lane[i - full], a[i], b[i]);
}

/// Lengths that the compiler knows become a few vectors rather than loops.
template <int combined_by, std::size_t half, typename T>
HWY_INLINE void combine_halves(T* lane) {
  LOCKSTEP_INDEPENDENT
  for (std::size_t l = 0; l < half; ++l) lane[l] = step<combined_by>(lane[l], lane[l + half], T(0));
  if constexpr (half > 1) combine_halves<combined_by, half / 2>(lane);
}

template <int kind, typename T>
void combine(void* lanes_) {
  combine_halves<kind == ReduceTable::prod ? ReduceTable::prod : ReduceTable::sum, kLanes / 2>(static_cast<T*>(lanes_));
}

template <int kind, typename T>
void columns(void* accumulators, const void* a_, const void* b_, std::size_t n) {
  auto* accumulator = static_cast<T*>(accumulators);
  const auto* a = static_cast<const T*>(a_);
  const auto* b = kind == ReduceTable::dot ? static_cast<const T*>(b_) : a;
  LOCKSTEP_INDEPENDENT
  for (std::size_t t = 0; t < n; ++t) accumulator[t] = step<kind>(accumulator[t], a[t], b[t]);
}

/// Larger is better, for either order.
template <int order, typename T>
HWY_INLINE auto rank(T value) {
  if constexpr (order == ReduceTable::max) {
    return max_key(value);
  } else {
    const auto key = min_key(value);
    return static_cast<decltype(key)>(~key);
  }
}

template <int order, typename T>
std::size_t find(const void* best, const void* a_, std::size_t n) {
  const auto* a = static_cast<const T*>(a_);
  const auto wanted = rank<order>(*static_cast<const T*>(best));
  std::size_t i = 0;
  while (i < n && rank<order>(a[i]) != wanted) ++i;
  return i;
}

/// Larger is better, NaN is whatever it becomes.
template <int order, class V>
HWY_INLINE V better_vector(V a, V b) {
  if constexpr (order == ReduceTable::max) return hn::Max(a, b);
  if constexpr (order == ReduceTable::min) return hn::Min(a, b);
}

template <int order, typename T>
void best(void* best_, const void* a_, std::size_t n) {
  const auto* a = static_cast<const T*>(a_);
  auto* result = static_cast<T*>(best_);
  const hn::ScalableTag<T> d;
  const std::size_t width = hn::Lanes(d);
  T top = a[0];
  std::size_t i = 0;
  if (n >= 4 * width) {
    auto v0 = hn::LoadU(d, a);
    auto v1 = v0, v2 = v0, v3 = v0;
    auto nan = hn::Lt(v0, v0);  // none yet
    for (; i + 4 * width <= n; i += 4 * width) {
      const auto x0 = hn::LoadU(d, a + i);
      const auto x1 = hn::LoadU(d, a + i + width);
      const auto x2 = hn::LoadU(d, a + i + 2 * width);
      const auto x3 = hn::LoadU(d, a + i + 3 * width);
      v0 = better_vector<order>(v0, x0);
      v1 = better_vector<order>(v1, x1);
      v2 = better_vector<order>(v2, x2);
      v3 = better_vector<order>(v3, x3);
      if constexpr (std::is_floating_point_v<T>) {
        nan = hn::Or(nan, hn::Or(hn::Or(hn::IsNaN(x0), hn::IsNaN(x1)), hn::Or(hn::IsNaN(x2), hn::IsNaN(x3))));
      }
    }
    if (std::is_floating_point_v<T> && !hn::AllFalse(d, nan)) {
      *result = T(hn::GetLane(hn::NaN(hn::ScalableTag<std::conditional_t<sizeof(T) == 8, double, float>>())));  // which one does not matter: there is one canonical NaN
      return;
    }
    const auto all = better_vector<order>(better_vector<order>(v0, v1), better_vector<order>(v2, v3));
    top = hn::GetLane(order == ReduceTable::max ? hn::MaxOfLanes(d, all) : hn::MinOfLanes(d, all));
  }
  for (; i < n; ++i) top = rank<order>(a[i]) > rank<order>(top) ? a[i] : top;
  // Of several values with one key, zeros alone differ in their bits, so only there it matters which one is first.
  if (std::is_floating_point_v<T> && top == T(0)) {
    i = 0;
    while (!(a[i] == T(0))) ++i;
    top = a[i];
  }
  *result = top;
}

template <int order, typename T>
bool beats(const void* b, const void* a) {
  return rank<order>(*static_cast<const T*>(b)) > rank<order>(*static_cast<const T*>(a));
}

template <int order, typename T>
void best_columns(void* best_, std::int64_t* indices, const void* a_, std::int64_t index, std::size_t n) {
  auto* winner = static_cast<T*>(best_);
  const auto* a = static_cast<const T*>(a_);
  LOCKSTEP_INDEPENDENT
  for (std::size_t t = 0; t < n; ++t) {
    const bool better = rank<order>(a[t]) > rank<order>(winner[t]);
    winner[t] = better ? a[t] : winner[t];
    indices[t] = better ? index : indices[t];
  }
}

/// Not the elementwise maximum: that makes its result canonical, and a winner is compared as it is until the end.
template <int order, typename T>
void best_values(void* best_, const void* a_, std::size_t n) {
  auto* winner = static_cast<T*>(best_);
  const auto* a = static_cast<const T*>(a_);
  LOCKSTEP_INDEPENDENT
  for (std::size_t t = 0; t < n; ++t) winner[t] = rank<order>(a[t]) > rank<order>(winner[t]) ? a[t] : winner[t];
}

template <typename T>
void fill(ReduceTable& table, ComputeType type_) {
  const std::size_t type = index_of(type_);
  table.lanes[ReduceTable::sum][type] = lanes<ReduceTable::sum, T>;
  table.lanes[ReduceTable::prod][type] = lanes<ReduceTable::prod, T>;
  table.lanes[ReduceTable::dot][type] = lanes<ReduceTable::dot, T>;
  table.combine[ReduceTable::sum][type] = combine<ReduceTable::sum, T>;
  table.combine[ReduceTable::prod][type] = combine<ReduceTable::prod, T>;
  table.combine[ReduceTable::dot][type] = combine<ReduceTable::dot, T>;
  table.columns[ReduceTable::sum][type] = columns<ReduceTable::sum, T>;
  table.columns[ReduceTable::prod][type] = columns<ReduceTable::prod, T>;
  table.columns[ReduceTable::dot][type] = columns<ReduceTable::dot, T>;
  table.best[ReduceTable::max][type] = best<ReduceTable::max, T>;
  table.best[ReduceTable::min][type] = best<ReduceTable::min, T>;
  table.find[ReduceTable::max][type] = find<ReduceTable::max, T>;
  table.find[ReduceTable::min][type] = find<ReduceTable::min, T>;
  table.beats[ReduceTable::max][type] = beats<ReduceTable::max, T>;
  table.beats[ReduceTable::min][type] = beats<ReduceTable::min, T>;
  table.best_values[ReduceTable::max][type] = best_values<ReduceTable::max, T>;
  table.best_values[ReduceTable::min][type] = best_values<ReduceTable::min, T>;
  table.best_columns[ReduceTable::max][type] = best_columns<ReduceTable::max, T>;
  table.best_columns[ReduceTable::min][type] = best_columns<ReduceTable::min, T>;
}

ReduceTable make_table() {
  ReduceTable table;
  fill<float>(table, ComputeType::f32);
  fill<double>(table, ComputeType::f64);
  fill<std::int32_t>(table, ComputeType::i32);
  fill<std::int64_t>(table, ComputeType::i64);
  return table;
}

}  // namespace

LOCKSTEP_TARGET_END(ReduceTable, reduce_table, make_table())
