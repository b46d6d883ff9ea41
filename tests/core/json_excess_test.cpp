#include "core/json_excess.h"

#include <gtest/gtest.h>

#include <string>

namespace lockstep {
inline namespace v0 {
namespace {

std::string excess(const std::string& text, std::size_t depth, std::uint64_t values = UINT64_MAX) {
  const char* found = json_excess(text, depth, values);
  return found == nullptr ? "" : found;
}

TEST(JsonExcess, CountsWhatIsInsideOneAnother) {
  EXPECT_EQ(excess(R"({"a":[[1]]})", 3), "");
  EXPECT_EQ(excess(R"({"a":[[1]]})", 2), "nests too deep");
  EXPECT_EQ(excess(std::string(1000, '[') + std::string(1000, ']'), 1000), "");
  EXPECT_EQ(excess("[[],[],{},[{}]]", 3), "");
  EXPECT_EQ(excess("[[],[],{},[{}]]", 2), "nests too deep");
}

TEST(JsonExcess, TextsHoldNoBrackets) {
  EXPECT_EQ(excess(R"(["[[[[{{{{", "\"[[[[", "\\"])", 1), "");
  EXPECT_EQ(excess(R"(["\\", [1]])", 1), "nests too deep");
}

// What is no JSON is the parser's to refuse.
TEST(JsonExcess, TakesAnyText) {
  for (const char* text : {"", "]]]}}}", ":::", ",,,", "\"", "\"\\", "nul"}) EXPECT_EQ(excess(text, 1), "") << text;
}

TEST(JsonExcess, MembersOfAnObjectCountForThoseBeforeThem) {
  EXPECT_EQ(excess("[1,2,3]", 1, 3), "");
  EXPECT_EQ(excess("[1,2,3]", 1, 2), "has too many values");
  const std::string four = R"({"a":1,"b":2,"c":3,"d":4})";  // the object, three commas, and 1 + 2 + 3 + 4
  EXPECT_EQ(excess(four, 1, 14), "");
  EXPECT_EQ(excess(four, 1, 13), "has too many values");
  EXPECT_EQ(excess(R"([{"a":1},{"b":2}])", 2, 6), "");
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
