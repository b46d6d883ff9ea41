// The loops of scans. See scan_table.h.
#define HWY_TARGET_INCLUDE "backends/cpu/irregular/scan_table.cpp"
#include "backends/cpu/simd_table.h"

#include <algorithm>
#include <type_traits>

#include "backends/cpu/irregular/scan_table.h"
#include "kernels/prelude.h"

LOCKSTEP_TARGET_BEGIN()
namespace {

#include "kernels/texts.h"

/// Whether b beats a, the first of both: the keys' order, on operands without subnormals (f32).
template <int op, typename T> HWY_INLINE bool beats(T b, T a) {
  if constexpr (std::is_floating_point_v<T>) {
    // NaN wins, but the first one; of two zeros the first.
    return op == ScanTable::max ? !(b <= a) && a == a : !(b >= a) && a == a;
  } else {
    return op == ScanTable::max ? b > a : b < a;
  }
}

template <int op, typename T> HWY_INLINE T combine(T a, T b) {
  if constexpr (op == ScanTable::sum) {
    if constexpr (std::is_floating_point_v<T>) {
      return a + b;
    } else {
      return wrap_add(a, b);
    }
  } else if constexpr (op == ScanTable::prod) {
    if constexpr (std::is_floating_point_v<T>) {
      return a * b;
    } else {
      return wrap_mul(a, b);
    }
  } else {
    return beats<op>(b, a) ? b : a;
  }
}

#if HWY_TARGET != HWY_SCALAR
using F4 = hn::FixedTag<float, 4>;
using Vec4 = hn::Vec<F4>;

HWY_INLINE void transpose(Vec4& a, Vec4& b, Vec4& c, Vec4& d) {
  const F4 tag;
  const Vec4 ac_low = hn::InterleaveLower(tag, a, c), ac_high = hn::InterleaveUpper(tag, a, c);
  const Vec4 bd_low = hn::InterleaveLower(tag, b, d), bd_high = hn::InterleaveUpper(tag, b, d);
  a = hn::InterleaveLower(tag, ac_low, bd_low);
  b = hn::InterleaveUpper(tag, ac_low, bd_low);
  c = hn::InterleaveLower(tag, ac_high, bd_high);
  d = hn::InterleaveUpper(tag, ac_high, bd_high);
}

/// Four elements of each of four lanes. `last` holds the lanes' values so far, which `starts` ignores.
template <int op>
HWY_INLINE void scan_square(float* HWY_RESTRICT local, const float* HWY_RESTRICT x, bool starts, Vec4& last) {
  constexpr std::size_t L = kScanLane;
  const F4 tag;
  const auto apply = [](Vec4 a, Vec4 b) HWY_ATTR { return op == ScanTable::sum ? hn::Add(a, b) : hn::Mul(a, b); };
  Vec4 a = hn::LoadU(tag, x), b = hn::LoadU(tag, x + L), c = hn::LoadU(tag, x + 2 * L), d = hn::LoadU(tag, x + 3 * L);
  transpose(a, b, c, d);
  if (!starts) a = apply(last, a);
  b = apply(a, b);
  c = apply(b, c);
  last = d = apply(c, d);
  transpose(a, b, c, d);
  hn::StoreU(a, tag, local);
  hn::StoreU(b, tag, local + L);
  hn::StoreU(c, tag, local + 2 * L);
  hn::StoreU(d, tag, local + 3 * L);
}

/// Sixteen lanes: four at a time in a register, four registers to hide the latency of the operation.
template <int op> HWY_INLINE void scan_sixteen_lanes(float* HWY_RESTRICT local, const float* HWY_RESTRICT x) {
  constexpr std::size_t four = 4 * kScanLane;
  Vec4 a = hn::Zero(F4()), b = a, c = a, d = a;
  for (std::size_t i = 0; i < kScanLane; i += 4) {
    scan_square<op>(local + i, x + i, i == 0, a);
    scan_square<op>(local + four + i, x + four + i, i == 0, b);
    scan_square<op>(local + 2 * four + i, x + 2 * four + i, i == 0, c);
    scan_square<op>(local + 3 * four + i, x + 3 * four + i, i == 0, d);
  }
}
#endif

/// Sequentially inside each of `count` lanes. Eight lanes at a time hide the latency of the operation.
template <int op, typename T> void scan_lanes(T* HWY_RESTRICT local, const T* HWY_RESTRICT x, std::size_t count) {
  constexpr std::size_t L = kScanLane;
  std::size_t lane = 0;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (std::is_same_v<T, float>) {
    for (; lane + 16 <= count; lane += 16) scan_sixteen_lanes<op>(local + lane * L, x + lane * L);
  }
#endif
  for (; lane + 8 <= count; lane += 8) {
    const T* from = x + lane * L;
    T* to = local + lane * L;
    T a = from[0], b = from[L], c = from[2 * L], d = from[3 * L];
    T e = from[4 * L], f = from[5 * L], g = from[6 * L], h = from[7 * L];
    to[0] = a, to[L] = b, to[2 * L] = c, to[3 * L] = d, to[4 * L] = e, to[5 * L] = f, to[6 * L] = g, to[7 * L] = h;
    for (std::size_t i = 1; i < L; ++i) {
      to[i] = a = combine<op>(a, from[i]);
      to[L + i] = b = combine<op>(b, from[L + i]);
      to[2 * L + i] = c = combine<op>(c, from[2 * L + i]);
      to[3 * L + i] = d = combine<op>(d, from[3 * L + i]);
      to[4 * L + i] = e = combine<op>(e, from[4 * L + i]);
      to[5 * L + i] = f = combine<op>(f, from[5 * L + i]);
      to[6 * L + i] = g = combine<op>(g, from[6 * L + i]);
      to[7 * L + i] = h = combine<op>(h, from[7 * L + i]);
    }
  }
  for (; lane < count; ++lane) {
    T value = local[lane * L] = x[lane * L];
    for (std::size_t i = lane * L + 1; i < (lane + 1) * L; ++i) local[i] = value = combine<op>(value, x[i]);
  }
}

template <int op, typename T>
void chunk_in_order(void* out_, const void* x_, std::size_t n, const void* prefix, void* total) {
  const auto* x = static_cast<const T*>(x_);
  auto* out = static_cast<T*>(out_);
  alignas(64) T local[kScanChunk];
  constexpr std::size_t L = kScanLane;
  const std::size_t full = n / L;
  scan_lanes<op>(local, x, full);
  if (full * L < n) {
    local[full * L] = x[full * L];
    for (std::size_t i = full * L + 1; i < n; ++i) local[i] = combine<op>(local[i - 1], x[i]);
  }
  T upto = local[std::min(L, n) - 1];  // the lanes so far
  for (std::size_t begin = 0; begin < n; begin += L) {
    const std::size_t end = std::min(n, begin + L);
    const bool has_prefix = begin != 0 || prefix != nullptr;
    T before = T(0);
    if (prefix != nullptr) before = *static_cast<const T*>(prefix);
    if (begin != 0) before = prefix != nullptr ? combine<op>(before, upto) : upto;
    if (begin != 0) upto = combine<op>(upto, local[end - 1]);
    if (out == nullptr) continue;
    if (has_prefix) {
      LOCKSTEP_INDEPENDENT
      for (std::size_t i = begin; i < end; ++i) out[i] = canonical(combine<op>(before, local[i]));
    } else {
      LOCKSTEP_INDEPENDENT
      for (std::size_t i = begin; i < end; ++i) out[i] = canonical(local[i]);
    }
  }
  *static_cast<T*>(total) = upto;
}

constexpr std::size_t kBlock = 64;

/// Whether any of a block beats the best.
template <int op, typename T> HWY_INLINE bool any_beats(const T* x, T best) {
  int any = 0;
  for (std::size_t i = 0; i < kBlock; ++i) any |= beats<op>(x[i], best) ? 1 : 0;
  return any != 0;
}

/// A new winner is rare: most blocks are one look at them, and one value to store.
template <int op, typename T>
void chunk_of_extrema(void* out_, const void* x_, std::size_t n, const void* prefix, void* total) {
  const auto* x = static_cast<const T*>(x_);
  auto* out = static_cast<T*>(out_);
  T best = prefix != nullptr ? *static_cast<const T*>(prefix) : x[0];
  T stored = canonical(best);
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t end = std::min(n, begin + kBlock);
    if (end - begin == kBlock && !any_beats<op>(x + begin, best)) {
      if (out != nullptr) std::fill(out + begin, out + end, stored);
      continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (HWY_UNLIKELY((beats<op>(x[i], best)))) {
        best = x[i];
        stored = canonical(best);
      }
      if (out != nullptr) out[i] = stored;
    }
  }
  *static_cast<T*>(total) = best;
}

