// Memory for the time of one run, from the backend's pool: large blocks are reused from run to run, and count among the
// bytes that the pool keeps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backends/cpu/memory_pool.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {

/// An uninitialised array. T has no destructor to run.
template <typename T> class Scratch {
 public:
  Scratch(MemoryPool& pool, std::int64_t count)
      : pool_(pool),
        bytes_(static_cast<std::size_t>(count > 0 ? count : 1) * sizeof(T)),
        data_(static_cast<T*>(pool.allocate(bytes_))) {}
  ~Scratch() { pool_.release(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  T* get() const { return data_; }
  T& operator[](std::int64_t i) const { return data_[i]; }

 private:
  MemoryPool& pool_;
  std::size_t bytes_;
  T* data_;
};

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
