#include "io/hub/cache.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDatasets = "datasets/";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
}

// Part of an address and of a path, and nothing else of either.
bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 96 && text != "." && text != ".." &&
         text.find("--") == std::string_view::npos && std::all_of(text.begin(), text.end(), is_name_character);
}

// Folders and a file below a folder.
bool is_relative_path(std::string_view text) {
  while (true) {
    const std::size_t slash = text.find('/');
    const std::string_view part = text.substr(0, slash);
    const bool plain = std::none_of(part.begin(), part.end(), [](char c) {
      return static_cast<unsigned char>(c) <= ' ' || c == 0x7f ||
             std::string_view("\\?#%:*\"<>|").find(c) != std::string_view::npos;
    });
    if (part.empty() || part == "." || part == ".." || part.size() > 255 || !plain) return false;
    if (slash == std::string_view::npos) return true;
    text.remove_prefix(slash + 1);
  }
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string first_line(const std::string& path) {
  if (!fs::is_regular_file(path)) return "";
  const os::FileBytes file = os::read_file(path);
  const std::string_view text = text_of(file.bytes);
  return std::string(text.substr(0, text.find_first_of(" \r\n\t")));
}

}  // namespace

bool is_commit(const std::string& revision) {
  return revision.size() == 40 && std::all_of(revision.begin(), revision.end(),
                                              [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

HubEntry::HubEntry(std::string repository, std::string file, std::string revision)
    : repository_(std::move(repository)), file_(std::move(file)), revision_(std::move(revision)) {
  std::string_view owner_and_name = repository_;
  if (owner_and_name.starts_with(kDatasets)) owner_and_name.remove_prefix(kDatasets.size());
  const std::size_t slash = owner_and_name.find('/');
  const bool known = slash != std::string_view::npos && is_name(owner_and_name.substr(0, slash)) &&
                     is_name(owner_and_name.substr(slash + 1));
  if (!known) {
    throw ValueError(fmt::format("{} is no repository of a hub\n  fix: write owner/name or datasets/owner/name",
                                 in_quotes(repository_)));
  }
  if (!is_relative_path(file_)) throw ValueError(fmt::format("{} is no file of a repository", in_quotes(file_)));
  if (!is_relative_path(revision_)) throw ValueError(fmt::format("{} is no revision", in_quotes(revision_)));
}

std::string HubEntry::name() const {
  return fmt::format("{}{}: {}", repository_, revision_ == "main" ? "" : "@" + revision_, file_);
}

std::string HubEntry::address() const {
  std::string revision = revision_;
  for (std::size_t at = 0; (at = revision.find('/', at)) != std::string::npos;) revision.replace(at, 1, "%2F");
  return fmt::format("/{}/resolve/{}/{}", repository_, revision, file_);
}

std::string HubEntry::folder() const {
  const bool dataset = repository_.starts_with(kDatasets);
  std::string name = dataset ? repository_.substr(kDatasets.size()) : repository_;
  name.replace(name.find('/'), 1, "--");
  return (dataset ? "datasets--" : "models--") + name;
}

std::string HubEntry::place(const std::string& cache, const std::string& commit) const {
  return fmt::format("{}/{}/snapshots/{}/{}", cache, folder(), commit, file_);
}

std::optional<std::string> HubEntry::cached(const std::string& cache) const {
  const std::string commit =
      is_commit(revision_) ? revision_ : first_line(fmt::format("{}/{}/refs/{}", cache, folder(), revision_));
  if (!is_commit(commit)) return std::nullopt;
  std::string path = place(cache, commit);
  if (!fs::is_regular_file(path)) return std::nullopt;
  return path;
}

std::string HubEntry::blob(const std::string& cache, const std::string& etag) const {
  return fmt::format("{}/{}/blobs/{}", cache, folder(), etag);
}

std::string HubEntry::lock(const std::string& cache, const std::string& etag) const {
  return fmt::format("{}/.locks/{}/{}.lock", cache, folder(), etag);
}

std::string HubEntry::link(const std::string& cache, const std::string& commit, const std::string& etag) const {
  const fs::path path = place(cache, commit);
  os::make_directories(path.parent_path().string());
  std::error_code error;
  // As seen from the link: the cache may be moved.
  const fs::path target = fs::path(blob(cache, etag)).lexically_relative(path.parent_path());
  if (fs::read_symlink(path, error) != target) {
    const fs::path temporary = path.string() + ".new";
    fs::remove(temporary, error);
    fs::create_symlink(target, temporary, error);
    if (!error) fs::rename(temporary, path, error);
    if (error) throw IoError(fmt::format("{}: cannot make the link: {}", path.string(), error.message()));
  }
  if (!is_commit(revision_)) {
    const std::string ref = fmt::format("{}/{}/refs/{}", cache, folder(), revision_);
    if (first_line(ref) != commit) {
      os::make_directories(fs::path(ref).parent_path().string());
      os::AtomicFile file(ref);
      file.write(commit);
      file.commit();
    }
  }
  return path.string();
}

HubOptions with_environment(HubOptions options) {
  std::string home = variable("HF_HOME");
  if (home.empty() && !os::cache_directory().empty()) home = os::cache_directory() + "/huggingface";
  if (options.endpoint.empty()) options.endpoint = variable("HF_ENDPOINT");
  if (options.endpoint.empty()) options.endpoint = "https://huggingface.co";
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
  if (!options.endpoint.starts_with("https://") && !options.endpoint.starts_with("http://")) {
    throw ValueError(fmt::format("{} is no address of a hub\n  fix: begin with https://", in_quotes(options.endpoint)));
  }
  if (options.cache.empty()) options.cache = variable("HF_HUB_CACHE");
  if (options.cache.empty() && !home.empty()) options.cache = home + "/hub";
  if (options.cache.empty()) throw IoError("there is no place for downloads\n  fix: set HOME, HF_HOME or HF_HUB_CACHE");
  if (options.token.empty()) options.token = variable("HF_TOKEN");
  if (options.token.empty() && !home.empty()) options.token = first_line(home + "/token");
  if (std::any_of(options.token.begin(), options.token.end(), [](char c) { return c <= ' ' || c > '~'; })) {
    throw ValueError("HF_TOKEN is no token: it has characters that none has");
  }
  if (!options.offline) {
    std::string value = variable("HF_HUB_OFFLINE");
    for (char& c : value) {
      if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    }
    options.offline = value == "1" || value == "ON" || value == "YES" || value == "TRUE";
  }
  return options;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
