#include "backends/gpu/renderer/reduction.h"

#include <algorithm>
#include <functional>

#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kNear = 32;  ///< threads for which NEAR_BARRIER is enough

const char* barrier_of(int threads) {
  return threads <= kNear ? "NEAR_BARRIER();" : "BARRIER();";
}

std::string identity(ReduceOp op, ComputeType type) {
  const bool product = op == ReduceOp::prod;
  switch (type) {
    case ComputeType::f32: return product ? "1.0f" : "FROM_BITS(0x80000000u)";
    case ComputeType::f64: return product ? "double(1)" : "FROM_BITS64(ULONG(1) << 63)";
    case ComputeType::i32: return product ? "1" : "0";
    case ComputeType::i64: return product ? "LONG(1)" : "LONG(0)";
  }
  return "";
}

bool is_float(ComputeType type) {
  return type == ComputeType::f32 || type == ComputeType::f64;
}

}  // namespace

Reduction::Reduction(const Instruction& step, int number, ComputeType operand, bool wide)
    : step_(step), number_(number), operand_(operand), key_(operand), wide_(wide) {
  ordered_ = step.reduce == ReduceOp::sum || step.reduce == ReduceOp::prod || step.reduce == ReduceOp::dot;
  largest_ = step.reduce == ReduceOp::max || step.reduce == ReduceOp::argmax;
  position_ = step.reduce == ReduceOp::argmax || step.reduce == ReduceOp::argmin;
  if (!position_) operand_ = step.type;
  key_ = operand_ == ComputeType::f32 ? ComputeType::i32 : operand_ == ComputeType::f64 ? ComputeType::i64 : operand_;
}

std::string Reduction::combined(const std::string& a, const std::string& b) const {
  const bool product = step_.reduce == ReduceOp::prod;
  if (operand_ == ComputeType::f32) return fmt::format("{}_EXACT({}, {})", product ? "MUL" : "ADD", a, b);
  if (operand_ == ComputeType::f64) return fmt::format("{} {} {}", a, product ? "*" : "+", b);
  return fmt::format("{}({}, {})", product ? "wrap_mul" : "wrap_add", a, b);
}

std::string Reduction::beats(const std::string& key, const std::string& at, const std::string& best_key,
                             const std::string& best_at) const {
  const char* word = wide_ ? "ULONG" : "UINT";
  return fmt::format("{0} {1} {2} || ({0} == {2} && {3}({4}) < {3}({5}))", key, largest_ ? ">" : "<", best_key, word,
                     at, best_at);
}

void Reduction::start(Lines& lines, const std::string& s) const {
  if (ordered_) {
    lines.add("{} {}{} = {};", type_name(operand_), "r" + std::to_string(number_), s, identity(step_.reduce, operand_));
    return;
  }
  const char* least = key_ == ComputeType::i32 ? "int(0x80000000u)" : "LONG(ULONG(1) << 63)";
  const char* most = key_ == ComputeType::i32 ? "int(0x7fffffffu)" : "LONG(~(ULONG(1) << 63))";
  lines.add("{} key{}{} = {};", type_name(key_), number_, s, largest_ ? least : most);
  lines.add("{} place{}{} = {}(-1);", wide_ ? "LONG" : "int", number_, s, wide_ ? "LONG" : "int");
  if (!position_) lines.add("{} r{}{} = {}(0);", type_name(operand_), number_, s, type_name(operand_));
}

void Reduction::restart(Lines& lines, const std::string& s) const {
  lines.add("r{}{} = {};", number_, s, identity(step_.reduce, operand_));
}

void Reduction::accumulate(Lines& lines, const std::string& s, const std::string& a, const std::string& b,
                           const std::string& element) const {
  const std::string r = "r" + std::to_string(number_) + s;
  if (step_.reduce == ReduceOp::dot) {
    if (is_float(operand_)) {
      lines.add("{} = {}({}, {}, {});", r, operand_ == ComputeType::f32 ? "FMA_EXACT" : "FMA64", a, b, r);
    } else {
      lines.add("{} = wrap_add(wrap_mul({}, {}), {});", r, a, b, r);
    }
    return;
  }
  if (ordered_) return lines.add("{} = {};", r, combined(r, a));
  lines.open("{{");
  lines.add("{} key = {}_key({});", type_name(key_), largest_ ? "max" : "min", a);
  // A thread takes its elements in ascending order, and every float beats the key that stands for none.
  if (is_float(operand_)) {
    lines.open("if (key {} key{}{}) {{", largest_ ? ">" : "<", number_, s);
  } else {
    lines.open("if ({}) {{",
               beats("key", element, fmt::format("key{}{}", number_, s), fmt::format("place{}{}", number_, s)));
  }
  lines.add("key{}{} = key;", number_, s);
  lines.add("place{}{} = {};", number_, s, element);
  if (!position_) lines.add("{} = {};", r, a);
  lines.close();
  lines.close();
}

