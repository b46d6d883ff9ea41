// Products of one left operand as one executable: queries, keys and values of the same rows, a gate beside what it
// multiplies. What is made of those rows is made once, and products that do not need each other are one launch, where a
// device says that this pays (Backend::runs_together).
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "graph/entry.h"
#include "graph/step.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

struct Siblings {
  std::size_t at = 0;                ///< the step where they stand
  std::vector<std::size_t> members;  ///< steps, in order
  std::vector<Kernel> kernels;       ///< theirs, with the slots and parameters of `together`
  Step together;                     ///< but its kernel: instead of all of them

  /// Adds kernels whose slots and parameters are those of `step`: contractions, row kernels and attention, without
  /// tables and random numbers.
  void add(const std::vector<const Kernel*>& more, const Step& step);
};

/// The siblings among steps that schedule() has made of the entries, but `taken` ones; no step is in two.
std::vector<Siblings> find_siblings(const std::vector<Entry>& entries, const std::vector<Step>& steps,
                                    const std::vector<bool>& taken,
                                    const std::function<bool(const std::vector<Kernel>&)>& run_together);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
