// Objects that belong to threads, as scratch memory does.
#pragma once

#include <utility>

namespace lockstep {
inline namespace v0 {

/// The calling thread's T, made at its first use and destroyed when the thread ends. (A plain thread_local object is gone
/// when the destructors of static objects run, which may compute, too: here they get a new one, which stays.)
template <typename T> T& of_this_thread() {
  static thread_local constinit T* object = nullptr;
  struct AtEnd {
    ~AtEnd() { delete std::exchange(object, nullptr); }
  };
  static thread_local AtEnd at_end;
  (void)&at_end;  // made at the first use in a thread, so that it is there to be destroyed
  if (object == nullptr) object = new T;
  return *object;
}

}  // namespace v0
}  // namespace lockstep
