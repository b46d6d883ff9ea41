// A GPU for tests of what stands around the drivers: memory is the host's, kernels are not run (values are garbage),
// and what can go wrong with a device goes wrong when a test says so.
#pragma once

#include <bit>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/error.h>

#include "backends/gpu/driver.h"
#include "core/hash.h"

namespace lockstep::test {

namespace gpu = lockstep::gpu;

/// Shared between a test and the driver, which belongs to its backend.
struct FakeDevice {
  std::size_t memory_limit = std::size_t{1} << 30;  ///< of all allocations together
  bool lost = false;                                ///< everything fails from now on
  bool compiles = true;                             ///< else the compiler refuses
  int compiled = 0, loaded = 0, launches = 0, waits = 0;
  std::size_t in_use = 0;
  std::map<std::uint64_t, std::size_t> blocks;
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
    for (const auto& [address, bytes] : device_->blocks) std::free(reinterpret_cast<void*>(address));
  }

  const gpu::DriverInfo& info() const override { return info_; }

  std::uint64_t allocate(std::size_t bytes) override {
    check();
    if (bytes > device_->memory_limit - device_->in_use) return 0;
    const auto address = reinterpret_cast<std::uint64_t>(std::calloc(bytes, 1));
    device_->in_use += bytes;
    device_->blocks.emplace(address, bytes);
    return address;
  }
  void release(std::uint64_t address) override {
    check();
    const auto found = device_->blocks.find(address);
    device_->in_use -= found->second;
    device_->blocks.erase(found);
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
    module->probes = kernel.body.find("0x3f8ccccdu") != std::string::npos;
    return module;
  }
  void launch(const gpu::Module& module, std::uint32_t, std::span<const std::uint32_t> words,
              std::span<const gpu::Access>) override {
    check();
    ++device_->launches;
    if (static_cast<const FakeModule&>(module).probes) pass_probe(words);
  }
  void wait() override {
    check();
    ++device_->waits;
  }

 private:
  struct FakeModule : gpu::Module {
    bool probes = false;
  };

  void check() const {
    if (device_->lost) throw BackendError("fake: the device was lost");
  }

  // What the start-up probe (gpu/probe.cpp) expects of an exact device.
  static void pass_probe(std::span<const std::uint32_t> words) {
    const auto* in = reinterpret_cast<const std::uint32_t*>(words[0] | std::uint64_t{words[1]} << 32);
    auto* out = reinterpret_cast<std::uint32_t*>(words[2] | std::uint64_t{words[3]} << 32);
    constexpr std::size_t kCount = 4096;
    const auto folded = [](double x) {
      const auto bits = std::bit_cast<std::uint64_t>(x);
      return static_cast<std::uint32_t>(bits ^ bits >> 32);
    };
    for (std::size_t i = 0; i < kCount; ++i) {
      const auto a = std::bit_cast<float>(in[4 * i]);
      const auto b = std::bit_cast<float>(in[4 * i + 1]);
      const auto c = std::bit_cast<float>(in[4 * i + 2]);
      const double x = static_cast<double>(a) * static_cast<double>(1.1F);
      const double y = static_cast<double>(b) * static_cast<double>(1.2F);
      const auto whole = static_cast<std::int64_t>(std::uint64_t{in[4 * i]} << 32 | in[4 * i + 1]);
      const float singles[] = {a + b, a * b, a / b, std::sqrt(a), std::fma(a, b, c), static_cast<float>(whole)};
      for (std::size_t r = 0; r < 6; ++r) out[r * kCount + i] = std::bit_cast<std::uint32_t>(singles[r]);
      out[6 * kCount + i] = folded(std::fma(x, y, static_cast<double>(c)));
      out[7 * kCount + i] = folded(x / y);
      out[8 * kCount + i] = folded(std::sqrt(x));
      out[9 * kCount + i] = std::bit_cast<std::uint32_t>(static_cast<float>(x));
    }
  }

  std::shared_ptr<FakeDevice> device_;
  gpu::DriverInfo info_;
};

}  // namespace lockstep::test
