#include "backends/cpu/cpu_limits.h"

#include <algorithm>
#include <fstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif

namespace lockstep {
inline namespace v0 {
namespace {

int rounded_up(double quota, double period) {
  if (quota <= 0 || period <= 0) return 0;
  return std::max(1, static_cast<int>((quota + period - 1) / period));
}

int tighter(int a, int b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

int limit_v2(const std::string& group) {
  std::ifstream file(group + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max") return 0;
  return rounded_up(std::strtod(quota.c_str(), nullptr), period);
}

int limit_v1(const std::string& group) {
  std::ifstream quota_file(group + "/cpu.cfs_quota_us");
  std::ifstream period_file(group + "/cpu.cfs_period_us");
  double quota = 0, period = 0;
  if (!(quota_file >> quota) || !(period_file >> period)) return 0;
  return rounded_up(quota, period);
}

/// The limit of `path` and of every group above it, under the mount point `mount`.
template <typename LimitOf>
int limit_along(const std::string& mount, std::string path, LimitOf limit_of) {
  int limit = 0;
  while (!path.empty() && path != "/") {
    limit = tighter(limit, limit_of(mount + path));
    path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
  }
  return tighter(limit, limit_of(mount));
}

}  // namespace

int cgroup_processor_limit(const std::string& root) {
  // Lines are "hierarchy:controllers:path"; version 2 has the one hierarchy 0 without controllers.
  std::ifstream groups(root + "/proc/self/cgroup");
  int limit = 0;
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      limit = tighter(limit, limit_along(root + "/sys/fs/cgroup", path, limit_v2));
    } else if (controllers.find(",cpu,") != std::string::npos) {
      limit = tighter(limit, limit_along(root + "/sys/fs/cgroup/cpu", path, limit_v1));
    }
  }
  return limit;
}

int usable_processors() {
  int count = static_cast<int>(std::thread::hardware_concurrency());
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) count = CPU_COUNT(&set);
#endif
  return std::max(1, tighter(count, cgroup_processor_limit()));
}

}  // namespace v0
}  // namespace lockstep
