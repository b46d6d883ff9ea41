// Files for tests: a folder that vanishes with the test, whole files as strings, and what an error said.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/error.h>

namespace lockstep::test {

/// An empty folder, removed with everything in it at the end of the scope.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  /// Writes `bytes` to a file of that name and returns its path.
  std::string write(const std::string& name, std::string_view bytes) const;
  /// Names of the files in the folder, sorted; hidden ones too.
  std::vector<std::string> names() const;

 private:
  std::filesystem::path folder_;
};

std::string read_whole_file(const std::filesystem::path& path);

/// What the exception of type E said; "no error" if nothing was thrown. Others pass through, and fail the test.
template <typename E, typename Action> std::string message_of(Action action) {
  try {
    action();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace lockstep::test
