// lockstep serve as a user runs it: what is refused. What it answers is tested in tests/server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/run_command.h"
#include "support/data.h"

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

}  // namespace
}  // namespace lockstep::test
