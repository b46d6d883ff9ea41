// The instructions of a Program as statements of the kernel subset. Used by row kernels and by epilogues.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "backends/gpu/renderer/needed_roundings.h"
#include "backends/gpu/renderer/space.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// The size classes of element words: LOAD_U8 and so on, and the type of the word.
const char* load_of(DType dtype);
/// What reads an element that may be packed, by memory and position.
const char* load_of(Encoding encoding, DType dtype);
const char* store_of(DType dtype);
const char* word_type_of(DType dtype);
/// The value of a word as operand (docs/numerics.md section 1), in compute_type(dtype).
std::string decoded(DType dtype, const std::string& word, bool canonical);
/// The word of a value of type `type`.
std::string encoded(DType dtype, const std::string& value, ComputeType type);
/// `value` of type `from` as type `to`; integers only widen.
std::string converted(const std::string& value, ComputeType from, ComputeType to);

class ProgramWriter {
 public:
  ProgramWriter(const Program& program, const Space& space, Words& words);

  /// From here on `width` neighbours along the last dimension are computed together, in a loop over q: inputs and
  /// outputs that lie so that they can be moved at once are in arrays of words. False if there are none.
  /// `bounded`: inputs with borders along other dimensions count, too; load_vectors alone reads such.
  /// Not of 8 for more instructions than `most_code`: that makes texts that compile slowly.
  bool choose_vectors(int most = 8, bool bounded = false, std::size_t most_code = 24);
  /// The same for 2 neighbours of 2 or 4 bytes, if all that rows read and write is such.
  bool choose_twos();
  /// The same for 4 neighbours, but only if all that `instructions` load and all of `outputs` is moved at once.
  bool choose_vectors_for(const std::set<int>& instructions, const std::set<int>& outputs);
  /// The same for 2 neighbours of 2 bytes each along dimension `d`, if all that `instructions` load is such or the same
  /// for both.
  bool choose_pairs(int d, const std::set<int>& instructions);
  int width() const { return width_; }
  /// Inputs, and the shared arrays that they are copied to.
  using Copies = std::map<int, std::string>;
  /// Reads the words of the inputs that `instructions` load from the addresses of `part` plus `first`, but of `taken`,
  /// whose words are there; declares those of `outputs`.
  void load_vectors(Lines& lines, const std::string& part, const std::string& first, const std::set<int>& instructions,
                    const std::set<int>& outputs, const Copies& taken = {}) const;
  /// The same in two steps, for `count` groups of neighbours whose loads are under way together: arrays for all of
  /// them, and the loads of group b. Elements are then taken from group b.
  void declare_batch(Lines& lines, int count, const std::set<int>& instructions);
  void load_batch(Lines& lines, const std::string& part, const std::string& first,
                  const std::set<int>& instructions) const;
  void end_batch() { batched_ = false; }
  /// The inputs of `instructions` that load_vectors reads, and those among them that lie elsewhere in each row.
  std::set<int> vector_inputs_of(const std::set<int>& instructions) const;
  std::set<int> vector_inputs_by_row(const std::set<int>& instructions) const;
  /// Starts to copy what load_vectors would read to place `at` of those arrays, and later takes the words from there.
  void start_copies(Lines& lines, const std::string& part, const std::string& first, const std::string& at,
                    const Copies& copies) const;
  void take_copies(Lines& lines, const std::string& at, const Copies& copies) const;
  std::size_t bytes_at_once(int input) const;
  void store_vectors(Lines& lines, const std::string& part, const std::string& first, const std::set<int>& outputs);

  /// Declares the addresses of buffers. Before everything else.
  void declare_buffers(Lines& lines);
  /// Declares where this row's (or element's) data begin: part `part` over dims [first, last).
  /// Bounds are checked in the last part, where addresses are complete.
  void declare_places(Lines& lines, const std::string& part, const std::string& base, int first, int last,
                      const std::set<int>& instructions, const std::set<int>& outputs, bool complete);
  /// Declares the inverses of row values that `instructions` divide by. From here on their quotients are computed with
  /// them: an inverse costs as much as a quotient, but is needed once per row. Needs a fused FMA.
  void declare_inverses(Lines& lines, const std::set<int>& instructions);
  /// From here on groups may round to bf16 in haste (Arithmetic::hasty_bf16): program_haste.cpp.
  void take_hasty_bf16(bool has) { has_haste_ = has; }
  /// From here on what one sum alone takes, of no `kept` value, is flushed by that sum, which is a fused multiply-add
  /// with a factor of 1 or 0. Needs a fused FMA.
  void flush_in_sums(const std::set<int>& kept);
  /// Whether a group of these instructions and outputs does so.
  bool is_hasty(const std::set<int>& instructions, const std::set<int>& outputs) const;
  /// Has `elements` write the loop over neighbours of which nothing but `outputs` remains. All their quotients, and
  /// roundings in haste, share one branch: where one is doubtful, everything is computed once more.
  void write_group(Lines& lines, const std::set<int>& instructions, const std::set<int>& outputs,
                   const std::function<void()>& elements);
  /// Declares v<i>, the value of instruction i, from places of `part`. Not for reductions.
  void emit(Lines& lines, int i, const std::string& part);
  void store(Lines& lines, int output, const std::string& part);
  /// Value i, as an operand of type `type`.
  std::string value(int i, ComputeType type) const;
  static std::string name(int i) { return "v" + std::to_string(i); }
  ComputeType type_of(int i) const { return program_.code[static_cast<std::size_t>(i)].type; }

