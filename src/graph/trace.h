// What is noted while a Trace (lockstep/trace.h) lives. Otherwise it costs a look at one flag per flush or transfer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/device.h>
#include <lockstep/trace.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

using TraceClock = std::chrono::steady_clock;

/// The events of one trace, of any threads.
class TraceLog {
 public:
  /// Beyond this many events only the totals go on.
  static constexpr std::size_t kMostEvents = 1'000'000;

  struct Event {
    std::string name;
    const char* category = "";
    Device device;
    TraceClock::time_point start;
    TraceClock::time_point end;
    std::string details;  ///< a JSON object
    std::uint64_t memory = 0;  ///< live on the device at the end
  };

  void add(Event event);
  std::vector<TraceTotal> totals() const;
  /// The whole file.
  std::string text() const;

 private:
  struct Total {
    std::uint64_t count = 0;
    TraceClock::duration time{};
  };
  mutable std::mutex mutex_;
  TraceClock::time_point start_ = TraceClock::now();
  std::vector<Event> events_;
  std::uint64_t dropped_ = 0;
  std::map<std::pair<Device, std::string>, Total> totals_;
};

/// The trace that is recorded now, or null.
std::shared_ptr<TraceLog> trace_log();

/// Notes the time from here to the end of the scope, if a trace is recorded.
class TraceSpan {
 public:
  TraceSpan(const char* what, Device device, std::size_t bytes = 0);
  ~TraceSpan();
  TraceSpan(const TraceSpan&) = delete;
  TraceSpan& operator=(const TraceSpan&) = delete;

 private:
  std::shared_ptr<TraceLog> log_;
  const char* what_;
  Device device_;
  std::size_t bytes_;
  TraceClock::time_point start_;
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
