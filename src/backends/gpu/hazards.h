// Which commands have to wait for earlier ones: a command that reads what another writes, or writes what another reads
// or writes. For APIs whose queues run commands side by side unless a barrier stands between them.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backends/gpu/driver.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// Whether one of two commands writes what the other touches.
inline bool conflict(std::span<const Access> later, std::span<const Access> earlier) {
  return std::any_of(later.begin(), later.end(), [&](const Access& x) {
    return std::any_of(earlier.begin(), earlier.end(),
                       [&](const Access& y) { return x.address == y.address && (x.writes || y.writes); });
  });
}

constexpr std::size_t kMostCommands = 128;  ///< of a list

/// For each command of a list of at most kMostCommands the earlier ones that it has to wait for, the latest first,
/// without those that these wait for themselves.
inline std::vector<std::vector<std::size_t>> needed_by(std::span<const Command> commands) {
  LOCKSTEP_ASSERT(commands.size() <= kMostCommands);
  using Set = std::bitset<kMostCommands>;
  std::vector<std::vector<std::size_t>> needed(commands.size());
  std::vector<Set> before;  // all earlier ones that are over when a command begins
  for (std::size_t i = 0; i < commands.size(); ++i) {
    Set all;
    for (std::size_t j = i; j-- > 0;) {
      if (all[j] || !conflict(commands[i].accesses, commands[j].accesses)) continue;
      needed[i].push_back(j);
      all |= before[j];
      all.set(j);
    }
    before.push_back(all);
  }
  return needed;
}

class Hazards {
 public:
  /// Remembers a command. Returns whether a barrier must stand before it, after which all earlier ones are forgotten.
  bool add(std::span<const Access> accesses) {
    bool waits = unknown_ || open_.size() + accesses.size() > kMost;
    waits = waits || conflict(accesses, open_);
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
