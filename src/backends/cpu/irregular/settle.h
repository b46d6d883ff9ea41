// The last stage of a scatter by places: contributions to a range of places, in ascending order of their positions, are
// grouped by place, combined, and stored.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "backends/cpu/irregular/scatter.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {

template <typename T> struct Contributions {
  const std::uint32_t* places;  ///< in the range
  const T* values;
  std::int64_t count;
};

/// For one thread; keeps its memory from range to range. T is the type of the plan's values.
template <typename T> class Settler {
 public:
  explicit Settler(const ScatterPlan& plan)
      : plan_(plan), dtype_(plan.kernel.dtype), as_stored_(lockstep::size_of(dtype_) == sizeof(T)) {}

  /// `out`: the first of the range's `places` places.
  void settle(std::byte* out, std::int64_t places, const Contributions<T>& x) {
    if (x.count == 0) return;
    if (plan_.kernel.op == ScatterOp::set) {
      for (std::int64_t i = 0; i < x.count; ++i) store(out, x.places[i], x.values[i]);
    } else if (places > 16 * x.count + 64) {
      settle_few(out, x);
    } else {
      settle_many(out, places, x);
    }
  }

 private:
  T load(const std::byte* out, std::int64_t place) const {
    if (dtype_ == DType::f32 || !as_stored_) return decode<T>(dtype_, load_word(dtype_, out, place));
    T value;
    std::memcpy(&value, out + static_cast<std::size_t>(place) * sizeof(T), sizeof(T));
    return value;
  }
  /// A word, or a value that is canonical.
  void store(std::byte* out, std::int64_t place, T value) const {
    if (as_stored_) {
      std::memcpy(out + static_cast<std::size_t>(place) * sizeof(T), &value, sizeof(T));
    } else if (plan_.form == Form::word) {
      store_word(dtype_, out, place, static_cast<std::uint64_t>(value));
    } else {
      store_word(dtype_, out, place, encode(dtype_, value));
    }
  }

  T combine(T a, T b) const {
    switch (plan_.kernel.op) {
      case ScatterOp::add: return scalar::row_add(a, b, b);
      case ScatterOp::prod: return scalar::row_mul(a, b, b);
      case ScatterOp::max: return scalar::max_key(b) > scalar::max_key(a) ? b : a;
      default: return scalar::min_key(b) < scalar::min_key(a) ? b : a;
    }
  }

  /// R of x[0..n), in place.
  T combined(T* x, std::int64_t n) const {
    if (n == 1) return x[0];
    if (plan_.is_extremum()) {
      T best = x[0];
      for (std::int64_t i = 1; i < n; ++i) best = combine(best, x[i]);
      return best;
    }
    while (n > 1) {
      std::int64_t results = 0;
      for (std::int64_t begin = 0; begin < n; begin += kChunk)
        x[results++] = chunk(x + begin, std::min(kChunk, n - begin));
      n = results;
    }
    return x[0];
  }
  T chunk(T* x, std::int64_t n) const {
    constexpr auto kLaneCount = static_cast<std::int64_t>(kLanes);
    if (n > kLaneCount) {
      plan_.reduce->lanes[plan_.kind()][index_of(plan_.type)](x, x + kLaneCount, nullptr,
                                                              static_cast<std::size_t>(n - kLaneCount));
    }
    std::int64_t lanes = std::min(n, kLaneCount);
    for (std::int64_t half = kLaneCount / 2; half > 0; half /= 2) {
      for (std::int64_t l = 0; l + half < lanes; ++l) x[l] = combine(x[l], x[l + half]);
      lanes = std::min(lanes, half);
    }
    return x[0];
  }

  void finish(std::byte* out, std::int64_t place, T result) const {
    if (plan_.kernel.include_self) result = combine(load(out, place), result);
    store(out, place, scalar::canonical(result));
  }

  /// More places than are worth counting.
  void settle_few(std::byte* out, const Contributions<T>& x) {
    order_.resize(static_cast<std::size_t>(x.count));
    for (std::int64_t i = 0; i < x.count; ++i) order_[static_cast<std::size_t>(i)] = {x.places[i], i};
    std::sort(order_.begin(), order_.end());
    grouped_.resize(order_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) grouped_[i] = x.values[order_[i].second];
    for (std::size_t begin = 0, end = 0; begin < order_.size(); begin = end) {
      const std::uint32_t place = order_[begin].first;
      while (end < order_.size() && order_[end].first == place) ++end;
      finish(out, place, combined(grouped_.data() + begin, static_cast<std::int64_t>(end - begin)));
    }
  }

  void settle_many(std::byte* out, std::int64_t places, const Contributions<T>& x) {
    ends_.assign(static_cast<std::size_t>(places), 0);
    std::int64_t most = 0;
    for (std::int64_t i = 0; i < x.count; ++i) most = std::max(most, ++ends_[x.places[i]]);
    if (most == 1) {
      for (std::int64_t i = 0; i < x.count; ++i) finish(out, x.places[i], x.values[i]);
      return;
    }
    std::int64_t begin = 0;
    for (std::int64_t& count : ends_) begin += std::exchange(count, begin);
    grouped_.resize(static_cast<std::size_t>(x.count));
    for (std::int64_t i = 0; i < x.count; ++i) grouped_[static_cast<std::size_t>(ends_[x.places[i]]++)] = x.values[i];
    begin = 0;
    for (std::int64_t place = 0; place < places; ++place) {
      const std::int64_t end = ends_[static_cast<std::size_t>(place)];
      if (end > begin) finish(out, place, combined(grouped_.data() + begin, end - begin));
      begin = end;
    }
  }

  const ScatterPlan& plan_;
  DType dtype_;
  bool as_stored_;
  std::vector<std::int64_t> ends_;
  std::vector<std::pair<std::uint32_t, std::int64_t>> order_;
  std::vector<T> grouped_;
};

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
