// What a backend that counts its memory tells about it.
#pragma once

#include <lockstep/memory.h>

namespace lockstep {
inline namespace v0 {

class ReportsMemory {
 public:
  virtual ~ReportsMemory() = default;
  virtual MemoryStatistics memory_statistics() const = 0;
  virtual void reset_peak_memory() = 0;
};

}  // namespace v0
}  // namespace lockstep
