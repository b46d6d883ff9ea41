#include "server/http.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include <lockstep/error.h>

#include "support/files.h"
#include "support/http_client.h"

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

using test::Connection;
using test::HttpAnswer;
using test::port_of;
using test::request;
using testing::HasSubstr;
using testing::Not;

ServerOptions quick() {
  return {.port = 0, .body_bytes = 1000, .connections = 8, .waiting = 2, .seconds = 1};
}

// A server that gives back what it is sent.
struct Echo {
  explicit Echo(const ServerOptions& options = quick()) : server(options) {
    server.post("/echo", "/echo", [](const Request& given) { return Response{given.body, "text/plain"}; });
    server.get("/part/([a-z]+)", "/part", [](const Request& given) {
      return Response{given.parts.at(0), "text/plain"};
    });
    server.get("/value", "/value", [](const Request&) -> Response { throw ValueError("that is wrong"); });
    server.get("/memory", "/memory", [](const Request&) -> Response { throw std::bad_alloc(); });
    server.get("/device", "/device", [](const Request&) -> Response { throw BackendError("gone"); });
    server.get("/mine", "/mine", [](const Request&) -> Response { throw HttpError(418, "\x01 \xff"); });
    server.asset("/", "text/html", "<p>page</p>");
    port = port_of(server.start());
  }
  HttpServer server;
  int port = 0;
};

