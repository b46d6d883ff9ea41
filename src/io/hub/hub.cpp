// hub_file: the steps of finding a file of a hub.
#include <lockstep/io/hub.h>

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "io/hub/cache.h"
#include "io/hub/download.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::string_view kScheme = "hf:";

}  // namespace

std::string hub_file(const std::string& repository, const std::string& file, const std::string& revision,
                     const HubOptions& given) {
  const HubEntry entry(repository, file, revision);
  const HubOptions options = with_environment(given);
  const std::optional<std::string> cached = entry.cached(options.cache);
  if (cached && (is_commit(revision) || *options.offline)) return *cached;
  if (*options.offline) {
    throw IoError(fmt::format("{} is not in {}, and HF_HUB_OFFLINE says not to download\n  fix: unset HF_HUB_OFFLINE",
                              entry.name(), options.cache));
  }
  std::string problem;
  const std::optional<HubAnswer> answer = ask_hub(entry, options, problem);
  if (!answer) {
    if (cached) return *cached;
    throw IoError(fmt::format("{}: {} cannot be reached: {}", entry.name(), options.endpoint, problem));
  }
  const std::string blob = entry.blob(options.cache, answer->etag);
  download(entry, *answer, blob, entry.lock(options.cache, answer->etag), options);
  return entry.link(options.cache, answer->commit, answer->etag);
}

std::optional<std::string> find_hub_file(const std::string& repository, const std::string& file,
                                         const std::string& revision, const HubOptions& given) {
  const HubOptions options = with_environment(given);
  if (*options.offline) return HubEntry(repository, file, revision).cached(options.cache);
  try {
    return hub_file(repository, file, revision, options);
  } catch (const NotOnHub&) {
    return std::nullopt;
  }
}

std::optional<HubName> parse_hub_name(const std::string& path) {
  std::string_view rest = path;
  if (!rest.starts_with(kScheme)) return std::nullopt;
  rest.remove_prefix(kScheme.size());
  // owner/name, or datasets/owner/name, up to a slash or an @ with the revision.
  std::size_t slash = rest.find('/');
  if (rest.starts_with("datasets/")) slash = rest.find('/', slash + 1);
  if (slash == std::string_view::npos) {
    throw ValueError(fmt::format("{} names nothing of a hub\n  fix: write hf:owner/name/file", in_quotes(path)));
  }
  const std::size_t end = std::min(rest.find_first_of("/@", slash + 1), rest.size());
  const std::size_t file = std::min(rest.find('/', end), rest.size());
  HubName name{.repository = std::string(rest.substr(0, end))};
  if (end < file) name.revision = rest.substr(end + 1, file - end - 1);
  if (file < rest.size()) name.file = rest.substr(file + 1);
  return name;
}

std::string local_file(const std::string& path, const HubOptions& options) {
  const std::optional<HubName> name = parse_hub_name(path);
  if (!name) return path;
  if (name->file.empty()) {
    throw ValueError(fmt::format("{} names no file of a hub\n  fix: write hf:owner/name/file", in_quotes(path)));
  }
  return hub_file(name->repository, name->file, name->revision, options);
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