template <int op, typename T> void combine_arrays(void* out_, const void* a_, const void* b_, std::size_t n) {
  auto* out = static_cast<T*>(out_);
  const auto* a = static_cast<const T*>(a_);
  const auto* b = static_cast<const T*>(b_);
  LOCKSTEP_INDEPENDENT
  for (std::size_t i = 0; i < n; ++i) out[i] = combine<op>(a[i], b[i]);
}

template <int op, typename T>
void step(void* out_, void* local_, const void* x_, const void* prefix_, bool starts, std::size_t n) {
  auto* out = static_cast<T*>(out_);
  auto* local = static_cast<T*>(local_);
  const auto* x = static_cast<const T*>(x_);
  const auto* prefix = static_cast<const T*>(prefix_);
  if (starts) {
    LOCKSTEP_INDEPENDENT
    for (std::size_t t = 0; t < n; ++t) local[t] = x[t];
    if (prefix == nullptr) {
      LOCKSTEP_INDEPENDENT
      for (std::size_t t = 0; t < n; ++t) out[t] = canonical(x[t]);
    } else {
      LOCKSTEP_INDEPENDENT
      for (std::size_t t = 0; t < n; ++t) out[t] = canonical(combine<op>(prefix[t], x[t]));
    }
  } else if (prefix == nullptr) {
    LOCKSTEP_INDEPENDENT
    for (std::size_t t = 0; t < n; ++t) {
      const T value = combine<op>(local[t], x[t]);
      local[t] = value;
      out[t] = canonical(value);
    }
  } else {
    LOCKSTEP_INDEPENDENT
    for (std::size_t t = 0; t < n; ++t) {
      const T value = combine<op>(local[t], x[t]);
      local[t] = value;
      out[t] = canonical(combine<op>(prefix[t], value));
    }
  }
}