void Reduction::add(Lines& lines, const std::string& s, const std::string& result) const {
  const std::string r = "r" + std::to_string(number_) + s;
  lines.add("{} = {};", r, combined(r, result));
}

void Reduction::share(Lines& lines, const std::string& s, const std::string& place) const {
  if (!ordered_) {
    lines.add("shared_key{}[{}] = key{}{};", number_, place, number_, s);
    lines.add("shared_place{}[{}] = place{}{};", number_, place, number_, s);
    if (position_) return;
  }
  lines.add("shared{}[{}] = r{}{};", number_, place, number_, s);
}

void Reduction::combine(Lines& lines, const std::string& other) const {
  if (ordered_) {
    return lines.add("shared{0}[THREAD] = {1};", number_,
                     combined(fmt::format("shared{}[THREAD]", number_), fmt::format("shared{}[{}]", number_, other)));
  }
  lines.open("if ({}) {{",
             beats(fmt::format("shared_key{}[{}]", number_, other), fmt::format("shared_place{}[{}]", number_, other),
                   fmt::format("shared_key{}[THREAD]", number_), fmt::format("shared_place{}[THREAD]", number_)));
  lines.add("shared_key{0}[THREAD] = shared_key{0}[{1}];", number_, other);
  lines.add("shared_place{0}[THREAD] = shared_place{0}[{1}];", number_, other);
  if (!position_) lines.add("shared{0}[THREAD] = shared{0}[{1}];", number_, other);
  lines.close();
}

void Reduction::fetch(Lines& lines, const std::string& s, const std::string& from) const {
  if (!ordered_) {
    lines.add("key{0}{1} = shared_key{0}[{2}];", number_, s, from);
    lines.add("place{0}{1} = shared_place{0}[{2}];", number_, s, from);
    if (position_) return;
  }
  lines.add("r{0}{1} = shared{0}[{2}];", number_, s, from);
}

std::vector<std::pair<std::string, ComputeType>> Reduction::state() const {
  std::vector<std::pair<std::string, ComputeType>> result;
  if (!ordered_) {
    result.emplace_back(fmt::format("key{}", number_), key_);
    result.emplace_back(fmt::format("place{}", number_), wide_ ? ComputeType::i64 : ComputeType::i32);
  }
  if (!position_) result.emplace_back(fmt::format("r{}", number_), operand_);
  return result;
}

void Reduction::merge(Lines& lines, const std::vector<std::string>& fields) const {
  if (ordered_) return add(lines, "", fields[0]);
  lines.open("{{");
  lines.add("{} key = {};", type_name(key_), fields[0]);
  lines.add("{} at = {};", wide_ ? "LONG" : "int", fields[1]);
  lines.open("if ({}) {{", beats("key", "at", fmt::format("key{}", number_), fmt::format("place{}", number_)));
  lines.add("key{} = key;", number_);
  lines.add("place{} = at;", number_);
  if (!position_) lines.add("r{} = {};", number_, fields[2]);
  lines.close();
  lines.close();
}

std::vector<SharedArray> Reduction::stages(int index, int size) const {
  std::vector<SharedArray> arrays = {{operand_, fmt::format("stage{}", index), size}};
  if (step_.b >= 0 && step_.b != step_.a) arrays.push_back({operand_, fmt::format("stage{}", index + 1), size});
  return arrays;
}

void Reduction::stage(Lines& lines, const char* array, int index, const std::string& a, const std::string& b,
                      const std::string& at) const {
  lines.add("{}{}[{}] = {};", array, index, at, a);
  if (step_.b >= 0 && step_.b != step_.a) lines.add("{}{}[{}] = {};", array, index + 1, at, b);
}

