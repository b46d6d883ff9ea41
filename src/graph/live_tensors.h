// Which values are in memory, for the error that says that there is none left: the largest ones by the names that users
// and modules gave them, or by the op that made them.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "core/buffer.h"
#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// Remembers nodes whose values were just stored, as long as they live; not small ones.
void remember_stored(std::span<const NodeRef> nodes);
/// Remembers the name of a handle, as long as it lives.
void remember_name(const std::shared_ptr<Handle>& handle);

/// Values that somebody has given a name, and that live or are still to be read, as elements of the nodes that own them:
/// parameters of a model lie side by side.
struct NamedElements {
  NodeRef base;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string name;
};
std::vector<NamedElements> named_elements();

/// A line for each of the largest values in the memory of `device`, largest first; "" if there are none.
std::string largest_tensors(Device device);

/// Memory of `device`. Throws OutOfMemoryError with the largest tensors.
BufferRef allocate_tensor(Device device, std::size_t bytes);
/// Runs `action`, adding the largest tensors of `device` to an OutOfMemoryError.
void with_largest_tensors(Device device, const std::function<void()>& action);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
