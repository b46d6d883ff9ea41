// What others need who move a device's memory themselves, beside its kernels: a mark in the order of its work, and a
// queue of their own. Backends that offer it are HasSideQueues, too; so are those that copy to a device of their kind.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.h"

namespace lockstep {
inline namespace v0 {

/// A point in the order of a queue's work: everything that was put into it before the mark was made.
class WorkMark {
 public:
  virtual ~WorkMark() = default;
  /// Whether all of that is done. Throws BackendError where it failed.
  virtual bool is_reached() const = 0;
};

/// A queue of a device beside that of its kernels. One thread at a time.
class SideQueue {
 public:
  virtual ~SideQueue() = default;
  /// What comes into the queue from now on waits for the mark, of the same device.
  virtual void wait_for(const WorkMark& mark) = 0;
  virtual std::unique_ptr<WorkMark> mark() = 0;
  /// Of the API: a CUstream.
  virtual void* handle() const = 0;
  /// Makes the device the calling thread's current one, as libraries expect it, and undoes it.
  virtual void enter() = 0;
  virtual void leave() = 0;
};

class HasSideQueues {
 public:
  virtual ~HasSideQueues() = default;
  /// Of the queue of kernels. Begins what was run so far. Null where the API has no queues.
  virtual std::unique_ptr<WorkMark> mark() = 0;
  /// Kernels that are run from now on wait for the mark, which is one of this device's.
  virtual void wait_for(const WorkMark& mark) = 0;
  virtual std::unique_ptr<SideQueue> side_queue() = 0;
};

/// Bytes on their way to the host.
class HostCopy {
 public:
  virtual ~HostCopy() = default;
  /// Waits for them, and for nothing that came later. Throws BackendError where the device failed.
  virtual std::span<const std::byte> bytes() = 0;
};

class CopiesToHost {
 public:
  virtual ~CopiesToHost() = default;
  /// Bytes [offset, offset + bytes) of a buffer of this device, as all work so far leaves them. Begins what was run so
  /// far. Null where the API has nothing for that.
  virtual std::unique_ptr<HostCopy> begin_download(const Buffer& from, std::size_t bytes, std::size_t offset) = 0;
};

/// How memory of one device reaches another one of its kind.
struct DeviceLink {
  Device from;
  Device to;
  bool is_direct = false;  ///< else through the host
};

class CopiesToPeers {
 public:
  virtual ~CopiesToPeers() = default;
  /// Bytes [offset, offset + to.bytes()) of `from`, a buffer of another device of this kind, in the order of both
  /// devices' work. Waits for nothing. False where the API cannot.
  virtual bool copy_from_peer(Buffer& to, const Buffer& from, std::size_t bytes, std::size_t offset) = 0;
  /// Whether this device reads the other one's memory without a way through the host.
  virtual bool reads_directly(int other) = 0;
};

/// Between all devices of this machine that are of one kind.
std::vector<DeviceLink> device_links();

}  // namespace v0
}  // namespace lockstep
