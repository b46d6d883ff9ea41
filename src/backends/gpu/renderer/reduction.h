// Reductions inside a kernel, in the order of docs/numerics.md section 4: every lane of a team accumulates its
// elements, then lanes combine by halving in shared memory. Missing lanes and elements hold the identity (-0 for sums),
// which changes no bit; extrema keep a key and a position, so that their order does not matter.
#pragma once

#include <string>
#include <vector>

#include "backends/gpu/renderer/program.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// One reduction of a program.
class Reduction {
 public:
  Reduction(const Instruction& step, int number, ComputeType operand, bool wide);

  bool is_ordered() const { return ordered_; }
  int number() const { return number_; }
  /// Declares the accumulators named with `suffix`, holding the identity.
  void start(Lines& lines, const std::string& suffix) const;
  /// Sets them back to the identity.
  void restart(Lines& lines, const std::string& suffix) const;
  /// Adds element `element` of value(s) a, b to the accumulators; sums of products of f32 by `fma`.
  void accumulate(Lines& lines, const std::string& suffix, const std::string& a, const std::string& b,
                  const std::string& element, const char* fma = "FMA_EXACT") const;
  /// Adds a result, as combining does.
  void add(Lines& lines, const std::string& suffix, const std::string& result) const;
  /// The accumulators' names and types, and what takes in those of another part: `fields` in the same order.
  std::vector<std::pair<std::string, ComputeType>> state() const;
  void merge(Lines& lines, const std::vector<std::string>& fields) const;
  /// The operands' elements in shared memory, and the chain of one lane over them: for rows whose elements are computed
  /// by more threads than there are lanes. `guarded`: FMA_EXACT is slow (contraction.h, is_guarded), so that a chain is
  /// made with FMA, and once more only where an element is too small for it.
  std::vector<SharedArray> stages(int index, int size) const;
  void stage(Lines& lines, const char* array, int index, const std::string& a, const std::string& b,
             const std::string& at) const;
  void chain(Lines& lines, int index, const std::string& from, int size,
             bool guarded) const;  ///< size: of all rows, 0 if they differ
  /// The same in parts of `size` elements, of the last of which only `left` (an int) are there, unless all are `full`.
  void start_chain(Lines& lines, bool guarded) const;
  /// `sure`: a condition on which no element is too small, or empty.
  void chain_part(Lines& lines, int index, const std::string& from, int size, bool full, bool guarded,
                  const std::string& sure) const;
  /// The chains of `width` lanes over the `steps` elements of each that this thread has in arrays, which start at what
  /// r<number>[q] holds.
  void chain_held(Lines& lines, const std::string& arrays, int index, int steps, int width) const;
  /// Sums and products: an accumulator for each of `width` neighbours, named r<number>[q].
  void start_lanes(Lines& lines, int width) const;
  /// Writes them to this thread's `width` places of the shared array, and reads others from there.
  void write_lanes(Lines& lines, int width) const;
  void read_lanes(Lines& lines, const std::string& from, int width) const;
  /// Of `from` accumulators of a thread, whose lanes are as far apart as their numbers say, leaves the first `to`.
  void halve(Lines& lines, int from, int to) const;
  /// Largest and smallest floats without positions: an accumulator of values, and where the first zero was, since zeros
  /// of both signs are equal and the first one wins.
  bool is_float_extremum() const;
  /// Of start_quick: any zero will do.
  void take_any_zero() { any_zero_ = true; }
  bool takes_any_zero() const { return any_zero_; }
  void start_quick(Lines& lines) const;
  /// The largest of the elements' words, as ints, `upper`, and unsigned, `lower`: the largest element, and the smallest
  /// if one is negative.
  void start_words(Lines& lines) const;
  void take_word(Lines& lines, const std::string& a) const;
  /// Takes `upper` for the largest, and declares `lowest`, which no element is below. The condition on which both are.
  std::string take_words(Lines& lines) const;
  void find_zero(Lines& lines, const std::string& a, const std::string& element) const;  ///< in ascending order
  std::string better(const std::string& a, const std::string& b) const;
  /// Writes the accumulators to a place in the shared arrays: this thread's.
  void share(Lines& lines, const std::string& suffix, const std::string& place = "THREAD") const;
  /// Combines this thread's place with another's.
  void combine(Lines& lines, const std::string& other) const;
  /// Reads the team's result into the accumulators.
  void fetch(Lines& lines, const std::string& suffix, const std::string& from) const;
  /// Declares v<number>, the canonical value; `empty` is a condition.
  void finish(Lines& lines, const std::string& suffix, const std::string& empty) const;
  std::vector<SharedArray> shared(int threads, bool quick = false) const;
  ComputeType operand_type() const { return operand_; }

  std::string combined(const std::string& a, const std::string& b) const;

 private:
  /// With FMA_EXACT, where it is needed or hardly ever, or with FMA, beside a look at the elements or without.
  enum class Chain : std::uint8_t { plain, rare, watched, sure };
  bool is_watched(bool guarded) const {
    return guarded && step_.reduce == ReduceOp::dot && operand_ == ComputeType::f32;
  }
  void chain_by(Lines& lines, int index, const std::string& from, int size, Chain kind, const std::string& end) const;
  std::string beats(const std::string& key, const std::string& at, const std::string& best_key,
                    const std::string& best_at) const;

  Instruction step_;
  int number_;
  ComputeType operand_;  ///< type in which elements are taken
  ComputeType key_;      ///< extrema
  bool ordered_;
  bool largest_ = false;
  bool position_ = false;  ///< argmax, argmin
  bool any_zero_ = false;
  bool wide_;
};

/// Bytes of shared memory that reductions take which keep `width` neighbours per thread (start_lanes), or one.
std::size_t shared_bytes_of(const std::vector<Reduction>& reductions, int threads, int width);
/// Combines the first `lanes` (a power of two) threads of each team by halving; what comes of it goes to the
/// accumulators of all `team_threads` threads of the team.
void combine_lanes(Lines& lines, const std::vector<Reduction>& reductions, const std::string& suffix, int lanes,
                   int team_threads);

/// Combines `lanes` (a power of two) sums of each team, of which every thread holds `width` neighbours in r<number>[q],
/// or one in r<number> if width is 1. All threads get the result, in r<number>_sum.
/// `near_others`: threads read each other's values by NEAR_OTHER. `for_few`: only the first 32 threads
/// get it, in a block that stays open.
void combine_sums(Lines& lines, const std::vector<Reduction>& reductions, int lanes, int width, int team_threads,
                  bool near_others, bool for_few = false);
/// The same of 64 lanes of which each 32 threads hold two neighbours, in r<number>[q]: by NEAR_OTHER alone.
void combine_near_lanes(Lines& lines, const std::vector<Reduction>& reductions);
/// The same for float extrema of start_quick, in r<number>.
void combine_quick(Lines& lines, const std::vector<Reduction>& reductions, int team_threads, bool near_others);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
