// The environment variables of README.md. They are read at each use, so that a test can change them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace emulator {

struct Schedule {
  enum class Order { ascending, descending, random };
  Order order = Order::ascending;
  std::uint64_t seed = 0;
};

namespace settings {
Schedule schedule();
bool flush_subnormals();
bool check_address_spaces();
unsigned workers();
/// Where compiled kernels are kept; empty for nowhere.
std::string cache_directory();
std::string compiler();
std::size_t devices();
std::size_t memory_bytes();
std::size_t threads();
int system_version();
bool unified_memory();
/// Which command buffer shall fail, counted from 1; 0 for none.
std::size_t failing_submission();
/// Which objects must not live at the end.
enum class Leaks { ignored, all, transient };
Leaks fatal_leaks();
bool report();
}  // namespace settings

/// Writes "fake Metal: " and the message, and aborts: what a driver must never do.
[[noreturn]] void misuse(const std::string& message);

}  // namespace emulator
