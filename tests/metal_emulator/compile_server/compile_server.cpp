#include "compile_server.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace emulator {
namespace {

class Server {
 public:
  explicit Server(const std::string& compiler) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    socket_ = ends[0];
    std::string preload = std::string("LD_PRELOAD=") + EMULATOR_COMPILE_SERVER;
    std::vector<char*> environment = {preload.data()};
    for (char** variable = environ; *variable != nullptr; ++variable) {
      if (std::strncmp(*variable, "LD_PRELOAD=", 11) != 0) environment.push_back(*variable);
    }
    environment.push_back(nullptr);
    std::string name = compiler, version = "--version";
    char* arguments[] = {name.data(), version.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // A compiler that becomes no server prints its version, which nobody wants to see.
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], kCompileServer);
    pid_t child = 0;
    const bool started = posix_spawnp(&child, name.c_str(), &actions, nullptr, arguments, environment.data()) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    char hello = 0;
    serves_ = started && read(socket_, &hello, 1) == 1 && hello == 1;
    if (started && !serves_) waitpid(child, nullptr, 0);
  }
  // The server ends when this process has: its socket is closed then.

  bool compile(const std::vector<std::string>& words, const std::string& log, int& status) {
    if (!serves_) return false;
    std::string request = log + '\0';
    for (std::size_t i = 1; i < words.size(); ++i) request += words[i] + '\0';
    const auto bytes = static_cast<std::uint32_t>(request.size());
    request.insert(0, reinterpret_cast<const char*>(&bytes), sizeof bytes);
    serves_ = send(socket_, request.data(), request.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(request.size()) &&
              recv(socket_, &status, sizeof status, MSG_WAITALL) == sizeof status;
    return serves_;
  }

 private:
  int socket_ = -1;
  bool serves_ = false;
};

}  // namespace

bool compile_by_server(const std::vector<std::string>& words, const std::string& log, int& status) {
  static std::mutex mutex;
  static auto* servers = new std::map<std::string, std::unique_ptr<Server>>;  // by compiler
  const std::lock_guard lock(mutex);
  std::unique_ptr<Server>& server = (*servers)[words[0]];
  if (server == nullptr) server = std::make_unique<Server>(words[0]);
  return server->compile(words, log, status);
}

}  // namespace emulator