  /// The instructions whose values are the same along dims [first, last).
  std::set<int> fixed_along(int first, int last) const;

  /// Whether nothing can tell which zero value i is, if it is one.
  bool is_any_zero(int i) const { return roundings_.any_zero[static_cast<std::size_t>(i)]; }

  /// Whether load i is of canonical elements of `dtype`, which load_vectors reads.
  bool moves_canonical(DType dtype, int i) const;
  Rounding rounding_of(int i) const { return roundings_.results[static_cast<std::size_t>(i)]; }
  /// Whether value i is a float of which the lower half of the bits is zero.
  bool is_bf16(int i) const;

  /// What may be computed in fewer instructions.
  struct Shortcuts {
    std::set<int> low;       ///< exponentials of what is at most 0, and no NaN
    std::set<int> mild;      ///< exponentials of what is from -32 to 0
    std::set<int> shares;    ///< quotients of such and the sum of a row of them, which are at least 2^-59
    std::set<int> not_tiny;  ///< results that are zero, or above the smallest normal: without flushing
  };
  void take_shortcuts(Shortcuts shortcuts) { shortcuts_ = std::move(shortcuts); }

  /// The functions of the ops that were emitted.
  std::string functions() const { return functions_; }
  std::string slot(int number) const { return "slot" + std::to_string(number); }

 private:
  std::string load_word(Lines& lines, const Instruction& step, int i, const std::string& part);
  std::string gather_word(Lines& lines, const Instruction& step, int i);
  bool holds(DType dtype, int i) const;  ///< value i is one of that format
  bool divides_by_inverse(int i) const;
  void quotient(Lines& lines, const Instruction& step, int i) const;
  int behind_roundings(int i) const;  ///< to 16 bits, which the store does
  bool is_share_of_row(int i) const;
  bool is_share(int output) const;  ///< Shortcuts::shares, rounded at the store
  void begin_haste(const std::set<int>& instructions, const std::set<int>& outputs);
  bool rounds_in_haste(int i) const;  ///< a cast
  bool is_watched(int i) const;
  void find_sure(const std::set<int>& instructions, const std::set<int>& outputs);
  bool is_sure_output(int output) const;
  bool is_late(int i) const;  ///< elementwise
  void declare_factor(Lines& lines, int i, int of, const char* least);
  std::string hasty_output(int output) const;
  void watch(Lines& lines, const std::string& rounded);
  std::string elementwise(const Instruction& step, int i);
  std::string function_of(Op op, ComputeType type, Rounding rounding);
  void declare_words(Lines& lines, const std::set<int>& outputs) const;
  /// Whether the words of a vector output are floats yet, which are rounded to 16 bits together.
  bool rounds_at_store(int output) const;
  std::string parameter(int index, ComputeType type);

  const Program& program_;
  const Space& space_;
  Words& words_;
  std::string functions_;
  std::set<std::string> known_;
  NeededRoundings roundings_;
  Shortcuts shortcuts_;
  std::set<int> inverses_;  ///< row values whose inverse is declared
  std::set<int> late_;      ///< what sums flush (flush_in_sums)
  std::set<int> factors_;   ///< those of them whose factor is declared
  std::set<int> shares_;    ///< quotients of exponentials by row values whose negative is declared
  static constexpr int kNobody = -2, kMany = -1;
  std::vector<int> users_;  ///< of each value the instruction that takes it, kNobody, or kMany, outputs among them
  /// Quotients by way of inverses: each doubtful one is computed in full, it sets `doubtful`, or all are in full.
  enum class Quotients { each, quick, full };
  Quotients quotients_ = Quotients::each;
  bool has_haste_ = false;
  enum class Haste { none, hasty, careful };  ///< of a group: what it rounds in haste, and the same once more
  Haste haste_ = Haste::none;
  std::set<int> group_;    ///< the group's instructions
  int watched_left_ = 0;   ///< of an element's roundings that `doubt` is to be told of
  std::string watched_;    ///< one of them, which it waits to be told of with the next one
  std::set<int> rounded_;  ///< outputs of the group whose words are floats that are bf16
  std::map<int, int> sure_;  ///< sums that flush nothing, and the operand that is watched; -1: the result is
  std::set<int> loose_;      ///< roundings that need no care of what is small
  bool batched_ = false;
  int width_ = 1;
  std::set<int> vector_inputs_;
  std::set<int> vector_outputs_;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
