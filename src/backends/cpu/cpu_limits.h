// How many processors this process may use, as the operating system says it.
#pragma once

#include <string>

namespace lockstep {
inline namespace v0 {

/// Processors in the affinity mask, or fewer where a cgroup (v1 or v2) grants less time; at least 1.
int usable_processors();

/// The cgroup part of it: the quota in processors, rounded up, over all levels of the group; 0 for no limit.
/// `root` stands for "/" (tests).
int cgroup_processor_limit(const std::string& root = "");

}  // namespace v0
}  // namespace lockstep
