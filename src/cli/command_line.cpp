#include "cli/command_line.h"

#include <CLI/CLI.hpp>

namespace lockstep {
inline namespace v0 {
namespace cli {

Option& Option::required() {
  option_->required();
  return *this;
}
Option& Option::range(std::int64_t least, std::int64_t most) {
  option_->check(CLI::Range(least, most));
  return *this;
}
Option& Option::positive() {
  option_->check(CLI::PositiveNumber);
  return *this;
}
Option& Option::not_negative() {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}
Option& Option::one_of(const std::vector<std::string>& words) {
  option_->check(CLI::IsMember(words));
  return *this;
}
Option& Option::show_default() {
  option_->capture_default_str();
  return *this;
}
Option& Option::one_value_each() {
  option_->allow_extra_args(false);
  return *this;
}

void Subcommand::flag(const char* name, bool& value, const char* help) {
  app_->add_flag(name, value, help);
}
Option Subcommand::option(const char* name, std::string& value, const std::string& help) {
  return Option(*app_->add_option(name, value, help));
}
Option Subcommand::option(const char* name, std::vector<std::string>& value, const std::string& help) {
  return Option(*app_->add_option(name, value, help));
}
Option Subcommand::option(const char* name, int& value, const std::string& help) {
  return Option(*app_->add_option(name, value, help));
}
Option Subcommand::option(const char* name, std::int64_t& value, const std::string& help) {
  return Option(*app_->add_option(name, value, help));
}
Option Subcommand::option(const char* name, std::uint64_t& value, const std::string& help) {
  return Option(*app_->add_option(name, value, help));
}
Option Subcommand::option(const char* name, std::optional<double>& value, const std::string& help) {
  return Option(*app_->add_option(name, value, help));
}
void Subcommand::footer(const char* text) {
  app_->footer(text);
}

CommandLine::CommandLine(const char* name, const char* description, const std::string& version, const char* footer)
    : app_(std::make_unique<CLI::App>(description, name)) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version);
  app_->footer(footer);
}
CommandLine::~CommandLine() = default;

Subcommand CommandLine::subcommand(const char* name, const char* help) {
  CLI::App& app = *app_->add_subcommand(name, help);
  return {app, runs_[&app]};
}

ExitCode CommandLine::run(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app_->exit(error) == 0 ? kOk : kUsage;
  }
  return runs_.at(app_->get_subcommands().front())();
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
