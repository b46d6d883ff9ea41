// What a gradient will read. An f32 value that takes a few operations on 16-bit values is not kept itself but by what
// it is made of: it stays pending, and the kernel that reads it computes it again (graph/recompute.h). Half the memory,
// and its reading and writing.
#pragma once

#include <memory>

#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

class Kept {
 public:
  Kept() = default;
  explicit Kept(const Tensor& tensor) : Kept(Access::handle(tensor), Access::handle(tensor)->record) {}
  /// The value of a handle, with another history.
  Kept(std::shared_ptr<Handle> handle, std::shared_ptr<Record> record);

  bool is_set() const { return handle_ != nullptr || again_ != nullptr; }
  Tensor tensor() const;
  /// The same value with a history of the caller's.
  Tensor tensor(std::shared_ptr<Record> record) const;

 private:
  struct Again;
  std::shared_ptr<Handle> handle_;
  std::shared_ptr<const Again> again_;
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
