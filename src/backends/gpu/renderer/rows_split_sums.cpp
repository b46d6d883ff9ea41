// What comes of the chunks of a row: they are reduced by R again.
#include "backends/gpu/renderer/rows_split.h"

#include <algorithm>
#include <bit>
#include <functional>

namespace lockstep {
inline namespace v0 {
namespace gpu {

void SplitKernel::take_chunks(const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                              const std::vector<Reduction>& ordered, int teams, const std::string& count) {
  lines_.open("for (int start = 0; start < chunks; start += {}) {{", teams * static_cast<int>(kChunk));
  lines_.add("int first = start{};", teams > 1 ? fmt::format(" + team * {}", static_cast<int>(kChunk)) : "");
  lines_.add("int end = SELECT(chunks - first < {0}, chunks, first + {0});", static_cast<int>(kChunk));
  lines_.add("int c = first + lane;");
  // Batches of loads that are under way together, and what is left.
  const auto word = [&](std::size_t r, int field, const std::string& at) {
    return fmt::format("LOAD_U64(parts{}, LONG(row) * LONG(chunks) + LONG({}) + LONG({}) * {})", numbers[r], at, field,
                       count);
  };
  // Slices of a chunk are lanes that still have to be combined.
  const auto slices = [&](std::size_t r) {
    std::vector<std::string> lanes;
    for (int s = 0; s < plan_.slices; ++s) {
      lanes.push_back(
          from_word(reductions[r].operand_type(),
                    fmt::format("LOAD_U64(parts{}, (LONG(row) * LONG(chunks) + LONG(c)) * LONG({}) + LONG({}))",
                                numbers[r], plan_.slices, s)));
    }
    for (; lanes.size() > 1; lanes.resize(lanes.size() / 2)) {
      for (std::size_t s = 0; s < lanes.size() / 2; ++s) {
        lanes[s] = reductions[r].combined(lanes[s], lanes[s + lanes.size() / 2]);
      }
    }
    return lanes[0];
  };
  const auto take = [&](const std::function<std::string(std::size_t, int)>& word_of) {
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      std::vector<std::string> fields;
      for (const auto& [name, type] : reductions[r].state()) {
        fields.push_back(from_word(type, word_of(r, static_cast<int>(fields.size()))));
      }
      if (reductions[r].is_ordered()) {
        reductions[r].add(lines_, "", fields[0]);
      } else {
        reductions[r].merge(lines_, fields);
      }
    }
  };
  if (plan_.chunks > kBatch * kLanes && plan_.slices == 1) {
    lines_.add("UNROLL_BY(1)");
    lines_.open("for (; c + {} < end; c += {}) {{", (2 * kBatch - 1) * team_, 2 * kBatch * team_);
    for (std::size_t r = 0; r < reductions.size(); ++r) {
      for (std::size_t field = 0; field < reductions[r].state().size(); ++field) {
        lines_.add("ULONG words{}_{}[{}];", r, field, 2 * kBatch);
        lines_.add("UNROLL");
        lines_.add("for (int b = 0; b < {}; b++) words{}_{}[b] = {};", 2 * kBatch, r, field,
                   word(r, static_cast<int>(field), fmt::format("c + b * {}", team_)));
      }
    }
    lines_.add("UNROLL");
    lines_.open("for (int b = 0; b < {}; b++) {{", 2 * kBatch);
    take([](std::size_t r, int field) { return fmt::format("words{}_{}[b]", r, field); });
    lines_.close();
    lines_.close();
  }
  lines_.add("UNROLL_BY(1)");
  lines_.open("for (; c < end; c += {}) {{", team_);
  if (plan_.slices > 1) {
    for (std::size_t r = 0; r < reductions.size(); ++r) reductions[r].add(lines_, "", slices(r));
  } else {
    take([&](std::size_t r, int field) { return word(r, field, "c"); });
  }
  lines_.close();
  if (!ordered.empty()) {
    combine_lanes(lines_, ordered, "", team_, team_);
    lines_.open("if (first < chunks && lane == ((first >> 12) & {})) {{", team_ - 1);
    for (const Reduction& reduction : ordered) {
      reduction.add(lines_, "_outer", fmt::format("r{}", reduction.number()));
    }
    lines_.close();
    for (const Reduction& reduction : ordered) reduction.restart(lines_, "");
  }
  lines_.close();
}

Launch SplitKernel::sums(int phase) {
  const std::vector<int> numbers = plan_.reductions(phase);
  const std::vector<Reduction> reductions = reductions_of(numbers);
  const bool ordered_only = std::all_of(reductions.begin(), reductions.end(),
                                        [](const Reduction& reduction) { return reduction.is_ordered(); });
  // Else a team for each row.
  const bool whole_group = ordered_only && plan_.limits.threads > kLanes && plan_.chunks > kLanes &&
                           plan_.space.row_count < plan_.limits.units;
  if (whole_group) teams_ = 1;
  // Lanes that no chunk is for are left out.
  const auto lanes = std::bit_ceil(static_cast<std::uint64_t>(std::clamp<std::int64_t>(plan_.chunks, 4, kLanes)));
  team_ = static_cast<int>(lanes);
  begin(plan_.space.row_count);
  lines_.add("{} row = unit;", index_);
  const std::set<int> outputs = plan_.row_outputs(phase);
  write_row_values(phase, {}, outputs);
  lines_.add("int chunks = {};", words_.int32(plan_.chunks));
  const std::string count = words_.int64(plan_.space.row_count * plan_.chunks);
  std::vector<Reduction> ordered;
  std::vector<Reduction> extrema;
  for (std::size_t r = 0; r < reductions.size(); ++r) {
    const Reduction& reduction = reductions[r];
    (reduction.is_ordered() ? ordered : extrema).push_back(reduction);
    lines_.add("MEMORY parts{} = {};", numbers[r],
               words_.memory(Patch::Kind::scratch, 0, plan_.parts[static_cast<std::size_t>(numbers[r])]));
    start(reduction, "");
    if (reduction.is_ordered()) reduction.start(lines_, "_outer");
  }
  // Chunks of chunks: each team of the group has its own, or each row's team has all.
  const int teams = whole_group ? plan_.limits.threads / kLanes : 1;
  take_chunks(numbers, reductions, ordered, teams, count);
  if (whole_group) {
    // Lane l of the chunks of chunks is in team l mod 4.
    lines_.add("BARRIER();");
    lines_.open("if ((lane & {}) == team) {{", teams - 1);
    for (const Reduction& reduction : ordered) reduction.share(lines_, "_outer", "lane");
    lines_.close();
    lines_.add("BARRIER();");
    for (const Reduction& reduction : ordered) reduction.fetch(lines_, "_outer", "lane");
  }
  combine_lanes(lines_, ordered, "_outer", team_, team_);
  combine_lanes(lines_, extrema, "", team_, team_);
  for (const Reduction& reduction : reductions) {
    reduction.finish(lines_, reduction.is_ordered() ? "_outer" : "", "length == 0");
  }
  write_row_results(phase, numbers, outputs);
  Launch result = end(plan_.space.row_count);
  result.text.groups_per_unit = kGroupsPerUnit;
  return result;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
