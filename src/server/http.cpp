#include "server/http.h"

#include <charconv>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>

#include "server/guard.h"
#include "server/timed_server.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostOfHeaders = std::size_t{1} << 20;  // and of what stands between chunks

struct Counted {
  std::uint64_t requests = 0;
  double seconds = 0;
};

void set_error(httplib::Response& response, int status, const std::string& message) {
  const char* type = status == 401 || status == 403 ? "permission_error"
                     : status < 500                 ? "invalid_request_error"
                                                    : "server_error";
  nlohmann::ordered_json body;
  nlohmann::ordered_json& error = body["error"];
  error["message"] = message;
  error["type"] = type;
  error["code"] = status;
  response.status = status;
  response.set_content(body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), "application/json");
}

}  // namespace

struct HttpServer::State {
  explicit State(const ServerOptions& given) : options(given) {}

  ServerOptions options;
  TimedServer http;
  std::thread listener;
  int port = 0;

  // The queue of those that want to compute: numbers are drawn and called.
  std::mutex mutex;
  std::condition_variable called;
  std::uint64_t drawn = 0;
  std::uint64_t current = 0;
  bool stopping = false;

  std::map<std::pair<std::string, int>, Counted> counts;  ///< by name and status
  std::map<std::string, std::uint64_t> tokens;            ///< by kind

  void count(const std::string& name, int status, Clock::time_point start) {
    const std::lock_guard lock(mutex);
    Counted& counted = counts[{name, status}];
    ++counted.requests;
    counted.seconds += std::chrono::duration<double>(Clock::now() - start).count();
  }

  std::string metrics() {
    const std::lock_guard lock(mutex);
    std::string text = "# HELP lockstep_requests_total Answered requests.\n# TYPE lockstep_requests_total counter\n";
    for (const auto& [key, counted] : counts) {
      text += fmt::format("lockstep_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", key.first, key.second,
                          counted.requests);
    }
    text +=
        "# HELP lockstep_request_seconds_total Time spent on them.\n# TYPE lockstep_request_seconds_total counter\n";
    for (const auto& [key, counted] : counts) {
      text += fmt::format("lockstep_request_seconds_total{{path=\"{}\",status=\"{}\"}} {:.6f}\n", key.first, key.second,
                          counted.seconds);
    }
    if (!tokens.empty()) {
      text +=
          "# HELP lockstep_tokens_total Of language models, in answered requests.\n# TYPE lockstep_tokens_total "
          "counter\n";
    }
    for (const auto& [kind, count] : tokens)
      text += fmt::format("lockstep_tokens_total{{kind=\"{}\"}} {}\n", kind, count);
    text += "# HELP lockstep_waiting Requests that compute or wait for it.\n# TYPE lockstep_waiting gauge\n";
    return text + fmt::format("lockstep_waiting {}\n", drawn - current);
  }

  // `read`: gives the body.
  template <typename Read>
  void answer(const std::string& name, const Handler& handler, const httplib::Request& request,
              httplib::Response& response, const Read& read) {
    const Clock::time_point start = Clock::now();
    try {
      Request given{.body = read(), .left = TimedServer::client_left()};
      given.check_time = [end = Clock::now() + std::chrono::seconds(options.request_seconds),
                          most = options.request_seconds] {
        if (Clock::now() > end) throw HttpError(504, fmt::format("the answer takes longer than {} seconds", most));
      };
      for (std::size_t i = 1; i < request.matches.size(); ++i) given.parts.push_back(request.matches[i].str());
      Response made = handler(given);
      response.status = 200;
      if (made.stream) {
        response.set_chunked_content_provider(
            made.type, [stream = std::move(made.stream)](std::size_t, httplib::DataSink& sink) {
              bool sent = true;
              stream([&](std::string_view part) {
                sent = sent && (part.empty() || sink.write(part.data(), part.size()));
                return sent;
              });
              if (sent) sink.done();
              return sent;
            });
      } else {
        response.set_content(std::move(made.body), made.type);
      }
    } catch (const HttpError& error) {
      set_error(response, error.status, error.what());
      if (error.status == 503 || error.status == 429) response.set_header("Retry-After", "1");
    } catch (const OutOfMemoryError& error) {
      set_error(response, 503, options.worded(error.what()));
    } catch (const BackendError& error) {
      set_error(response, 500, options.worded(error.what()));
    } catch (const Error& error) {
      set_error(response, 400, options.worded(error.what()));
    } catch (const std::bad_alloc&) {
      set_error(response, 503, "there is no memory left for this request");
    } catch (const std::exception& error) {
      set_error(response, 500, options.worded(error.what()));
    }
    count(name, response.status, start);
  }

