#include "dist/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

Launch launched(const Variables& variables) {
  return launch_of([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}
std::string refusal(const Variables& variables) {
  try {
    launched(variables);
  } catch (const ValueError& error) {
    return error.what();
  }
  return "no error";
}

TEST(DistLaunch, WithoutVariablesAGroupOfOne) {
  EXPECT_EQ(launched({}).size, 1);
  // sbatch sets these for its one script, which is not started by srun.
  EXPECT_EQ(launched({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}}).size, 1);
}

TEST(DistLaunch, EveryLauncherIsUnderstood) {
  const Variables common{{"MASTER_ADDR", "node1"}, {"MASTER_PORT", "4321"}, {"LOCKSTEP_DIST_SECRET", "s"}};
  const Variables launchers[] = {
      {{"LOCKSTEP_RANK", "2"}, {"LOCKSTEP_WORLD_SIZE", "4"}, {"LOCKSTEP_LOCAL_RANK", "1"}},
      {{"RANK", "2"}, {"WORLD_SIZE", "4"}, {"LOCAL_RANK", "1"}},
      {{"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}},
      {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}},
      {{"SLURM_PROCID", "2"}, {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_LOCALID", "1"}}};
  for (Variables variables : launchers) {
    variables.insert(common.begin(), common.end());
    const Launch launch = launched(variables);
    EXPECT_EQ(launch.rank, 2);
    EXPECT_EQ(launch.size, 4);
    EXPECT_EQ(launch.local_rank, 1);
    EXPECT_EQ(launch.address, "node1");
    EXPECT_EQ(launch.port, 4321);
    EXPECT_EQ(launch.secret, "s");
  }
}

TEST(DistLaunch, OneMachineNeedsNoAddress) {
  const Launch launch = launched({{"OMPI_COMM_WORLD_RANK", "1"},
                                  {"OMPI_COMM_WORLD_SIZE", "2"},
                                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                                  {"LOCKSTEP_DIST_SECRET", "s"}});
  EXPECT_EQ(launch.address, "127.0.0.1");
  EXPECT_EQ(launch.port, 29500);
}

TEST(DistLaunch, NeverASilentGroupOfOne) {
  EXPECT_THAT(refusal({{"RANK", "0"}}), HasSubstr("RANK is set, WORLD_SIZE is not"));
  EXPECT_THAT(refusal({{"PMI_SIZE", "2"}}), HasSubstr("PMI_SIZE is set, PMI_RANK is not"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), HasSubstr("MASTER_ADDR"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}}), HasSubstr("LOCKSTEP_DIST_SECRET"));
}

TEST(DistLaunch, NumbersAreChecked) {
  EXPECT_THAT(refusal({{"RANK", "2"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK is '2'"));
  EXPECT_THAT(refusal({{"RANK", "-1"}, {"WORLD_SIZE", "2"}}), HasSubstr("RANK is '-1'"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "two"}}), HasSubstr("WORLD_SIZE is 'two'"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "99999999999"}}), HasSubstr("WORLD_SIZE is '99999999999'"));
  EXPECT_THAT(refusal({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "0"}}), HasSubstr("MASTER_PORT is '0'"));
}

TEST(DistLaunch, LaunchersThatContradictEachOtherAreNamed) {
  Variables both{{"RANK", "1"},         {"WORLD_SIZE", "2"},
                 {"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"},
                 {"MASTER_ADDR", "a"},  {"LOCKSTEP_DIST_SECRET", "s"}};
  EXPECT_THAT(refusal(both), HasSubstr("rank 1 of 2 (torchrun), rank 0 of 1 (srun)"));
  both["LOCKSTEP_LAUNCHER"] = "torchrun";
  EXPECT_EQ(launched(both).rank, 1);
  both["LOCKSTEP_LAUNCHER"] = "slurm";
  EXPECT_THAT(refusal(both), HasSubstr("LOCKSTEP_LAUNCHER is 'slurm'"));
}

}  // namespace
}  // namespace dist
}  // namespace v0
}  // namespace lockstep
