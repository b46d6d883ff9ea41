#include "cli/run_begin.h"

#include <algorithm>
#include <cstdio>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "cli/json.h"
#include "cli/terminal.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

std::optional<train::Checkpoint> begin_or_continue(const BeginOptions& options, const RunFolder& folder,
                                                   const RunOptions& now) {
  if (!options.resume.empty() && options.overwrite) throw UsageError("--resume and --overwrite contradict each other");
  if (options.resume.empty()) {
    if (folder.has_run() && !options.overwrite) {
      throw UsageError(
          fmt::format("--out: {} holds a run already\n  fix: --resume to continue it, --overwrite to begin "
                      "again, or another folder",
                      options.out));
    }
    folder.forget_run();
    return std::nullopt;
  }
  std::optional<train::Checkpoint> from = train::load_latest(folder.checkpoints());
  if (!from && options.resume != "auto") {
    throw UsageError(
        fmt::format("--resume: there is no checkpoint in {}\n  fix: leave --resume out to begin, or "
                    "--resume=auto, which begins where there is none",
                    options.out));
  }
  if (!from && !options.as_json) {
    print_line(fmt::format("There is no checkpoint in {}: the run begins", printable(options.out)));
  }
  if (from) {
    const std::string others = differences(folder.started_with(*from), now, false);
    if (!others.empty()) {
      throw ValueError(
          fmt::format("--resume: the checkpoint in {} is of another run{}\n  fix: the options that it was "
                      "started with, another --out, or --overwrite",
                      options.out, others));
    }
  }
  return from;
}

void check_length(const RunFolder& folder, const train::Checkpoint& from, const RunOptions& now, std::int64_t batches,
                  std::int64_t steps) {
  const RunOptions then = folder.started_with(from);
  const std::string changed = differences(then, now, true);
  if (changed.empty()) return;
  std::int64_t epochs_then = 0;
  std::int64_t steps_then = 0;
  for (const RunOption& option : then) {
    if (option.name == "--epochs") epochs_then = std::stoll(option.value);
    if (option.name == "--steps") steps_then = std::stoll(option.value);
  }
  const std::int64_t wanted_then = steps_then > 0 ? std::min(steps_then, epochs_then * batches) : epochs_then * batches;
  if (from.step < wanted_then) {
    throw ValueError(
        fmt::format("--resume: the run in {} is at step {} of {}, and only a finished one can be given "
                    "another length{}\n  fix: finish it first",
                    folder.path(), from.step, wanted_then, changed));
  }
  if (from.step > steps) {
    throw ValueError(fmt::format("--resume: the run in {} has done {} steps, more than the {} wanted{}", folder.path(),
                                 from.step, steps, changed));
  }
  folder.extend(from, now);
}

ExitCode report_stop(const BeginOptions& options, const train::FitResult& result, std::int64_t steps, int signal,
                     const std::string& command) {
  if (options.as_json) {
    print_line(JsonObject()
                   .add("stopped_by", json(os::signal_name(signal)))
                   .add("steps", json(result.steps))
                   .add("steps_wanted", json(steps))
                   .add("continue", json(command))
                   .text());
  } else {
    fmt::print(stderr, "lockstep: stopped by {} after step {} of {}, which is saved\n  to continue: {}\n",
               os::signal_name(signal), result.steps, steps, printable(command));
  }
  return static_cast<ExitCode>(kSignal + signal);
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