  // Whatever kind the client says it is: cpp-httplib itself takes only short forms, and curl calls everything a form.
  std::string body_of(const httplib::Request& request, const httplib::ContentReader& reader) const {
    if (request.is_multipart_form_data()) {
      throw HttpError(415, "the request is in parts (multipart/form-data): send the bytes alone");
    }
    if (request.has_header("Content-Encoding")) throw HttpError(415, "the request is compressed: send it as it is");
    const std::string announced = request.get_header_value("Content-Length");
    if (announced.empty() && !request.has_header("Transfer-Encoding")) {
      throw HttpError(411, "the request has no body: a Content-Length is missing");
    }
    std::uint64_t length = 0;
    std::from_chars(announced.data(), announced.data() + announced.size(), length);
    bool too_large = length > options.body_bytes;
    std::string body;
    const bool whole = !too_large && reader([&](const char* data, std::size_t size) {
      too_large = size > options.body_bytes - body.size();
      if (!too_large) body.append(data, size);
      return !too_large;
    });
    if (too_large) throw HttpError(413, fmt::format("the request has more than {} bytes", options.body_bytes));
    if (!whole) throw HttpError(400, "the request ends before its announced length");
    return body;
  }

  // Whether a request may be answered at all; the refusal is in the response if not.
  bool admits(const httplib::Request& request, httplib::Response& response) {
    // Parts of answers: cpp-httplib would send a page thousands of times for one line of a request.
    const_cast<httplib::Request&>(request).ranges.clear();
    const std::string host = request.get_header_value("Host");
    if (is_loopback(options.host) && !names_this_machine(host)) {
      set_error(response, 403, fmt::format("this server is not called \"{}\"", printable_header(host)));
      return false;
    }
    // A page of another site may send requests, though it cannot read answers.
    const std::string origin = request.get_header_value("Origin");
    if (!origin.empty() && origin != "http://" + host && origin != "https://" + host) {
      set_error(response, 403, "requests of other pages are refused");
      return false;
    }
    const bool open = options.token.empty() || assets.contains(request.path) || request.path == "/health";
    if (!open && !equal_in_constant_time(request.get_header_value("Authorization"), "Bearer " + options.token)) {
      response.set_header("WWW-Authenticate", "Bearer");
      set_error(response, 401, "a token is needed: Authorization: Bearer ...");
      return false;
    }
    return true;
  }

  std::map<std::string, std::string_view> assets;
};

HttpServer::Turn::Turn(HttpServer& server, bool begun) : server_(server) {
  State& state = *server_.state_;
  std::unique_lock lock(state.mutex);
  if (!begun && state.stopping) throw HttpError(503, "the server stops");
  if (!begun && state.drawn - state.current > static_cast<std::uint64_t>(state.options.waiting)) {
    throw HttpError(503, fmt::format("{} requests wait already: try again later", state.options.waiting));
  }
  const std::uint64_t number = state.drawn++;
  state.called.wait(lock, [&] { return state.current == number; });
}

HttpServer::Turn::~Turn() {
  State& state = *server_.state_;
  const std::lock_guard lock(state.mutex);
  ++state.current;
  state.called.notify_all();
}

