#include "backends/gpu/kernel_cache.h"

#include <cstring>

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
    key += fmt::format("{} {} {}\n", static_cast<int>(array.type), array.name, array.size);
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

std::shared_ptr<const Module> KernelCache::get(const KernelText& kernel, const Arithmetic& arithmetic) {
  std::string known = key_of(kernel);
  if (const auto found = modules_.find(known); found != modules_.end()) return found->second;
  const std::string source = driver_.source(kernel, arithmetic);
  // Two hashes of 64 bits: one names the file, the other stands in it.
  const std::uint64_t name = hash_of(driver_.info().identity + "\n" + source);
  const std::uint64_t key = hash_of(source + "\n" + driver_.info().identity);
  const bool keeps = !directory_.empty() && !driver_.info().identity.empty();
  const std::string path = !keeps ? "" : fmt::format("{}/{:016x}.bin", directory_, name);
  std::vector<std::byte> binary;
  if (!path.empty()) binary = read_entry(path, key);
  std::shared_ptr<const Module> module;
  try {
    if (binary.empty()) {
      binary = driver_.compile(source);
      ++compiled_;
      if (!path.empty()) write_entry(path, key, binary);
    }
    module = driver_.load(binary, kernel);
  } catch (const TooManyThreads&) {
    throw;
  } catch (const BackendError& error) {
    throw BackendError(error.what() + save_source(directory_, source));
  }
  if (modules_.size() >= kMostModules) modules_.clear();  // those in use stay alive in their executables
  modules_.emplace(std::move(known), module);
  return module;
}

std::string kernel_directory() {
  const std::string cache = os::cache_directory();
  if (cache.empty()) return "";
  const std::string directory = cache + "/lockstep/kernels";
  return os::make_directories(directory) ? directory : "";
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
