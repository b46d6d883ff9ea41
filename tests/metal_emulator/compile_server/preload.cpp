// Preloaded into clang, this library makes it a server: half of the time of a small compilation goes into loading
// clang's libraries, and a process forked from one that has loaded them need not do that again.
//
// Requests come on descriptor kCompileServer: a length, then the log's name and the arguments, each with a zero at its
// end. Each is answered by clang's exit status. A byte says at the beginning that the server is there.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compile_server.h"

namespace {

using Main = int (*)(int, char**, char**);
Main clang_main = nullptr;

bool read_all(void* data, std::size_t bytes) {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(emulator::kCompileServer, to, bytes);
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

int compile(char* program, std::vector<char>& request, char** environment) {
  std::vector<char*> words;
  for (char* at = request.data(); at < request.data() + request.size(); at += std::strlen(at) + 1) words.push_back(at);
  const int log = open(words[0], O_CREAT | O_TRUNC | O_WRONLY, 0644), nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  close(emulator::kCompileServer);
  words[0] = program;
  words.push_back(nullptr);
  return clang_main(static_cast<int>(words.size()) - 1, words.data(), environment);
}

int serve(int, char** arguments, char** environment) {
  const char hello = 1;
  if (write(emulator::kCompileServer, &hello, 1) != 1) return 1;
  std::uint32_t bytes = 0;
  while (read_all(&bytes, sizeof bytes)) {
    std::vector<char> request(bytes);
    if (!read_all(request.data(), bytes)) return 1;
    const pid_t child = fork();
    if (child == 0) return compile(arguments[0], request, environment);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child) return 1;
    if (write(emulator::kCompileServer, &status, sizeof status) != sizeof status) return 1;
  }
  return 0;
}

}  // namespace

/// The C library's function that calls main().
extern "C" __attribute__((visibility("default"))) int __libc_start_main(Main main, int count, char** arguments,
                                                                        void (*init)(), void (*fini)(),
                                                                        void (*rtld_fini)(), void* stack_end) {
  using Start = int (*)(Main, int, char**, void (*)(), void (*)(), void (*)(), void*);
  const auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  const char* slash = std::strrchr(arguments[0], '/');
  const bool is_clang = std::strncmp(slash != nullptr ? slash + 1 : arguments[0], "clang", 5) == 0;
  clang_main = main;
  return start(is_clang ? serve : main, count, arguments, init, fini, rtld_fini, stack_end);
}
