#include "core/os_socket.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace os {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

[[noreturn]] void fail_socket(const std::string& action, int error) {
  throw IoError(fmt::format("cannot {}: {}", action, std::strerror(error)));
}

Addresses resolved(const std::string& address, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) throw IoError(fmt::format("there is no address '{}': {}", address, ::gai_strerror(error)));
  return {found, &::freeaddrinfo};
}

// Without delay: a message is written whole, and the other side waits for it.
void send_at_once(int descriptor) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int remaining_milliseconds(Deadline deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 3'600'000));
}

using AskName = int (*)(int, sockaddr*, socklen_t*);
struct NumericName {
  std::string address;
  int port;
};
NumericName name_by(AskName ask, int descriptor) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (ask(descriptor, address, &size) != 0) fail_socket("ask for the address of a connection", errno);
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  const int error = ::getnameinfo(address, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  if (error != 0) throw IoError(fmt::format("cannot read an address: {}", ::gai_strerror(error)));
  return {host, std::atoi(port)};
}

bool would_block(int error) {
  return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Socket Socket::listen(const std::string& address, int port) {
  return bound(address, port, true);
}

// Linux lets one more socket with SO_REUSEADDR listen at a port where others with it are bound but do not listen, and
// counts a port with a bound socket as taken where it chooses one itself.
HeldPort::HeldPort(const std::string& address) : socket_(Socket::bound(address, 0, false)) {}

Socket Socket::bound(const std::string& address, int port, bool listens) {
  const Addresses addresses = resolved(address, port, AI_PASSIVE);
  int error = 0;
  for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol));
    const int on = 1;
    if (socket.descriptor_ >= 0 && ::setsockopt(socket.descriptor_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        ::bind(socket.descriptor_, one->ai_addr, one->ai_addrlen) == 0 &&
        (!listens || ::listen(socket.descriptor_, SOMAXCONN) == 0)) {
      return socket;
    }
    error = errno;
  }
  fail_socket(fmt::format("listen at {}:{}", address, port), error);
}

std::optional<Socket> Socket::accept(Deadline deadline) const {
  const SocketWait here[] = {{.socket = this}};
  while (wait_for(here, deadline)) {
    Socket caller(::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (caller.descriptor_ >= 0) {
      send_at_once(caller.descriptor_);
      return caller;
    }
    if (!would_block(errno) && errno != ECONNABORTED) fail_socket("take a call", errno);
  }
  return std::nullopt;
}

std::optional<Socket> Socket::connect(const std::string& address, int port, Deadline deadline) {
  constexpr auto kPause = std::chrono::milliseconds(20);
  do {
    const Addresses addresses = resolved(address, port, 0);
    for (const addrinfo* one = addresses.get(); one != nullptr; one = one->ai_next) {
      Socket socket(::socket(one->ai_family, one->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, one->ai_protocol));
      if (socket.descriptor_ < 0) fail_socket("make a socket", errno);
      if (::connect(socket.descriptor_, one->ai_addr, one->ai_addrlen) != 0 && errno != EINPROGRESS) continue;
      const SocketWait here[] = {{.socket = &socket, .to_write = true}};
      if (!wait_for(here, deadline)) return std::nullopt;
      int error = 0;
      socklen_t size = sizeof error;
      if (::getsockopt(socket.descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0 &&
          !socket.called_itself()) {
        send_at_once(socket.descriptor_);
        return socket;
      }
    }
    std::this_thread::sleep_for(kPause);
  } while (std::chrono::steady_clock::now() < deadline);
  return std::nullopt;
}

// Who calls a port that nobody listens at may be given that very port to call from, and then reaches itself.
bool Socket::called_itself() const {
  const NumericName own = name_by(::getsockname, descriptor_);
  const NumericName other = name_by(::getpeername, descriptor_);
  return own.port == other.port && own.address == other.address;
}

std::size_t Socket::write_some(std::span<const std::byte> bytes) const {
  const ssize_t count = ::send(descriptor_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (count >= 0) return static_cast<std::size_t>(count);
  if (would_block(errno)) return 0;
  fail_socket("write to a connection", errno);
}

std::optional<std::size_t> Socket::read_some(std::span<std::byte> bytes) const {
  if (bytes.empty()) return 0;
  const ssize_t count = ::recv(descriptor_, bytes.data(), bytes.size(), 0);
  if (count > 0) return static_cast<std::size_t>(count);
  if (count == 0) return std::nullopt;
  if (would_block(errno)) return 0;
  fail_socket("read from a connection", errno);
}

bool Socket::write_all(std::span<const std::byte> bytes, Deadline deadline) const {
  const SocketWait here[] = {{.socket = this, .to_write = true}};
  while (!bytes.empty()) {
    if (!wait_for(here, deadline)) return false;
    bytes = bytes.subspan(write_some(bytes));
  }
  return true;
}

bool Socket::is_closed() const {
  std::byte byte{};
  const ssize_t count = ::recv(descriptor_, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

bool Socket::read_all(std::span<std::byte> bytes, Deadline deadline) const {
  const SocketWait here[] = {{.socket = this}};
  while (!bytes.empty()) {
    if (!wait_for(here, deadline)) return false;
    const std::optional<std::size_t> count = read_some(bytes);
    if (!count) return false;
    bytes = bytes.subspan(*count);
  }
  return true;
}

int Socket::own_port() const {
  return name_by(::getsockname, descriptor_).port;
}
std::string Socket::own_address() const {
  return name_by(::getsockname, descriptor_).address;
}
std::string Socket::other_address() const {
  return name_by(::getpeername, descriptor_).address;
}

bool wait_for(std::span<const SocketWait> sockets, Deadline deadline) {
  std::vector<pollfd> polled;
  for (const SocketWait& one : sockets) {
    const auto event = static_cast<short>(one.to_write ? POLLOUT : POLLIN);
    polled.push_back({.fd = one.socket->descriptor_, .events = event, .revents = 0});
  }
  for (;;) {
    const int ready = ::poll(polled.data(), polled.size(), remaining_milliseconds(deadline));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) fail_socket("wait for connections", errno);
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
}

}  // namespace os
}  // namespace v0
}  // namespace lockstep
