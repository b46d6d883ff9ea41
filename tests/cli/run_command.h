// Runs the built `lockstep` as a user would.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <initializer_list>
#include <sstream>
#include <string>
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
                                 const std::vector<std::string>& environment = {}) {
  const TemporaryFolder folder;
  std::string line = "env";
  for (const std::string& assignment : environment) line += " " + quoted(assignment);
  line += " " + quoted(LOCKSTEP_CLI);
  for (const std::string& argument : arguments) line += " " + quoted(argument);
  line += " >" + quoted(folder.path("out")) + " 2>" + quoted(folder.path("err")) + " </dev/null";
  const int status = std::system(line.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_whole_file(folder.path("out")),
          read_whole_file(folder.path("err"))};
}

}  // namespace lockstep::test
