#include <lockstep/error.h>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "core/call.h"

namespace lockstep::test {
namespace {

const CallSite kUsers("user.cpp", 41);
const CallSite kLayers("layer.cpp", 7);

std::string current() {
  const Call* const call = CallScope::current();
  if (call == nullptr) return "none";
  return (call->op != nullptr ? call->op : "unnamed") + std::string(" at ") + call->site.file + ":" +
         std::to_string(call->site.line);
}

TEST(CallScope, TheOutermostWins) {
  EXPECT_EQ(current(), "none");
  {
    const CallScope outer("layer_norm", kUsers);
    EXPECT_EQ(current(), "layer_norm at user.cpp:41");
    {
      const CallScope inner("rsqrt", kLayers);
      EXPECT_EQ(current(), "layer_norm at user.cpp:41");
    }
    EXPECT_EQ(current(), "layer_norm at user.cpp:41");
  }
  EXPECT_EQ(current(), "none");
}

TEST(CallScope, WithALineAloneIsNamedByWhatIsCalledWithin) {
  const CallScope container(kUsers);
  EXPECT_EQ(current(), "unnamed at user.cpp:41");
  {
    const CallScope layer("linear", kLayers);
    EXPECT_EQ(current(), "linear at user.cpp:41");
    const CallScope op("matmul", kLayers);
    EXPECT_EQ(current(), "linear at user.cpp:41");
  }
  EXPECT_EQ(current(), "unnamed at user.cpp:41");
  const CallScope container_within(kLayers);
  EXPECT_EQ(current(), "unnamed at user.cpp:41");
  const CallScope next("relu", kLayers);
  EXPECT_EQ(current(), "relu at user.cpp:41");
}

TEST(CallScope, EndsWithAnException) {
  try {
    const CallScope call("softmax", kUsers);
    throw std::runtime_error("out");
  } catch (const std::runtime_error&) {
    EXPECT_EQ(current(), "none");
  }
}

TEST(CallScope, IsOfOneThread) {
  const CallScope call("softmax", kUsers);
  std::string elsewhere;
  std::thread([&] {
    elsewhere = current();
    const CallScope other("relu", kLayers);
    elsewhere += ", " + current();
  }).join();
  EXPECT_EQ(elsewhere, "none, relu at layer.cpp:7");
  EXPECT_EQ(current(), "softmax at user.cpp:41");
}

TEST(CallScope, NamesTheLineThatItIsWrittenOn) {
  const int line = __LINE__ + 1;
  const CallScope call("op", CallSite());
  EXPECT_EQ(CallScope::current()->site.line, line);
}

TEST(CallExchange, PutsAnotherCallInItsPlaceForAWhile) {
  const CallScope call("backward", kUsers);
  {
    const Call forward{"sqrt", kLayers, true};
    const CallExchange exchange(&forward);
    EXPECT_EQ(current(), "sqrt at layer.cpp:7");
    const CallExchange users(nullptr);
    EXPECT_EQ(current(), "none");
    const CallScope theirs("relu", kLayers);
    EXPECT_EQ(current(), "relu at layer.cpp:7");
  }
  EXPECT_EQ(current(), "backward at user.cpp:41");
}

}  // namespace
}  // namespace lockstep::test