void Reduction::chain(Lines& lines, int index, const std::string& from, int size) const {
  if (size % order::kLanes == 0 && size > 0) {  // at most 64 per lane, which load before they add
    lines.add("UNROLL");
    lines.open("for (int first = 0; first < {}; first += {}) {{", size, order::kLanes);
    lines.add("int e = first + lane;");
  } else {
    lines.add("UNROLL_BY(16)");
    lines.open("for (int e = lane; e < int(length); e += {}) {{", order::kLanes);
  }
  const std::string a = fmt::format("stage{}[{} + e]", index, from);
  accumulate(lines, "", a, step_.b >= 0 && step_.b != step_.a ? fmt::format("stage{}[{} + e]", index + 1, from) : a,
             "e");
  lines.close();
}

void Reduction::start_lanes(Lines& lines, int width) const {
  lines.add("{} r{}[{}];", type_name(operand_), number_, width);
  lines.add("UNROLL");
  lines.add("for (int q = 0; q < {}; q++) r{}[q] = {};", width, number_, identity(step_.reduce, operand_));
}

void Reduction::write_lanes(Lines& lines, int width) const {
  if (operand_ != ComputeType::f32) {
    return lines.add("for (int q = 0; q < {0}; q++) shared{1}[int(THREAD) * {0} + q] = r{1}[q];", width, number_);
  }
  for (int q = 0; q < width; q += 4) {
    lines.add("WRITE4(shared{0}, int(THREAD) * {1} + {2}, r{0}, {2})", number_, width, q);
  }
}

void Reduction::read_lanes(Lines& lines, const std::string& from, int width) const {
  if (operand_ != ComputeType::f32) {
    return lines.add("for (int q = 0; q < {0}; q++) r{1}[q] = shared{1}[{2} + q];", width, number_, from);
  }
  for (int q = 0; q < width; q += 4) lines.add("READ4(shared{0}, {1} + {2}, r{0}, {2})", number_, from, q);
}

void Reduction::halve(Lines& lines, int from, int to) const {
  for (int h = from / 2; h >= to; h /= 2) {
    for (int q = 0; q < h; ++q) add(lines, fmt::format("[{}]", q), fmt::format("r{}[{}]", number_, q + h));
  }
}

bool Reduction::is_float_extremum() const {
  return !ordered_ && !position_ && operand_ == ComputeType::f32;
}

std::string Reduction::better(const std::string& a, const std::string& b) const {
  return fmt::format("{}({}, {})", largest_ ? "LARGER" : "SMALLER", a, b);
}

void Reduction::start_quick(Lines& lines) const {
  lines.add("float r{} = FROM_BITS({});", number_, largest_ ? "0xff800000u" : "0x7f800000u");
  if (!any_zero_) lines.add("int zero{} = 0x7fffffff;", number_);
}

void Reduction::find_zero(Lines& lines, const std::string& a, const std::string& element) const {
  lines.add("if ((BITS({0}) << 1) == 0u && zero{1} == 0x7fffffff) zero{1} = ({2} << 1) | int(BITS({0}) >> 31);", a,
            number_, element);
}

void Reduction::finish(Lines& lines, const std::string& s, const std::string& empty) const {
  if (position_) return lines.add("LONG v{0} = LONG(place{0}{1});", number_, s);
  const char* canonical = operand_ == ComputeType::f32 ? "CANONICAL_F32" : "canonical";
  if (!ordered_) return lines.add("{0} v{1} = {2}(r{1}{3});", type_name(operand_), number_, canonical, s);
  const char* none = step_.reduce == ReduceOp::prod ? "1" : "0";
  lines.add("{0} v{1} = SELECT({2}, {0}({3}), {4}(r{1}{5}));", type_name(operand_), number_, empty, none, canonical, s);
}

std::vector<SharedArray> Reduction::shared(int threads, bool quick) const {
  std::vector<SharedArray> arrays;
  if (quick) {
    arrays.push_back({operand_, fmt::format("shared{}", number_), 2 * threads});
    if (!any_zero_) arrays.push_back({ComputeType::i32, fmt::format("shared_zero{}", number_), threads});
    return arrays;
  }
  if (!ordered_) {
    arrays.push_back({key_, fmt::format("shared_key{}", number_), threads});
    arrays.push_back({wide_ ? ComputeType::i64 : ComputeType::i32, fmt::format("shared_place{}", number_), threads});
  }
  if (!position_) arrays.push_back({operand_, fmt::format("shared{}", number_), threads});
  return arrays;
}

