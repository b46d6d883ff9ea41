#include "cli/run_folder.h"

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

os::FileLock lock_of(const std::string& folder) {
  os::make_directories(folder);
  std::optional<os::FileLock> lock = os::FileLock::take(folder + "/.lock");
  if (!lock) {
    throw IoError(fmt::format("{}: another run uses this folder\n  fix: wait until it has finished, or another --out",
                              folder));
  }
  return std::move(*lock);
}

const RunOption* find(const RunOptions& options, const std::string& name) {
  const auto found = std::find_if(options.begin(), options.end(), [&](const auto& item) { return item.name == name; });
  return found == options.end() ? nullptr : &*found;
}

// As a POSIX shell reads it back.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string result = "'";
  for (const char c : word) c == '\'' ? result += "'\\''" : result += c;
  return result + "'";
}

}  // namespace

std::string to_text(const RunOptions& options) {
  std::string text;
  for (const RunOption& option : options) text += fmt::format("{}={}\n", option.name, option.value);
  return text;
}

std::optional<RunOptions> from_text(const std::string& text) {
  RunOptions options;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with("--") || equals == std::string::npos) return std::nullopt;
    options.push_back({line.substr(0, equals), line.substr(equals + 1)});
  }
  return options.empty() ? std::nullopt : std::optional(std::move(options));
}

std::string differences(const RunOptions& then, const RunOptions& now, bool lengths) {
  std::string text;
  for (const RunOption& option : now) {
    const RunOption* before = find(then, option.name);
    if (option.is_length && !lengths) continue;
    if (before != nullptr && *before == option) continue;
    text += fmt::format("\n  {}: {} then, {} now", option.name, before == nullptr ? "unknown" : before->value,
                        option.value);
  }
  return text;
}

RunFolder::RunFolder(const std::string& path, bool writes) : path_(path) {
  if (writes) lock_ = lock_of(path);
}

std::string RunFolder::file(const char* name) const {
  return (std::filesystem::path(path_) / name).string();
}

bool RunFolder::has_run() const {
  return !train::list_checkpoints(checkpoints()).empty();
}

void RunFolder::forget_run() const {
  for (const std::string& path : train::list_checkpoints(checkpoints())) train::remove_checkpoint(path);
}

RunOptions RunFolder::started_with(const train::Checkpoint& last) const {
  const auto text = last.texts.find("run");
  const std::optional<RunOptions> options = text == last.texts.end() ? std::nullopt : from_text(text->second);
  if (!options) {
    throw ValueError(fmt::format("{}: it is not said there what the run was started with\n  fix: another --out, or "
                                 "--overwrite to begin again",
                                 path_));
  }
  return *options;
}

void RunFolder::extend(train::Checkpoint last, const RunOptions& options) const {
  last.texts["run"] = to_text(options);
  train::save_checkpoint(checkpoints(), last, {.keep = 0});
}

std::vector<std::string> without_resume(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const std::string& word : words) {
    if (word != "--overwrite" && word != "--resume" && !word.starts_with("--resume=")) result.push_back(word);
  }
  return result;
}

std::string continuing(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : without_resume(words)) line += quoted(word) + " ";
  return line + "--resume";
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
