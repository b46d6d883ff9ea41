// Shadows and recordings of programs that nobody edits: LOCKSTEP_SHADOW, LOCKSTEP_SHADOW_POLICY, LOCKSTEP_RECORD.
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
    new Shadow(Device::parse(device), {.policy = policy.empty() ? ShadowPolicy::stop : parse_shadow_policy(policy)});
  }
  if (const std::string file = variable("LOCKSTEP_RECORD"); !file.empty()) {
    recorder = new Recorder(file_of_rank(file));
    std::atexit(finish_record);
  }
  return true;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
