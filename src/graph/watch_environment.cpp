// Shadows and recordings of programs that nobody edits: LOCKSTEP_SHADOW with LOCKSTEP_SHADOW_POLICY, _EVERY, _ROWS and
// _OPS, LOCKSTEP_RECORD with LOCKSTEP_RECORD_CASE.
#include <charconv>
#include <cstdlib>

#include <fmt/format.h>

#include <lockstep/recorder.h>
#include <lockstep/shadow.h>

#include "graph/kernel_record.h"
#include "graph/kernel_watch.h"

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::int64_t number(const char* name, std::int64_t otherwise) {
  const std::string text = variable(name);
  std::int64_t value = otherwise;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (!text.empty() && (error != std::errc() || rest != text.data() + text.size())) {
    throw ValueError(fmt::format("{}: \"{}\" is no whole number", name, text));
  }
  return value;
}

std::vector<std::string> words(const char* name) {
  std::vector<std::string> list;
  std::string text = variable(name);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    list.push_back(text.substr(0, end));
    text.erase(0, end + 1);
  }
  return list;
}

// They live as long as the process, and longer than any static tensor.
Recorder* recorder = nullptr;

void finish_record() {
  try {
    recorder->finish();
  } catch (const std::exception& error) {
    fmt::print(stderr, "LOCKSTEP_RECORD: {}\n", error.what());
  }
}

}  // namespace

bool watch_by_environment() {
  if (const std::string device = variable("LOCKSTEP_SHADOW"); !device.empty()) {
    const std::string policy = variable("LOCKSTEP_SHADOW_POLICY");
    new Shadow(Device::parse(device), {.policy = policy.empty() ? ShadowPolicy::stop : parse_shadow_policy(policy),
                                       .every = number("LOCKSTEP_SHADOW_EVERY", 1),
                                       .ops = words("LOCKSTEP_SHADOW_OPS"),
                                       .rows = number("LOCKSTEP_SHADOW_ROWS", 0)});
  }
  if (const std::string file = variable("LOCKSTEP_RECORD"); !file.empty()) {
    recorder = new Recorder(file_of_rank(file), {.case_of = number("LOCKSTEP_RECORD_CASE", 0)});
    std::atexit(finish_record);
  }
  return true;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