template <int op, typename T>
void positions(std::int64_t* out, const void* x_, std::size_t n, std::int64_t first, void* best_,
               std::int64_t* position) {
  const auto* x = static_cast<const T*>(x_);
  T best = *static_cast<const T*>(best_);
  std::int64_t at = *position;
  for (std::size_t begin = 0; begin < n; begin += kBlock) {
    const std::size_t end = std::min(n, begin + kBlock);
    if (end - begin == kBlock && !any_beats<op>(x + begin, best)) {
      if (out != nullptr) std::fill(out + begin, out + end, at);
      continue;
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (HWY_UNLIKELY((beats<op>(x[i], best)))) {
        best = x[i];
        at = first + static_cast<std::int64_t>(i);
      }
      if (out != nullptr) out[i] = at;
    }
  }
  *static_cast<T*>(best_) = best;
  *position = at;
}

template <int op, typename T> void fill(ScanTable& table, ComputeType type) {
  const std::size_t t = index_of(type);
  table.combine[op][t] = combine_arrays<op, T>;
  table.step[op][t] = step<op, T>;
  table.positions[op][t] = nullptr;
  if constexpr (op == ScanTable::max || op == ScanTable::min) {
    table.chunk[op][t] = chunk_of_extrema<op, T>;
    table.positions[op][t] = positions<op, T>;
  } else {
    table.chunk[op][t] = chunk_in_order<op, T>;
  }
}

template <int op> void fill_types(ScanTable& table) {
  fill<op, float>(table, ComputeType::f32);
  fill<op, double>(table, ComputeType::f64);
  fill<op, std::int32_t>(table, ComputeType::i32);
  fill<op, std::int64_t>(table, ComputeType::i64);
}

ScanTable make_table() {
  ScanTable table;
  fill_types<ScanTable::sum>(table);
  fill_types<ScanTable::prod>(table);
  fill_types<ScanTable::max>(table);
  fill_types<ScanTable::min>(table);
  return table;
}

}  // namespace

LOCKSTEP_TARGET_END(ScanTable, scan_table, make_table())
