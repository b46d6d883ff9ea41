#include "cli/fetch.h"

#include <optional>

#include <lockstep/io/hub.h>

#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

std::string fetched(const std::string& path) {
  constexpr std::uint64_t kMebibyte = 1 << 20;
  std::optional<Progress> line;
  return io::local_file(path, {.progress = [&](std::uint64_t done, std::uint64_t total) {
                          if (!line) line.emplace(total / kMebibyte);
                          line->show(done / kMebibyte);
                        }});
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
