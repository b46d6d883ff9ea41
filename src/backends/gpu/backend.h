// Every GPU: a driver, and around it memory, kernels and the numerics that the start-up probe found. The same for all
// APIs; what differs stands in the drivers and dialects.
#pragma once

#include <memory>
#include <mutex>

#include "backends/backend.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/kept_forms.h"
#include "backends/gpu/kernel_cache.h"
#include "backends/gpu/memory.h"
#include "backends/gpu/replay.h"
#include "backends/memory.h"
#include "backends/side_work.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

class GpuBackend : public Backend,
                   public ReportsMemory,
                   public HasSideQueues,
                   public CopiesToHost,
                   public CopiesToPeers {
 public:
  /// Runs the start-up probe. Throws BackendError where no variant gives exact results.
  GpuBackend(Device device, std::unique_ptr<Driver> driver, std::string cache_directory);

  Device device() const override { return device_; }
  BufferRef allocate(std::size_t bytes) override;
  std::size_t memory_bytes() const override;
  void upload(Buffer& to, const void* from, std::size_t bytes) override;
  void download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) override;
  std::unique_ptr<Executable> compile(const Kernel& kernel) override;
  std::vector<std::unique_ptr<Executable>> compile_all(std::span<const KernelList> lists) override;
  void start() override;
  void finish() override;
  std::string description() const override;
  bool holds(DType dtype) const override { return dtype != DType::f64 || arithmetic_.f64; }

  std::string missing_for_fast() const override { return driver_->missing_for_products(); }
  std::string missing_for_fast_floats() const override { return driver_->missing_for_float_products(); }
  std::string missing_for_fast_convolutions() const override { return driver_->missing_for_convolutions(); }
  bool has_fast_attention() const override { return driver_->has_attention(); }
  bool has_blocked_attention() const override { return driver_->info().byte_products; }

  bool has_masked_attention() const override {
    return driver_->info().threads >= kMaskedAttentionThreads && driver_->info().shared_bytes >= kMaskedAttentionBytes;
  }

  bool has_pair(const ContractionKernel& kernel) const override;
  bool runs_together(const KernelList& products) const override;

  /// A sixteenth of the memory where that is more: values of a GPU's size alone would fill a processor's window.
  std::size_t window_bytes() const override;

  std::unique_ptr<WorkMark> mark() override;
  void wait_for(const WorkMark& mark) override;
  std::unique_ptr<SideQueue> side_queue() override;
  std::unique_ptr<HostCopy> begin_download(const Buffer& from, std::size_t bytes, std::size_t offset) override;
  bool copy_from_peer(Buffer& to, const Buffer& from, std::size_t bytes, std::size_t offset) override;
  bool reads_directly(int other) override;

  const Arithmetic& arithmetic() const { return arithmetic_; }
  MemoryStatistics memory_statistics() const override;
  void reset_peak_memory() override;
  /// Of forms of operands that are kept for later runs.
  std::size_t kept_bytes() const;
  /// Kernels compiled by this process, not found in a cache.
  std::size_t compiled_kernels() const;
  /// Lists of launches that were replayed.
  std::uint64_t replays() const;

 private:
  friend class GpuExecutable;
  friend class GpuBuffer;

  RenderLimits limits(int threads) const;
  Rendered rendered(const KernelList& kernels, int threads) const;
  std::unique_ptr<Executable> executable(Rendered launches, const KernelList& kernels);
  /// From memory_, at the price of what is kept.
  std::uint64_t take(std::size_t bytes);
  BackendError in_kernel(const BackendError& error, const Kernel& kernel) const;

  Device device_;
  std::unique_ptr<ReplayingDriver> driver_;
  mutable std::mutex mutex_;  ///< of everything below, and of the driver
  Memory memory_;
  KernelCache kernels_;
  std::shared_ptr<KeptForms> kept_;
  Arithmetic arithmetic_;
};

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
