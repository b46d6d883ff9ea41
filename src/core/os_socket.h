// TCP connections between processes. None blocks: who waits says until when.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace os {

using Deadline = std::chrono::steady_clock::time_point;
struct SocketWait;

/// Every member throws IoError with the system's reason.
class Socket {
 public:
  Socket() = default;
  /// Waits for callers at a port of this address; port 0: one that is free.
  static Socket listen(const std::string& address, int port);
  /// The next caller; nothing if none came in time.
  std::optional<Socket> accept(Deadline deadline) const;
  /// Calls until somebody listens there; nothing if nobody did in time.
  static std::optional<Socket> connect(const std::string& address, int port, Deadline deadline);

  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket();

  /// How many bytes went; 0 where the other side has to read first.
  std::size_t write_some(std::span<const std::byte> bytes) const;
  /// How many bytes came; 0 where none are there yet, nothing where the other side has closed the connection.
  std::optional<std::size_t> read_some(std::span<std::byte> bytes) const;
  /// Whether the other side has closed the connection, and nothing is left to read. Takes nothing away.
  bool is_closed() const;
  /// All of it; false if the time is over or the other side closed the connection.
  bool write_all(std::span<const std::byte> bytes, Deadline deadline) const;
  bool read_all(std::span<std::byte> bytes, Deadline deadline) const;

  int own_port() const;
  std::string own_address() const;
  std::string other_address() const;

 private:
  friend class HeldPort;
  friend bool wait_for(std::span<const SocketWait> sockets, Deadline deadline);
  // At a port of this address; whoever does not listen there holds it.
  static Socket bound(const std::string& address, int port, bool listens);
  bool called_itself() const;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;
};

/// A free port of this address that the system gives to nobody else while this lives, neither to who asks for any port
/// nor to who calls from one; Socket::listen at it succeeds, in any process. Without it somebody may get the port
/// between the choice and the listening of a process that has yet to start.
class HeldPort {
 public:
  explicit HeldPort(const std::string& address);
  int number() const { return socket_.own_port(); }

 private:
  Socket socket_;
};

struct SocketWait {
  const Socket* socket;
  bool to_write = false;  ///< else to read
};
/// Returns when one of them is ready, or broken; false when the time is over.
bool wait_for(std::span<const SocketWait> sockets, Deadline deadline);

}  // namespace os
}  // namespace v0
}  // namespace lockstep
