#include "cli/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace lockstep::cli {
namespace {

const std::vector<std::string> kCommands{"info", "classify", "inspect", "replay", "check", "train", "demo"};

TEST(Suggest, FindsWhatWasMeant) {
  EXPECT_EQ(nearest("trian", kCommands), "train");
  EXPECT_EQ(nearest("tran", kCommands), "train");
  EXPECT_EQ(nearest("clasify", kCommands), "classify");
  EXPECT_EQ(nearest("insepct", kCommands), "inspect");
  EXPECT_EQ(nearest("cla", kCommands), "classify");
  EXPECT_EQ(did_you_mean("trian", kCommands), "; did you mean train?");
}

TEST(Suggest, AndNothingWhereNothingIsNear) {
  for (const char* word : {"", "x", "abacus", "unheard"}) EXPECT_EQ(did_you_mean(word, kCommands), "") << word;
}

}  // namespace
}  // namespace lockstep::cli
