// Commands that run as several processes: `--ranks 4` starts them, and so do mpirun, srun and torchrun.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <lockstep/parallel.h>

#include "cli/command_line.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

struct RankOptions {
  int ranks = 0;   ///< 0: as many as the launcher has started
  int shards = 0;  ///< 0: kShards where there are several ranks, else 1
  int zero = 0;
  int restarts = 0;
  int timeout = 30;  ///< seconds

  static constexpr int kShards = 8;
  int chosen_shards(const dist::Group& group) const;
};

void add_rank_options(Subcommand& command, RankOptions& options);
/// Without what is of training.
void add_rank_count(Subcommand& command, RankOptions& options, const std::string& help);

/// Whether this process is the one that is to start the ranks. UsageError where a launcher has started another number.
bool starts_ranks(const RankOptions& options);
/// Whom a terminal's Ctrl-C reaches, and who reads from it: this process, which tells all ranks, or the first one
/// alone.
enum class Terminal { of_this_process, of_first_rank };
/// Starts them, with the words of this command line, and waits. One that a signal ended, or that does not end when others
/// have failed, is gone: as often as `restarts` says, those that are left go on from the last checkpoint.
ExitCode run_ranks(const RankOptions& options, std::vector<std::string> words,
                   Terminal terminal = Terminal::of_this_process);

/// Runs `work`, and tells run_ranks() where it fails only because another rank has.
ExitCode as_rank(const std::function<ExitCode()>& work);

/// The group that this process is one of.
dist::Group joined_group(const RankOptions& options);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
