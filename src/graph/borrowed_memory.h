// Memory that values borrow, as the tensors of a mapped file do, and kernels. Elements in kernels are aligned, but in a
// file they may begin anywhere: of those, kernels are given copies. A copy, and the pages of a file, stay as long as
// some kernel looks at the elements: those of weights go when the last kernel has packed them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/backend.h"
#include "graph/plan.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

struct Window;

/// That of the given values of one run of a plan.
class BorrowedMemory {
 public:
  explicit BorrowedMemory(const Window& window);

  /// Whether a kernel is given an entry's memory by address() below.
  bool has(std::size_t entry) const;
  bool is_aligned(std::size_t entry) const { return parts_.empty() || parts_[entry].kind != Kind::unaligned; }
  /// For a slot of a kernel that is about to run.
  std::byte* address(std::size_t entry, std::size_t slot, const Executable& executable);
  /// After a kernel, and which entries no later one has.
  void ran(std::span<const int> slots, const Executable& executable, std::span<const int> released);

 private:
  enum class Kind : std::uint8_t { other, aligned, unaligned };
  struct Part {
    Kind kind = Kind::other;
    bool was_read = false;
    bool is_read_again = false;  ///< as far as the kernels can tell
  };
  const Window& window_;
  std::vector<Part> parts_;  ///< by entry; empty: there is none
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
