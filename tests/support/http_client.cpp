#include "support/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <stdexcept>

namespace lockstep::test {

Connection::Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    ::close(socket_);
    throw std::runtime_error("cannot connect to port " + std::to_string(port));
  }
}

Connection::~Connection() {
  ::close(socket_);
}

void Connection::send(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;  // closed: what the server said before can still be read
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

std::string Connection::read_some() const {
  char buffer[65536];
  const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
  return count > 0 ? std::string(buffer, static_cast<std::size_t>(count)) : std::string();
}

std::string Connection::read_all() const {
  std::string text;
  for (std::string some; !(some = read_some()).empty();) text += some;
  return text;
}

int port_of(const std::string& url) {
  return std::stoi(url.substr(url.rfind(':') + 1));
}

HttpAnswer request(int port, const std::string& method, const std::string& path, std::string_view body,
                   const std::vector<std::string>& headers) {
  std::string text =
      method + " " + path + " HTTP/1.1\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size());
  bool named = false;
  for (const std::string& line : headers) {
    text += "\r\n" + line;
    named = named || line.starts_with("Host:");
  }
  if (!named) text += "\r\nHost: 127.0.0.1:" + std::to_string(port);
  const Connection connection(port);
  connection.send(text + "\r\n\r\n");
  connection.send(body);
  const std::string all = connection.read_all();
  const std::size_t end = all.find("\r\n\r\n");
  if (end == std::string::npos) return {};
  return {.status = std::stoi(all.substr(all.find(' ') + 1)), .head = all.substr(0, end), .body = all.substr(end + 4)};
}

}  // namespace lockstep::test
