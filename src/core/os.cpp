#include "core/os.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/os_pages.h"

namespace lockstep {
inline namespace v0 {
namespace os {
namespace {

[[noreturn]] void throw_errno(std::string_view action, const std::string& path, int error) {
  throw IoError(fmt::format("{}: cannot {}: {}", path, action, std::generic_category().message(error)));
}

// Closes on every path out of a reader; a failed close of a file that was only read loses nothing.
class ReadDescriptor {
 public:
  ReadDescriptor(const std::string& path, SystemCalls& calls) : calls_(calls) {
    // O_NONBLOCK: opening a pipe that nobody writes to must fail below, not hang here.
    do {
      file_ = calls_.open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    } while (file_ < 0 && errno == EINTR);
    if (file_ < 0) throw_errno("open the file", path, errno);
  }
  ~ReadDescriptor() { calls_.close(file_); }
  ReadDescriptor(const ReadDescriptor&) = delete;
  ReadDescriptor& operator=(const ReadDescriptor&) = delete;

  int get() const { return file_; }

  std::size_t regular_file_size(const std::string& path) const {
    struct stat info {};
    if (calls_.fstat(file_, &info) != 0) throw_errno("examine the file", path, errno);
    if (!S_ISREG(info.st_mode)) {
      const char* what = S_ISDIR(info.st_mode) ? "is a directory" : "is a device or pipe";
      throw IoError(fmt::format("{}: {}, not a regular file", path, what));
    }
    return static_cast<std::size_t>(info.st_size);
  }

 private:
  SystemCalls& calls_;
  int file_ = -1;
};

// Not a vector: it would write zeros before the read does.
std::shared_ptr<std::byte[]> allocate(const std::string& path, std::size_t size) {
  try {
    return std::make_shared_for_overwrite<std::byte[]>(size);
  } catch (const std::bad_alloc&) {
    throw OutOfMemoryError(fmt::format("{}: cannot allocate {} bytes to read it; mapping it needs none", path, size));
  }
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// The file that a chain of symbolic links ends at; `path` itself where nothing exists yet.
std::string resolve_links(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> resolved(::realpath(path.c_str(), nullptr), &std::free);
  return resolved ? std::string(resolved.get()) : path;
}

constexpr std::string_view kTemporaryPrefix = ".lockstep-";
constexpr std::string_view kTemporarySuffix = ".tmp";

std::string temporary_name(const std::string& target) {
  static std::atomic<unsigned> counter{0};
  return fmt::format("{}/{}{}-{}{}", directory_of(target), kTemporaryPrefix, ::getpid(), counter++, kTemporarySuffix);
}

// The process that a temporary file's name speaks of; 0 for other names.
pid_t writer_of(std::string_view name) {
  if (!name.starts_with(kTemporaryPrefix) || !name.ends_with(kTemporarySuffix)) return 0;
  const std::string_view number = name.substr(kTemporaryPrefix.size());
  pid_t process = 0;
  const auto [rest, error] = std::from_chars(number.data(), number.data() + number.size(), process);
  return error == std::errc() && *rest == '-' && process > 0 ? process : 0;
}

std::uint64_t memory_info(std::string_view key) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kilobytes = 0;
  std::string unit;
  while (file >> name >> kilobytes) {
    std::getline(file, unit);
    if (name == key) return kilobytes * 1024;
  }
  return 0;
}

int descriptor(StandardStream stream) {
  return stream == StandardStream::input ? STDIN_FILENO : stream == StandardStream::output ? STDOUT_FILENO : STDERR_FILENO;
}

}  // namespace

int SystemCalls::open(const char* path, int flags, mode_t mode) {
  return ::open(path, flags, mode);
}
int SystemCalls::fstat(int file, struct stat* result) {
  return ::fstat(file, result);
}
ssize_t SystemCalls::read(int file, void* data, std::size_t bytes) {
  return ::read(file, data, bytes);
}
void* SystemCalls::mmap(int file, std::size_t bytes) {
  return ::mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
}
ssize_t SystemCalls::write(int file, const void* data, std::size_t bytes) {
  return ::write(file, data, bytes);
}
int SystemCalls::fchmod(int file, mode_t mode) {
  return ::fchmod(file, mode);
}
int SystemCalls::fsync(int file) {
#ifdef F_FULLFSYNC
  return ::fcntl(file, F_FULLFSYNC);  // macOS: fsync alone leaves the data in the drive's cache
#else
  return ::fsync(file);
#endif
}
int SystemCalls::close(int file) {
  return ::close(file);
}
int SystemCalls::rename(const char* from, const char* to) {
  return ::rename(from, to);
}
int SystemCalls::unlink(const char* path) {
  return ::unlink(path);
}

SystemCalls& system_calls() {
  static SystemCalls& calls = *new SystemCalls;
  return calls;
}

FileBytes map_file(const std::string& path, SystemCalls& calls) {
  const ReadDescriptor file(path, calls);
  const std::size_t size = file.regular_file_size(path);
  if (size == 0) return {path, {}, nullptr};  // an empty range cannot be mapped
  void* address = calls.mmap(file.get(), size);
  if (address == MAP_FAILED) throw_errno("map the file", path, errno);
  return {path, {static_cast<const std::byte*>(address), size}, own_mapping(address, size)};
}

FileBytes read_file(const std::string& path, SystemCalls& calls) {
  const ReadDescriptor file(path, calls);
  const std::size_t size = file.regular_file_size(path);
  const std::shared_ptr<std::byte[]> data = allocate(path, size);
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = calls.read(file.get(), data.get() + done, std::min<std::size_t>(size - done, SSIZE_MAX));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("read the file", path, errno);
    if (count == 0) throw IoError(fmt::format("{}: shrank from {} to {} bytes while it was read", path, size, done));
    done += static_cast<std::size_t>(count);
  }
  return {path, {data.get(), size}, data};
}

AtomicFile::AtomicFile(std::string path, SystemCalls& calls)
    : path_(std::move(path)), calls_(calls), target_(resolve_links(path_)) {
  struct stat old {};
  const bool exists = ::stat(target_.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) throw IoError(path_ + ": exists and is not a regular file");

  directory_ = calls_.open(directory_of(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
  if (directory_ < 0) fail("open the directory");
  constexpr int kAttempts = 100;  // a crashed process of the same id may have left such a name
  for (int attempt = 0; attempt < kAttempts && file_ < 0; ++attempt) {
    std::string name = temporary_name(target_);
    file_ = calls_.open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ >= 0) {
      temporary_ = std::move(name);
    } else if (errno != EEXIST && errno != EINTR) {
      break;
    }
  }
  // The destructor does not run for a constructor that throws.
  const auto fail_and_clean = [&](std::string_view action) {
    const int error = errno;
    if (file_ >= 0) calls_.close(file_);
    if (!temporary_.empty()) calls_.unlink(temporary_.c_str());
    calls_.close(directory_);
    throw_errno(action, path_, error);
  };
  if (file_ < 0) fail_and_clean("create a temporary file beside it");
  ::flock(file_, LOCK_EX | LOCK_NB);  // says that somebody writes it; a file system without locks says nothing
  if (exists && calls_.fchmod(file_, old.st_mode & 07777) != 0) fail_and_clean("set the permissions");
}

AtomicFile::~AtomicFile() {
  if (file_ >= 0) calls_.close(file_);
  if (!temporary_.empty()) calls_.unlink(temporary_.c_str());
  if (directory_ >= 0) calls_.close(directory_);
}

void AtomicFile::fail(std::string_view action) const {
  throw_errno(action, path_, errno);
}

void AtomicFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = calls_.write(file_, bytes.data(), std::min<std::size_t>(bytes.size(), SSIZE_MAX));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("write the file");
    if (count == 0) throw IoError(path_ + ": cannot write the file: the system accepts no more bytes");
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void AtomicFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void AtomicFile::close_or_fail(int& file, std::string_view action) {
  // Whatever close returns, the descriptor is gone (Linux) and must not be closed again.
  const int result = calls_.close(std::exchange(file, -1));
  if (result != 0 && errno != EINTR) fail(action);
}

void AtomicFile::commit() {
  // A failed fsync is final: the kernel may have dropped the pages, and a second call would report success.
  if (calls_.fsync(file_) != 0) fail("synchronise the file");
  close_or_fail(file_, "close the file");
  if (calls_.rename(temporary_.c_str(), target_.c_str()) != 0) fail("rename the temporary file");
  temporary_.clear();
  // Some file systems cannot synchronise a directory; they say so with EINVAL.
  if (calls_.fsync(directory_) != 0 && errno != EINVAL) fail("synchronise the directory (the new file is in place)");
  close_or_fail(directory_, "close the directory (the new file is in place)");
}

void remove_abandoned_temporaries(const std::string& directory) {
  for (const DirectoryEntry& entry : list_directory(directory)) {
    const pid_t writer = writer_of(entry.name);
    if (writer == 0 || entry.is_directory) continue;
    const bool exists = ::kill(writer, 0) == 0 || errno != ESRCH;
    if (exists) continue;
    const std::string path = fmt::format("{}/{}", directory, entry.name);
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) continue;
    if (::flock(file, LOCK_EX | LOCK_NB) == 0) ::unlink(path.c_str());
    ::close(file);
  }
}

std::optional<FileLock> FileLock::take(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) throw_errno("open the file", path, errno);
  FileLock lock(file);
  if (::flock(file, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return std::nullopt;
    const bool without_locks = errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOLCK;
    if (!without_locks) throw_errno("lock the file", path, errno);
  }
  // For people who look; the lock itself is the system's.
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(file, 0) != 0 || ::write(file, text.data(), text.size()) < 0) throw_errno("write the file", path, errno);
  return lock;
}

FileLock::~FileLock() {
  if (file_ >= 0) ::close(file_);
}

void prefer_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef MADV_HUGEPAGE
  ::madvise(data, bytes, MADV_HUGEPAGE);
#endif
}

