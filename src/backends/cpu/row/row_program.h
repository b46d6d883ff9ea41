// A Program (kernels/kernel.h) made ready for the CPU: what to compute in which pass over a row, and in which shape of
// tile. Runs give the bits of the reference backend for every instruction set, thread count and tile.
//
// Used twice: RowKernels run whole (run), and the contraction runs its epilogue on blocks of results that it has just
// computed (run_segment, run_block), which therefore never travel through memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/backend.h"
#include "backends/cpu/isa.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// Working memory of one thread: grows to what its programs need and is kept for the next run.
/// Not shared between threads; one Scratch serves any number of programs, one after the other.
class Scratch {
 public:
  Scratch() = default;
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  /// At least `bytes` bytes, aligned to 64. Invalidates what an earlier call returned.
  std::byte* reserve(std::size_t bytes) {
    if (bytes > capacity_) grow(bytes);
    return data_;
  }
  /// The calling thread's own.
  static Scratch& of_this_thread();

 private:
  void grow(std::size_t bytes);
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

struct RowPlan;

class RowProgram {
 public:
  explicit RowProgram(const Program& program, Isa isa = selected_isa());
  /// For run_segment and run_block, which in turn are for these alone.
  static RowProgram epilogue(const Program& program, Isa isa = selected_isa());
  ~RowProgram();
  RowProgram(RowProgram&&) noexcept;
  RowProgram& operator=(RowProgram&&) noexcept;

  /// Whether results are written past the caches.
  bool streams() const;

  /// The whole iteration space, spread over the thread pool where that pays.
  void run(const Binding& binding) const;

  /// Epilogues (programs without reductions): elements [begin, begin + count) of the inner space of row `row`; both
  /// are row-major linear indices, over program.rows and program.inner. `accumulator` holds `count` elements of the
  /// contraction's compute type as they were accumulated; they are made canonical here. It may be null when the program has no
  /// accumulator instruction. Calls for disjoint segments may run on several threads at once, each with its own
  /// scratch. The caller has set the floating-point state (core/fp_state.h).
  void run_segment(const Binding& binding, std::int64_t row, std::int64_t begin, std::int64_t count,
                   const void* accumulator, Scratch& scratch) const {
    run_block(binding, row, 1, begin, count, accumulator, 0, scratch);
  }
  /// The same for `rows` consecutive rows; row i's accumulators start accumulator_row_stride * i elements further.
  void run_block(const Binding& binding, std::int64_t row, std::int64_t rows, std::int64_t begin, std::int64_t count,
                 const void* accumulator, std::int64_t accumulator_row_stride, Scratch& scratch) const;

 private:
  explicit RowProgram(std::unique_ptr<const RowPlan> plan);

  std::unique_ptr<const RowPlan> plan_;
};

}  // namespace v0
}  // namespace lockstep
