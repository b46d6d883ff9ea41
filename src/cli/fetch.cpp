#include "cli/fetch.h"

#include <filesystem>
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

FetchedOnnx fetched_onnx(const std::string& path) {
  FetchedOnnx model{.path = fetched(path), .options = {}};
  const std::optional<io::HubName> name = io::parse_hub_name(path);
  if (!name) return model;
  // .../models--owner--name/snapshots/COMMIT/FILE
  std::filesystem::path snapshot = model.path;
  for (const auto& part : std::filesystem::path(name->file)) {
    if (!part.empty()) snapshot = snapshot.parent_path();
  }
  model.options.external_root = snapshot.parent_path().parent_path().string();
  for (const std::string& other : io::onnx_external_files(model.path)) {
    const std::filesystem::path file = std::filesystem::path(name->file).parent_path() / other;
    io::hub_file(name->repository, file.string(), snapshot.filename().string(), with_progress());
  }
  return model;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
