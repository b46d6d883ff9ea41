#include "server/timed_server.h"

#ifdef __linux__
#include <malloc.h>
#endif
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fmt/format.h>

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

using Clock = std::chrono::steady_clock;

// cpp-httplib 0.11 gives handlers no socket: that of the connection which a thread answers, one at a time.
thread_local int answered_socket = -1;

using AskAddress = int (*)(int, sockaddr*, socklen_t*);

void address_by(AskAddress ask, int socket, std::string& ip, int& port) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  if (ask(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), service.data(),
                    service.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return;
  }
  ip = host.data();
  port = std::atoi(service.data());
}

/// A connection. What does not come within `silent` of the last bytes, or by the end of its time, does not come. From
/// 0.20 on cpp-httplib waits by other functions; no function says `override`, since none has all of them.
class TimedStream final : public httplib::Stream {
 public:
  TimedStream(int socket, std::chrono::seconds silent, std::chrono::seconds request, std::chrono::seconds all,
              std::size_t bytes)
      : socket_(socket),
        bytes_left_(bytes),
        silent_(silent),
        request_(request),
        begin_(Clock::now()),
        read_end_(begin_ + request),
        end_(begin_ + all) {}

  bool is_readable() const { return wait(POLLIN, read_end_); }
  bool wait_readable() const { return is_readable(); }
  // Not to a client that has left.
  bool is_writable() const {
    char byte = 0;
    return wait(POLLOUT, end_) && ::recv(socket_, &byte, 1, MSG_PEEK | MSG_DONTWAIT) != 0;
  }

  bool wait_writable() const { return is_writable(); }

  ssize_t read(char* to, std::size_t size) {
    if (at_ == held_) {
      if (!is_readable()) {
        late_ = late_ || Clock::now() >= read_end_;
        return -1;
      }
      const ssize_t got = ::recv(socket_, buffer_.data(), std::min(buffer_.size(), bytes_left_), 0);
      if (got <= 0) return bytes_left_ == 0 ? -1 : got;
      bytes_left_ -= static_cast<std::size_t>(got);
      at_ = 0;
      held_ = static_cast<std::size_t>(got);
    }
    const std::size_t count = std::min(size, held_ - at_);
    std::memcpy(to, buffer_.data() + at_, count);
    at_ += count;
    return static_cast<ssize_t>(count);
  }

  // Of a request that came too slowly, the answer is that.
  ssize_t write(const char* from, std::size_t size) {
    if (late_) return -1;
    return is_writable() ? ::send(socket_, from, size, CPPHTTPLIB_SEND_FLAGS) : -1;
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const { address_by(::getpeername, socket_, ip, port); }
  void get_local_ip_and_port(std::string& ip, int& port) const { address_by(::getsockname, socket_, ip, port); }
  socket_t socket() const { return socket_; }
  time_t duration() const {
    return static_cast<time_t>(std::chrono::ceil<std::chrono::milliseconds>(Clock::now() - begin_).count());
  }

  std::size_t bytes_left() const { return bytes_left_; }

  void close() {
    if (late_) {
      const std::string body = fmt::format(
          R"({{"error":{{"message":"the request was not here within {} seconds","type":"invalid_request_error","code":408}}}})",
          request_.count());
      const std::string answer = fmt::format(
          "HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: "
          "{}\r\n\r\n{}",
          body.size(), body);
      (void)::send(socket_, answer.data(), answer.size(), CPPHTTPLIB_SEND_FLAGS | MSG_DONTWAIT);
    }
    ::shutdown(socket_, SHUT_RDWR);
    ::close(socket_);
  }

 private:
  bool wait(short events, Clock::time_point end) const {
    end = std::min(end, Clock::now() + silent_);
    for (;;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd asked{.fd = socket_, .events = events, .revents = 0};
      if (left <= 0) return false;
      const int count = ::poll(&asked, 1, static_cast<int>(left));
      if (count >= 0 || errno != EINTR) return count > 0;
    }
  }

  int socket_;
  std::size_t bytes_left_;
  std::chrono::seconds silent_;
  std::chrono::seconds request_;
  Clock::time_point begin_;
  Clock::time_point read_end_;
  Clock::time_point end_;
  std::array<char, 4096> buffer_{};
  std::size_t at_ = 0;
  std::size_t held_ = 0;
  bool late_ = false;
};

}  // namespace

std::function<bool()> TimedServer::client_left() {
  return [socket = answered_socket] {
    char byte = 0;
    const auto got = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
  };
}

bool TimedServer::process_and_close_socket(socket_t socket) {
  TimedStream stream(socket, std::chrono::seconds(read_timeout_sec_), std::chrono::seconds(request_seconds_),
                     std::chrono::seconds(all_seconds_), request_bytes_);
  answered_socket = socket;
  const bool answered = stream.is_readable() && answer(*this, stream);
  answered_socket = -1;
  stream.close();
#ifdef __GLIBC__
  // JSON takes up to 50 times its text, and each thread would keep that for requests of its own.
  if (request_bytes_ - stream.bytes_left() > std::size_t{1} << 20) ::malloc_trim(0);
#endif
  return answered;
}

// One request a connection: the body of a refused request is not read, and would be taken for the next request, whose
// Host and Origin its sender chooses. From 0.17 on cpp-httplib wants to be told both addresses.
template <typename Self, typename Connection> bool TimedServer::answer(Self& self, Connection& stream) {
  bool closed = false;
  if constexpr (requires { self.process_request(stream, true, closed, nullptr); }) {
    return self.process_request(stream, true, closed, nullptr);
  } else {
    std::string remote, local;
    int remote_port = 0, local_port = 0;
    stream.get_remote_ip_and_port(remote, remote_port);
    stream.get_local_ip_and_port(local, local_port);
    return self.process_request(stream, remote, remote_port, local, local_port, true, closed, nullptr);
  }
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
