// The folder of a run of `lockstep train`: who may use it, what the run in it was started with, and how it is continued.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/train/checkpoint.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

/// What decides the bits of a run, by the options' names: {"--lr", "0.1"}.
struct RunOption {
  std::string name;
  std::string value;
  bool is_length = false;  ///< Only says how long it is: a finished run may be continued with another one.
  friend bool operator==(const RunOption& a, const RunOption& b) { return a.name == b.name && a.value == b.value; }
};
using RunOptions = std::vector<RunOption>;

/// As a checkpoint says it, a line each, and back. Of a text that is none: nothing.
std::string to_text(const RunOptions& options);
std::optional<RunOptions> from_text(const std::string& text);

/// Those that differ, "  --lr: 0.1 then, 0.05 now", a line each; without lengths if so asked.
std::string differences(const RunOptions& then, const RunOptions& now, bool lengths);

class RunFolder {
 public:
  /// Creates the folder if there is none. IoError if it cannot, or if another process runs in it, unless this one only
  /// reads what that one writes.
  explicit RunFolder(const std::string& path, bool writes = true);

  const std::string& path() const { return path_; }
  std::string file(const char* name) const;
  std::string checkpoints() const { return file("checkpoints"); }
  bool has_run() const;
  /// Removes the checkpoints, so that a run can begin. What it writes replaces the rest.
  void forget_run() const;

  /// What the last checkpoint's run was started with. ValueError if that is not said in the way of this version.
  RunOptions started_with(const train::Checkpoint& last) const;
  /// Gives the last checkpoint other lengths, so that the run goes on to them.
  void extend(train::Checkpoint last, const RunOptions& options) const;

 private:
  std::string path_;
  std::optional<os::FileLock> lock_;
};

/// The words without those that say how a run begins.
std::vector<std::string> without_resume(const std::vector<std::string>& words);
/// The command that continues a run: the words that were typed, quoted for a shell, with --resume.
std::string continuing(const std::vector<std::string>& words);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
