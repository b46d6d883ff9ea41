#include "settings.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include <fmt/format.h>

namespace emulator {
namespace settings {
namespace {

std::string value(const char* name, const char* otherwise) {
  const char* found = std::getenv(name);
  return found != nullptr ? found : otherwise;
}

std::uint64_t number(const char* name, std::uint64_t otherwise) {
  const char* found = std::getenv(name);
  if (found == nullptr) return otherwise;
  const std::string_view text = found;
  std::uint64_t result = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
  if (error != std::errc() || end != text.data() + text.size()) misuse(fmt::format("{}={} is no number", name, text));
  return result;
}

/// Whether a variable has its one word; anything else is a mistake.
bool is(const char* name, std::string_view word, std::string_view other) {
  const std::string text = value(name, "");
  if (text == word) return true;
  if (!text.empty() && text != other) misuse(fmt::format("{}={}, which is neither {} nor {}", name, text, word, other));
  return false;
}

}  // namespace

Schedule schedule() {
  const std::string text = value("LOCKSTEP_METAL_SCHEDULE", "ascending");
  if (text == "ascending") return {};
  if (text == "descending") return {Schedule::Order::descending};
  return {Schedule::Order::random, number("LOCKSTEP_METAL_SCHEDULE", 0)};
}

bool flush_subnormals() {
  return !is("LOCKSTEP_METAL_SUBNORMALS", "keep", "flush");
}
bool check_address_spaces() {
  return is("LOCKSTEP_METAL_ADDRESS_SPACES", "check", "ignore");
}

unsigned workers() {
  const unsigned machine = std::max(1u, std::thread::hardware_concurrency());
  return static_cast<unsigned>(std::max<std::uint64_t>(1, number("LOCKSTEP_METAL_WORKERS", std::min(machine, 16u))));
}

std::string cache_directory() {
  if (const char* named = std::getenv("LOCKSTEP_METAL_CACHE")) return named;
  const std::string home = value("HOME", "");
  const std::string cache = value("XDG_CACHE_HOME", home.empty() ? "" : (home + "/.cache").c_str());
  return cache.empty() ? "" : cache + "/lockstep/metal_emulator";
}

std::string compiler() {
  return value("LOCKSTEP_METAL_CLANG", "clang++-19");
}
std::size_t devices() {
  return number("LOCKSTEP_METAL_DEVICES", 1);
}
std::size_t memory_bytes() {
  return number("LOCKSTEP_METAL_MEMORY", std::uint64_t{16} << 30);
}
std::size_t threads() {
  return number("LOCKSTEP_METAL_THREADS", 1024);
}
int system_version() {
  return static_cast<int>(number("LOCKSTEP_METAL_SYSTEM", 15));
}
bool unified_memory() {
  return number("LOCKSTEP_METAL_UNIFIED", 1) != 0;
}
std::size_t failing_submission() {
  return number("LOCKSTEP_METAL_FAIL", 0);
}
Leaks fatal_leaks() {
  if (value("LOCKSTEP_METAL_LEAKS", "") == "transient") return Leaks::transient;
  return is("LOCKSTEP_METAL_LEAKS", "abort", "ignore") ? Leaks::all : Leaks::ignored;
}
bool report() {
  return number("LOCKSTEP_METAL_REPORT", 0) != 0;
}

}  // namespace settings

void misuse(const std::string& message) {
  std::fflush(stdout);
  std::fprintf(stderr, "fake Metal: %s\n", message.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace emulator
