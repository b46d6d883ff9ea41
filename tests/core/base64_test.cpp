#include "core/base64.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Base64, GivesTheExamplesOfRfc4648AndReadsThem) {
  for (const auto& [bytes, text] : {std::pair{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"},
                                    {"\xff\xfe\xfb", "//77"}}) {
    EXPECT_EQ(base64_of(bytes), text);
    EXPECT_EQ(bytes_of_base64(text), bytes);
  }
}

TEST(Base64, RefusesWhatIsNone) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zh==", "Zm9=", "Zm 9", "Zm9v\n", "====", "Zg==Zg==", "Zm-v"}) {
    EXPECT_EQ(bytes_of_base64(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace lockstep
