// Runs the built `lockstep` as a user would.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "support/files.h"

namespace lockstep::test {

struct CommandResult {
  int exit_code = -1;
  std::string output;
  std::string errors;

  std::vector<std::string> lines() const {
    std::istringstream text(output);
    std::vector<std::string> result;
    for (std::string line; std::getline(text, line);) result.push_back(line);
    return result;
  }
  /// Every line of standard output as JSON; a line that is none throws, which fails the test.
  std::vector<nlohmann::json> json() const {
    std::vector<nlohmann::json> result;
    for (const std::string& line : lines()) result.push_back(nlohmann::json::parse(line));
    return result;
  }
};

inline std::string quoted(const std::string& word) {
  std::string result = "'";
  for (const char c : word) result += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return result + "'";
}

/// A file of the demonstration.
inline std::string asset(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/assets/demo/" + name;
}

/// `environment` holds assignments such as "LOCKSTEP_NUM_THREADS=2".
inline CommandResult run_command(const std::vector<std::string>& arguments,
                                 const std::vector<std::string>& environment = {},
                                 const std::string& program = LOCKSTEP_CLI) {
  const TemporaryFolder folder;
  std::string line = "env";
  for (const std::string& assignment : environment) line += " " + quoted(assignment);
  line += " " + quoted(program);
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  line += " >" + quoted(folder.path("out")) + " 2>" + quoted(folder.path("err")) + " </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_whole_file(folder.path("out")),
          read_whole_file(folder.path("err"))};
}

/// The processes whose parent is this one, in the order in which they were started.
inline std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> result;
  std::ifstream children("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children");
  for (pid_t child = 0; children >> child;) result.push_back(child);
  return result;
}

/// The command while it runs, so that it can be sent signals.
class RunningCommand {
 public:
  explicit RunningCommand(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), LOCKSTEP_CLI);
    std::vector<char*> words;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    for (const auto& [descriptor, name] : {std::pair(1, "out"), std::pair(2, "err")}) {
      posix_spawn_file_actions_addopen(&files, descriptor, folder_.path(name).c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    }
    if (::posix_spawn(&process_, LOCKSTEP_CLI, &files, nullptr, words.data(), environ) != 0) process_ = -1;
    posix_spawn_file_actions_destroy(&files);
  }
  ~RunningCommand() {
    if (process_ > 0) end(SIGKILL);
  }
  RunningCommand(const RunningCommand&) = delete;
  RunningCommand& operator=(const RunningCommand&) = delete;

  /// Waits until `path` exists, or the process has ended; false after a minute.
  static bool wait_for(const std::string& path) {
    for (int i = 0; i < 6000 && !std::filesystem::exists(path); ++i) ::usleep(10'000);
    return std::filesystem::exists(path);
  }
  /// What it has printed so far, once there is a whole line; empty after a minute without one.
  std::string first_line() const {
    for (int i = 0; i < 6000; ++i) {
      const std::string output = read_whole_file(folder_.path("out"));
      if (const std::size_t end = output.find('\n'); end != std::string::npos) return output.substr(0, end);
      ::usleep(10'000);
    }
    return "";
  }
  pid_t id() const { return process_; }
  void send(int signal) { ::kill(process_, signal); }
  /// Sends the signal and waits. The exit code of a process that a signal ended is minus its number.
  CommandResult end(int signal) {
    send(signal);
    return end();
  }
  CommandResult end() {
    int status = 0;
    ::waitpid(std::exchange(process_, -1), &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), read_whole_file(folder_.path("out")),
            read_whole_file(folder_.path("err"))};
  }

 private:
  TemporaryFolder folder_;
  pid_t process_ = -1;
};

}  // namespace lockstep::test
