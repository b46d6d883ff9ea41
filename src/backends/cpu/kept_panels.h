// Packed forms of values that kernels meet again and again, above all of weights: packed once instead of in every run,
// and gone with the contents that they were made of. Nothing is kept beyond a limit, and everything is let go when
// memory runs out. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "backends/cpu/memory_pool.h"
#include "core/buffer.h"

namespace lockstep {
inline namespace v0 {

class KeptPanels : public std::enable_shared_from_this<KeptPanels> {
 public:
  using Panels = std::shared_ptr<std::byte>;

  /// Keeps at most `limit` bytes, of memory that counts as the pool's.
  KeptPanels(std::shared_ptr<MemoryPool> memory, std::size_t limit) : memory_(std::move(memory)), limit_(limit) {}

  /// Null where these contents are not kept in this form.
  Panels find(std::uint64_t contents, const std::string& form) const;
  /// Room for a form that is to be kept; null where that would go beyond the limit.
  Panels allocate(std::size_t bytes);
  /// From now on the contents of `buffer` are found in this form.
  void keep(Buffer& buffer, std::string form, Panels panels, std::size_t bytes);
  void drop(std::uint64_t contents);
  void drop_all();
  std::size_t bytes() const;

 private:
  struct Entry {
    Panels panels;
    std::size_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<std::pair<std::uint64_t, std::string>, Entry> entries_;
  std::size_t bytes_ = 0;
  std::shared_ptr<MemoryPool> memory_;
  std::size_t limit_;
};

}  // namespace v0
}  // namespace lockstep
