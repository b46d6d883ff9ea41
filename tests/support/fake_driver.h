// A GPU for tests of what stands around the drivers: memory is the host's, kernels are not run (values are garbage),
// and what can go wrong with a device goes wrong when a test says so.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/error.h>

#include "backends/gpu/driver.h"
#include "backends/gpu/probe.h"
#include "core/hash.h"

namespace lockstep::test {

namespace gpu = lockstep::gpu;

/// Shared between a test and the driver, which belongs to its backend.
struct FakeDevice {
  std::size_t memory_limit = std::size_t{1} << 30;  ///< of all allocations together
  bool lost = false;                                ///< everything fails from now on
  bool compiles = true;                             ///< else the compiler refuses
  std::atomic<int> compiled = 0;                    ///< by several threads
  int loaded = 0, launches = 0, waits = 0;
  std::size_t in_use = 0;
};

class FakeDriver : public gpu::Driver {
 public:
  explicit FakeDriver(std::shared_ptr<FakeDevice> device) : device_(std::move(device)) {
    info_.name = "Fake GPU";
    info_.api = "none";
    info_.identity = "fake";
    info_.memory_bytes = device_->memory_limit;
  }
  ~FakeDriver() override {
    for (const auto& [address, bytes] : blocks_) {
      device_->in_use -= bytes;
      std::free(reinterpret_cast<void*>(address));
    }
  }

  const gpu::DriverInfo& info() const override { return info_; }

  std::uint64_t allocate(std::size_t bytes) override {
    check();
    if (bytes > device_->memory_limit - device_->in_use) return 0;
    const auto address = reinterpret_cast<std::uint64_t>(std::calloc(bytes, 1));
    device_->in_use += bytes;
    blocks_.emplace(address, bytes);
    return address;
  }
  void release(std::uint64_t address) override {
    check();
    const auto found = blocks_.find(address);
    device_->in_use -= found->second;
    blocks_.erase(found);
    std::free(reinterpret_cast<void*>(address));
  }
  void upload(std::uint64_t to, const void* from, std::size_t bytes) override {
    check();
    std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  }
  void download(void* to, std::uint64_t from, std::size_t bytes) override {
    wait();
    std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  }
  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    check();
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  }

  std::string source(const gpu::KernelText& kernel, const gpu::Arithmetic&) const override {
    return kernel.functions + kernel.body;
  }
  std::vector<std::byte> compile(const std::string& source) const override {
    if (!device_->compiles) throw BackendError("fake: a kernel does not compile: line 1: it is too hot");
    ++device_->compiled;
    const auto* bytes = reinterpret_cast<const std::byte*>(source.data());
    return {bytes, bytes + source.size()};
  }
  std::unique_ptr<gpu::Module> load(std::span<const std::byte> binary, const gpu::KernelText& kernel) override {
    check();
    if (std::memcmp(binary.data(), (kernel.functions + kernel.body).data(), binary.size()) != 0) {
      throw BackendError("fake: this is no kernel");
    }
    ++device_->loaded;
    auto module = std::make_unique<FakeModule>();
    module->probes = !std::exchange(probe_is_loaded_, true);
    return module;
  }
  void launch(const gpu::Module& module, std::uint32_t, std::span<const std::uint32_t> words,
              std::span<const gpu::Access>) override {
    check();
    ++device_->launches;
    if (static_cast<const FakeModule&>(module).probes) answer_probe(words);
  }
  void wait() override {
    check();
    ++device_->waits;
  }

 protected:
  gpu::DriverInfo info_;

 private:
  struct FakeModule : gpu::Module {
    bool probes = false;
  };

  void check() const {
    if (device_->lost) throw BackendError("fake: the device was lost");
  }

  static void answer_probe(std::span<const std::uint32_t> words) {
    const auto memory = [&](std::size_t word) {
      return reinterpret_cast<std::uint32_t*>(words[word] | std::uint64_t{words[word + 1]} << 32);
    };
    const std::vector<std::uint32_t> answers = gpu::exact_answers({memory(0), gpu::kProbeWords}, true);
    std::copy(answers.begin(), answers.end(), memory(2));
  }

  std::shared_ptr<FakeDevice> device_;
  std::map<std::uint64_t, std::size_t> blocks_;  ///< of this driver: a later one on the same device has its own
  bool probe_is_loaded_ = false;                 ///< a backend's first kernel
};

}  // namespace lockstep::test
