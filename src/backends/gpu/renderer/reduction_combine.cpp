// How the threads of a team combine what each has: by halving in shared memory, two halvings at a time where a thread
// holds neighbouring lanes, eight at a time for extrema.
#include <algorithm>
#include <functional>

#include "backends/gpu/renderer/reduction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr int kNear = 32;  ///< threads for which NEAR_BARRIER is enough

const char* barrier_of(int threads) {
  return threads <= kNear ? "NEAR_BARRIER();" : "BARRIER();";
}

}  // namespace

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

void combine_sums(Lines& lines, const std::vector<Reduction>& reductions, int lanes, int width, int team_threads,
                  bool near_others, bool for_few) {
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
  if (near_others && width == 1 && lanes == 2 * kNear && team_threads >= kNear) {
    // By each 32 threads for themselves.
    for (const Reduction& reduction : reductions) {
      const int n = reduction.number();
      const auto place = [&](int at) { return fmt::format("shared{}[{} + lane % {} + {}]", n, first, kNear, at); };
      lines.add("{} r{}_sum = {};", type_name(reduction.operand_type()), n, reduction.combined(place(0), place(kNear)));
      const std::string sum = fmt::format("r{}_sum", n);
      lines.add("UNROLL");
      lines.add("for (int m = {}; m > 0; m >>= 1) {} = {};", kNear / 2, sum,
                reduction.combined(sum, fmt::format("NEAR_OTHER({}, m)", sum)));
    }
    return;
  }
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
    lines.add("{}", count > 4 || for_few ? "NEAR_BARRIER();" : all);
  }
  if (for_few) lines.open("if (lane < {}) {{", kNear);
  for (const Reduction& reduction : reductions) {
    const int n = reduction.number();
    const std::string one = fmt::format("shared{}[{}]", n, first);
    const std::string sum = count == 4   ? quarter(reduction, first, 1)
                            : count == 2 ? reduction.combined(one, fmt::format("shared{}[{} + 1]", n, first))
                                         : one;
    lines.add("{} r{}_sum = {};", type_name(reduction.operand_type()), n, sum);
  }
}

void combine_near_lanes(Lines& lines, const std::vector<Reduction>& reductions) {
  for (const Reduction& reduction : reductions) {
    const std::string r = fmt::format("r{}", reduction.number());
    lines.add("UNROLL");
    lines.open("for (int m = {}; m > 0; m >>= 1) {{", kNear / 2);
    for (const char* const q : {"[0]", "[1]"}) {
      lines.add("{} = {};", r + q, reduction.combined(r + q, fmt::format("NEAR_OTHER({}{}, m)", r, q)));
    }
    lines.close();
    lines.add("{} {}_sum = {};", type_name(reduction.operand_type()), r, reduction.combined(r + "[0]", r + "[1]"));
  }
}

void combine_quick(Lines& lines, const std::vector<Reduction>& reductions, int team_threads, bool near_others) {
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
  const std::string team = fmt::format("team * {}", 2 * team_threads);
  const bool any_zeros = std::all_of(reductions.begin(), reductions.end(),
                                     [](const Reduction& reduction) { return reduction.takes_any_zero(); });
  if (near_others && any_zeros && team_threads >= kNear) {
    // The best of each 32 threads, then of those.
    for (const Reduction& reduction : reductions) {
      const std::string r = fmt::format("r{}", reduction.number());
      lines.add("UNROLL");
      lines.add("for (int m = {}; m > 0; m >>= 1) {} = {};", kNear / 2, r,
                reduction.better(r, fmt::format("NEAR_OTHER({}, m)", r)));
    }
    if (team_threads == kNear) return;
    lines.add("BARRIER();");
    for (const Reduction& reduction : reductions) {
      lines.add("if (lane % {0} == 0) shared{1}[{2} + lane / {0}] = r{1};", kNear, reduction.number(), team);
    }
    lines.add("BARRIER();");
    for (const Reduction& reduction : reductions) best_of(reduction, team, team_threads / kNear);
    return;
  }
  lines.add("{}", all);
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
