// What stands around a call of the vendor's library: regions of scratch memory, and kernels of ours that copy what the
// library cannot read as it lies, and that run a contraction's epilogue on what it wrote.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "backends/gpu/renderer/contraction.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// In programs of ours: scratch memory.
constexpr int kScratchSlot = 1 << 20;

class FastParts {
 public:
  explicit FastParts(const RenderLimits& limits) : limits_(limits) {}

  /// A region of scratch memory: where it begins, in bytes, a multiple of 256.
  std::int64_t reserve(std::int64_t elements, DType dtype);
  /// A kernel of ours, whose slots of scratch memory are kScratchSlot.
  void append(Program program);
  /// `input`'s elements at `view`, in the order of its dimensions, to scratch memory: `strides`, from element `offset`
  /// on, of `dtype`.
  void append_copy(const Input& input, const View& view, const Shape& strides, std::int64_t offset, DType dtype);
  /// A contraction's epilogue over `rows` dimensions alone, with the results in scratch memory at `sums`.
  void append_epilogue(Program program, View sums, DType dtype);
  void append(Launch launch) { rendered_.launches.push_back(std::move(launch)); }
  /// What a launch makes of an operand, at `offset` in scratch memory unless it is kept: form 0.
  void add_form(OperandForm form) { rendered_.forms.push_back(form); }
  /// A call with its words.
  void append_call(LibraryCall call, std::vector<Patch> words);

  Rendered take() { return std::move(rendered_); }

 private:
  const RenderLimits& limits_;
  Rendered rendered_;
};

/// The place `number` of a call: in scratch memory, in form 0, or in a slot; `offset` in bytes.
Patch place_in_scratch(int number, std::int64_t offset);
Patch place_in_form(int number, std::int64_t offset);
Patch place_in_slot(int number, int slot, std::int64_t offset);

/// Whether a contraction's epilogue does nothing with the sum but round it to `dtype`, first of all.
bool rounds_first(const Program& epilogue, DType dtype);
/// Whether it stores the sum, as `dtype` (rounded first) or f32, and does nothing else.
bool only_stores(const Program& epilogue, DType dtype);

/// An epilogue that begins by adding an input, whose elements are rounded to `dtype` before: which one, and the rest,
/// whose accumulator is the sum with it.
struct AddedInput {
  int input = 0;
  Program rest;
};
std::optional<AddedInput> added_input(const Program& epilogue, DType dtype);

constexpr std::int64_t aligned(std::int64_t size, std::int64_t to) {
  return over(size, to) * to;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
