#include "backends/reference/backend.h"

#include <atomic>
#include <cstdlib>
#include <cstring>

#include <lockstep/error.h>

#include "backends/reference/contraction.h"
#include "backends/reference/irregular.h"
#include "backends/reference/program.h"
#include "core/assert.h"
#include "core/fp_state.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::size_t kAlignment = 64;

// Shared by all objects: buffers outlive backends.
std::atomic<std::size_t> live_bytes = 0;
std::atomic<std::size_t> peak_bytes = 0;

class ReferenceExecutable : public Executable {
 public:
  explicit ReferenceExecutable(const Kernel& kernel) : kernel_(kernel) {}

  void run(const Binding& binding) const override {
    const FloatingPointScope scope;
    std::visit([&](const auto& kernel) { run_kernel(kernel, binding); }, kernel_);
  }

 private:
  Kernel kernel_;
};

}  // namespace

BufferRef ReferenceBackend::allocate(std::size_t bytes) {
  const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  void* data = rounded > bytes ? std::aligned_alloc(kAlignment, rounded) : nullptr;
  if (data == nullptr) {
    throw OutOfMemoryError("ref: cannot allocate " + std::to_string(bytes) + " bytes");
  }
  const std::size_t live = live_bytes.fetch_add(rounded) + rounded;
  std::size_t peak = peak_bytes.load();
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return std::make_shared<Buffer>(device(), data, bytes, [data, rounded] {
    std::free(data);
    live_bytes.fetch_sub(rounded);
  });
}

std::size_t ReferenceBackend::memory_bytes() const {
  return os::memory_and_swap_bytes();
}

void ReferenceBackend::reset_peak_memory() {
  peak_bytes = live_bytes.load();
}

MemoryStatistics ReferenceBackend::memory_statistics() const {
  const std::size_t peak = peak_bytes.load();
  return {.live = live_bytes.load(), .peak = peak, .recent_peak = peak};
}

void ReferenceBackend::upload(Buffer& to, const void* from, std::size_t bytes) {
  LOCKSTEP_ASSERT(bytes <= to.bytes());
  if (bytes > 0) std::memcpy(to.data(), from, bytes);
}

void ReferenceBackend::download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) {
  LOCKSTEP_ASSERT(offset + bytes <= from.bytes());
  if (bytes > 0) std::memcpy(to, from.data() + offset, bytes);
}

std::unique_ptr<Executable> ReferenceBackend::compile(const Kernel& kernel) {
  return std::make_unique<ReferenceExecutable>(kernel);
}

std::string ReferenceBackend::description() const {
  return "ref: the numerics specification, one scalar at a time (slow, for checking)";
}

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace v0
}  // namespace lockstep
