#include "cli/command_line.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <lockstep/recorder.h>
#include <lockstep/shadow.h>

#include "cli/devices.h"
#include "cli/suggest.h"
#include "cli/terminal.h"
#include "graph/kernel_record.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// Rules on numbers come behind the one on what is a number at all, which every option of numbers has. (CLI11's own name
// the limits of a double by their 309 digits.)
template <typename Number> std::optional<Number> parsed(const std::string& text) {
  Number value{};
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || rest != text.data() + text.size()) return std::nullopt;
  if constexpr (std::is_floating_point_v<Number>) {
    if (!std::isfinite(value)) return std::nullopt;
  }
  return value;
}

using Rule = std::function<std::string(const std::string& text)>;

template <typename Number> std::string not_a_number(const std::string& text) {
  if (parsed<Number>(text)) return "";
  if constexpr (std::is_floating_point_v<Number>) return fmt::format("\"{}\" is no number", text);
  const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string_view::npos) {
    return fmt::format("\"{}\" is no whole number", text);
  }
  return fmt::format("{} is out of range", text);
}

Rule compared(bool (*holds)(double), const char* wanted) {
  return [holds, wanted](const std::string& text) {
    return holds(parsed<double>(text).value_or(0)) ? "" : fmt::format("{} is not {}", text, wanted);
  };
}

CLI::Validator validator(Rule rule) {
  return CLI::Validator([rule = std::move(rule)](std::string& text) { return rule(text); }, "");
}

template <typename Number> CLI::Option& numeric(CLI::Option* option) {
  return *option->check(validator(not_a_number<Number>));
}

std::vector<std::string> names_of_options(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string joined(const std::vector<std::string>& words) {
  return words.size() < 2 ? words.empty() ? "" : words[0]
                          : fmt::format("{} and {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
}

}  // namespace

Option& Option::required() {
  option_->required();
  return *this;
}
Option& Option::range(std::int64_t least, std::int64_t most) {
  option_->check(validator([least, most](const std::string& text) {
    const auto value = parsed<std::int64_t>(text);
    const bool inside = value && *value >= least && *value <= most;
    return inside ? "" : fmt::format("{} is not from {} to {}", text, least, most);
  }));
  return *this;
}
Option& Option::positive() {
  option_->check(validator(compared([](double value) { return value > 0; }, "greater than 0")));
  return *this;
}
Option& Option::not_negative() {
  option_->check(validator(compared([](double value) { return value >= 0; }, "0 or greater")));
  return *this;
}
Option& Option::one_of(const std::vector<std::string>& words) {
  option_->check(validator([words](const std::string& text) {
    if (std::find(words.begin(), words.end(), text) != words.end()) return std::string();
    return fmt::format("\"{}\" is none of {}{}", text, fmt::join(words, ", "), did_you_mean(text, words));
  }));
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
  return Option(numeric<int>(app_->add_option(name, value, help)));
}
Option Subcommand::option(const char* name, std::int64_t& value, const std::string& help) {
  return Option(numeric<std::int64_t>(app_->add_option(name, value, help)));
}
Option Subcommand::option(const char* name, std::uint64_t& value, const std::string& help) {
  return Option(numeric<std::uint64_t>(app_->add_option(name, value, help)));
}
Option Subcommand::option(const char* name, std::optional<double>& value, const std::string& help) {
  return Option(numeric<double>(app_->add_option(name, value, help)));
}
Option Subcommand::flag_or(const char* name, const char* word, std::string& value, const std::string& help) {
  return Option(*app_->add_flag(fmt::format("{}{{{}}}", name, word), value, help));
}
void Subcommand::rest(std::vector<std::string>& words) {
  app_->prefix_command();
  app_->final_callback([app = app_, &words] { words = app->remaining(); });
}
void Subcommand::footer(const char* text) {
  app_->footer(text);
}

CommandLine::CommandLine(const char* name, const char* description, const std::string& version, const char* footer)
    : app_(std::make_unique<CLI::App>(description, name)), words_(std::make_shared<std::vector<std::string>>()) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version);
  app_->footer(footer);
}
CommandLine::~CommandLine() = default;

Subcommand CommandLine::subcommand(const char* name, const char* help) {
  CLI::App& app = *app_->add_subcommand(name, help);
  constexpr const char* kGroup = "Agreement";
  app.add_option("--shadow", shadow_, "Compute every kernel on this device, too, and compare the bits")->group(kGroup);
  app.add_option("--shadow-policy", shadow_policy_, "Where they differ: stop, report, or follow the shadow")
      ->check(CLI::IsMember({"stop", "report", "follow"}))
      ->group(kGroup);
  numeric<std::int64_t>(
      app.add_option("--shadow-every", shadow_every_, "Compare one of so many kernels of each kind")->group(kGroup));
  app.add_option("--shadow-ops", shadow_ops_, "Compare only kernels with these ops: conv2d,linear")
      ->delimiter(',')
      ->group(kGroup);
  numeric<std::int64_t>(
      app.add_option("--shadow-rows", shadow_rows_, "Compare so many rows of each kernel, others each time; 0: all")
          ->group(kGroup));
  app.add_option("--shadow-cases", cases_, "Folder for the case of the shadow's first difference")->group(kGroup);
  app.add_option("--record", record_, "Write a hash of what every kernel makes to this file, for lockstep diff")
      ->group(kGroup);
  app.add_flag("--record-modules", record_modules_, "Record what layers return instead, for lockstep diff --tolerance")
      ->group(kGroup);
  numeric<std::int64_t>(app.add_option("--record-case", record_case_,
                                       "Keep the kernel of this number with what it read, on a second pass")
                            ->group(kGroup));
  return {app, runs_[&app], words_};
}

