#include "server/guard.h"

#include <gtest/gtest.h>

namespace lockstep {
inline namespace v0 {
namespace server {
namespace {

TEST(ServerGuard, KnowsThisMachine) {
  for (const char* host : {"127.0.0.1", "127.1.2.3", "localhost", "::1"}) EXPECT_TRUE(is_loopback(host)) << host;
  for (const char* host : {"0.0.0.0", "::", "10.0.0.1", "example.org", "127.0.0.1.example.org", ""}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

TEST(ServerGuard, KnowsTheNamesOfThisMachine) {
  for (const char* host : {"127.0.0.1:8080", "localhost", "LocalHost:1", "[::1]:80", "[::1]"}) {
    EXPECT_TRUE(names_this_machine(host)) << host;
  }
  for (const char* host : {"", "example.org", "example.org:8080", "127.0.0.1.example.org", "localhost.example.org",
                           "[::2]", "[::1", "[::1]x", "::1"}) {
    EXPECT_FALSE(names_this_machine(host)) << host;
  }
}

TEST(ServerGuard, TokensAreEqualOrNot) {
  EXPECT_TRUE(equal_in_constant_time("Bearer abc", "Bearer abc"));
  for (const char* given : {"", "Bearer ab", "Bearer abcd", "Bearer abd", "Bearer abcBearer abc"}) {
    EXPECT_FALSE(equal_in_constant_time(given, "Bearer abc")) << given;
  }
  EXPECT_FALSE(equal_in_constant_time("a", ""));
}

TEST(ServerGuard, HeadersAreShownHarmlessly) {
  EXPECT_EQ(printable_header("a\x1b[1m\xff"), "a?[1m?");
  EXPECT_EQ(printable_header(std::string(1000, 'x')).size(), 100u);
}

}  // namespace
}  // namespace server
}  // namespace v0
}  // namespace lockstep
