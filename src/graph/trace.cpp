// The events of a trace, and its file: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU
// ("Trace Event Format"), one track for each device.
#include "graph/trace.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <lockstep/check.h>
#include <lockstep/memory.h>

#include "core/call.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Never destroyed: threads may compute while static objects go.
struct CurrentTrace {
  std::atomic<bool> any{false};
  std::mutex mutex;
  std::shared_ptr<TraceLog> log;
};
CurrentTrace& current_trace() {
  static CurrentTrace* const instance = new CurrentTrace;
  return *instance;
}

std::string dumped(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

double microseconds(TraceClock::duration time) {
  // Whole nanoseconds, as decimal fractions that are short to write.
  return static_cast<double>(std::chrono::duration_cast<std::chrono::nanoseconds>(time).count()) / 1e3;
}

nlohmann::ordered_json event_json(const TraceLog::Event& event, std::size_t track, TraceClock::time_point origin) {
  nlohmann::ordered_json json;
  json["name"] = event.name;
  json["cat"] = event.category;
  json["ph"] = "X";
  json["pid"] = 1;
  json["tid"] = track;
  json["ts"] = microseconds(event.start - origin);
  json["dur"] = microseconds(event.end - event.start);
  if (!event.details.empty()) json["args"] = nlohmann::ordered_json::parse(event.details);
  return json;
}

}  // namespace

std::shared_ptr<TraceLog> trace_log() {
  CurrentTrace& current = current_trace();
  if (!current.any.load(std::memory_order_relaxed)) return nullptr;
  const std::lock_guard lock(current.mutex);
  return current.log;
}

void TraceLog::add(Event event) {
  const std::lock_guard lock(mutex_);
  Total& total = totals_[{event.device, event.name}];
  ++total.count;
  total.time += event.end - event.start;
  if (events_.size() < kMostEvents) {
    events_.push_back(std::move(event));
  } else {
    ++dropped_;
  }
}

std::vector<TraceTotal> TraceLog::totals() const {
  const std::lock_guard lock(mutex_);
  std::vector<TraceTotal> result;
  for (const auto& [key, total] : totals_) {
    result.push_back(
        {key.second, key.first.to_string(), total.count, std::chrono::duration<double>(total.time).count()});
  }
  std::stable_sort(result.begin(), result.end(), [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return result;
}

std::string TraceLog::text() const {
  const std::lock_guard lock(mutex_);
  std::map<Device, std::size_t> tracks;
  for (const Event& event : events_) tracks.try_emplace(event.device, tracks.size() + 1);
  std::vector<std::string> lines;
  for (const auto& [device, track] : tracks) {
    lines.push_back(dumped(
        {{"name", "thread_name"}, {"ph", "M"}, {"pid", 1}, {"tid", track}, {"args", {{"name", device.to_string()}}}}));
  }
  for (const Event& event : events_) {
    lines.push_back(dumped(event_json(event, tracks.at(event.device), start_)));
    lines.push_back(dumped({{"name", "memory of " + event.device.to_string()},
                            {"ph", "C"},
                            {"pid", 1},
                            {"ts", microseconds(event.end - start_)},
                            {"args", {{"live bytes", event.memory}}}}));
  }
  return fmt::format(
      "{{\"displayTimeUnit\":\"ms\",\"otherData\":{{\"events left out\":{}}},\"traceEvents\":[\n{}\n]}}\n", dropped_,
      fmt::join(lines, ",\n"));
}

TraceSpan::TraceSpan(const char* what, Device device, std::size_t bytes)
    : log_(trace_log()), what_(what), device_(device), bytes_(bytes) {
  if (log_ != nullptr) start_ = TraceClock::now();
}

TraceSpan::~TraceSpan() {
  if (log_ == nullptr) return;
  try {
    const std::string details = bytes_ == 0 ? "" : fmt::format("{{\"bytes\":{}}}", bytes_);
    log_->add({what_, what_, device_, start_, TraceClock::now(), details, memory_statistics(device_).live});
  } catch (...) {  // Out of memory: the trace lacks an event, the work is not lost.
  }
}

}  // namespace graph

Trace::Trace(std::string file) : file_(std::move(file)) {
  const CallScope call("Trace", CallSite("", 0));
  os::AtomicFile probe(file_);  // What cannot be written is better known before the work than after.
  graph::CurrentTrace& current = graph::current_trace();
  const std::lock_guard lock(current.mutex);
  if (current.log != nullptr) {
    fail<ValueError>("another trace is being recorded in this process", {}, "finish that one first");
  }
  log_ = current.log = std::make_shared<graph::TraceLog>();
  current.any = true;
}

Trace::~Trace() {
  try {
    finish();
  } catch (const std::exception&) {
  }
}

void Trace::finish() {
  graph::CurrentTrace& current = graph::current_trace();
  {
    const std::lock_guard lock(current.mutex);
    if (current.log != log_) return;
    current.any = false;
    current.log = nullptr;
  }
  os::AtomicFile file(file_);
  file.write(log_->text());
  file.commit();
}

std::vector<TraceTotal> Trace::totals() const {
  return log_->totals();
}

}  // namespace v0
}  // namespace lockstep