// What is wrong with a line that the parser refused. Words that nobody knows before those that are missing: a mistyped
// option is both.
std::string CommandLine::explain(const CLI::ParseError& error) const {
  const std::vector<CLI::App*> chosen = app_->get_subcommands();
  if (chosen.empty() || !app_->remaining().empty()) {
    std::vector<std::string> names;
    for (const CLI::App* command : app_->get_subcommands({})) names.push_back(command->get_name());
    const std::string known =
        fmt::format("\n  commands: {}\n  help: {} --help", fmt::join(names, ", "), app_->get_name());
    if (words_->size() < 2) return "which command?" + known;
    const std::string& word = (*words_)[1];
    if (!word.starts_with("-")) {
      return fmt::format("there is no command \"{}\"{}{}", word, did_you_mean(word, names), known);
    }
    return fmt::format("there is no option {} before a command{}", word, known);
  }
  const CLI::App& command = *chosen.front();
  const std::string help = fmt::format("\n  help: {} {} --help", app_->get_name(), command.get_name());
  const std::vector<std::string> unknown = command.remaining();
  if (!unknown.empty()) {
    const std::string word = unknown[0].substr(0, unknown[0].find('='));
    if (word.starts_with("-")) {
      return fmt::format("{}: there is no option {}{}{}", command.get_name(), word,
                         did_you_mean(word, names_of_options(command)), help);
    }
    return fmt::format("{}: \"{}\" is one word too many{}", command.get_name(), unknown[0], help);
  }
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    std::vector<std::string> missing;
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_required() && option->count() == 0) missing.push_back(option->get_name());
    }
    if (!missing.empty()) {
      return fmt::format("{}: {} {} missing{}", command.get_name(), joined(missing), missing.size() == 1 ? "is" : "are",
                         help);
    }
  }
  for (const CLI::Option* option : command.get_options()) {
    if (option->count() > 1 && option->get_items_expected_max() == 1) {
      return fmt::format("{}: {} is there twice{}", command.get_name(), option->get_name(), help);
    }
  }
  return fmt::format("{}: {}{}", command.get_name(), error.what(), help);
}

ExitCode CommandLine::run(int argc, char** argv) {
  words_->assign(argv, argv + argc);
  try {
    app_->parse(argc, argv);
  } catch (const CLI::Success& help) {
    app_->exit(help);
    return kOk;
  } catch (const CLI::ParseError& error) {
    throw UsageError(explain(error));
  }
  return run_watched(runs_.at(app_->get_subcommands().front()));
}

ExitCode CommandLine::run_watched(const std::function<ExitCode()>& run) const {
  std::optional<Shadow> shadow;
  std::optional<Recorder> record;
  if (!shadow_.empty()) {
    if (shadow_every_ < 1) throw UsageError("--shadow-every: use 1 or more");
    if (shadow_rows_ < 0) throw UsageError("--shadow-rows: use 0, for all, or more");
    shadow.emplace(chosen_device(shadow_), ShadowOptions{.policy = parse_shadow_policy(shadow_policy_),
                                                         .every = shadow_every_,
                                                         .ops = shadow_ops_,
                                                         .rows = shadow_rows_,
                                                         .cases = cases_});
  }
  if (record_.empty() && (record_modules_ || record_case_ != 0))
    throw UsageError("--record-modules and --record-case need --record");
  if (record_case_ < 0) throw UsageError("--record-case: kernels are numbered from 1");
  if (!record_.empty()) {
    record.emplace(graph::file_of_rank(record_), RecorderOptions{.modules = record_modules_, .case_of = record_case_});
  }
  const ExitCode code = run();
  if (record) {
    record->finish();
    if (record->size() > 0)
      fmt::print(stderr, "{}: {} {} recorded\n", printable(record_), record->size(),
                 record_modules_ ? "outputs of layers" : "values of kernels");
  }
  if (shadow) {
    const Shadow::Counts counts = shadow->counts();
    fmt::print(stderr, "shadow: {} values compared with {}, {} different, {} kernels passed over\n", counts.compared,
               printable(shadow_), counts.different, counts.passed_over);
    if (counts.different > 0 && code == kOk) return kFailure;
  }
  return code;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
