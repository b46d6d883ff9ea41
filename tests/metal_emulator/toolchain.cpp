#include "toolchain.h"

#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "compile_server/compile_server.h"
#include "settings.h"

extern char** environ;

namespace emulator {
namespace toolchain {
namespace {

namespace fs = std::filesystem;

std::string hash(const std::string& text) {
  const XXH128_hash_t value = XXH3_128bits(text.data(), text.size());
  return fmt::format("{:016x}{:016x}", value.high64, value.low64);
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The directory for files: the cache, or one of this process that goes when it ends.
class Directory {
 public:
  static std::string path() {
    const std::string cache = settings::cache_directory();
    if (cache.empty()) {
      static const Directory temporary;
      return temporary.path_;
    }
    std::error_code error;
    fs::create_directories(cache, error);
    if (error) throw std::runtime_error(fmt::format("cannot make {}: {}", cache, error.message()));
    return cache;
  }
  ~Directory() {
    std::error_code ignored;  // at worst a directory in /tmp stays
    fs::remove_all(path_, ignored);
  }

 private:
  Directory() {
    std::string pattern = (fs::temp_directory_path() / "metal_emulator_XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make " + pattern);
    path_ = pattern;
  }
  std::string path_;
};

/// A file under a name of its own until it is whole.
std::string temporary_name(const std::string& path) {
  static std::atomic<unsigned> number = 0;
  return fmt::format("{}.{}.{}", path, getpid(), number++);
}

/// Runs a program with its output in `log`; the status as waitpid gives it.
int run(const std::vector<std::string>& words, const std::string& log) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  const int error = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    throw std::runtime_error(
        fmt::format("{} cannot be started ({}); scripts/setup test installs it", words[0], std::strerror(error)));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

/// Whether a program, clang or another, ended well; what it said is the message.
bool succeeds(const std::vector<std::string>& words, const std::string& log, std::string& message) {
  int status = 0;
  if (words[0] != settings::compiler() || !compile_by_server(words, log, status)) status = run(words, log);
  message = read(log);
  unlink(log.c_str());
  if (status != 0 && message.empty()) message = fmt::format("{} ended with status {}", words[0], status);
  return status == 0;
}

std::vector<std::string> flags(bool contracts, bool check) {
  std::vector<std::string> words = {settings::compiler(),
                                    "-std=c++17",
                                    "-w",
                                    "-fno-exceptions",
                                    "-fno-rtti",
                                    "-fno-math-errno",
                                    "-fno-trapping-math",
                                    "-fno-asynchronous-unwind-tables",
                                    "-fno-caret-diagnostics",
                                    "-fno-color-diagnostics",
                                    contracts ? "-ffp-contract=fast" : "-ffp-contract=off",
                                    "-Xclang",
                                    "-cl-single-precision-constant",
                                    "-Xclang",
                                    "-ffloat16-excess-precision=none",
                                    "-Xclang",
                                    "-fno-pch-timestamp",  // files are compared by content, in the names
                                    "-I" EMULATOR_HEADERS};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {  // which never come without f16c
    words.insert(words.end(), {"-mavx2", "-mfma", "-mf16c"});
  }
#endif
  if (check) {
    words.insert(words.end(), {"-DEMULATOR_CHECK"});
  } else {
    words.insert(words.end(), {"-O1", "-fPIC"});
  }
  return words;
}

/// Everything beside the code that a result depends on.
const std::string& identity() {
  static const std::string text = [] {
    std::string headers;
    for (const char* name : {"metal_stdlib", "metal_emulator/abi.h", "metal_emulator/types.h", "metal_emulator/math.h",
                             "metal_emulator/integers.h", "metal_emulator/atomics.h", "metal_emulator/threads.h",
                             "metal_emulator/entry.h", "metal_emulator/constructors.h"}) {
      headers += read(fs::path(EMULATOR_HEADERS) / name);
    }
    return headers;
  }();
  return text;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

/// Held by one process at a time.
class FileLock {
 public:
  explicit FileLock(const std::string& path) : file_(open(path.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0644)) {
    if (file_ < 0 || flock(file_, LOCK_EX) != 0) throw std::runtime_error("cannot lock " + path);
  }
  ~FileLock() { close(file_); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

/// The precompiled header for some flags. One process makes it while the others wait.
std::string precompiled(const std::vector<std::string>& words) {
  const std::string path = fmt::format("{}/{}.pch", Directory::path(), hash(joined(words) + identity()));
  if (access(path.c_str(), R_OK) == 0) return path;
  const FileLock lock(path + ".lock");
  std::string message;
  bool made = access(path.c_str(), R_OK) == 0;
  if (!made) {
    const std::string unfinished = temporary_name(path);
    std::vector<std::string> command = words;
    command.insert(command.end(), {"-x", "c++-header", EMULATOR_HEADERS "/metal_stdlib", "-o", unfinished});
    made = succeeds(command, unfinished + ".log", message) && rename(unfinished.c_str(), path.c_str()) == 0;
  }
  if (!made) throw std::runtime_error("the emulator's metal_stdlib does not compile: " + message);
  return path;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  if (!(file << text) || !file.flush()) throw std::runtime_error("cannot write " + path);
}

}  // namespace

std::string shared_library(const std::string& code, bool contracts, bool& compiled) {
  const std::vector<std::string> words = flags(contracts, false);
  const std::string path = fmt::format("{}/{}.so", Directory::path(), hash(joined(words) + identity() + code));
  compiled = access(path.c_str(), R_OK) != 0;
  if (!compiled) return path;

  const std::string unfinished = temporary_name(path), source = unfinished + ".cpp", object = unfinished + ".o";
  write(source, code);
  std::vector<std::string> command = words;
  command.insert(command.end(), {"-include-pch", precompiled(words), "-c", source, "-o", object});
  std::string message;
  bool good = succeeds(command, unfinished + ".log", message);
  if (good) good = succeeds({"ld", "-shared", "-z", "now", object, "-o", unfinished}, unfinished + ".log", message);
  unlink(source.c_str());
  unlink(object.c_str());
  if (!good) {
    unlink(unfinished.c_str());
    throw std::runtime_error(message);
  }
  if (rename(unfinished.c_str(), path.c_str()) != 0) throw std::runtime_error("cannot write " + path);
  return path;
}

void check_address_spaces(const std::string& code, bool& checked) {
  const std::vector<std::string> words = flags(false, true);
  const std::string path = fmt::format("{}/{}.good", Directory::path(), hash(joined(words) + identity() + code));
  checked = access(path.c_str(), R_OK) != 0;
  if (!checked) return;
  const std::string unfinished = temporary_name(path), source = unfinished + ".cpp";
  write(source, code);
  std::vector<std::string> command = words;
  command.insert(command.end(), {"-include-pch", precompiled(words), "-fsyntax-only", source});
  std::string message;
  const bool good = succeeds(command, unfinished + ".log", message);
  unlink(source.c_str());
  if (!good) throw std::runtime_error(message);
  write(path, "");
}

}  // namespace toolchain
}  // namespace emulator
