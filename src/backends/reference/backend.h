// The reference backend: the numerics specification (docs/numerics.md) executed literally, one scalar at a time, on
// the calling thread. Slow, and meant to be read: where another backend's bits differ, it is the other that is wrong.
//
//   program.cpp      row programs, instruction by instruction
//   reduce.h         the order of reductions
//   contraction.cpp  the order of contractions
#pragma once

#include <memory>

#include "backends/backend.h"
#include "backends/memory.h"

namespace lockstep {
inline namespace v0 {

class ReferenceBackend : public Backend, public ReportsMemory {
 public:
  Device device() const override { return {DeviceKind::ref, 0}; }
  BufferRef allocate(std::size_t bytes) override;
  std::size_t memory_bytes() const override;
  void upload(Buffer& to, const void* from, std::size_t bytes) override;
  void download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) override;
  std::unique_ptr<Executable> compile(const Kernel& kernel) override;
  MemoryStatistics memory_statistics() const override;
  void reset_peak_memory() override;
  std::string description() const override;
};

std::unique_ptr<Backend> make_reference_backend();

}  // namespace v0
}  // namespace lockstep
