// Which commands have to wait for earlier ones: a command that reads what another writes, or writes what another reads
// or writes. For APIs whose queues run commands side by side unless a barrier stands between them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "backends/gpu/driver.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

class Hazards {
 public:
  /// Remembers a command. Returns whether a barrier must stand before it, after which all earlier ones are forgotten.
  bool add(std::span<const Access> accesses) {
    bool waits = unknown_ || open_.size() + accesses.size() > kMost;
    for (const Access& later : accesses) {
      for (const Access& earlier : open_) {
        waits = waits || (later.address == earlier.address && (later.writes || earlier.writes));
      }
    }
    if (waits) open_.clear();
    unknown_ = false;
    open_.insert(open_.end(), accesses.begin(), accesses.end());
    return waits;
  }
  /// Remembers commands that may touch anything: the next one waits.
  void add_unknown() { unknown_ = true; }

 private:
  bool unknown_ = false;
  static constexpr std::size_t kMost = 128;  ///< bounds the search
  std::vector<Access> open_;                 ///< of commands since the last barrier
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
