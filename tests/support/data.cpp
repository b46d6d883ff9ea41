#include "support/data.h"

#include <cstdlib>
#include <string_view>

namespace lockstep::test {

std::filesystem::path test_data(const std::string& relative) {
  const char* folder = std::getenv("LOCKSTEP_TEST_DATA");
  const std::filesystem::path root = folder != nullptr
                                         ? std::filesystem::path(folder)
                                         : std::filesystem::path(LOCKSTEP_SOURCE_DIR) / ".." / "shared" / "data";
  return (root / relative).lexically_normal();
}

std::filesystem::path made_data(const std::string& relative) {
  const std::filesystem::path beside = test_data(relative);
  if (std::filesystem::exists(beside)) return beside;
  return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "build" / "data" / relative;
}

std::filesystem::path repository_data(const std::string& relative) {
  return std::filesystem::path(LOCKSTEP_SOURCE_DIR) / "tests" / "data" / relative;
}

bool must_have_data() {
  const char* ci = std::getenv("CI");
  return ci != nullptr && std::string_view(ci) == "true";
}

}  // namespace lockstep::test
