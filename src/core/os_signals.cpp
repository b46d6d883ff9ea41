// The part of os.h that is about signals.
#include <cerrno>
#include <csignal>
#include <iterator>

#include <unistd.h>

#include "core/os.h"
#include "core/stop.h"

namespace lockstep {
inline namespace v0 {
namespace os {
namespace {

constexpr int kStopSignals[] = {SIGINT, SIGTERM};

// Of the one StopRequest, for the handler, which may use nothing else.
volatile std::sig_atomic_t signal_seen = 0;
std::string_view stop_notice;
struct sigaction before_stop[std::size(kStopSignals)];

extern "C" void on_stop_signal(int signal) {
  const int error = errno;
  signal_seen = signal;
  for (std::size_t i = 0; i < std::size(kStopSignals); ++i) {
    if (before_stop[i].sa_handler != SIG_IGN) std::signal(kStopSignals[i], SIG_DFL);
  }
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, stop_notice.data(), stop_notice.size());
  errno = error;
}

}  // namespace

StopRequest::StopRequest(std::string_view notice) {
  stop_notice = notice;
  signal_seen = 0;
  struct sigaction action {};
  action.sa_handler = on_stop_signal;
  action.sa_flags = SA_RESTART;
  for (const int other : kStopSignals) sigaddset(&action.sa_mask, other);
  for (std::size_t i = 0; i < std::size(kStopSignals); ++i) {
    ::sigaction(kStopSignals[i], nullptr, &before_stop[i]);
    if (before_stop[i].sa_handler != SIG_IGN) ::sigaction(kStopSignals[i], &action, nullptr);
  }
}

StopRequest::~StopRequest() {
  for (std::size_t i = 0; i < std::size(kStopSignals); ++i) ::sigaction(kStopSignals[i], &before_stop[i], nullptr);
  signal_seen = 0;
}

int StopRequest::signal() const {
  return signal_seen;
}
int stop_signal() {
  return signal_seen;
}

const char* signal_name(int signal) {
  switch (signal) {
    case SIGHUP: return "SIGHUP";
    case SIGINT: return "SIGINT";
    case SIGILL: return "SIGILL";
    case SIGABRT: return "SIGABRT";
    case SIGBUS: return "SIGBUS";
    case SIGFPE: return "SIGFPE";
    case SIGKILL: return "SIGKILL";
    case SIGSEGV: return "SIGSEGV";
    case SIGPIPE: return "SIGPIPE";
    case SIGTERM: return "SIGTERM";
    default: return "a signal";
  }
}

}  // namespace os
}  // namespace v0
}  // namespace lockstep
