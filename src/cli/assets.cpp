#include "cli/assets.h"

#include <cstdlib>
#include <filesystem>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

namespace fs = std::filesystem;

bool holds_demo(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "weights.safetensors", ignored);
}

}  // namespace

std::string demo_assets() {
  const char* const chosen = std::getenv("LOCKSTEP_ASSETS");
  if (chosen != nullptr && *chosen != '\0') {
    if (holds_demo(chosen)) return chosen;
    throw IoError(fmt::format("LOCKSTEP_ASSETS={}: there is no weights.safetensors", chosen));
  }
  std::error_code ignored;
  const fs::path bin = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const fs::path installed = (bin / "../share/lockstep/demo").lexically_normal();
  if (holds_demo(installed)) return installed.string();
  for (fs::path folder = bin; folder.has_relative_path(); folder = folder.parent_path()) {
    if (holds_demo(folder / "assets/demo")) return (folder / "assets/demo").string();
  }
  throw IoError(
      fmt::format("the demonstration's files are neither in {} nor in assets/demo above {}\n  fix: set LOCKSTEP_ASSETS "
                  "to the folder assets/demo of the source tree",
                  installed.string(), bin.string()));
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