void combine_lanes(Lines& lines, const std::vector<Reduction>& reductions, const std::string& suffix, int lanes,
                   int team_threads) {
  if (reductions.empty()) return;
  const char* const all = barrier_of(team_threads);
  lines.add("{}", all);
  for (const Reduction& reduction : reductions) reduction.share(lines, suffix);
  lines.add("{}", all);
  // The last halves are among threads that are near each other.
  const auto halve = [&](int from, int to, const char* barrier) {
    lines.open("for (int h = {}; h > {}; h >>= 1) {{", from, to);
    lines.open("if (lane < h) {{");
    for (const Reduction& reduction : reductions) reduction.combine(lines, "int(THREAD) + h");
    lines.close();
    lines.add("{}", barrier);
    lines.close();
  };
  if (lanes > 2 * kNear) halve(lanes / 2, kNear, "BARRIER();");
  if (lanes > kNear) {
    lines.open("if (lane < {}) {{", kNear);
    for (const Reduction& reduction : reductions) reduction.combine(lines, fmt::format("int(THREAD) + {}", kNear));
    lines.close();
    lines.add("NEAR_BARRIER();");
  }
  halve(std::min(lanes, kNear) / 2, 0, "NEAR_BARRIER();");
  if (team_threads > kNear) lines.add("BARRIER();");
  for (const Reduction& reduction : reductions) {
    reduction.fetch(lines, suffix, fmt::format("team * {}", team_threads));
  }
}

std::size_t shared_bytes_of(const std::vector<Reduction>& reductions, int threads, int width) {
  std::size_t bytes = 0;
  for (const Reduction& reduction : reductions) {
    const bool quick = width > 1 && reduction.is_float_extremum();
    for (const SharedArray& array : reduction.shared(threads * (reduction.is_ordered() ? width : 1), quick)) {
      const bool is_long = array.type == ComputeType::f64 || array.type == ComputeType::i64;
      bytes += static_cast<std::size_t>(array.size) * (is_long ? 8 : 4);
    }
  }
  return bytes;
}

namespace {

/// Halves n values until one is left.
std::string halved(const Reduction& reduction, const std::function<std::string(int)>& value, int n) {
  std::vector<std::string> values;
  for (int i = 0; i < n; ++i) values.push_back(value(i));
  for (int h = n / 2; h > 0; h /= 2) {
    for (int i = 0; i < h; ++i) {
      const auto at = static_cast<std::size_t>(i);
      values[at] = reduction.combined("(" + values[at] + ")", "(" + values[at + static_cast<std::size_t>(h)] + ")");
    }
  }
  return values[0];
}

/// combine_sums where a thread holds as many lanes as there are threads, or more: those of all threads with the same
/// place in their groups first, then the places.
void combine_few_threads(Lines& lines, const std::vector<Reduction>& reductions, int width, int threads) {
  const std::string first = fmt::format("team * {}", threads * width);
  const bool alone = threads == 1;
  if (!alone) {
    lines.add("NEAR_BARRIER();");
    for (const Reduction& reduction : reductions) reduction.write_lanes(lines, width);
    lines.add("NEAR_BARRIER();");
    for (int i = 0; i < width; i += threads) {
      for (const Reduction& reduction : reductions) {
        const auto place = [&](int j) {
          return fmt::format("shared{}[{} + lane + {}]", reduction.number(), first, i + j * width);
        };
        lines.add("{} = {};", place(0), halved(reduction, place, threads));
      }
    }
    lines.add("NEAR_BARRIER();");
  }
  for (const Reduction& reduction : reductions) {
    const int n = reduction.number();
    if (!alone) reduction.read_lanes(lines, first, width);
    lines.add("{} r{}_sum = {};", type_name(reduction.operand_type()), n,
              halved(
                  reduction, [&](int q) { return fmt::format("r{}[{}]", n, q); }, width));
  }
}

}  // namespace

