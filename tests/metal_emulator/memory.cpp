#include "memory.h"

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace emulator {
namespace {

constexpr std::size_t kPage = 4096, kGuard = 1024 * kPage, kAlignment = 16;
constexpr unsigned char kFill = 0xff;

struct Blocks {
  std::mutex mutex;
  std::map<const char*, const GuardedMemory*> by_end;  // of the mapping
  static Blocks& instance() {
    static Blocks* blocks = new Blocks;  // outlives every static object that holds memory
    return *blocks;
  }
};

thread_local const char* running_kernel = nullptr;

struct OldHandlers {
  struct sigaction segv, bus;
};
OldHandlers old_handlers;

// What a signal handler may not do (allocate, lock) is done all the same: the process ends here either way.
void explain_fault(int signal, siginfo_t* information, void*) {
  const char* at = static_cast<const char*>(information->si_addr);
  Blocks& blocks = Blocks::instance();
  if (blocks.mutex.try_lock()) {
    const auto found = blocks.by_end.upper_bound(at);
    if (found != blocks.by_end.end()) {
      const GuardedMemory& memory = *found->second;
      const char *begin = memory.data(), *end = begin + memory.size();
      if (at >= end || (at < begin && at >= begin - kGuard - kPage)) {
        const std::string text =
            fmt::format("fake Metal: kernel '{}' touches byte {} of {}, which has {} bytes\n",
                        running_kernel != nullptr ? running_kernel : "none", at - begin, memory.name(), memory.size());
        [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
      }
    }
    blocks.mutex.unlock();
  }
  sigaction(SIGSEGV, &old_handlers.segv, nullptr);
  sigaction(SIGBUS, &old_handlers.bus, nullptr);
  std::signal(signal, signal == SIGSEGV ? old_handlers.segv.sa_handler : old_handlers.bus.sa_handler);
}  // returning repeats the access, for the handler that was there before

void install_handler() {
  static const bool once = [] {
    struct sigaction action {};
    action.sa_sigaction = explain_fault;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &old_handlers.segv);
    sigaction(SIGBUS, &action, &old_handlers.bus);
    return true;
  }();
  static_cast<void>(once);
}

}  // namespace

GuardedMemory::GuardedMemory(std::size_t bytes, std::string name) : name_(std::move(name)), bytes_(bytes) {
  install_handler();
  const std::size_t used = round_up(bytes, kPage);
  void* mapping = mmap(nullptr, used + 2 * kGuard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return;
  mapping_ = static_cast<char*>(mapping);
  mapped_ = used + 2 * kGuard;
  if (mprotect(mapping_ + kGuard, used, PROT_READ | PROT_WRITE) != 0) return;
  std::memset(mapping_ + kGuard, kFill, used);
  data_ = mapping_ + kGuard + used - round_up(bytes, kAlignment);
  Blocks& blocks = Blocks::instance();
  const std::lock_guard lock(blocks.mutex);
  blocks.by_end[mapping_ + mapped_] = this;
}

GuardedMemory::~GuardedMemory() {
  if (mapping_ == nullptr) return;
  Blocks& blocks = Blocks::instance();
  const std::lock_guard lock(blocks.mutex);
  blocks.by_end.erase(mapping_ + mapped_);
  munmap(mapping_, mapped_);
}

bool GuardedMemory::overrun() const {
  const auto filled = [](char c) { return static_cast<unsigned char>(c) == kFill; };
  const std::size_t before = std::min<std::size_t>(static_cast<std::size_t>(data_ - (mapping_ + kGuard)), kAlignment);
  return !std::all_of(data_ + bytes_, data_ + round_up(bytes_, kAlignment), filled) ||
         !std::all_of(data_ - before, data_, filled);
}

void set_running_kernel(const char* name) {
  running_kernel = name;
}

}  // namespace emulator
