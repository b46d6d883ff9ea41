#include "cli/user_message.h"

#include <gtest/gtest.h>

#include <new>
#include <system_error>

#include <lockstep/error.h>

namespace lockstep::cli {
namespace {

TEST(UserMessage, NamesNoPlacesInSources) {
  EXPECT_EQ(without_sources("fit: the loss is nan\n  fix: clip\n  at /build/src/cli/train.cpp:131"),
            "fit: the loss is nan\n  fix: clip");
  EXPECT_EQ(without_sources("a\n  at x.cpp:1\n  b"), "a\n  b");
  EXPECT_EQ(without_sources("  f32 [2]  exp at src/nn/module.h:7\n  rest"), "  f32 [2]  exp\n  rest");
  EXPECT_EQ(without_sources("x at a.cc:1 and y at at b.hpp:22, c at d:e.cpp:3:\n\n at at f.h:4\n"),
            "x and y at, c:\n\n");
  EXPECT_EQ(without_sources("  at x.cpp:1"), " ");  // the first line is no place alone
  EXPECT_EQ(without_sources("a\n  at x.cpp:1: b\n  at x.cpp:"), "a\n : b\n  at x.cpp:");
  EXPECT_EQ(without_sources("look at model.cpp, at noon: 12:30"), "look at model.cpp, at noon: 12:30");
}

template <typename Thrown> std::string message_of_thrown(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return message_of_current_exception();
  }
}

TEST(UserMessage, SaysWhatTheSystemRefused) {
  EXPECT_EQ(message_of_thrown(FormatError("x.png: \x1b[2J")), "x.png: ?[2J");
  EXPECT_EQ(message_of_thrown(std::bad_alloc()).substr(0, 13), "out of memory");
  const std::string refused =
      message_of_thrown(std::system_error(std::make_error_code(std::errc::resource_unavailable_try_again)));
  EXPECT_NE(refused.find("thread"), std::string::npos) << refused;
}

}  // namespace
}  // namespace lockstep::cli