void combine_sums(Lines& lines, const std::vector<Reduction>& reductions, int lanes, int width, int team_threads) {
  if (reductions.empty()) return;
  if (width >= team_threads) return combine_few_threads(lines, reductions, width, team_threads);
  const char* const all = barrier_of(team_threads);
  const std::string first = fmt::format("team * {}", lanes);
  if (width > 1) lines.add("{}", all);
  for (const Reduction& reduction : reductions) {
    const int n = reduction.number();
    if (width == 1) {
      lines.add("if (lane < {0}) shared{1}[{2} + lane] = r{1};", lanes, n, first);
    } else {
      reduction.write_lanes(lines, width);
    }
  }
  lines.add("{}", all);
  // Two halvings at a time: a thread adds (l, l + 2n) and (l + n, l + 3n).
  const auto quarter = [&](const Reduction& reduction, const std::string& at, int n) {
    const auto place = [&](int offset) { return fmt::format("shared{}[{} + {}]", reduction.number(), at, offset); };
    return reduction.combined("(" + reduction.combined(place(0), place(2 * n)) + ")",
                              "(" + reduction.combined(place(n), place(3 * n)) + ")");
  };
  int count = lanes;
  while (count > 4) {
    count /= 4;
    if (count < team_threads) lines.open("if (lane < {}) {{", count);
    for (int i = 0; i < count; i += team_threads) {
      const std::string at = fmt::format("{} + lane + {}", first, i);
      for (const Reduction& reduction : reductions) {
        lines.add("shared{}[{}] = {};", reduction.number(), at, quarter(reduction, at, count));
      }
    }
    if (count < team_threads) lines.close();
    lines.add("{}", count > 4 ? "NEAR_BARRIER();" : all);
  }
  for (const Reduction& reduction : reductions) {
    const int n = reduction.number();
    const std::string one = fmt::format("shared{}[{}]", n, first);
    const std::string sum = count == 4   ? quarter(reduction, first, 1)
                            : count == 2 ? reduction.combined(one, fmt::format("shared{}[{} + 1]", n, first))
                                         : one;
    lines.add("{} r{}_sum = {};", type_name(reduction.operand_type()), n, sum);
  }
}

void combine_quick(Lines& lines, const std::vector<Reduction>& reductions, int team_threads) {
  if (reductions.empty() || team_threads == 1) {
    for (const Reduction& reduction : reductions) {
      if (reduction.takes_any_zero()) continue;
      lines.add("if ((BITS(r{0}) << 1) == 0u) r{0} = FROM_BITS(UINT(zero{0}) << 31);", reduction.number());
    }
    return;
  }
  constexpr int kAtOnce = 8;
  const char* const all = barrier_of(team_threads);
  const auto best_of = [&](const Reduction& reduction, const std::string& from, int count) {
    const int n = reduction.number();
    if (count % 4 == 0) {
      lines.open("{{");
      lines.add("float others[{}];", count);
      for (int i = 0; i < count; i += 4) lines.add("READ4(shared{}, {} + {}, others, {})", n, from, i, i);
      lines.add("r{} = others[0];", n);
      for (int i = 1; i < count; ++i) {
        lines.add("r{} = {};", n, reduction.better(fmt::format("r{}", n), fmt::format("others[{}]", i)));
      }
      return lines.close();
    }
    for (int i = 0; i < count; ++i) {
      const std::string value = fmt::format("shared{}[{} + {}]", n, from, i);
      lines.add("r{0} = {1};", n, i == 0 ? value : reduction.better(fmt::format("r{}", n), value));
    }
  };
  lines.add("{}", all);
  const std::string team = fmt::format("team * {}", 2 * team_threads);
  for (const Reduction& reduction : reductions) {
    lines.add("shared{0}[{1} + lane] = r{0};", reduction.number(), team);
    if (!reduction.takes_any_zero()) lines.add("shared_zero{0}[THREAD] = zero{0};", reduction.number());
  }
  lines.add("{}", all);
  int from = 0;
  int count = team_threads;
  while (count > kAtOnce) {
    const int next = count / kAtOnce;
    lines.open("if (lane < {}) {{", next);
    for (const Reduction& reduction : reductions) {
      best_of(reduction, fmt::format("{} + {} + lane * {}", team, from, kAtOnce), kAtOnce);
      lines.add("shared{0}[{1} + {2} + lane] = r{0};", reduction.number(), team, from + count);
    }
    lines.close();
    lines.add("{}", next > kAtOnce && next <= kNear ? "NEAR_BARRIER();" : all);
    from += count;
    count = next;
  }
  for (const Reduction& reduction : reductions) {
    const int n = reduction.number();
    best_of(reduction, fmt::format("{} + {}", team, from), count);
    if (reduction.takes_any_zero()) continue;
    lines.open("if ((BITS(r{}) << 1) == 0u) {{", n);
    lines.add("UNROLL_BY(1)");
    lines.open("for (int t = 0; t < {}; t++) {{", team_threads);
    lines.add("int other = shared_zero{}[team * {} + t];", n, team_threads);
    lines.add("zero{0} = SELECT(other < zero{0}, other, zero{0});", n);
    lines.close();
    lines.add("r{0} = FROM_BITS(UINT(zero{0}) << 31);", n);
    lines.close();
  }
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
