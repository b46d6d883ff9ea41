// The call that a thread is in (lockstep/error.h), for those who read it often or have to exchange it.
#pragma once

#include <utility>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {

/// In the part of a thread's memory that needs no function to find it: it is read and written for every op recorded, and
/// eight bytes of that are to be had even where the library is loaded late.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit const Call* current_call;

/// The call that this thread is in, or, outside of all, an unknown one.
inline const Call& call_now() {
  static constexpr Call kUnknown{"lockstep", CallSite("", 0)};
  return current_call != nullptr ? *current_call : kUnknown;
}

/// What runs meanwhile belongs to `call`: the gradient of an op. Null: to nobody yet, as code of the user's that the
/// library calls back, whose calls name their own lines.
class CallExchange {
 public:
  explicit CallExchange(const Call* call) : before_(std::exchange(current_call, call)) {}
  ~CallExchange() { current_call = before_; }
  CallExchange(const CallExchange&) = delete;
  CallExchange& operator=(const CallExchange&) = delete;

 private:
  const Call* before_;
};

}  // namespace v0
}  // namespace lockstep
