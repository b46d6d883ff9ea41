// The kernel of rows_team.cpp: what form it takes is decided in rows_team_form.cpp, and written in rows_team.cpp.
#pragma once

#include <algorithm>
#include <bit>
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
    find_phases();
    choose_form();
    choose_copies();
  }

  Launch render();

 private:
  using Kind = Instruction::Kind;

  static constexpr int kLanes = order::kLanes;
  static constexpr int kLongestPerLane = 16;  ///< elements: more make texts that compile for seconds
  static constexpr int kMostHeldWords = 64;   ///< per thread, across phases
  /// With more, compilers spend registers until too few workgroups run at once: these should, on each unit.
  static constexpr int kFewHeldWords = 32;
  static constexpr int kGroupsOfManyWords = 4;
  static constexpr std::size_t kMostBytesUnderWay = 64;  ///< of a thread's loads into registers
  static constexpr int kLeastGroups = 3;                 ///< of a unit at once, whose rows have room in shared memory

  const Instruction& code(int i) const { return program_.code[static_cast<std::size_t>(i)]; }
  int size() const { return static_cast<int>(program_.code.size()); }
  bool is_row(int i) const { return code(i).extent == Extent::row; }
  bool loads_input(int i) const { return code(i).kind == Kind::load || code(i).kind == Kind::load_bits; }

  std::set<int> row_instructions() const;

  void find_phases();

  // The vector values that are reduced or stored in `phase`.
  std::vector<int> roots(int phase) const;

  std::vector<int> outputs_of(int phase) const;

  void choose_form();

  int held_words() const;

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
    const std::int64_t least = std::max<std::int64_t>(space_.length, team);
    return static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(least)));
  }

  void stage(int team);

  std::vector<Reduction> reductions_of(int phase) const;

  bool always_live() const { return limits_.threads == team_; }
  /// Extrema of floats need no positions but where zeros of both signs tie.
  bool is_quick(const Reduction& reduction) const { return width_ > 1 && reduction.is_float_extremum(); }

  // The instructions of a phase for the element of this thread whose number among them is `held`; `element`, its number
  // in the row, is declared, and `from` is where places are counted from.
  void write_element(int phase, const std::vector<Reduction>& reductions, const std::string& held,
                     const std::string& from, int first_dim);

  // A phase's elements, one by one.
  void write_elements(int phase, const std::vector<Reduction>& reductions);

  // Where group s of this thread's neighbours begins in the row; it is there in the block that is opened.
  void open_group(const std::set<int>& computed, const std::set<int>& stored);

  void write_copies();
  std::string copied_at() const { return fmt::format("team * {} + group", steps_ * team_); }

  // The same by groups of neighbours, which are loaded and stored at once.
  void write_vectors(int phase, const std::vector<Reduction>& reductions);

  void write_phase(int phase);

  // Where this thread's first zero is, if its best value is one: looked for only then, among values that are held.
  void find_zeros(const std::vector<Reduction>& reductions);

  // Makes of every thread's part the row's result, which all threads get.
  void combine(const std::vector<Reduction>& reductions);

  void write_row_outputs();

  const Program& program_;
  const RenderLimits& limits_;
  Space space_;
  Words words_;
  Lines lines_;
  ProgramWriter writer_;
  std::vector<SharedArray> shared_;

  std::vector<int> phases_;  ///< of each instruction
  int last_phase_ = 0;
  std::vector<std::set<int>> computed_;  ///< vector values, by phase
  std::set<int> held_;                   ///< of those, what later phases take from registers
  std::set<int> declared_;
  int team_ = kLanes;             ///< threads of a row
  int width_ = 1;                 ///< neighbours that a thread computes together
  int sets_ = 1;                  ///< such groups per thread that are lanes of their own
  int steps_ = 0;                 ///< such groups per thread
  ProgramWriter::Copies copied_;  ///< what the first phase takes from shared memory
  bool full_ = false;             ///< rows have steps_ * team_ * width_ elements, so that none has to be checked
  bool staged_ = false;
  bool holds_ = false;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
