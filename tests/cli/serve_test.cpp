// lockstep serve as a user runs it: what is refused, and its processes. What it answers is tested in tests/server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"
#include "support/data.h"
#include "support/http_client.h"

namespace lockstep::test {
namespace {

using testing::HasSubstr;

TEST(Serve, RefusesWhatCannotBeServed) {
  const CommandResult nothing = run_command({"serve"});
  EXPECT_EQ(nothing.exit_code, 2);
  EXPECT_THAT(nothing.errors, HasSubstr("what to serve?"));
  EXPECT_EQ(run_command({"serve", "--segment", "x", "--port", "70000"}).exit_code, 2);
  const CommandResult open = run_command({"serve", "--segment", "x", "--host", "0.0.0.0"});
  EXPECT_EQ(open.exit_code, 1);
  EXPECT_THAT(open.errors, HasSubstr("give a token"));
  EXPECT_THAT(run_command({"serve", "--segment", "/no/such/file", "--port", "0"}).errors, HasSubstr("/no/such/file"));
  EXPECT_THAT(run_command({"serve", "--classify", "lenet"}).errors, HasSubstr("give lenet=FILE"));
}

// Ended by a signal, or by the death of a rank.
TEST(Serve, DividesAModelAmongProcessesThatEndTogether) {
  const std::string stories = (test_data("tinyllm") / "stories260K-f32.gguf").string();
  LOCKSTEP_REQUIRE_DATA(stories);
  EXPECT_THAT(run_command({"serve", "--segment", "x", "--ranks", "2"}).errors, HasSubstr("give --model"));
  const CommandResult one =
      run_command({"generate", "--model", stories, "--max-tokens", "8", "Once upon a time", "--json"});
  const std::string body = R"({"prompt":"Once upon a time","max_tokens":8,"temperature":0})";
  for (const bool kills : {false, true}) {
    RunningCommand serving({"serve", "--model", stories, "--ranks", "2", "--port", "0"});
    const int port = port_of(serving.first_line());
    const auto choice = request(port, "POST", "/v1/completions", body).json().at("choices").at(0);
    EXPECT_EQ(choice.at("tokens_hash"), one.json().at(0).at("tokens_hash"));
    if (kills) {
      ::kill(children_of(serving.id()).at(1), SIGKILL);
      const CommandResult end = serving.end();
      EXPECT_EQ(end.exit_code, 1);
      EXPECT_THAT(end.errors, HasSubstr("rank 1 was ended by SIGKILL"));
      EXPECT_THAT(end.errors, HasSubstr("lockstep: dist: "));  // of rank 0
    } else {
      const CommandResult end = serving.end(SIGTERM);
      EXPECT_EQ(end.exit_code, 0) << end.errors;
      EXPECT_THAT(end.errors, HasSubstr("stopping"));
    }
  }
}

}  // namespace
}  // namespace lockstep::test
