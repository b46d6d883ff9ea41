// Device memory that tensors share. A Buffer is filled once by the kernel (or copy) that computes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

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

 private:
  Device device_;
  void* data_;
  std::size_t bytes_;
  std::function<void()> release_;
};

using BufferRef = std::shared_ptr<Buffer>;

}  // namespace v0
}  // namespace lockstep
