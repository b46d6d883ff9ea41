#include "dist/launch.h"

#include <algorithm>
#include <charconv>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/check.h>

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;
};
constexpr Launcher kLaunchers[] = {
    {"lockstep", "LOCKSTEP_RANK", "LOCKSTEP_WORLD_SIZE", "LOCKSTEP_LOCAL_RANK", "LOCKSTEP_LOCAL_SIZE"},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {"mpich", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    // SLURM_STEP_NUM_TASKS, since sbatch sets SLURM_NTASKS for its one script, too.
    {"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
};
constexpr int kMostRanks = 4096;

int number_of(const char* name, const std::string& text, int least, int most) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  check<ValueError>(error == std::errc{} && rest == end && value >= least && value <= most,
                    fmt::format("{} is '{}'", name, text.substr(0, 40)), {},
                    fmt::format("give a number from {} to {}", least, most));
  return value;
}

std::optional<int> number_in(const Environment& environment, const char* name, int least, int most) {
  const std::optional<std::string> text = name == nullptr ? std::nullopt : environment(name);
  return text ? std::optional(number_of(name, *text, least, most)) : std::nullopt;
}

struct Told {
  const Launcher* launcher;
  int rank;
  int size;
};

// What each launcher that left variables says.
std::vector<Told> all_told(const Environment& environment) {
  std::vector<Told> told;
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<std::string> rank = environment(launcher.rank);
    const std::optional<std::string> size = environment(launcher.size);
    if (!size && (!rank || launcher.name == std::string_view("srun"))) continue;
    check<ValueError>(
        rank && size,
        fmt::format("{} is set, {} is not", rank ? launcher.rank : launcher.size, rank ? launcher.size : launcher.rank),
        {}, "start the processes by one launcher, or set both");
    const int count = number_of(launcher.size, *size, 1, kMostRanks);
    told.push_back({&launcher, number_of(launcher.rank, *rank, 0, count - 1), count});
  }
  return told;
}

Told chosen(const std::vector<Told>& told, const std::optional<std::string>& name) {
  if (name) {
    const auto found = std::ranges::find_if(told, [&](const Told& one) { return one.launcher->name == *name; });
    if (found != told.end()) return *found;
    std::vector<std::string> names;
    for (const Launcher& launcher : kLaunchers) names.emplace_back(launcher.name);
    fail<ValueError>(fmt::format("LOCKSTEP_LAUNCHER is '{}', which left no variables", name->substr(0, 40)), {},
                     fmt::format("one of {}", fmt::join(names, ", ")));
  }
  const Told& first = told.front();
  for (const Told& other : told) {
    check<ValueError>(other.rank == first.rank && other.size == first.size,
                      fmt::format("launchers contradict each other: rank {} of {} ({}), rank {} of {} ({})", first.rank,
                                  first.size, first.launcher->name, other.rank, other.size, other.launcher->name),
                      {}, fmt::format("set LOCKSTEP_LAUNCHER={} or {}", first.launcher->name, other.launcher->name));
  }
  return first;
}

}  // namespace

Launch told_launch(const Environment& environment) {
  const std::vector<Told> told = all_told(environment);
  if (told.empty()) return {};
  const auto [launcher, rank, size] = chosen(told, environment("LOCKSTEP_LAUNCHER"));
  return {.rank = rank,
          .size = size,
          .local_rank = number_in(environment, launcher->local_rank, 0, size - 1).value_or(0),
          .launcher = launcher->name,
          .address = {},
          .port = 0,
          .secret = {}};
}

Launch launch_of(const Environment& environment) {
  Launch launch = told_launch(environment);
  if (launch.launcher.empty()) return launch;
  launch.port = number_in(environment, "MASTER_PORT", 1, 65535).value_or(29500);
  launch.secret = environment("LOCKSTEP_DIST_SECRET").value_or("");
  if (launch.size == 1) return launch;
  const Launcher& launcher =
      *std::ranges::find_if(kLaunchers, [&](const Launcher& one) { return one.name == launch.launcher; });
  const bool one_machine = number_in(environment, launcher.local_size, 1, kMostRanks) == launch.size;
  const std::optional<std::string> address = environment("MASTER_ADDR");
  check<ValueError>(address || one_machine, "MASTER_ADDR is not set, and not all ranks are known to be on one machine",
                    {}, "set it to the name of the machine of rank 0");
  launch.address = address.value_or("127.0.0.1");
  check<ValueError>(!launch.secret.empty(), "LOCKSTEP_DIST_SECRET is not set, by which ranks know each other", {},
                    "export LOCKSTEP_DIST_SECRET=$(openssl rand -hex 16) before the processes are started");
  return launch;
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
