#include "cli/ranks.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <thread>

#include <fmt/format.h>

#include "cli/run_folder.h"
#include "cli/terminal.h"
#include "cli/user_message.h"
#include "core/os.h"
#include "core/os_process.h"
#include "core/os_socket.h"
#include "dist/launch.h"
#include "dist/message.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

using Clock = std::chrono::steady_clock;

// How long others may still run when one has failed: they hear of it in their next collective.
constexpr int kGraceSeconds = 10;

std::optional<std::string> variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string new_secret() {
  std::string secret;
  for (const std::byte one : dist::random_challenge()) secret += fmt::format("{:02x}", std::to_integer<int>(one));
  return secret;
}

std::vector<os::Process> start(int ranks, const std::vector<std::string>& words, const std::string& port) {
  const std::string secret = new_secret();
  std::vector<os::Process> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<std::pair<std::string, std::string>> variables{
        {"LOCKSTEP_LAUNCHER", "lockstep"},      {"LOCKSTEP_RANK", fmt::to_string(rank)},
        {"LOCKSTEP_WORLD_SIZE", fmt::to_string(ranks)}, {"LOCKSTEP_LOCAL_RANK", fmt::to_string(rank)},
        {"LOCKSTEP_LOCAL_SIZE", fmt::to_string(ranks)}, {"MASTER_ADDR", "127.0.0.1"},
        {"MASTER_PORT", port},                  {"LOCKSTEP_DIST_SECRET", secret}};
    if (!variable("LOCKSTEP_NUM_THREADS")) {
      const unsigned threads = std::max(1u, std::thread::hardware_concurrency() / static_cast<unsigned>(ranks));
      variables.emplace_back("LOCKSTEP_NUM_THREADS", fmt::to_string(threads));
    }
    processes.push_back(os::Process::start_self(words, variables, rank != 0));
  }
  return processes;
}

// What a rank returns that has failed only because another one did.
constexpr int kLostOthers = 75;

struct Outcome {
  int code = kOk;
  std::vector<std::string> gone;  ///< ranks that a signal ended, or that hung, each with what became of it
};

std::string described(std::size_t rank, const os::Process::End& end, bool was_killed) {
  return was_killed ? fmt::format("rank {} hung", rank)
                    : fmt::format("rank {} was ended by {}", rank, os::signal_name(end.signal));
}

// The exit code of the first rank that failed by itself. Rank 0 has said why it did; of another one it is said here, once.
int told_code(std::vector<os::Process>& processes) {
  bool any_failed = false;
  for (std::size_t rank = 0; rank < processes.size(); ++rank) {
    const os::Process::End end = processes[rank].end().value_or(os::Process::End{});
    any_failed = any_failed || end.code != 0 || end.signal != 0;
    if (end.code == 0 || end.code == kLostOthers) continue;
    if (rank > 0 && end.code < kSignal) fmt::print(stderr, "rank {}: {}", rank, processes[rank].printed());
    return end.code;
  }
  return any_failed ? kFailure : kOk;
}

Outcome wait_for(std::vector<os::Process>& processes, int timeout, const os::StopRequest& stop) {
  Outcome outcome;
  std::vector<bool> ended(processes.size());
  std::optional<Clock::time_point> killing;
  bool was_killed = false;
  bool was_forwarded = false;
  while (std::ranges::find(ended, false) != ended.end()) {
    if (stop.signal() != 0 && !was_forwarded) {
      was_forwarded = true;
      for (const os::Process& process : processes) process.send(stop.signal());
    }
    if (killing && !was_killed && Clock::now() > *killing) {
      was_killed = true;
      for (const os::Process& process : processes) process.send(SIGKILL);
    }
    for (std::size_t rank = 0; rank < processes.size(); ++rank) {
      const std::optional<os::Process::End> end = ended[rank] ? std::nullopt : processes[rank].end();
      if (!end) continue;
      ended[rank] = true;
      if (end->signal != 0) outcome.gone.push_back(described(rank, *end, was_killed));
      if (end->code == 0 && end->signal == 0) continue;
      if (!killing) killing = Clock::now() + std::chrono::seconds(std::min(kGraceSeconds, timeout));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  outcome.code = told_code(processes);
  return outcome;
}

}  // namespace

int RankOptions::chosen_shards(const dist::Group& group) const {
  if (shards > 0) return shards;
  return ranks > 1 || group.size() > 1 ? kShards : 1;
}

void add_rank_count(Subcommand& command, RankOptions& options, const std::string& help) {
  command.option("--ranks", options.ranks, help + " (default: as many as mpirun, srun or torchrun have started)").range(1, 1024);
}

void add_rank_options(Subcommand& command, RankOptions& options) {
  add_rank_count(command, options, "Work as so many processes of this machine, to the weights that one gives");
  command
      .option("--shards", options.shards,
              "Parts of a batch, a power of two; weights depend on it (default: 8 with several ranks, else 1)")
      .range(1, 65536);
  command
      .option("--zero", options.zero,
              "1: the optimiser's state is divided among the ranks; 3: and the weights; no result depends on it")
      .range(0, 3)
      .show_default();
  command
      .option("--restarts", options.restarts,
              "How often those that are left go on from the last checkpoint when a process of --ranks is gone")
      .range(0, 1000)
      .show_default();
  command.option("--rank-timeout", options.timeout, "Seconds that a rank waits for another one").range(1, 86400).show_default();
}

bool starts_ranks(const RankOptions& options) {
  if (variable("LOCKSTEP_RANK")) return false;
  const int started = dist::told_launch(variable).size;
  if (started > 1 && options.ranks != 0 && options.ranks != started) {
    throw UsageError(fmt::format("--ranks {}: the launcher has started {}\n  fix: leave --ranks out", options.ranks, started));
  }
  return started == 1 && options.ranks > 1;
}

ExitCode run_ranks(const RankOptions& options, std::vector<std::string> words, Terminal terminal) {
  words.erase(words.begin());  // the program
  const os::StopRequest stop("");
  const os::HeldPort port("127.0.0.1");
  int ranks = options.ranks;
  for (int restarts = options.restarts;; --restarts) {
    std::vector<os::Process> processes = start(ranks, words, fmt::to_string(port.number()));
    std::optional<os::LentTerminal> lent;
    if (terminal == Terminal::of_first_rank) lent.emplace(processes.front());
    const Outcome outcome = wait_for(processes, options.timeout, stop);
    if (outcome.gone.empty()) return static_cast<ExitCode>(outcome.code);
    for (const std::string& one : outcome.gone) fmt::print(stderr, "lockstep: {}\n", one);
    if (restarts == 0 || stop.signal() != 0) return kFailure;
    ranks = std::max(1, ranks - static_cast<int>(outcome.gone.size()));
    fmt::print(stderr, "lockstep: going on from the last checkpoint with {} rank{}\n", ranks, ranks == 1 ? "" : "s");
    words = without_resume(words);
    words.emplace_back("--resume=auto");
  }
}

ExitCode as_rank(const std::function<ExitCode()>& work) {
  if (variable("LOCKSTEP_LAUNCHER") != "lockstep") return work();
  try {
    return work();
  } catch (const dist::DistributedError&) {
    fmt::print(stderr, "lockstep: {}\n", message_of_current_exception());
    return static_cast<ExitCode>(kLostOthers);
  }
}

dist::Group joined_group(const RankOptions& options) {
  return dist::init({.deadline = std::chrono::seconds(options.timeout)});
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
