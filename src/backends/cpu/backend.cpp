#include "backends/cpu/backend.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <lockstep/error.h>

#include "backends/cpu/contraction/contraction.h"
#include "backends/cpu/irregular/irregular.h"
#include "backends/cpu/row/pool.h"
#include "backends/cpu/row/row_program.h"
#include "backends/cpu/threads.h"
#include "core/assert.h"
#include "core/os.h"
#include "core/pool.h"

namespace lockstep {
inline namespace v0 {
namespace {

// Bytes of packed weights.
constexpr std::size_t kMostKept = std::size_t{1} << 30;

class RowExecutable final : public Executable {
 public:
  RowExecutable(const Program& program, Isa isa) : program_(program, isa) {}
  void run(const Binding& binding) const override { program_.run(binding); }

 private:
  RowProgram program_;
};

// Memory of the pool, which it goes back to.
class PoolBuffer final : public Buffer {
 public:
  PoolBuffer(Device device, void* data, std::size_t bytes, std::shared_ptr<MemoryPool> memory)
      : Buffer(device, data, bytes, nullptr), memory_(std::move(memory)) {}
  ~PoolBuffer() { memory_->release(data(), bytes()); }

 private:
  std::shared_ptr<MemoryPool> memory_;
};

struct Compiler {
  Isa isa;
  std::shared_ptr<MemoryPool> memory;
  std::shared_ptr<KeptPanels> kept;
  std::unique_ptr<Executable> operator()(const RowKernel& kernel) const {
    if (auto gather = compile_gather(kernel.program, isa)) return gather;
    if (auto join = compile_join(kernel.program, isa)) return join;
    if (auto pool = compile_pool(kernel.program, isa)) return pool;
    return std::make_unique<RowExecutable>(kernel.program, isa);
  }
  std::unique_ptr<Executable> operator()(const ContractionKernel& kernel) const {
    return compile_contraction(kernel, isa, kept);
  }
  std::unique_ptr<Executable> operator()(const ScatterKernel& kernel) const {
    return compile_scatter(kernel, isa, memory);
  }
  std::unique_ptr<Executable> operator()(const ScanKernel& kernel) const { return compile_scan(kernel, isa); }
  std::unique_ptr<Executable> operator()(const SortKernel& kernel) const { return compile_sort(kernel, isa, memory); }
  std::unique_ptr<Executable> operator()(const UpdateKernel& kernel) const { return compile_update(kernel, isa); }
  std::unique_ptr<Executable> operator()(const FourierKernel& kernel) const {
    return compile_fourier(kernel, isa, memory);
  }
  std::unique_ptr<Executable> operator()(const AttentionKernel& kernel) const {
    return compile_attention(kernel, isa, memory);
  }
  std::unique_ptr<Executable> operator()(const RecurrenceKernel& kernel) const {
    return compile_recurrence(kernel, isa, kept);
  }
};

}  // namespace

CpuBackend::CpuBackend()
    : isa_(selected_isa()),
      memory_(std::make_shared<MemoryPool>()),
      kept_(std::make_shared<KeptPanels>(memory_, std::min(kMostKept, os::memory_and_swap_bytes() / 16))) {}

BufferRef CpuBackend::allocate(std::size_t bytes) {
  void* data = nullptr;
  try {
    data = memory_->allocate(bytes);
  } catch (const OutOfMemoryError&) {
    if (kept_->bytes() == 0) throw;
    kept_->drop_all();
    data = memory_->allocate(bytes);
  }
  return make_pooled<PoolBuffer>(device(), data, bytes, memory_);
}

bool CpuBackend::has_exact_attention() const {
  return v0::has_attention(isa_);
}

bool CpuBackend::has_recurrence() const {
  return v0::has_recurrence(isa_);
}

std::size_t CpuBackend::memory_bytes() const {
  return os::memory_and_swap_bytes();
}

void CpuBackend::upload(Buffer& to, const void* from, std::size_t bytes) {
  LOCKSTEP_ASSERT(bytes <= to.bytes());
  if (bytes != 0) std::memcpy(to.data(), from, bytes);
}

void CpuBackend::download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) {
  LOCKSTEP_ASSERT(offset + bytes <= from.bytes());
  if (bytes != 0) std::memcpy(to, from.data() + offset, bytes);
}

std::unique_ptr<Executable> CpuBackend::compile(const Kernel& kernel) {
  return std::visit(Compiler{isa_, memory_, kept_}, kernel);
}

std::vector<std::unique_ptr<Executable>> CpuBackend::compile_all(std::span<const KernelList> lists) {
  std::vector<std::unique_ptr<Executable>> result;
  for (const KernelList& list : lists) {
    result.push_back(list.size() == 1 ? compile(*list.front()) : compile_together(list, isa_));
  }
  return result;
}

bool CpuBackend::runs_together(const KernelList& products) const {
  return v0::runs_together(products, isa_);
}

std::string CpuBackend::description() const {
  return "cpu: " + processor_name() + "\n  instruction set  " + std::string(name_of(isa_)) + "\n  threads          " +
         std::to_string(num_threads());
}

std::unique_ptr<Backend> make_cpu_backend() {
  return std::make_unique<CpuBackend>();
}

}  // namespace v0
}  // namespace lockstep
