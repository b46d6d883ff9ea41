// The kernel of rows_team.cpp: what form it takes is decided in rows_team_form.cpp, and written in rows_team.cpp.
#pragma once

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/gpu/renderer/reduction.h"
#include "kernels/order.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

class TeamKernel {
 public:
  TeamKernel(const Program& program, const RenderLimits& limits)
      : program_(program), limits_(limits), space_(Space::of(program, true)), writer_(program_, space_, words_) {
    writer_.take_hasty_bf16(limits_.arithmetic.hasty_bf16);
    find_phases();
    choose_form();
    choose_copies();
    if (limits_.arithmetic.fused_fma) writer_.flush_in_sums(held_);
  }

  Launch render();

 private:
  using Kind = Instruction::Kind;

  static constexpr int kLanes = order::kLanes;
  static constexpr int kLongestPerLane = 16;  ///< elements: more make texts that compile for seconds
  static constexpr int kLongestOfWords16 = 32;  ///< the same of rows that are moved as 8 elements of 16 bits at once
  static constexpr int kThreadsOfWords16 = 128;
  static constexpr int kThreadsOfHanded = 128;
  static constexpr int kNear = 32;            ///< threads that have NEAR_OTHER
  static constexpr std::size_t kFewHeld = 2;  ///< values: what softmax alone holds
  static constexpr int kMostHeldWords = 64;  ///< per thread, across phases
  /// With more, or more loads under way, compilers spend registers until too few workgroups run at once: so many
  /// threads should, on each unit.
  static constexpr int kFewHeldWords = 32;
  static constexpr std::size_t kFewBytesUnderWay = 64;
  static constexpr int kThreadsOfManyWords = 1024;
  static constexpr int kThreadsOfStagedWords = 1536;      ///< the same where what is held is in shared memory
  static constexpr std::size_t kMostBytesUnderWay = 128;  ///< of a thread's loads into registers
  static constexpr int kLeastGroups = 3;                 ///< of a unit at once, whose rows have room in shared memory

