// Processes that this one starts.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

namespace lockstep {
inline namespace v0 {
namespace os {

/// A process that was started from here. It is killed when this one ends, however that happens, and when its handle is
/// destroyed. In a process group of its own: a terminal's Ctrl-C reaches only this one.
class Process {
 public:
  /// What it ended with.
  struct End {
    int code = 0;    ///< that it returned
    int signal = 0;  ///< that ended it; 0: it returned
  };

  /// Runs this program again with these words as arguments, and these variables beside the environment's. `quiet`: what
  /// it prints is kept. Throws IoError.
  static Process start_self(const std::vector<std::string>& words,
                            const std::vector<std::pair<std::string, std::string>>& variables, bool quiet);
  Process(Process&& other) noexcept
      : id_(std::exchange(other.id_, -1)), output_(std::move(other.output_)), end_(other.end_) {}
  Process& operator=(Process&& other) noexcept;
  ~Process();

  /// Nothing while it runs.
  std::optional<End> end();
  void send(int signal) const;
  pid_t id() const { return id_; }
  /// What a quiet one has printed so far.
  std::string printed() const;

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  Process(pid_t id, File output) : id_(id), output_(std::move(output)) {}
  pid_t id_ = -1;
  File output_;
  std::optional<End> end_;
};

/// While it lives, a process that was started from here reads from this one's terminal and gets its Ctrl-C, where
/// standard input is one: others than the terminal's foreground processes would be stopped by reading.
class LentTerminal {
 public:
  explicit LentTerminal(const Process& process);
  ~LentTerminal();
  LentTerminal(const LentTerminal&) = delete;
  LentTerminal& operator=(const LentTerminal&) = delete;

 private:
  bool is_lent_ = false;
};

/// Of this machine, as it calls itself.
std::string host_name();

}  // namespace os
}  // namespace v0
}  // namespace lockstep
