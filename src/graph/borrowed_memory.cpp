#include "graph/borrowed_memory.h"

#include <cstring>
#include <new>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/os_pages.h"
#include "graph/describe.h"
#include "graph/node.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

BorrowedMemory::BorrowedMemory(const Window& window) : window_(window) {
  constexpr std::size_t kLeastAligned = 64 << 10;  // of fewer bytes hardly a page is nobody else's
  for (std::size_t e = 0; e < window.nodes.size(); ++e) {
    const Node& node = *window.nodes[e];
    const bool may_be =
        window.values[e].given && is_host(node.device) && !node.computed && form_of(node.op) == Form::given;
    if (!may_be) continue;
    const auto address = reinterpret_cast<std::uintptr_t>(node.buffer->data());
    const std::size_t size = is_blocks(node.encoding) ? 1 : size_of(held_dtype(node.encoding, node.dtype));
    const bool aligned = address % size == 0;
    if (aligned && node.bytes() < kLeastAligned) continue;
    parts_.resize(window.nodes.size());
    parts_[e].kind = aligned ? Kind::aligned : Kind::unaligned;
  }
}

bool BorrowedMemory::has(std::size_t entry) const {
  // The memory of a value that was replaced is that of another.
  return !parts_.empty() && parts_[entry].kind != Kind::other && window_.nodes[entry]->buffer != nullptr;
}

std::byte* BorrowedMemory::address(std::size_t entry, std::size_t slot, const Executable& executable) {
  Node& node = *window_.nodes[entry];
  if (!executable.reads(slot, *node.buffer)) return node.buffer->data();
  parts_[entry].was_read = true;
  if (parts_[entry].kind == Kind::aligned) return node.buffer->data();
  if (node.aligned == nullptr) {
    // Not of the device's memory, which keeps what is given back for values of about that size.
    std::shared_ptr<std::byte> copy;
    try {
      copy = os::fresh_memory(node.bytes());
    } catch (const std::bad_alloc&) {
      throw OutOfMemoryError(fmt::format("{}: no {} bytes for the copy of a value at an odd address",
                                         node.device.to_string(), node.bytes()));
    }
    std::memcpy(copy.get(), node.buffer->data(), node.bytes());
    os::leave_mapped_pages({node.buffer->data(), node.bytes()});
    std::byte* const data = copy.get();
    node.aligned = std::make_shared<Buffer>(node.device, data, node.bytes(), [copy = std::move(copy)] {});
  }
  return node.aligned->data();
}

void BorrowedMemory::ran(std::span<const int> slots, const Executable& executable, std::span<const int> released) {
  if (parts_.empty()) return;
  for (std::size_t slot = 0; slot < slots.size(); ++slot) {
    const auto e = static_cast<std::size_t>(slots[slot]);
    Part& part = parts_[e];
    if (!has(e) || !part.was_read || part.is_read_again) continue;
    part.is_read_again = executable.reads(slot, *window_.nodes[e]->buffer);
  }
  for (const int entry : released) {
    const auto e = static_cast<std::size_t>(entry);
    if (!has(e) || !parts_[e].was_read || parts_[e].is_read_again) continue;
    Node& node = *window_.nodes[e];
    node.aligned.reset();
    os::leave_mapped_pages({node.buffer->data(), node.bytes()});
  }
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
