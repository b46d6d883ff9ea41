// The frame of `lockstep serve`: who may ask, how much, and how many at a time. What is answered is added as handlers.
// Only http.cpp and timed_server.cpp see cpp-httplib.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {
inline namespace v0 {
namespace server {

struct ServerOptions {
  std::string host = "127.0.0.1";
  int port = 8080;  ///< 0: any that is free
  /// What a client has to know ("Authorization: Bearer ..."). Required unless `host` is this machine alone.
  std::string token = {};
  std::size_t body_bytes = std::size_t{64} << 20;  ///< of a request, at most
  int connections = 64;                            ///< at a time; further ones wait
  int waiting = 32;                                ///< requests that wait for their turn to compute; more are refused
  int seconds = 10;                                ///< that a client may be silent while it sends or receives
  /// That a request may take to be here (else 408), and then its answer (504, by Request::check_time).
  int request_seconds = 600;
  /// How clients are told of an error; as it is by default.
  std::function<std::string(std::string_view message)> worded = [](std::string_view message) {
    return std::string(message);
  };
};

struct Request {
  std::string body;
  std::vector<std::string> parts;  ///< what the groups of the path's pattern matched
  /// Whether the client has closed the connection, so that nobody waits for the answer. Only while the handler runs.
  std::function<bool()> left = [] { return false; };
  /// Throws HttpError 504 once the answer takes longer than ServerOptions::request_seconds.
  std::function<void()> check_time = [] {};
};

/// Sends a part of an answer; false once the client has left.
using Write = std::function<bool(std::string_view part)>;

struct Response {
  std::string body;
  std::string type = "application/json";
  /// Instead of a body: called once, and sends the answer as it comes. What it throws cuts the answer off.
  std::function<void(const Write&)> stream = {};
};

/// An answer with another status than 200, and why.
class HttpError : public std::runtime_error {
 public:
  HttpError(int code, const std::string& message) : std::runtime_error(message), status(code) {}
  int status;
};

/// Throws HttpError where nobody waits for the answer any more, or has waited for too long.
inline void check_wanted(const Request& request) {
  if (request.left()) throw HttpError(499, "the client has left");
  request.check_time();
}

using Handler = std::function<Response(const Request&)>;

/// Answers requests until it is stopped. A handler may throw: HttpError gives its status, wrong input (ValueError,
/// ShapeError, FormatError and the like) 400, memory that runs out 503, anything else 500; all as JSON {"error": ...}
/// with the message and a type, as OpenAI's interface has it.
class HttpServer {
 public:
  /// Throws ValueError for a host other than this machine without a token, and for numbers below 1.
  explicit HttpServer(const ServerOptions& options);
  /// Stops.
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// `path` is a regular expression for the whole of it; `name` stands for it in the metrics. To be called before
  /// start().
  void get(const std::string& path, const std::string& name, Handler handler);
  void post(const std::string& path, const std::string& name, Handler handler);
  /// A part of the page, which everybody may read.
  void asset(const std::string& path, const std::string& type, std::string_view text);

  /// Adds to the metric lockstep_tokens_total of this kind.
  void count_tokens(const std::string& kind, std::uint64_t tokens);

  /// Listens, and answers in threads of its own. The address to open in a browser. Throws IoError if the port is taken.
  std::string start();
  /// Refuses new requests and waits for those that are being answered.
  void stop();

  /// Runs `work` when those that asked before are done, one at a time: what computes uses all threads by itself.
  /// HttpError 503 if too many wait already, or the server stops.
  template <typename Work> auto in_turn(Work work) {
    const Turn turn(*this, false);
    return work();
  }
  /// The same for a further step of a request that has begun: never refused, and behind the steps of all others.
  template <typename Work> auto step_in_turn(Work work) {
    const Turn turn(*this, true);
    return work();
  }

 private:
  class Turn {
   public:
    Turn(HttpServer& server, bool begun);
    ~Turn();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    HttpServer& server_;
  };
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace server
}  // namespace v0
}  // namespace lockstep
