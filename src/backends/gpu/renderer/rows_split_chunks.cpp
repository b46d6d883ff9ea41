// Chunks of rows whose elements lie side by side: a team of threads per chunk.
#include "backends/gpu/renderer/rows_split.h"

#include <algorithm>

namespace lockstep {
inline namespace v0 {
namespace gpu {

Launch SplitKernel::chunks(int phase) {
  const std::vector<int> numbers = plan_.reductions(phase);
  const std::vector<int> stored = plan_.outputs(phase);
  const std::vector<Reduction> reductions = reductions_of(numbers);
  const std::set<int> computed = needed_by(numbers, stored);
  const std::int64_t units = plan_.space.row_count * plan_.chunks;
  const bool ordered = std::all_of(reductions.begin(), reductions.end(),
                                   [](const Reduction& reduction) { return reduction.is_ordered(); });
  const bool extrema = !reductions.empty() && std::none_of(reductions.begin(), reductions.end(),
                                                           [](const Reduction& r) { return r.is_ordered(); });
  const bool fits = shared_bytes_of(reductions, plan_.limits.threads, 8) <= plan_.limits.shared_bytes;
  const int width = (ordered || extrema) && fits && writer_.choose_vectors() ? writer_.width() : 1;
  team_ = kLanes / width;
  begin(units);
  lines_.add("{} row = {};", index_, quotient(words_, "unit", plan_.chunks, wide_));
  lines_.add("{0} chunk = unit - row * {1};", index_, words_.index(plan_.chunks, wide_));
  write_row_values(phase, computed, stored_in(phase, stored));
  for (const Reduction& reduction : reductions) {
    if (width > 1 && ordered) {
      reduction.start_lanes(lines_, width);
    } else {
      reduction.start(lines_, "");
    }
    const int places = plan_.limits.threads * (ordered ? width : 1);
    for (SharedArray& array : reduction.shared(places)) shared_.push_back(std::move(array));
  }
  if (width > 1) {
    write_vectors(reductions, computed, stored, width);
  } else {
    lines_.add("UNROLL_BY(8)");
    lines_.open("for (int s = 0; s < {}; s++) {{", plan_.chunk / kLanes);
    lines_.add("{0} element = chunk * {0}({1}) + {0}(lane + s * {2});", index_, plan_.chunk, team_);
    lines_.open("if (element < length) {{");
    decompose(lines_, words_, plan_.space.shape, plan_.space.rows, plan_.space.shape.rank(), "element", "i", wide_);
    write_element(reductions, computed, stored, "row", plan_.space.rows, "");
    lines_.close();
    lines_.close();
  }
  if (width > 1 && ordered) {
    combine_sums(lines_, reductions, kLanes, width, team_, false);
  } else {
    combine_lanes(lines_, reductions, "", team_, team_);
  }
  write_results(phase, numbers, reductions, width > 1 && ordered ? "_sum" : "");
  Launch result = end(units);
  if (computed.size() <= kShortCode) result.text.groups_per_unit = kGroupsPerUnit;
  return result;
}

void SplitKernel::write_vectors(const std::vector<Reduction>& reductions, const std::set<int>& computed,
                                const std::vector<int>& stored, int width) {
  const std::set<int> outputs(stored.begin(), stored.end());
  const bool full = plan_.space.length % plan_.chunk == 0;
  const int steps = plan_.chunk / kLanes;
  const int batch = computed.size() <= kShortCode ? kBatch : 1;
  if (!full) {
    lines_.add("{0} rest = length - chunk * {0}({1});", index_, plan_.chunk);
    lines_.add("int elements = SELECT(rest < {0}({1}), int(rest), {1});", index_, plan_.chunk);
  }
  lines_.add("UNROLL_BY(1)");
  lines_.open("for (int first_step = 0; first_step < {}; first_step += {}) {{",
              full ? std::to_string(steps) : fmt::format("elements / {} * {}", kLanes * batch, batch), batch);
  writer_.declare_batch(lines_, batch, computed);
  for (const bool loads : {true, false}) {
    lines_.add("UNROLL");
    lines_.open("for (int b = 0; b < {}; b++) {{", batch);
    lines_.add("int s = first_step + b;");
    write_places(computed, outputs, width);
    if (loads) {
      writer_.load_batch(lines_, "v", "first", computed);
    } else {
      writer_.load_vectors(lines_, "v", "first", {}, outputs);
      write_group(reductions, computed, stored, width);
    }
    lines_.close();
  }
  lines_.close();
  writer_.end_batch();
  if (full) return;
  lines_.add("UNROLL_BY(1)");
  lines_.open("for (int s = elements / {} * {}; s * {} < elements; s++) {{", kLanes * batch, batch, kLanes);
  lines_.open("if ((lane + s * {}) * {} < elements) {{", team_, width);
  write_places(computed, outputs, width);
  writer_.load_vectors(lines_, "v", "first", computed, outputs);
  write_group(reductions, computed, stored, width);
  lines_.close();
  lines_.close();
}

void SplitKernel::write_places(const std::set<int>& computed, const std::set<int>& outputs, int width) {
  const int last = plan_.space.shape.rank() - 1;
  lines_.add("{0} group = chunk * {0}({1}) + {0}(lane + s * {2});", index_, plan_.chunk / width, team_);
  Shape groups = plan_.space.shape;
  groups[last] /= width;
  decompose(lines_, words_, groups, plan_.space.rows, last + 1, "group", "g", wide_);
  for (int d = plan_.space.rows; d < last; ++d) lines_.add("{0} i{1} = g{1};", index_, d);
  lines_.add("{0} first = g{1} * {0}({2});", index_, last, width);
  writer_.declare_places(lines_, "v", "row", plan_.space.rows, last, computed, outputs, false);
}

void SplitKernel::write_group(const std::vector<Reduction>& reductions, const std::set<int>& computed,
                              const std::vector<int>& stored, int width) {
  const int last = plan_.space.shape.rank() - 1;
  lines_.add("UNROLL");
  lines_.open("for (int q = 0; q < {}; q++) {{", width);
  lines_.add("{0} i{1} = first + {0}(q);", index_, last);
  // Sums have an accumulator for each neighbour; the order of extrema does not matter.
  const bool extrema = !reductions.empty() && !reductions[0].is_ordered();
  if (extrema) lines_.add("{0} element = group * {0}({1}) + {0}(q);", index_, width);
  write_element(reductions, computed, stored, "v", last, extrema ? "" : "[q]");
  lines_.close();
  if (stored.empty()) return;
  lines_.open("if (live) {{");
  writer_.store_vectors(lines_, "v", "first", {stored.begin(), stored.end()});
  lines_.close();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
