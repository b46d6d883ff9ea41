// Checkpoints that several ranks write, each its slice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include <lockstep/error.h>
#include <lockstep/ops.h>
#include <lockstep/train/checkpoint.h>

#include "support/failing_calls.h"
#include "support/files.h"
#include "support/ranks.h"
#include "train/checkpoint_files.h"

namespace lockstep::train {
namespace {

using test::expect_success;
using test::message_of;
using test::run_ranks;
using test::TemporaryFolder;
using ::testing::HasSubstr;

constexpr int kTensors = 7;

// Of all ranks the same tensors, of which each has those of its number.
Checkpoint part_of(std::int64_t step, int rank, int ranks) {
  Checkpoint checkpoint{.step = step};
  nn::StateDict& state = checkpoint.parts["model"];
  for (int i = rank; i < kTensors; i += ranks) {
    state.push_back("t" + std::to_string(i), full({3, i}, 10.0 * static_cast<double>(step) + i));
  }
  if (rank == 0) {
    checkpoint.parts["loader"].push_back("position", Tensor::from(std::vector{step}, Shape(), Device{}));
    checkpoint.scalars["best"] = 0.5;
    checkpoint.texts["run"] = "mine";
  }
  return checkpoint;
}

std::vector<std::string> save(const std::string& folder, std::int64_t step, int ranks,
                              const std::function<os::SystemCalls*(int rank)>& calls = {}) {
  return run_ranks(ranks, [&](const dist::Group& group) {
    os::SystemCalls* own = calls ? calls(group.rank()) : nullptr;
    write_checkpoint(folder, part_of(step, group.rank(), ranks), group, {.keep = 2},
                     own == nullptr ? os::system_calls() : *own);
  });
}

void expect_whole(const Checkpoint& found, std::int64_t step) {
  EXPECT_EQ(found.step, step);
  ASSERT_EQ(found.part("model").size(), std::size_t{kTensors});
  const Checkpoint expected = part_of(step, 0, 1);
  EXPECT_EQ(nn::state_hash(found.part("model")), nn::state_hash(expected.part("model")));
  EXPECT_EQ(found.part("loader").find("position")->item<std::int64_t>(), step);
  EXPECT_EQ(found.scalars, expected.scalars);
  EXPECT_EQ(found.texts, expected.texts);
}

std::size_t files_in(const std::string& folder) {
  return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
}

TEST(CheckpointOfRanks, IsReadAsIfOneHadWrittenIt) {
  for (int ranks = 1; ranks <= 4; ++ranks) {
    const TemporaryFolder folder;
    const std::string run = folder.path("run");
    expect_success(save(run, 7, ranks));
    EXPECT_EQ(files_in(run), ranks == 1 ? 1u : static_cast<std::size_t>(ranks) + 1);
    expect_whole(load_checkpoint(run + "/step-000000007.safetensors"), 7);
  }
}

TEST(CheckpointOfRanks, OldOnesGoWithTheirSlices) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  for (const std::int64_t step : {1, 2, 3}) expect_success(save(run, step, static_cast<int>(step) + 1));
  EXPECT_EQ(list_checkpoints(run).size(), 2u);
  EXPECT_EQ(files_in(run), (1u + 3) + (1 + 4));
  expect_success(save(run, 3, 2));  // once more
  EXPECT_EQ(files_in(run), (1u + 3) + (1 + 2));
  expect_whole(load_latest(run).value(), 3);
  remove_checkpoint(list_checkpoints(run).back());
  EXPECT_EQ(files_in(run), 1u + 3);
  expect_whole(load_latest(run).value(), 2);
}

// Whatever call fails at whichever rank: the checkpoint before, or the new one where only tidying failed.
TEST(CheckpointOfRanks, AFullDiskAtOneRankLeavesTheOneBefore) {
  for (const int full : {0, 1, 2}) {
    const TemporaryFolder folder;
    const std::string run = folder.path("run");
    expect_success(save(run, 5, 3));
    test::FailingCalls calls(1, ENOSPC);
    const std::vector<std::string> ends = save(run, 5, 3, [&](int rank) { return rank == full ? &calls : nullptr; });
    EXPECT_TRUE(calls.failed());
    for (int rank = 0; rank < 3; ++rank) {
      EXPECT_THAT(
          ends[static_cast<std::size_t>(rank)],
          rank == full ? HasSubstr("No space left") : HasSubstr("rank " + std::to_string(full) + " could not write"));
    }
    expect_whole(load_latest(run).value(), 5);
    expect_success(save(run, 6, 2));
    expect_whole(load_latest(run).value(), 6);
    EXPECT_EQ(files_in(run), (1u + 3) + (1 + 2)) << "what was lost is removed";
  }
}

TEST(CheckpointOfRanks, ARankThatDiesMeanwhileLeavesTheOneBefore) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  expect_success(save(run, 5, 3));
  const std::vector<std::string> ends = run_ranks(3, [&](const dist::Group& group) {
    if (group.rank() == 1) {  // as far as it came
      group.all_gather(zeros({16}, {.dtype = DType::u8, .device = Device{}}) + 1);
      std::ofstream(run + "/slice-000000006-dead-1.safetensors") << "half";
      throw std::runtime_error("killed");
    }
    save_checkpoint(run, part_of(6, group.rank(), 3), group);
  });
  // What rank 0 sent may still lie unread there: then the connection is reset instead of closed.
  EXPECT_THAT(ends[0], testing::AnyOf(HasSubstr("rank 1 has ended"), HasSubstr("the connection with rank 1 broke")));
  expect_whole(load_latest(run).value(), 5);
}

TEST(CheckpointOfRanks, DamageIsFound) {
  const TemporaryFolder folder;
  const std::string run = folder.path("run");
  expect_success(save(run, 5, 2));
  const std::string path = list_checkpoints(run).back();
  const std::vector<Slice> slices = slices_of(path);
  ASSERT_EQ(slices.size(), 2u);
  const std::string first = run + "/" + slices[0].name;
  const std::string second = run + "/" + slices[1].name;
  std::filesystem::copy_file(first, folder.path("kept"));
  std::filesystem::copy_file(second, first, std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(message_of<FormatError>([&] { load_checkpoint(path); }), HasSubstr("is damaged, or of another one"));
  std::filesystem::remove(first);
  EXPECT_THROW(load_checkpoint(path), IoError);
  std::filesystem::copy_file(path, first);
  EXPECT_THAT(message_of<FormatError>([&] { load_checkpoint(path); }), HasSubstr("is no slice"));
  std::filesystem::remove(first);
  std::filesystem::copy_file(folder.path("kept"), first);
  expect_whole(load_checkpoint(path), 5);
}

}  // namespace
}  // namespace lockstep::train
