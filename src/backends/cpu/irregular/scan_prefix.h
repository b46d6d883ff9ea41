// What comes before each chunk of a scan: "chunk prefixes by the same scan of chunk totals" (docs/numerics.md section
// 5), one total at a time, for any number of rows at once.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "backends/cpu/irregular/scan_table.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {

template <typename T> class PrefixScan {
 public:
  PrefixScan(ScanTable::CombineFn combine, std::int64_t width)
      : combine_(combine), width_(static_cast<std::size_t>(width)) {}

  /// The totals of the next chunk, one of each row.
  void push(const T* totals) { push(0, totals); }
  /// All chunks so far; null if there is none.
  const T* prefix() const { return levels_.empty() ? nullptr : levels_[0].out.data(); }

 private:
  // A chunk of 4096 totals has a total itself, which goes to the next level.
  struct Level {
    explicit Level(std::size_t width) : local(width), lanes(width), out(width) {}
    std::int64_t count = 0;
    std::vector<T> local, lanes, out;
  };

  void push(std::size_t number, const T* x) {
    if (number == levels_.size()) levels_.emplace_back(width_);
    Level& level = levels_[number];
    const std::int64_t i = level.count % kScanLane;
    const std::int64_t lane = level.count % kScanChunk / kScanLane;
    const T* chunks = level.count >= kScanChunk ? levels_[number + 1].out.data() : nullptr;
    ++level.count;
    if (i == 0) {
      level.local.assign(x, x + width_);
    } else {
      combine_(level.local.data(), level.local.data(), x, width_);
    }
    if (lane > 0 && chunks != nullptr) {
      combine_(level.out.data(), chunks, level.lanes.data(), width_);
      combine_(level.out.data(), level.out.data(), level.local.data(), width_);
    } else if (lane > 0 || chunks != nullptr) {
      combine_(level.out.data(), lane > 0 ? level.lanes.data() : chunks, level.local.data(), width_);
    } else {
      level.out = level.local;
    }
    if (i + 1 < kScanLane) return;
    if (lane == 0) {
      level.lanes = level.local;
    } else {
      combine_(level.lanes.data(), level.lanes.data(), level.local.data(), width_);
    }
    if (lane + 1 == kScanChunk / kScanLane) push(number + 1, level.lanes.data());
  }

  ScanTable::CombineFn combine_;
  std::size_t width_;
  std::deque<Level> levels_;  // levels stay where they are when one is added
};

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