HttpServer::HttpServer(const ServerOptions& options) : state_(std::make_unique<State>(options)) {
  if (!is_loopback(options.host) && options.token.empty()) {
    throw ValueError(
        fmt::format("serve: {} can be reached from elsewhere\n  fix: give a token, or serve this machine "
                    "alone (127.0.0.1)",
                    options.host));
  }
  if (options.port < 0 || options.port > 65535 || options.connections < 1 || options.waiting < 1 ||
      options.seconds < 1 || options.request_seconds < 1) {
    throw ValueError("serve: a port, number of connections or seconds is out of range");
  }
  TimedServer& http = state_->http;
  // The answer's time begins where the request is here; what is written last may take as long as a silence.
  http.set_bounds(options.request_seconds, 2 * options.request_seconds + options.seconds,
                  options.body_bytes + kMostOfHeaders);
  http.new_task_queue = [threads = options.connections] {
    return new httplib::ThreadPool(static_cast<std::size_t>(threads));
  };
  http.set_payload_max_length(options.body_bytes);
  http.set_read_timeout(options.seconds);
  http.set_tcp_nodelay(true);
  http.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                            {"Cache-Control", "no-store"},
                            {"Referrer-Policy", "no-referrer"},
                            {"Content-Security-Policy",
                             "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src "
                             "'self' blob: data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}});
  http.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    return state_->admits(request, response) ? httplib::Server::HandlerResponse::Unhandled
                                             : httplib::Server::HandlerResponse::Handled;
  });
  http.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    const int status = response.status;
    set_error(response, status,
              status == 404   ? fmt::format("there is nothing at this address for {}", request.method)
              : status == 413 ? "the request is too large"
                              : "the request cannot be understood");
  });
  get("/health", "/health", [](const Request&) { return Response{"{\"status\":\"ok\"}"}; });
  get("/metrics", "/metrics", [this](const Request&) {
    return Response{state_->metrics(), "text/plain; version=0.0.4; charset=utf-8"};
  });
}

HttpServer::~HttpServer() {
  stop();
}

void HttpServer::count_tokens(const std::string& kind, std::uint64_t tokens) {
  const std::lock_guard lock(state_->mutex);
  state_->tokens[kind] += tokens;
}

void HttpServer::get(const std::string& path, const std::string& name, Handler handler) {
  state_->http.Get(path, [state = state_.get(), name, handler = std::move(handler)](const httplib::Request& request,
                                                                                    httplib::Response& response) {
    state->answer(name, handler, request, response, [] { return std::string(); });
  });
}

void HttpServer::post(const std::string& path, const std::string& name, Handler handler) {
  state_->http.Post(
      path, [state = state_.get(), name, handler = std::move(handler)](
                const httplib::Request& request, httplib::Response& response, const httplib::ContentReader& reader) {
        state->answer(name, handler, request, response, [&] { return state->body_of(request, reader); });
      });
}

void HttpServer::asset(const std::string& path, const std::string& type, std::string_view text) {
  state_->assets.emplace(path, text);
  get(path, path, [type, text](const Request&) { return Response{std::string(text), type}; });
}

std::string HttpServer::start() {
  State& state = *state_;
  const ServerOptions& options = state.options;
  // Without reuse of a port that somebody listens on.
  socket_t listening = 0;
  state.http.set_socket_options([&listening](socket_t socket) {
    const int on = 1;
    listening = socket;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, reinterpret_cast<const char*>(&on), sizeof on);
  });
  const bool bound = options.port == 0 ? (state.port = state.http.bind_to_any_port(options.host)) > 0
                                       : state.http.bind_to_port(options.host, state.port = options.port);
  if (!bound) {
    throw IoError(fmt::format("serve: cannot listen on {}:{}\n  fix: is it taken? Choose another --port, or 0 for any",
                              options.host, options.port));
  }
  // The library lets 5 wait to be taken: of more that come at once, the system loses some.
  ::listen(listening, options.connections + options.waiting);
  state.listener = std::thread([&state] { state.http.listen_after_bind(); });
  while (!state.http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const std::string host = options.host.find(':') == std::string::npos ? options.host : "[" + options.host + "]";
  return fmt::format("http://{}:{}/", host == "0.0.0.0" ? "127.0.0.1" : host, state.port);
}

void HttpServer::stop() {
  State& state = *state_;
  {
    const std::lock_guard lock(state.mutex);
    state.stopping = true;
  }
  state.http.stop();
  if (state.listener.joinable()) state.listener.join();
}

}  // namespace server
}  // namespace v0
}  // namespace lockstep
