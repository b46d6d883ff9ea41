// cpp-httplib's server with a bound on how long a connection is there in all: its own bounds begin anew with each byte.
// Only http.cpp uses it.
#pragma once

#include <functional>

#include <httplib.h>

namespace lockstep {
inline namespace v0 {
namespace server {

class TimedServer : public httplib::Server {
 public:
  /// From the connection on: so many seconds for a request to be here, or it is answered with 408; so many for all; and
  /// so many bytes of it are read, with its headers.
  void set_bounds(int request_seconds, int all_seconds, std::size_t request_bytes) {
    request_seconds_ = request_seconds;
    all_seconds_ = all_seconds;
    request_bytes_ = request_bytes;
  }

  /// In a handler: asks whether its client has closed the connection, or its side of it. To be asked only while the
  /// handler runs, or the stream that it gave.
  static std::function<bool()> client_left();

 private:
  bool process_and_close_socket(socket_t socket) override;
  template <typename Self, typename Connection> static bool answer(Self& self, Connection& stream);

  int request_seconds_ = 600;
  int all_seconds_ = 1200;
  std::size_t request_bytes_ = 0;
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep
