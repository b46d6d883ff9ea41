// A client that says exactly what it is told to, well-formed or not.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

namespace lockstep::test {

/// A connection to a server on this machine; closed at the end of the scope.
class Connection {
 public:
  explicit Connection(int port);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  void send(std::string_view bytes) const;
  /// What comes next, at least a byte; empty when the server has closed.
  std::string read_some() const;
  /// Everything until the server closes.
  std::string read_all() const;

 private:
  int socket_;
};

struct HttpAnswer {
  int status = 0;
  std::string head;
  std::string body;
  nlohmann::json json() const { return nlohmann::json::parse(body); }
};

/// The port of "http://127.0.0.1:PORT/".
int port_of(const std::string& url);
/// A whole request. `headers` are lines without their ends; Host and Content-Length are added.
HttpAnswer request(int port, const std::string& method, const std::string& path, std::string_view body = {},
                   const std::vector<std::string>& headers = {});

}  // namespace lockstep::test
