// Everything that is asked of the operating system stands here and in os*.cpp, so that a port to another one is those.
// Files are read whole (mapped or copied) and written atomically: a reader sees the old file or the new one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <sys/types.h>

struct stat;

namespace lockstep {
inline namespace v0 {
namespace os {

/// The system calls that files need, with their POSIX meaning (-1 and errno on failure). Tests derive from it to make
/// the k-th call fail; everybody else takes system_calls().
class SystemCalls {
 public:
  virtual ~SystemCalls() = default;
  virtual int open(const char* path, int flags, mode_t mode);
  virtual int fstat(int file, struct stat* result);
  virtual ssize_t read(int file, void* data, std::size_t bytes);
  virtual void* mmap(int file, std::size_t bytes);
  virtual ssize_t write(int file, const void* data, std::size_t bytes);
  virtual int fchmod(int file, mode_t mode);
  virtual int fsync(int file);
  virtual int close(int file);
  virtual int rename(const char* from, const char* to);
  virtual int unlink(const char* path);
};

SystemCalls& system_calls();

/// The bytes of a file and what keeps them in memory. Copies share.
struct FileBytes {
  std::string path;  ///< As given, for messages.
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

/// Maps a file read-only. Costs no memory until bytes are touched. A file that shrinks while it is mapped kills the
/// process that touches the missing part (SIGBUS): for files that others may change, use read_file.
/// Throws IoError if the file cannot be opened or mapped, or is not a regular file.
FileBytes map_file(const std::string& path, SystemCalls& calls = system_calls());
/// Reads a file into memory of its own. Throws IoError like map_file, and if the file shrinks meanwhile.
FileBytes read_file(const std::string& path, SystemCalls& calls = system_calls());

/// Writes a file so that after a crash at any moment `path` holds either its old content or all of the new one:
/// a temporary file in the same directory, synchronised, renamed over `path`, and the directory synchronised.
/// A symbolic link is followed; an existing file keeps its permissions. Every member throws IoError; unless commit()
/// got as far as the rename, the temporary file is removed and the old file is untouched.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path, SystemCalls& calls = system_calls());
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  /// Makes the new content visible and durable. Nothing may be written afterwards.
  void commit();

 private:
  [[noreturn]] void fail(std::string_view action) const;
  void close_or_fail(int& file, std::string_view action);

  std::string path_;
  SystemCalls& calls_;
  std::string target_;     // path_ with symbolic links resolved
  std::string temporary_;  // empty once renamed or removed
  int file_ = -1;
  int directory_ = -1;
};

/// Removes the temporary files that AtomicFiles of processes which no longer exist left in a directory: killed in the
/// midst of writing, nobody else cleans up after them. What cannot be removed stays, and so does what a process that is
/// not seen from here (in another container) has open: it holds a lock on it.
void remove_abandoned_temporaries(const std::string& directory);

/// A lock on a file, which the system takes back when the process ends, however it ends.
class FileLock {
 public:
  /// The lock, or nothing where another process, or another lock of this one, has it. Creates the file if there is none
  /// and writes the number of this process into it. Where the file system has no locks (Lustre, some NFS) nobody is kept
  /// out. Throws IoError if the file cannot be opened.
  static std::optional<FileLock> take(const std::string& path);
  FileLock(FileLock&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
  FileLock& operator=(FileLock&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileLock();

 private:
  explicit FileLock(int file) : file_(file) {}
  int file_ = -1;
};

/// While one lives (one at a time), the first SIGINT or SIGTERM does not end the process: `notice` is written to standard
/// error, and signal() tells. The second one ends the process. A signal that was ignored before stays ignored.
class StopRequest {
 public:
  explicit StopRequest(std::string_view notice);  ///< must live as long
  ~StopRequest();
  StopRequest(const StopRequest&) = delete;
  StopRequest& operator=(const StopRequest&) = delete;

  /// The number of the signal that came; 0 where none did.
  int signal() const;
};
/// "SIGINT", "SIGKILL", ...; "a signal" for rare ones.
const char* signal_name(int signal);

/// Asks for huge pages under a block of memory that was just allocated; a hint, without effect where there are none.
void prefer_huge_pages(void* data, std::size_t bytes) noexcept;

/// Bytes of this process that are in physical memory; 0 where unknown.
std::uint64_t resident_bytes();
/// Bytes of physical memory of the machine, and those that can be used without swapping; 0 where unknown.
std::uint64_t physical_memory_bytes();
std::uint64_t available_memory_bytes();
/// Bytes of physical memory and swap space, asked for once: no process can fill more. The largest number where unknown.
std::size_t memory_and_swap_bytes();

/// A shared library opened at run time, for the life of the process.
class SharedLibrary {
 public:
  /// The first of `names` that can be opened. Where none can, is_open() is false and error() says why.
  explicit SharedLibrary(std::span<const std::string> names);
  bool is_open() const { return handle_ != nullptr; }
  const std::string& error() const { return error_; }
  /// The address of a function, null where there is none of that name.
  void* function(const char* name) const;

 private:
  void* handle_ = nullptr;
  std::string error_;
};

/// The directory of the library (or the program) that this code is part of; empty where unknown.
std::string own_directory();
/// Where programs keep what they can make again ($XDG_CACHE_HOME, ~/.cache); empty where there is no such place.
std::string cache_directory();
/// What a directory holds, sorted by name; neither "." nor "..". Symbolic links are followed.
struct DirectoryEntry {
  std::string name;
  bool is_directory = false;
};
/// Throws IoError if it cannot be read, or is no directory.
std::vector<DirectoryEntry> list_directory(const std::string& path);
/// Whether there is a directory of that path; symbolic links are followed.
bool is_directory(const std::string& path);
/// Removes a file; it need not exist. Throws IoError if it stays.
void remove_file(const std::string& path);
/// Creates a directory and those above it, unless there are. Throws IoError with the system's reason.
void make_directories(const std::string& path);

enum class StandardStream { input, output, error };
bool is_terminal(StandardStream stream);
/// Columns of the terminal, `fallback` where there is none.
int terminal_columns(StandardStream stream, int fallback);

}  // namespace os
}  // namespace v0
}  // namespace lockstep
