#include "backends/gpu/kernel_cache.h"

#include <algorithm>
#include <cstring>
#include <future>
#include <thread>
#include <unordered_set>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/hash.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

constexpr std::size_t kMostModules = 4096;

struct FileHeader {
  std::uint64_t magic = 0x314c4e524b534cULL;  // "LSKRNL1"
  std::uint64_t key = 0;
  std::uint64_t checksum = 0;
  std::uint64_t bytes = 0;
};

std::uint64_t hash_of(std::string_view text) {
  return hash_bytes({reinterpret_cast<const std::byte*>(text.data()), text.size()});
}

/// What a kernel is, as one text.
std::string key_of(const KernelText& kernel) {
  std::string key = fmt::format("{} {} {}\n", kernel.threads, kernel.words, kernel.groups_per_unit);
  for (const SharedArray& array : kernel.shared) {
    key += fmt::format("{} {} {} {}\n", static_cast<int>(array.type), array.name, array.size, array.fours);
  }
  return key + kernel.functions + kernel.body;
}

std::vector<std::byte> read_entry(const std::string& path, std::uint64_t key) {
  try {
    const os::FileBytes file = os::read_file(path);
    FileHeader header;
    if (file.bytes.size() < sizeof header) return {};
    std::memcpy(&header, file.bytes.data(), sizeof header);
    const std::span<const std::byte> content = file.bytes.subspan(sizeof header);
    const FileHeader expected{.key = key, .checksum = hash_bytes(content), .bytes = content.size()};
    if (std::memcmp(&header, &expected, sizeof header) != 0) return {};
    return {content.begin(), content.end()};
  } catch (const IoError&) {
    return {};
  }
}

void write_entry(const std::string& path, std::uint64_t key, std::span<const std::byte> content) {
  const FileHeader header{.key = key, .checksum = hash_bytes(content), .bytes = content.size()};
  try {
    os::AtomicFile file(path);
    file.write({reinterpret_cast<const std::byte*>(&header), sizeof header});
    file.write(content);
    file.commit();
  } catch (const IoError&) {
    // The cache is a convenience: without it kernels are compiled by every process.
  }
}

std::string save_source(const std::string& directory, const std::string& source) {
  const std::string path =
      fmt::format("{}/failed-{:016x}.txt", directory.empty() ? "/tmp" : directory, hash_of(source));
  try {
    os::AtomicFile file(path);
    file.write(source);
    file.commit();
    return "\n  the source is in " + path;
  } catch (const IoError&) {
    return "";
  }
}

}  // namespace

void KernelCache::make(Missing& missing, const Arithmetic& arithmetic) {
  missing.source = driver_.source(*missing.kernel, arithmetic);
  // Two hashes of 64 bits: one names the file, the other stands in it.
  const std::string& identity = driver_.info().identity;
  const std::uint64_t name = hash_of(identity + "\n" + missing.source);
  const std::uint64_t key = hash_of(missing.source + "\n" + identity);
  const bool keeps = !directory_.empty() && !identity.empty();
  const std::string path = !keeps ? "" : fmt::format("{}/{:016x}.bin", directory_, name);
  if (keeps) missing.binary = read_entry(path, key);
  const bool is_new = missing.binary.empty();
  if (is_new) {
    missing.binary = driver_.compile(missing.source);
    compiled_.fetch_add(1, std::memory_order_relaxed);
  }
  if (driver_.info().loads_side_by_side) {
    std::shared_ptr<Module> module = driver_.load(missing.binary, *missing.kernel);
    if (is_new && keeps) missing.binary = driver_.to_keep(std::move(missing.binary), *module);
    missing.module = std::move(module);
  }
  if (is_new && keeps) write_entry(path, key, missing.binary);
}

std::shared_ptr<const Module> KernelCache::load(Missing& missing) {
  std::shared_ptr<const Module> module = std::move(missing.module);
  if (module == nullptr) module = driver_.load(missing.binary, *missing.kernel);
  if (modules_.size() >= kMostModules) modules_.clear();  // those in use stay alive in their executables
  modules_.emplace(std::move(missing.known), module);
  return module;
}

std::shared_ptr<const Module> KernelCache::get(const KernelText& kernel, const Arithmetic& arithmetic) {
  Missing missing{&kernel, key_of(kernel)};
  if (const auto found = modules_.find(missing.known); found != modules_.end()) return found->second;
  try {
    make(missing, arithmetic);
    return load(missing);
  } catch (const TooManyThreads&) {
    throw;
  } catch (const BackendError& error) {
    throw BackendError(error.what() + save_source(directory_, missing.source));
  }
}

void KernelCache::prepare(std::span<const KernelText* const> kernels, const Arithmetic& arithmetic) {
  std::vector<Missing> all;
  std::unordered_set<std::string> seen;
  for (const KernelText* kernel : kernels) {
    std::string known = key_of(*kernel);
    if (modules_.contains(known) || !seen.insert(known).second) continue;
    all.push_back({kernel, std::move(known)});
  }
  if (all.size() < 2) return;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < all.size(); i = next++) {
      try {
        make(all[i], arithmetic);
      } catch (const BackendError&) {
        all[i].binary.clear();  // get() meets the error again, where it can be told
      }
    }
  };
  std::vector<std::future<void>> helpers;
  const std::size_t threads = std::min<std::size_t>(std::max(1u, std::thread::hardware_concurrency()), all.size());
  for (std::size_t t = 1; t < threads; ++t) helpers.push_back(std::async(std::launch::async, work));
  work();
  for (std::future<void>& helper : helpers) helper.get();
  for (Missing& missing : all) {
    try {
      if (!missing.binary.empty()) load(missing);
    } catch (const BackendError&) {
      // As above.
    }
  }
}

std::string kernel_directory() {
  const std::string cache = os::cache_directory();
  if (cache.empty()) return "";
  const std::string directory = cache + "/lockstep/kernels";
  try {
    os::make_directories(directory);
  } catch (const IoError&) {
    return "";  // without a cache kernels are compiled anew
  }
  return directory;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
