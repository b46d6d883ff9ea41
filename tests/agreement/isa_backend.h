// The CPU with another set of instructions than the one that it chose, as a device of its own: cpu:<10 + set>.
#pragma once

#include "backends/backend.h"
#include "backends/cpu/contraction/contraction.h"
#include "backends/cpu/irregular/irregular.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kept_panels.h"
#include "backends/cpu/memory_pool.h"
#include "backends/cpu/row/row_program.h"
#include "core/overloaded.h"

namespace lockstep::test {

class IsaBackend : public Backend {
 public:
  explicit IsaBackend(Isa isa) : isa_(isa) {}

  Device device() const override { return {DeviceKind::cpu, 10 + static_cast<int>(isa_)}; }
  bool has_exact_attention() const override { return has_attention(isa_); }
  bool has_recurrence() const override { return v0::has_recurrence(isa_); }
  BufferRef allocate(std::size_t bytes) override { return cpu().allocate(bytes); }
  void upload(Buffer& to, const void* from, std::size_t bytes) override { cpu().upload(to, from, bytes); }
  void download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) override {
    cpu().download(to, from, bytes, offset);
  }
  std::string description() const override { return std::string(name_of(isa_)); }
  std::unique_ptr<Executable> compile(const Kernel& kernel) override {
    return std::visit(
        overloaded{
            [&](const RowKernel& k) -> std::unique_ptr<Executable> {
              if (auto gather = compile_gather(k.program, isa_)) return gather;
              return std::make_unique<Rows>(k.program, isa_);
            },
            [&](const ContractionKernel& k) { return compile_contraction(k, isa_, kept_); },
            [&](const ScatterKernel& k) { return compile_scatter(k, isa_, memory_); },
            [&](const ScanKernel& k) { return compile_scan(k, isa_); },
            [&](const SortKernel& k) { return compile_sort(k, isa_, memory_); },
            [&](const UpdateKernel& k) { return compile_update(k, isa_); },
            [&](const FourierKernel& k) { return compile_fourier(k, isa_, memory_); },
            [&](const AttentionKernel& k) { return compile_attention(k, isa_, memory_); },
            [&](const RecurrenceKernel& k) { return compile_recurrence(k, isa_, kept_); },
        },
        kernel);
  }

 private:
  struct Rows final : Executable {
    Rows(const Program& rows, Isa isa) : program(rows, isa) {}
    void run(const Binding& binding) const override { program.run(binding); }
    RowProgram program;
  };
  static Backend& cpu() { return backend_of({DeviceKind::cpu, 0}); }

  Isa isa_;
  std::shared_ptr<MemoryPool> memory_ = std::make_shared<MemoryPool>();
  std::shared_ptr<KeptPanels> kept_ = std::make_shared<KeptPanels>(memory_, std::size_t{64} << 20);
};

/// A device for each set of instructions of this processor; registered at the first call.
inline const std::vector<Device>& isa_devices() {
  static const std::vector<Device> devices = [] {
    std::vector<Device> made;
    for (const Isa isa : available_isas()) {
      auto backend = std::make_unique<IsaBackend>(isa);
      made.push_back(backend->device());
      register_backend(std::move(backend));
    }
    return made;
  }();
  return devices;
}

}  // namespace lockstep::test
