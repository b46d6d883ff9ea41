// Device memory that tensors share. A Buffer is filled once by the kernel (or copy) that computes it, and again only by
// one that takes over the memory of a value nobody needs any more.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include <lockstep/device.h>

namespace lockstep {
inline namespace v0 {

/// Bytes on one device. `data` is the address on CPU devices, a device address or handle elsewhere.
class Buffer {
 public:
  Buffer(Device device, void* data, std::size_t bytes, std::function<void()> release)
      : device_(device), data_(data), bytes_(bytes), release_(std::move(release)) {}
  ~Buffer() {
    if (release_) release_();
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Device device() const { return device_; }
  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

  /// A number that no other contents of any buffer have. One thread at a time, like the two functions below.
  std::uint64_t contents() {
    static std::atomic<std::uint64_t> last{0};
    if (contents_ == 0) contents_ = last.fetch_add(1, std::memory_order_relaxed) + 1;
    return contents_;
  }
  /// `companion` goes when the contents do: what was derived from them can go then, too.
  void accompany(std::shared_ptr<void> companion) { companion_ = std::move(companion); }
  bool accompanied() const { return companion_ != nullptr; }
  /// The contents will be others from now on.
  void overwrite() {
    contents_ = 0;
    companion_.reset();
  }

 private:
  Device device_;
  void* data_;
  std::size_t bytes_;
  std::function<void()> release_;
  std::uint64_t contents_ = 0;  ///< not asked for yet
  std::shared_ptr<void> companion_;
};

using BufferRef = std::shared_ptr<Buffer>;

}  // namespace v0
}  // namespace lockstep
