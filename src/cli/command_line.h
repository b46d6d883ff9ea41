// The options of the subcommands. Only command_line.cpp sees the parser behind them, CLI11: a compiler needs longer for
// its header than for all else that a command is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace lockstep {
inline namespace v0 {
namespace cli {

/// What may be said about one option. A value that breaks a rule is wrong usage.
class Option {
 public:
  explicit Option(CLI::Option& option) : option_(&option) {}

  Option& required();
  Option& range(std::int64_t least, std::int64_t most);
  Option& positive();
  Option& not_negative();
  Option& one_of(const std::vector<std::string>& words);
  /// The help names the value that the variable has now.
  Option& show_default();
  /// Of a list: `--op a --op b`, not `--op a b`.
  Option& one_value_each();

 private:
  CLI::Option* option_;
};

/// One subcommand. Options write into variables, which must live until it has run.
class Subcommand {
 public:
  using Words = std::shared_ptr<const std::vector<std::string>>;

  Subcommand(CLI::App& app, std::function<ExitCode()>& run, Words words)
      : app_(&app), run_(&run), words_(std::move(words)) {}

  void flag(const char* name, bool& value, const char* help);
  /// `--name`, which gives the value `word`, or `--name=value`.
  Option flag_or(const char* name, const char* word, std::string& value, const std::string& help);
  /// `--name`, or `NAME` for what stands on the line without a name.
  Option option(const char* name, std::string& value, const std::string& help);
  Option option(const char* name, std::vector<std::string>& value, const std::string& help);
  Option option(const char* name, int& value, const std::string& help);
  Option option(const char* name, std::int64_t& value, const std::string& help);
  Option option(const char* name, std::uint64_t& value, const std::string& help);
  Option option(const char* name, std::optional<double>& value, const std::string& help);
  /// What stands behind the options, options of its own among it, as it was typed.
  void rest(std::vector<std::string>& words);
  void footer(const char* text);
  void runs(std::function<ExitCode()> run) { *run_ = std::move(run); }
  /// The whole command line as it was typed, once the subcommand runs.
  const Words& words() const { return words_; }

 private:
  CLI::App* app_;
  std::function<ExitCode()>* run_;
  Words words_;
};

/// The whole command line.
class CommandLine {
 public:
  CommandLine(const char* name, const char* description, const std::string& version, const char* footer);
  ~CommandLine();

  /// With the options that all have: --shadow, --record, and what belongs to them.
  Subcommand subcommand(const char* name, const char* help);
  /// Runs the subcommand that is asked for, or shows help. Throws UsageError that says what is wrong with the line.
  ExitCode run(int argc, char** argv);

 private:
  std::string explain(const CLI::ParseError& error) const;
  ExitCode run_watched(const std::function<ExitCode()>& run) const;

  std::unique_ptr<CLI::App> app_;
  std::shared_ptr<std::vector<std::string>> words_;
  std::map<const CLI::App*, std::function<ExitCode()>> runs_;
  // Of every subcommand.
  std::string shadow_;
  std::string shadow_policy_ = "stop";
  std::int64_t shadow_every_ = 1;
  std::vector<std::string> shadow_ops_;
  std::int64_t shadow_rows_ = 0;
  std::string cases_ = "lockstep-cases";
  std::string record_;
  bool record_modules_ = false;
  std::int64_t record_case_ = 0;
};

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
