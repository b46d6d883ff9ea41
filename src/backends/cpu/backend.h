// The fast CPU backend: row programs (row/), contractions (contraction/), scatters, scans, sorts and updates
// (irregular/), in tiles and SIMD, over one thread pool.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kept_panels.h"
#include "backends/cpu/memory_pool.h"
#include "backends/memory.h"

namespace lockstep {
inline namespace v0 {

class CpuBackend final : public Backend, public ReportsMemory {
 public:
  /// Throws what selected_isa() throws.
  CpuBackend();

  Device device() const override { return {DeviceKind::cpu, 0}; }
  BufferRef allocate(std::size_t bytes) override;
  std::size_t memory_bytes() const override;
  void upload(Buffer& to, const void* from, std::size_t bytes) override;
  void download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) override;
  std::unique_ptr<Executable> compile(const Kernel& kernel) override;
  std::vector<std::unique_ptr<Executable>> compile_all(std::span<const KernelList> lists) override;
  bool runs_together(const KernelList& products) const override;
  bool has_exact_attention() const override;
  bool has_recurrence() const override;
  MemoryStatistics memory_statistics() const override { return memory_->statistics(); }
  void reset_peak_memory() override { memory_->reset_peak(); }
  std::string description() const override;

  MemoryPool& memory() { return *memory_; }
  const KeptPanels& kept() const { return *kept_; }

 private:
  Isa isa_;
  std::shared_ptr<MemoryPool> memory_;  // shared with the buffers, which may outlive the backend
  std::shared_ptr<KeptPanels> kept_;
};

std::unique_ptr<Backend> make_cpu_backend();

}  // namespace v0
}  // namespace lockstep