TEST(HttpServer, AnswersAndSaysWhatIsWrong) {
  const Echo echo;
  EXPECT_EQ(request(echo.port, "POST", "/echo", "hello").body, "hello");
  EXPECT_EQ(request(echo.port, "GET", "/part/abc").body, "abc");
  EXPECT_EQ(request(echo.port, "GET", "/health").json().at("status"), "ok");
  const HttpAnswer page = request(echo.port, "GET", "/");
  EXPECT_EQ(page.body, "<p>page</p>");
  EXPECT_THAT(page.head, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_THAT(page.head, HasSubstr("nosniff"));
  for (const auto& [path, status] : {std::pair{"/value", 400},
                                     {"/memory", 503},
                                     {"/device", 500},
                                     {"/mine", 418},
                                     {"/nothing", 404},
                                     {"/part/1", 404}}) {
    const HttpAnswer answer = request(echo.port, "GET", path);
    EXPECT_EQ(answer.status, status) << path;
    EXPECT_EQ(answer.json().at("error").at("code"), status) << path;
    EXPECT_FALSE(answer.json().at("error").at("message").get<std::string>().empty());
  }
  EXPECT_EQ(request(echo.port, "POST", "/nothing", "x").status, 404);
  EXPECT_THAT(request(echo.port, "GET", "/metrics").body,
              HasSubstr("lockstep_requests_total{path=\"/value\",status=\"400\"} 1"));
}

TEST(HttpServer, TakesBodiesOfAnyKindUpToALimit) {
  const Echo echo;
  const std::string most(1000, 'x');
  const std::string form = "Content-Type: application/x-www-form-urlencoded";
  EXPECT_EQ(request(echo.port, "POST", "/echo", most, {form}).body, most);
  EXPECT_EQ(request(echo.port, "POST", "/echo", most + "x").status, 413);
  EXPECT_EQ(request(echo.port, "POST", "/echo", std::string(100'000, 'x'), {form}).status, 413);
  EXPECT_EQ(request(echo.port, "POST", "/echo", "x", {"Content-Type: multipart/form-data; boundary=a"}).status, 415);
  // In chunks, whose sum is not announced.
  std::string chunks =
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 11; ++i) chunks += "64\r\n" + std::string(100, 'x') + "\r\n";
  const Connection connection(echo.port);
  connection.send(chunks + "0\r\n\r\n");
  EXPECT_THAT(connection.read_all(), HasSubstr(" 413 "));
}

TEST(HttpServer, SaysWhatABodyLacks) {
  const Echo echo;
  const Connection none(echo.port);
  none.send("POST /echo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(none.read_all(), HasSubstr("HTTP/1.1 411"));
  EXPECT_EQ(request(echo.port, "POST", "/echo", "").status, 200);
  const HttpAnswer packed = request(echo.port, "POST", "/echo", "x", {"Content-Encoding: gzip"});
  EXPECT_EQ(packed.status, 415);
  EXPECT_THAT(packed.body, HasSubstr("compressed"));
  EXPECT_THAT(request(echo.port, "GET", "/echo").body, HasSubstr("at this address for GET"));
}

// A line of 8 KiB would ask for the page 2,700 times.
TEST(HttpServer, AnswersAreWhole) {
  const Echo echo;
  std::string ranges = "Range: bytes=0-1";
  for (const char* asked : {"", ",0-,0-", ",-1"}) {
    ranges += asked;
    const HttpAnswer page = request(echo.port, "GET", "/", "", {ranges});
    EXPECT_EQ(page.status, 200);
    EXPECT_EQ(page.body, "<p>page</p>") << ranges;
  }
}

TEST(HttpServer, HeadersHaveABound) {
  const Echo echo;
  const Connection endless(echo.port);
  std::string lines;
  for (int i = 0; i < 400; ++i) lines += "X" + std::to_string(i) + ": " + std::string(4000, 'x') + "\r\n";
  try {
    endless.send("GET /health HTTP/1.1\r\nHost: localhost\r\n" + lines + "\r\n");
  } catch (const std::exception&) {  // it has closed meanwhile
  }
  EXPECT_THAT(endless.read_all(), Not(HasSubstr("200 OK")));
  lines.resize(lines.size() / 4);
  lines.resize(lines.rfind('\n') + 1);
  const Connection many(echo.port);
  many.send("GET /health HTTP/1.1\r\nHost: localhost\r\n" + lines + "\r\n");
  EXPECT_THAT(many.read_all(), HasSubstr("200 OK"));
}

TEST(HttpServer, RefusesOtherNamesAndOtherPages) {
  const Echo echo;
  EXPECT_EQ(request(echo.port, "GET", "/health", "", {"Host: example.org"}).status, 403);
  EXPECT_EQ(request(echo.port, "GET", "/health", "", {"Host: localhost"}).status, 200);
  EXPECT_EQ(request(echo.port, "POST", "/echo", "x", {"Origin: http://example.org"}).status, 403);
  EXPECT_EQ(request(echo.port, "POST", "/echo", "x", {"Origin: null"}).status, 403);
  EXPECT_EQ(request(echo.port, "POST", "/echo", "x", {"Host: localhost:1", "Origin: http://localhost:1"}).status, 200);
}

TEST(HttpServer, TheBodyOfARefusedRequestIsNoRequest) {
  const Echo echo;
  const std::string inner = "GET /part/inner HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const std::string length = "Content-Length: " + std::to_string(inner.size());
  for (const std::string& head : {std::string("POST /echo HTTP/1.1\r\nHost: example.org\r\n") + length,
                                  "POST /echo HTTP/1.1\r\nHost: localhost\r\nOrigin: http://example.org\r\n" + length,
                                  std::string("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000"),
                                  "GET /health HTTP/1.1\r\nHost: localhost\r\n" + length}) {
    const Connection connection(echo.port);
    connection.send(head + "\r\n\r\n");
    // The body comes by itself: what arrives with the head is lost with the buffer that the head was read into.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    connection.send(inner);
    connection.read_all();
    EXPECT_THAT(request(echo.port, "GET", "/metrics").body, Not(HasSubstr("path=\"/part\""))) << head;
  }
}

TEST(HttpServer, WantsItsToken) {
  ServerOptions options = quick();
  options.token = "secret";
  const Echo echo(options);
  EXPECT_EQ(request(echo.port, "POST", "/echo", "x").status, 401);
  EXPECT_EQ(request(echo.port, "POST", "/echo", "x", {"Authorization: Bearer secre"}).status, 401);
  EXPECT_EQ(request(echo.port, "GET", "/metrics").status, 401);
  EXPECT_EQ(request(echo.port, "POST", "/echo", "x", {"Authorization: Bearer secret"}).body, "x");
  EXPECT_EQ(request(echo.port, "GET", "/").status, 200);  // the page itself tells nothing
  EXPECT_EQ(request(echo.port, "GET", "/health").status, 200);
}

TEST(HttpServer, ListensElsewhereOnlyWithAToken) {
  EXPECT_THROW(HttpServer({.host = "0.0.0.0"}), ValueError);
  EXPECT_NO_THROW(HttpServer({.host = "0.0.0.0", .token = "x"}));
  EXPECT_THROW(HttpServer({.port = 70000}), ValueError);
  EXPECT_THROW(HttpServer({.connections = 0}), ValueError);
}

TEST(HttpServer, APortThatIsTakenIsAnError) {
  const Echo echo;
  HttpServer second({.port = echo.port});
  EXPECT_THAT(test::message_of<IoError>([&] { second.start(); }), HasSubstr("is it taken?"));
}

TEST(HttpServer, OutlivesClientsThatMisbehave) {
  const Echo echo;
  for (const char* bytes :
       {"", "\r\n\r\n", "GET", "GET / HTTP/1.1\r\nHost: localhost\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\nhalf",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
        "BREW /echo HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n"}) {
    {
      const Connection gone(echo.port);
      gone.send(bytes);
    }  // closed at once
    const Connection silent(echo.port);
    silent.send(bytes);
    const auto start = std::chrono::steady_clock::now();
    silent.read_all();  // it is the server that closes
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(8)) << bytes;
    EXPECT_EQ(request(echo.port, "POST", "/echo", "still there").body, "still there");
  }
  const Connection endless(echo.port);
  endless.send("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(1 << 20, 'x'));
  EXPECT_EQ(request(echo.port, "GET", "/health").status, 200);
}

// Who sends a byte now and then is never silent, and is answered all the same when the time is over.
TEST(HttpServer, ARequestHasItsTime) {
  ServerOptions options = quick();
  options.request_seconds = 1;
  options.seconds = 20;
  options.connections = 2;
  const Echo echo(options);
  for (const std::string& begun :
       {std::string("GET /health HTTP/1.1\r\nX: "),
        std::string("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n\r\n")}) {
    const Connection slow(echo.port);
    const auto start = std::chrono::steady_clock::now();
    slow.send(begun);
    for (int i = 0; i < 4; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      slow.send("x");
    }
    const std::string answer = slow.read_all();
    EXPECT_THAT(answer, HasSubstr("HTTP/1.1 408")) << begun;
    EXPECT_THAT(answer, HasSubstr("within 1 seconds"));
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
    EXPECT_EQ(request(echo.port, "POST", "/echo", "at once").body, "at once");
  }
}

TEST(HttpServer, AnAnswerHasItsTime) {
  ServerOptions options = quick();
  options.request_seconds = 1;
  HttpServer server(options);
  server.get("/slow", "/slow", [](const Request& given) -> Response {
    for (;;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      given.check_time();
    }
  });
  const int port = port_of(server.start());
  const HttpAnswer answer = request(port, "GET", "/slow");
  EXPECT_EQ(answer.status, 504);
  EXPECT_THAT(answer.body, HasSubstr("longer than 1 seconds"));
  options.request_seconds = 0;
  EXPECT_THROW(HttpServer{options}, ValueError);
}

// Something that a test lets go on.
class Gate {
 public:
  void wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }
  void await(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= count; });
  }
  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int waiting_ = 0;
  bool open_ = false;
};

TEST(HttpServer, TellsAHandlerWhenItsClientLeaves) {
  HttpServer http({.port = 0});
  std::atomic<int> seen = 0;  // 1: the handler runs, 2: the client is there, 3: it has left
  http.get("/wait", "/wait", [&](const Request& request) {
    seen = 1;
    if (!request.left()) seen = 2;
    for (int i = 0; i < 5000 && !request.left(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (request.left()) seen = 3;
    return Response{"{}"};
  });
  const int port = port_of(http.start());
  auto client = std::make_unique<Connection>(port);
  client->send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  for (int i = 0; i < 5000 && seen < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(seen, 2);
  client.reset();
  for (int i = 0; i < 5000 && seen < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(seen, 3);
}

TEST(HttpServer, ComputesInTurnAndRefusesTooManyWhoWait) {
  HttpServer server(quick());  // two may wait
  Gate gate;
  std::atomic<int> together{0};
  server.post("/slow", "/slow", [&](const Request& given) {
    return server.in_turn([&] {
      EXPECT_EQ(together.fetch_add(1), 0);
      if (given.body == "first") gate.wait();
      together.fetch_sub(1);
      return Response{given.body, "text/plain"};
    });
  });
  const int port = port_of(server.start());
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  threads.emplace_back([&] { answered += request(port, "POST", "/slow", "first").status == 200; });
  gate.await(1);
  for (int i = 0; i < 2; ++i)
    threads.emplace_back([&] { answered += request(port, "POST", "/slow", "later").status == 200; });
  while (request(port, "GET", "/metrics").body.find("lockstep_waiting 3") == std::string::npos)
    std::this_thread::yield();
  const HttpAnswer refused = request(port, "POST", "/slow", "one too many");
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.head, HasSubstr("Retry-After"));
  gate.open();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(answered, 3);
}

TEST(HttpServer, StopsWhenWhatHasBegunIsAnswered) {
  auto server = std::make_unique<HttpServer>(quick());
  Gate gate;
  server->get("/slow", "/slow", [&](const Request&) {
    gate.wait();
    return Response{"done", "text/plain"};
  });
  const int port = port_of(server->start());
  HttpAnswer answer;
  std::thread client([&] { answer = request(port, "GET", "/slow"); });
  gate.await(1);
  std::thread stopper([&] { server->stop(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  gate.open();
  stopper.join();
  client.join();
  EXPECT_EQ(answer.body, "done");
  EXPECT_THROW(Connection again(port), std::runtime_error);
}

}  // namespace
}  // namespace server
}  // namespace v0
}  // namespace lockstep
