#include "server/connection.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "server/http.h"
#include "support/http_client.h"

namespace lockstep::server {
namespace {

TEST(Connection, ToldWhenTheClientLeaves) {
  HttpServer http({.port = 0});
  std::atomic<int> seen = 0;  // 1: the handler runs, 2: the client is there, 3: it has left
  http.get("/wait", "/wait", [&](const Request& request) {
    seen = 1;
    if (!request.left()) seen = 2;
    for (int i = 0; i < 5000 && !request.left(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (request.left()) seen = 3;
    return Response{"{}"};
  });
  const int port = test::port_of(http.start());
  auto client = std::make_unique<test::Connection>(port);
  client->send("GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n");
  for (int i = 0; i < 5000 && seen < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(seen, 2);
  client.reset();
  for (int i = 0; i < 5000 && seen < 3; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(seen, 3);
}

TEST(Connection, OfUnknownPortsIsTakenToBeThere) {
  EXPECT_FALSE(client_of(1, 2)());
}

}  // namespace
}  // namespace lockstep::server
