#include "support/http_server.h"

#include <algorithm>
#include <cctype>
#include <stdexcept>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep {
namespace test {
namespace {

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

HttpServer::Request parse(const std::string& text) {
  HttpServer::Request request;
  std::size_t end = text.find("\r\n");
  const std::string first = text.substr(0, end);
  const std::size_t space = first.find(' ');
  request.method = first.substr(0, space);
  request.path = first.substr(space + 1, first.rfind(' ') - space - 1);
  while (end + 2 < text.size()) {
    const std::size_t begin = end + 2;
    end = text.find("\r\n", begin);
    const std::size_t colon = text.find(": ", begin);
    if (end == begin || colon == std::string::npos || colon > end) break;
    request.fields[lower(text.substr(begin, colon - begin))] = text.substr(colon + 2, end - colon - 2);
  }
  return request;
}

}  // namespace

std::string HttpServer::Request::field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? std::string() : found->second;
}

HttpServer::HttpServer(Handler handler) : handler_(std::move(handler)) {
  socket_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof address;
  const bool listens = socket_ >= 0 && ::bind(socket_, reinterpret_cast<sockaddr*>(&address), bytes) == 0 &&
                       ::listen(socket_, 16) == 0 &&
                       ::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
  if (!listens) throw std::runtime_error("cannot listen on 127.0.0.1");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { accept_all(); });
}

HttpServer::~HttpServer() {
  ::shutdown(socket_, SHUT_RDWR);
  acceptor_.join();
  for (std::thread& connection : connections_) connection.join();
  ::close(socket_);
}

std::vector<std::string> HttpServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

void HttpServer::accept_all() {
  for (int connection = 0; (connection = ::accept(socket_, nullptr, nullptr)) >= 0;) {
    connections_.emplace_back([this, connection] { answer(connection); });
  }
}

void HttpServer::answer(int connection) {
  std::string text;
  char part[4096];
  while (text.find("\r\n\r\n") == std::string::npos) {
    const ssize_t bytes = ::recv(connection, part, sizeof part, 0);
    if (bytes <= 0) break;
    text.append(part, static_cast<std::size_t>(bytes));
  }
  if (text.find("\r\n\r\n") != std::string::npos) {
    const Request request = parse(text);
    {
      const std::lock_guard lock(mutex_);
      requests_.push_back(request.method + " " + request.path);
    }
    const std::string reply = handler_(request);
    for (std::size_t sent = 0; sent < reply.size();) {
      const ssize_t bytes = ::send(connection, reply.data() + sent, reply.size() - sent, MSG_NOSIGNAL);
      if (bytes <= 0) break;
      sent += static_cast<std::size_t>(bytes);
    }
  }
  ::shutdown(connection, SHUT_WR);
  while (::recv(connection, part, sizeof part, 0) > 0) {
  }
  ::close(connection);
}

std::string http_answer(const std::string& status, const std::vector<std::string>& fields, const std::string& body) {
  std::string text = "HTTP/1.1 " + status + "\r\nConnection: close\r\n";
  const bool stated =
      std::any_of(fields.begin(), fields.end(), [](const auto& f) { return f.starts_with("Content-Length:"); });
  if (!stated) text += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  for (const std::string& field : fields) text += field + "\r\n";
  return text + "\r\n" + body;
}

}  // namespace test
}  // namespace lockstep
