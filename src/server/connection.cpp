#include "server/connection.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

using AskAddress = int (*)(int, sockaddr*, socklen_t*);

// 0 if there is none.
int port_by(AskAddress ask, int descriptor) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (ask(descriptor, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  if (address.ss_family == AF_INET) return ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
  if (address.ss_family == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port);
  return 0;
}

}  // namespace

// cpp-httplib 0.11 gives handlers no socket, only its ports: it is looked for among those of the process.
std::function<bool()> client_of(int own_port, int other_port) {
  const int last = static_cast<int>(std::clamp<long>(::sysconf(_SC_OPEN_MAX), 256, 65536));
  for (int descriptor = 3; descriptor < last; ++descriptor) {
    if (port_by(::getpeername, descriptor) != other_port || port_by(::getsockname, descriptor) != own_port) continue;
    return [descriptor] {
      char byte = 0;
      const auto got = ::recv(descriptor, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      return got == 0 || (got < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
    };
  }
  return [] { return false; };
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