std::uint64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0;
  std::uint64_t resident = 0;
  if (!(file >> total >> resident)) return 0;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::uint64_t physical_memory_bytes() {
  return memory_info("MemTotal:");
}
std::uint64_t available_memory_bytes() {
  return memory_info("MemAvailable:");
}

std::size_t memory_and_swap_bytes() {
  static const std::size_t bytes = [] {
    const std::uint64_t memory = memory_info("MemTotal:");
    return memory == 0 ? SIZE_MAX : static_cast<std::size_t>(memory + memory_info("SwapTotal:"));
  }();
  return bytes;
}

SharedLibrary::SharedLibrary(std::span<const std::string> names) {
  for (const std::string& name : names) {
    handle_ = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ != nullptr) return;
    if (error_.empty()) error_ = ::dlerror();
  }
}

void* SharedLibrary::function(const char* name) const {
  return handle_ == nullptr ? nullptr : ::dlsym(handle_, name);
}

std::string own_directory() {
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(&own_directory), &info) == 0 || info.dli_fname == nullptr) return "";
  std::error_code error;
  const std::filesystem::path file = std::filesystem::canonical(info.dli_fname, error);
  // A program's first argument may not be a path.
  if (error) return std::filesystem::read_symlink("/proc/self/exe", error).parent_path().string();
  return file.parent_path().string();
}

std::string cache_directory() {
  const char* const chosen = std::getenv("XDG_CACHE_HOME");
  if (chosen != nullptr && *chosen == '/') return chosen;
  const char* const home = std::getenv("HOME");
  return home == nullptr || *home != '/' ? std::string() : std::string(home) + "/.cache";
}

std::vector<DirectoryEntry> list_directory(const std::string& path) {
  std::error_code error;
  std::vector<DirectoryEntry> entries;
  std::filesystem::directory_iterator item(path, error);
  while (!error && item != std::filesystem::directory_iterator()) {
    std::error_code vanished;  // a broken link, or removed meanwhile: no directory
    entries.push_back({item->path().filename().string(), item->is_directory(vanished)});
    item.increment(error);
  }
  if (error) throw IoError(fmt::format("{}: cannot list the directory: {}", path, error.message()));
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return entries;
}

bool is_directory(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

void remove_file(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) throw_errno("remove the file", path, errno);
}

void make_directories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  std::error_code unknown;
  if (std::filesystem::is_directory(path, unknown)) return;
  throw IoError(fmt::format("{}: cannot create the folder: {}", path,
                            error ? error.message() : std::generic_category().message(ENOTDIR)));
}

bool is_terminal(StandardStream stream) {
  return ::isatty(descriptor(stream)) == 1;
}

int terminal_columns(StandardStream stream, int fallback) {
  struct winsize size {};
  if (::ioctl(descriptor(stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return fallback;
  return size.ws_col;
}

}  // namespace os
}  // namespace v0
}  // namespace lockstep
