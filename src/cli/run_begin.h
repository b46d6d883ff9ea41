// How a run of training begins, goes on from what is in its folder, or stops: what `train` and `finetune` share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <lockstep/train/checkpoint.h>
#include <lockstep/train/trainer.h>

#include "cli/command.h"
#include "cli/run_folder.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

struct BeginOptions {
  std::string out;     ///< the folder
  std::string resume;  ///< "", "yes", or "auto": where there is no checkpoint, begin
  bool overwrite = false;
  bool as_json = false;
};

inline constexpr std::string_view kStopNotice = "\nlockstep: finishing this step and saving; once more ends at once\n";

/// The checkpoint that the run goes on from; nothing where it begins. UsageError where the folder holds a run, or none,
/// that was not asked for; ValueError if it was started with other options.
std::optional<train::Checkpoint> begin_or_continue(const BeginOptions& options, const RunFolder& folder,
                                                   const RunOptions& now);
/// A run may get longer (or shorter) only when it has done what it was started for, since its schedule goes by its
/// length: ValueError otherwise.
void check_length(const RunFolder& folder, const train::Checkpoint& from, const RunOptions& now, std::int64_t batches,
                  std::int64_t steps);
/// Says how far it got, and the command that continues it. The exit code is a shell's for a process that a signal
/// ended.
ExitCode report_stop(const BeginOptions& options, const train::FitResult& result, std::int64_t steps, int signal,
                     const std::string& command);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
