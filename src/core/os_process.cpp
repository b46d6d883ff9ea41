#include "core/os_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include <lockstep/error.h>

extern char** environ;

namespace lockstep {
inline namespace v0 {
namespace os {
namespace {

std::string own_program() {
  std::string path(4096, '\0');
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) throw IoError("this program's own file cannot be found in /proc");
  path.resize(static_cast<std::size_t>(length));
  return path;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> result;
  for (std::string& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Process Process::start_self(const std::vector<std::string>& words,
                            const std::vector<std::pair<std::string, std::string>>& variables, bool quiet) {
  const std::string program = own_program();
  std::vector<std::string> arguments{program};
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    bool is_replaced = false;
    for (const auto& [name, value] : variables) is_replaced = is_replaced || text.starts_with(name + "=");
    if (!is_replaced) environment.emplace_back(text);
  }
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);
  // Everything is made before the fork: afterwards only what a signal handler may do is allowed.
  const std::vector<char*> argument_list = pointers_to(arguments);
  const std::vector<char*> variable_list = pointers_to(environment);
  File output(quiet ? std::tmpfile() : nullptr, &std::fclose);
  if (quiet && output == nullptr) throw IoError(fmt::format("no temporary file can be made: {}", std::strerror(errno)));
  const int output_file = quiet ? ::fileno(output.get()) : -1;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) throw IoError(fmt::format("a process cannot be started: {}", std::strerror(errno)));
  if (child == 0) {
    ::setpgid(0, 0);
    if (quiet) ::dup2(output_file, STDOUT_FILENO);
    if (quiet) ::dup2(output_file, STDERR_FILENO);
#ifdef __linux__
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (::getppid() == parent) ::execve(program.c_str(), argument_list.data(), variable_list.data());
    ::_exit(127);
  }
  ::setpgid(child, child);  // here, too: whoever is first
  return Process(child, std::move(output));
}

LentTerminal::LentTerminal(const Process& process) {
  is_lent_ = ::isatty(STDIN_FILENO) != 0 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp() &&
             ::tcsetpgrp(STDIN_FILENO, process.id()) == 0;
}

// By a background process, which would be stopped by the signal.
LentTerminal::~LentTerminal() {
  if (!is_lent_) return;
  const auto before = std::signal(SIGTTOU, SIG_IGN);
  ::tcsetpgrp(STDIN_FILENO, ::getpgrp());
  std::signal(SIGTTOU, before);
}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(output_, other.output_);
  std::swap(end_, other.end_);
  return *this;
}

Process::~Process() {
  if (id_ < 0 || end_) return;
  ::kill(id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

std::optional<Process::End> Process::end() {
  int status = 0;
  if (!end_ && ::waitpid(id_, &status, WNOHANG) == id_) {
    end_ = WIFSIGNALED(status) ? End{.code = 0, .signal = WTERMSIG(status)} : End{.code = WEXITSTATUS(status), .signal = 0};
  }
  return end_;
}

std::string Process::printed() const {
  std::string text;
  if (output_ == nullptr) return text;
  char part[4096];
  const int file = ::fileno(output_.get());
  for (ssize_t n = 0; (n = ::pread(file, part, sizeof(part), static_cast<off_t>(text.size()))) > 0;) {
    text.append(part, static_cast<std::size_t>(n));
  }
  return text;
}

void Process::send(int signal) const {
  if (id_ > 0 && !end_) ::kill(id_, signal);
}

std::string host_name() {
  std::string name(256, '\0');
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  name.resize(std::strlen(name.c_str()));
  return name;
}

}  // namespace os
}  // namespace v0
}  // namespace lockstep
