// A value that lies in memory of its own (core/pool.h): for the large alternatives of a variant, of which most values
// are small ones. Copies are deep; what was moved from may only be assigned to or destroyed.
#pragma once

#include <new>
#include <utility>

#include "core/pool.h"

namespace lockstep {
inline namespace v0 {

template <typename T> class Boxed {
 public:
  Boxed() : Boxed(T()) {}
  Boxed(T value) : value_(::new (BlockPool<sizeof(T)>::take()) T(std::move(value))) {}
  Boxed(const Boxed& other) : Boxed(T(*other)) {}
  Boxed(Boxed&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Boxed& operator=(Boxed other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  ~Boxed() {
    if (value_ == nullptr) return;
    value_->~T();
    BlockPool<sizeof(T)>::give(value_);
  }

  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }

 private:
  static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);

  T* value_;
};

}  // namespace v0
}  // namespace lockstep
