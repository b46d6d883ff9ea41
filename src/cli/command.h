// The subcommands of `lockstep`. Each adds its options to the parser and returns what to run if it was chosen.
#pragma once

#include <functional>
#include <stdexcept>

namespace CLI {
class App;
}

namespace lockstep {
inline namespace v0 {
namespace cli {

/// What the process returns; part of the interface (docs/cli.md).
enum ExitCode : int { kOk = 0, kFailure = 1, kUsage = 2, kUnsupported = 3 };

/// The command line asks for something that does not exist: exit code kUsage.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

using Run = std::function<ExitCode()>;

Run add_info(CLI::App& root);
Run add_classify(CLI::App& root);
Run add_inspect(CLI::App& root);
Run add_replay(CLI::App& root);
Run add_demo(CLI::App& root);
Run add_check(CLI::App& root);
Run add_train(CLI::App& root);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
