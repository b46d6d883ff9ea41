// The memory that a contraction packs into. It belongs to threads, not to kernels: a step runs many contractions of
// similar sizes, one after the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <lockstep/error.h>

#include "backends/cpu/contraction/panels.h"
#include "core/per_thread.h"

namespace lockstep {
inline namespace v0 {
namespace contraction {

/// Memory that grows and is kept: packing buffers have the same sizes again and again.
class GrowingBuffer {
 public:
  GrowingBuffer() = default;
  ~GrowingBuffer() { std::free(data_); }
  GrowingBuffer(const GrowingBuffer&) = delete;
  GrowingBuffer& operator=(const GrowingBuffer&) = delete;

  std::byte* reserve(std::int64_t bytes) {
    if (bytes > capacity_) {
      std::free(data_);
      capacity_ = (bytes + 4095) / 4096 * 4096;
      data_ = static_cast<std::byte*>(std::aligned_alloc(4096, static_cast<std::size_t>(capacity_)));
      if (data_ == nullptr) {
        capacity_ = 0;
        throw OutOfMemoryError("cpu: no memory for " + std::to_string(bytes) + " bytes of packed operands");
      }
    }
    return data_;
  }

 private:
  std::byte* data_ = nullptr;
  std::int64_t capacity_ = 0;
};

/// Which rows of an image a thread's padded copy holds.
struct ImageRows {
  std::uint64_t run = 0;  ///< no two runs of kernels have one number
  std::int64_t image = 0;
  std::int64_t first_row = 0;
  friend bool operator==(const ImageRows&, const ImageRows&) = default;
};

struct Workspace {
  PackWorkspace pack{};
  GrowingBuffer rows, columns, results, transposed, compacted;
  GrowingBuffer image;  ///< of direct_way.cpp alone, so that units of one run share it
  ImageRows image_rows;
  const float* image_origin = nullptr;  ///< where addresses in it begin

  static Workspace& of_this_thread() { return v0::of_this_thread<Workspace>(); }
};

/// Operands packed as a whole before the blocks are computed; they belong to the thread that runs the kernel.
struct SharedPanels {
  GrowingBuffer rows, columns;
  GrowingBuffer results, partial_sums;  ///< of contractions whose k is spread over threads
  static SharedPanels& of_this_thread() { return v0::of_this_thread<SharedPanels>(); }
};

}  // namespace contraction
}  // namespace v0
}  // namespace lockstep
