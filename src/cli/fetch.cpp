#include "cli/fetch.h"

#include <memory>
#include <optional>

#include <lockstep/io/hub.h>
#include <lockstep/models/language.h>

#include "cli/terminal.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

io::HubOptions with_progress() {
  constexpr std::uint64_t kMebibyte = 1 << 20;
  // A line for each file.
  struct Line {
    std::optional<Progress> progress;
    std::uint64_t total = 0;
  };
  return {.progress = [line = std::make_shared<Line>()](std::uint64_t done, std::uint64_t total) {
    if (!line->progress || line->total != total) {
      line->progress.reset();
      line->progress.emplace(total / kMebibyte);
      line->total = total;
    }
    line->progress->show(done / kMebibyte);
  }};
}

}  // namespace

std::string fetched(const std::string& path) {
  return io::local_file(path, with_progress());
}

std::string fetched_model(const std::string& path) {
  return models::local_language_model(path, with_progress());
}

std::string fetched_tokenizer(const std::string& path) {
  const std::optional<io::HubName> name = io::parse_hub_name(path);
  if (!name || !name->file.empty()) return fetched(path);
  return io::hub_file(name->repository, "tokenizer.json", name->revision, with_progress());
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
