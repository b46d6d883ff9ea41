// Compiled kernels, in memory by their text and on disk by everything that they depend on.
//
// A file is named by the hash of source and identity (compiler, flags, device) and holds both hashes and a checksum of
// its content; one that does not fit is compiled again. A directory that cannot be written to costs nothing but time.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/gpu/driver.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

class KernelCache {
 public:
  /// `directory`: where files are kept; empty for none.
  KernelCache(Driver& driver, std::string directory) : driver_(driver), directory_(std::move(directory)) {}

  /// The compiled kernel. Throws BackendError, naming a file that holds the source, when it does not compile, and what
  /// the driver throws for a text with too many threads.
  std::shared_ptr<const Module> get(const KernelText& kernel, const Arithmetic& arithmetic);
  /// Makes ready what is not yet in memory, several kernels at once: reading a file takes little, compiling tenths of a
  /// second. What fails is left for get() to report.
  void prepare(std::span<const KernelText* const> kernels, const Arithmetic& arithmetic);
  std::size_t size() const { return modules_.size(); }
  std::size_t compiled() const { return compiled_.load(std::memory_order_relaxed); }

 private:
  /// A kernel on its way into memory.
  struct Missing {
    const KernelText* kernel;
    std::string known;  ///< its key in modules_
    std::string source = {};
    std::vector<std::byte> binary = {};
    std::shared_ptr<const Module> module = nullptr;
  };
  /// Reads or compiles, and loads where the driver lets several threads do that; the part that threads share.
  void make(Missing& missing, const Arithmetic& arithmetic);
  std::shared_ptr<const Module> load(Missing& missing);

  Driver& driver_;
  std::string directory_;
  std::unordered_map<std::string, std::shared_ptr<const Module>> modules_;
  std::atomic<std::size_t> compiled_{0};
};

/// The directory for the process: "lockstep/kernels" under os::cache_directory(), empty if it cannot be made.
std::string kernel_directory();

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
