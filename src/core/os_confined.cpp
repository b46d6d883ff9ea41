#include "core/os_confined.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/checked.h"
#include "core/os_pages.h"

namespace lockstep {
inline namespace v0 {
namespace os {
namespace {

class OpenFile {
 public:
  explicit OpenFile(int file) : file_(file) {}
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  void replace(int file) {
    if (file_ >= 0) ::close(file_);
    file_ = file;
  }
  int get() const { return file_; }

 private:
  int file_;
};

int open_below(int folder, const std::string& part, int flags) {
  int file = -1;
  do {
    file = ::openat(folder, part.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags);
  } while (file < 0 && errno == EINTR);
  return file;
}

// Whether that part could not be opened as it is one: a folder's link is an error of another name.
bool is_link(int error, int folder, const std::string& part) {
  if (error == ELOOP || error == EMLINK) return true;
  struct stat info {};
  return error == ENOTDIR && ::fstatat(folder, part.c_str(), &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

// What the path is when its links are followed, as a name below `root`; nothing where it lies elsewhere.
std::optional<std::string> name_below(const std::string& root, const std::string& path) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::canonical(root, error);
  const std::filesystem::path file = error ? folder : std::filesystem::canonical(path, error);
  if (error || std::mismatch(folder.begin(), folder.end(), file.begin(), file.end()).first != folder.end()) return {};
  return file.lexically_relative(folder).string();
}

}  // namespace

FileBytes map_confined_file(const std::string& folder, std::string_view name, const std::string& root) {
  const std::string shown = fmt::format("{}: the file {}", folder, in_quotes(name));
  const std::string path = fmt::format("{}/{}", folder.empty() ? "." : folder, name);
  const auto refuse = [&](std::string_view why) { throw IoError(fmt::format("{} {}", shown, why)); };
  if (name.empty() || name.size() > 4096 || name.find('\0') != std::string_view::npos) refuse("has no usable name");
  OpenFile at(::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC | O_DIRECTORY));
  if (at.get() < 0) refuse(fmt::format("cannot be opened: {}", std::generic_category().message(errno)));
  while (!name.empty()) {
    const std::size_t slash = name.find('/');
    const std::string part(name.substr(0, slash));
    if (part.empty() || part == "." || part == "..") refuse("may lead out of the folder");
    const bool last = slash == std::string_view::npos;
    name = last ? std::string_view() : name.substr(slash + 1);
    if (!last && name.empty()) refuse("ends with a slash");
    const int next = open_below(at.get(), part, last ? 0 : O_DIRECTORY);
    if (next < 0 && is_link(errno, at.get(), part)) {
      if (root.empty()) refuse("is a symbolic link, which may lead out of the folder");
      const std::optional<std::string> below = name_below(root, path);
      if (!below) refuse(fmt::format("is a symbolic link that does not lead below {}", root));
      return map_confined_file(root, *below);
    }
    if (next < 0) refuse(fmt::format("cannot be opened: {}", std::generic_category().message(errno)));
    at.replace(next);
  }
  struct stat info {};
  if (::fstat(at.get(), &info) != 0)
    refuse(fmt::format("cannot be examined: {}", std::generic_category().message(errno)));
  if (!S_ISREG(info.st_mode)) refuse("is no regular file");
  if (info.st_nlink != 1) refuse("has more than one name (hard links), of which one may lie outside of the folder");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) return {shown, {}, nullptr};
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, at.get(), 0);
  if (data == MAP_FAILED) refuse(fmt::format("cannot be mapped: {}", std::generic_category().message(errno)));
  return {shown, {static_cast<const std::byte*>(data), size}, own_mapping(data, size)};
}

}  // namespace os
}  // namespace v0
}  // namespace lockstep
