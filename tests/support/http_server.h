// A server on this machine that answers as badly as a test asks: what its handler returns is sent as it is, and the
// connection is closed.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace test {

class HttpServer {
 public:
  struct Request {
    std::string method, path;
    std::map<std::string, std::string> fields;  ///< names in lower case
    std::string field(const std::string& name) const;
  };
  /// Called for each request, on several threads at once. "" closes the connection without an answer.
  using Handler = std::function<std::string(const Request&)>;

  explicit HttpServer(Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// "http://127.0.0.1:PORT", or with another name of this machine.
  std::string address(const std::string& host = "127.0.0.1") const {
    return "http://" + host + ":" + std::to_string(port_);
  }
  /// Of all requests so far, "GET /path".
  std::vector<std::string> requests() const;

 private:
  void accept_all();
  void answer(int connection);

  Handler handler_;
  int socket_ = -1;
  int port_ = 0;
  mutable std::mutex mutex_;
  std::vector<std::string> requests_;
  std::vector<std::thread> connections_;
  std::thread acceptor_;
};

/// "HTTP/1.1 200 OK" with Content-Length and these fields ("Name: value"), and the body.
std::string http_answer(const std::string& status, const std::vector<std::string>& fields = {},
                        const std::string& body = "");

}  // namespace test
}  // namespace lockstep
