// The kernels of rows_split.cpp, one per launch: what they share is in rows_split_kernel.cpp, and each kind has a file.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "backends/gpu/renderer/reduction.h"
#include "backends/gpu/renderer/rows_split_plan.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// A value as one of the 64-bit words that wait in scratch memory, and back.
std::string to_word(ComputeType type, const std::string& value);
std::string from_word(ComputeType type, const std::string& word);

/// One launch of a plan.
class SplitKernel {
 public:
  static constexpr int kLanes = order::kLanes;
  static constexpr int kBatch = 8;          ///< loads of a thread that are under way together
  static constexpr int kGroupsPerUnit = 4;  ///< for fewer registers a compiler would rather load one after the other
  static constexpr std::size_t kShortCode = 8;  ///< more is not repeated for each of them
  static constexpr int kColumns = 32;           ///< rows side by side in a workgroup
  static constexpr int kColumnLanes = 8;        ///< of a row, per thread, and threads per row

  explicit SplitKernel(const SplitPlan& plan)
      : plan_(plan),
        writer_(plan.program, plan.space, words_),
        wide_(plan.space.wide),
        index_(wide_ ? "LONG" : "int") {}

  // Reduces and stores the chunks of a phase.
  Launch chunks(int phase);

  // The same where neighbours in memory are of different rows: 32 rows side by side, or 32 pairs of rows whose elements
  // have 2 bytes, each by 8 threads with 8 lanes (l, l + 8, ...) in registers; of s slices of a chunk each has every s-th
  // lane, and its threads 8 / s of them. For sums and products.
  Launch columns(int phase);

  // Reduces the chunks' results of a phase by R, and stores row values if nothing is to come after it.
  Launch sums(int phase);

 private:
  // Adds the chunks' results to the accumulators of sums(), 4096 for each of `teams` at a time; `count` is the words'
  // between two fields of a result.
  void take_chunks(const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                   const std::vector<Reduction>& ordered, int teams, const std::string& count);

  // A chunk's elements by groups of `width` neighbours. Where there are enough of them, many loads come before what
  // takes them, so that they are under way together; none of these has to be checked.
  void write_vectors(const std::vector<Reduction>& reductions, const std::set<int>& computed,
                     const std::vector<int>& stored, int width);

  // How many elements of a column, or of `width` columns, a thread loads before it adds them: their bytes are under way
  // together. Where columns are pairs, there are half as many threads.
  int column_loads(const std::set<int>& computed, int width) const;

  // This thread's row of columns(), or the first of `count`, and its values.
  void write_row_of(const std::string& number, int count, int phase, const std::set<int>& computed,
                    const std::set<int>& outputs);

  // `count` elements of a column, or of a pair of columns: s, s + 8, ...
  void write_column(const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                    const std::set<int>& computed, const std::vector<int>& stored, int count, bool checked);

  // Where this thread's group of neighbours of step s is.
  void write_places(const std::set<int>& computed, const std::set<int>& outputs, int width);

  // A group's elements, whose words are loaded.
  void write_group(const std::vector<Reduction>& reductions, const std::set<int>& computed,
                   const std::vector<int>& stored, int width);

  // One element's instructions; its places are counted from part `from`.
  void write_element(const std::vector<Reduction>& reductions, const std::set<int>& computed,
                     const std::vector<int>& stored, const std::string& from, int first_dim, const std::string& suffix);

  std::vector<Reduction> reductions_of(const std::vector<int>& numbers) const;

  // Whether `reductions`, or what is computed for them, take row values.
  bool reads_row_values(const std::vector<int>& reductions, const std::set<int>& computed) const;

  // The vector instructions that reductions and outputs take.
  std::set<int> needed_by(const std::vector<int>& reductions, const std::vector<int>& outputs) const;

  // Opens the loop over units: chunks or rows. A team without one computes the last one again and stores nothing.
  void begin(std::int64_t units);
  Launch end(std::int64_t units);

  // What a kernel of chunks stores: a row's only chunk has the row's result.
  std::set<int> stored_in(int phase, const std::vector<int>& stored) const;
  void write_results(int phase, const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                     const std::string& suffix);

  // Stores a row's results for later phases, and `outputs`; the first lane does.
  void write_row_results(int phase, const std::vector<int>& numbers, const std::set<int>& outputs);

  // Stores the results of `unit`'s chunk; the first lane does.
  void write_parts(const std::vector<int>& numbers, const std::vector<Reduction>& reductions,
                   const std::string& suffix = "");

  // Row values that are known when `phase` begins.
  void write_row_values(int phase, const std::set<int>& computed, const std::set<int>& outputs);

  // Row instructions of the phases (after, last]; reductions of earlier phases are read.
  void write_row_code(int after, int last);

  void start(const Reduction& reduction, const std::string& suffix) {
    reduction.start(lines_, suffix);
    for (SharedArray& array : reduction.shared(plan_.limits.threads)) shared_.push_back(std::move(array));
  }

  const SplitPlan& plan_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  bool wide_;
  const char* index_;
  int team_ = kLanes;  ///< threads of a unit
  int teams_ = 0;      ///< units of a workgroup; if 1, all teams are of that one
  std::vector<SharedArray> shared_;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
