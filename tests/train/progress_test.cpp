// The lines that training shows.
#include <gtest/gtest.h>

#include <lockstep/train/progress.h>

namespace lockstep::test {
namespace {

const train::Progress kHalf{.epoch = 2,
                            .epochs = 3,
                            .batch = 50,
                            .batches = 100,
                            .loss = 0.12345,
                            .accuracy = 0.97123,
                            .samples_per_second = 4321.4,
                            .seconds_left = 75};

TEST(ProgressLine, SaysEverything) {
  EXPECT_EQ(train::progress_line(kHalf, 200),
            "epoch 2/3 [============>           ]  50 %  loss 0.1235  accuracy 97.12 %  4321 samples/s  1:15 left");
}

TEST(ProgressLine, LeavesOutWhatIsUnknownOrDoesNotFit) {
  EXPECT_EQ(train::progress_line({.batches = 4}, 200), "epoch 1/1 [>                       ]   0 %");
  EXPECT_EQ(train::progress_line(kHalf, 60), "epoch 2/3 [============>           ]  50 %  loss 0.1235");
  EXPECT_EQ(train::progress_line(kHalf, -3), "epoch 2/3");
}

TEST(EpochLine, HasTheTest) {
  EXPECT_EQ(
      train::epoch_line(kHalf, {.split = "test", .loss = 0.05, .accuracy = 0.985}, 3725),
      "epoch 2/3  loss 0.1235  accuracy 97.12 %  test loss 0.0500  test accuracy 98.50 %  4321 samples/s  1:02:05");
}

}  // namespace
}  // namespace lockstep::test