  const Instruction& code(int i) const { return program_.code[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(program_.code.size()); }
  bool is_row(int i) const { return code(i).extent == Extent::row; }
  bool is_row_of(int i, int phase) const {
    return is_row(i) && code(i).kind != Kind::reduce && phases_[static_cast<std::size_t>(i)] == phase;
  }
  bool loads_input(int i) const { return code(i).kind == Kind::load || code(i).kind == Kind::load_bits; }
  /// Whether value i is loaded from the same place in every row: it is near, and not held across phases.
  bool is_of_columns(int i) const;

  std::set<int> row_instructions() const;

  void ask_for_inputs();
  void keep_apart();
  // Whether a view gives all rows the same.
  bool is_same_for_rows(const View& view) const;
  void find_phases();

  // The vector values that are reduced or stored in `phase`.
  std::vector<int> roots(int phase) const;

  std::vector<int> outputs_of(int phase) const;

  void choose_form();

  // The values that `phase` takes from earlier ones.
  std::set<int> taken_by(int phase) const;
  // Finds which of the held values wait where they are staged for their sum.
  void find_staged();
  // Reads those that `phase` takes, of one group of neighbours.
  void take_staged(int phase);
  bool is_in_stage(int i) const { return staged_at_.contains(i); }

  int held_words() const;
  std::size_t bytes_under_way() const;  ///< of a thread's loads of a row, in the first phase

  // What is held of value i, a float, where that is the upper half of its bits: two elements in a word.
  bool is_held_in_pairs(int i) const { return limits_.copies_to_shared && width_ > 1 && writer_.is_bf16(i); }
  // Fewer threads a row with more elements each, which pay with CUDA, and with Vulkan in few instructions an element.
  bool is_for_few_threads() const {
    return limits_.copies_to_shared || (has_low() && held_.size() <= kFewHeld) ||
           (limits_.arithmetic.hasty_bf16 &&
            std::any_of(held_.begin(), held_.end(), [&](int i) { return writer_.is_bf16(i); }));
  }
  // What is held at place `at` of the thread's elements, whose number among its neighbours is `q`.
  std::string held_value(int i, const std::string& at, const std::string& q) const;
  void hold(int i, const std::string& at, const std::string& q);

  // Of exponentials of what is at most 0 and no NaN where a row value, an int, is not 0: that one. Those that softmax
  // takes, of elements less the row's largest, if that is finite.
  std::optional<int> guard_of_low(int exponential) const;

  // On what this thread's operands of exponential i are from -32 to 0: a condition on its elements and row values.
  std::optional<std::string> condition_of_mild(int exponential) const;
  // Of the quotient of an exponential and the sum of a row of them: that exponential.
  std::optional<int> exponential_of_share(int i) const;

  // What may be computed in fewer instructions where a condition holds, as for most rows.
  struct Shortcuts {
    std::string condition;  ///< empty: none
    ProgramWriter::Shortcuts of;
    std::set<int> sure;  ///< reductions, sums of squares that are zero or at least 2^-126
  };
  Shortcuts shortcuts_of(int phase) const;
  bool is_difference_of_row(int i) const;  ///< x - w of a row value w

  // Where a thread would need many registers to have all that it reads of a row under way at once, shared memory does.
  void choose_copies();

  // How many threads a row has, and how many neighbours they load at once.
  void choose_team();

  // Shared memory that combining takes, with `width` neighbours per thread. (Those of one: at least as much for
  // extrema.)
  std::size_t combining_bytes(int width) const;

  // Whether all sums of a phase have room in shared memory with teams of this size. All have words of one type.
  bool fits_staged(int team) const;
  std::size_t staged_bytes(int team) const {
    return staged_arrays(team).size() * 4 * static_cast<std::size_t>(stage_size(team) * limits_.threads / team) +
           combining_bytes(1);
  }

  // The shared arrays of the phase that needs most.
  std::vector<SharedArray> staged_arrays(int team) const;
  int stage_size(int team) const {
    if (by_steps_) return team * width_;
    const std::int64_t least = std::max<std::int64_t>(space_.length, team);
    return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(least)));
  }

  void stage(int team);

  // Rows whose lanes are two to a thread, in each 32 threads, which hand sums on to the next: no stage in shared
  // memory.
  bool hands_on();
  std::string group_of(const std::string& s) const;
  void hand_on(const std::vector<Reduction>& reductions, int phase);

  std::vector<Reduction> reductions_of(int phase) const;

  bool always_live() const { return limits_.threads == team_; }
  /// Extrema of floats need no positions but where zeros of both signs tie.
  bool is_quick(const Reduction& reduction) const { return width_ > 1 && reduction.is_float_extremum(); }
  /// The largest by words, where what is held can be looked at again.
  bool is_by_words(const Reduction& reduction) const;
  /// NEAR_OTHER pays: with Vulkan where rows have few threads (other texts became slower).
  bool has_near_others() const { return limits_.bf16_pairs || (limits_.arithmetic.near_teams && has_low()); }

  // The instructions of a phase for the element of this thread whose number among them is `held`; `element`, its number
  // in the row, is declared, and `from` is where places are counted from.
  void write_element(int phase, const std::vector<Reduction>& reductions, const std::string& held,
                     const std::string& from, int first_dim, const std::set<int>& pairs = {});

  // Element 2p + h of a phase, or what of it is wanted, where `pairs` are there as words of two.
  void write_needed(int phase, const std::vector<int>& wanted, const std::string& held, const std::set<int>& pairs);
  // Declares the words of what is rounded to bf16, of elements 2p and 2p + 1, and says what those are.
  std::set<int> write_pairs(int phase);
  void declare_element(int phase);  ///< where element 2p + h is
  std::string pair_of(int phase, int i, const std::set<int>& pairs) const;
  int behind_casts(int i) const;  ///< what value i is, but for casts that change nothing

  // Whether an extremum is made of words of two that are held, when all are there.
  bool is_best_of_pairs(const Reduction& reduction) const;
  void write_best_of_pairs(const Reduction& reduction);

  // Where this thread's neighbours of step s begin, counted from where the row does.
  std::string first_of_group() const;

  // A phase's elements, one by one.
  void write_elements(int phase, const std::vector<Reduction>& reductions);

  // Where group s of this thread's neighbours begins in the row; it is there in the block that is opened.
  void open_group(const std::set<int>& computed, const std::set<int>& stored);

  void write_copies();
  std::string copied_at() const { return fmt::format("team * {} + group", steps_ * team_); }

  // The same by groups of neighbours, which are loaded and stored at once.
  void write_vectors(int phase, const std::vector<Reduction>& reductions);

  // Whether what it stores is made as RoundedRows: each 8 threads have a block together.
  bool rounds() const;

  void write_phase(int phase);

  // Loads do not pass barriers: what all steps of `loads` read of these inputs is on its way before the first one.
  void load_ahead(std::set<int> loads, const std::set<int>& inputs);
  void load_ahead_of_sums();
  // A unit has one workgroup at most, so that it waits for whatever is read.
  bool has_few_rows() const {
    return limits_.copies_to_shared && space_.row_count <= std::int64_t{limits_.units} * (limits_.threads / team_);
  }

  // Adds what a step has staged.
  void chain_step(const std::vector<Reduction>& reductions, const Shortcuts& shortcuts);

  // Whether an exponential takes elements less their largest, which reduction `largest` gives; any, if -1.
  bool has_low(int largest = -1) const;
  // Takes the largest that words tell, or else looks at what is held.
  void take_words(const Reduction& reduction);
  // For each of this thread's elements of what is held, `element` in the row.
  void write_held(int i, const std::function<void(const std::string& value)>& write);

  // Where this thread's first zero is, if its best value is one: looked for only then, among values that are held.
  void find_zeros(const std::vector<Reduction>& reductions);

  // Makes of every thread's part the row's result, which all threads get, or the first kNear alone,
  // in a block that stays open.
  void combine(const std::vector<Reduction>& reductions, int phase, bool for_few);

  // The row values of the phase behind this one where they take long and the first kNear threads alone compute them,
  // with the reduction that they need; else none. Then those hand out what others take.
  std::set<int> rows_of_few(int phase, const std::vector<Reduction>& reductions) const;
  void hand_out(int reduction, const std::set<int>& rows);

  void write_row_outputs();

  const Program& program_;
  RenderLimits limits_;
  Space space_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  std::vector<SharedArray> shared_;

  std::vector<int> phases_;  ///< of each instruction
  int last_phase_ = 0;
  std::vector<std::set<int>> computed_;  ///< vector values, by phase
  std::set<int> held_;                   ///< of those, what later phases take from registers
  std::map<int, int> staged_at_;         ///< of those, what later phases take from there: the number of the stage
  std::set<int> declared_;
  std::set<int> handed_out_;      ///< row values that the first threads have computed for all
  int team_ = kLanes;             ///< threads of a row
  int width_ = 1;                 ///< neighbours that a thread computes together
  int sets_ = 1;                  ///< such groups per thread that are lanes of their own
  int steps_ = 0;                 ///< such groups per thread
  ProgramWriter::Copies copied_;  ///< what the first phase takes from shared memory
  bool full_ = false;             ///< rows have steps_ * team_ * width_ elements, so that none has to be checked
  bool staged_ = false;
  bool handed_ = false;    ///< staged in registers: each 32 threads have all lanes, and a part of the row
  bool by_steps_ = false;  ///< what is staged is summed after every step, so that it takes little shared memory
  bool holds_ = false;
  std::set<int> lowest_;      ///< the largest numbers of whose elements this thread knows a lower bound
  std::set<int> ahead_;       ///< inputs whose words phases take from registers
  std::set<int> ever_ahead_;  ///< those of all phases so far
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
