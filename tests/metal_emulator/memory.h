// Memory whose neighbours may not be touched: it ends at a page that cannot be accessed, and another lies before it.
// Whoever touches them dies with a sentence that names the memory and the kernel.
#pragma once

#include <cstddef>
#include <string>

namespace emulator {

class GuardedMemory {
 public:
  /// `bytes` full of 0xFF, which is NaN as a float and -1 as an integer. data() is null when there is no memory.
  GuardedMemory(std::size_t bytes, std::string name);
  ~GuardedMemory();
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;

  char* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  const std::string& name() const { return name_; }
  /// Whether the few bytes before the guard page, which alignment leaves over, were written to.
  bool overrun() const;

 private:
  std::string name_;
  std::size_t bytes_ = 0, mapped_ = 0;
  char* mapping_ = nullptr;
  char* data_ = nullptr;
};

/// The first multiple of `unit` from `value` on.
inline std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// The kernel that runs on this OS thread, for the sentence above; null for none.
void set_running_kernel(const char* name);

}  // namespace emulator
