// Launches that repeat are replayed, and the device sees the same launches in the same order as if each were launched.
#include <gtest/gtest.h>

#include <random>

#include "backends/gpu/replay.h"
#include "support/fake_driver.h"

namespace lockstep {
inline namespace v0 {
namespace {

using gpu::Access;
using gpu::Command;
using test::FakeDevice;
using test::FakeDriver;
using Words = std::vector<std::uint32_t>;

struct Seen {
  const gpu::Module* module;
  std::uint32_t groups;
  Words words;
};

struct Log {
  std::vector<Seen> launches;
  std::vector<bool> overlaps;  // of what was recorded last
  int launched = 0, recorded = 0, changed = 0, replayed = 0, live = 0;
};

// Writes down what the device would run.
class Recorder : public FakeDriver {
 public:
  Recorder(Log& log, bool can_change)
      : FakeDriver(std::make_shared<FakeDevice>()), log_(log), can_change_(can_change) {}

  void launch(const gpu::Module& module, std::uint32_t groups, std::span<const std::uint32_t> words,
              std::span<const Access>) override {
    if (fails) throw BackendError("this launch failed");
    ++log_.launched;
    log_.launches.push_back({&module, groups, {words.begin(), words.end()}});
  }
  std::unique_ptr<gpu::Recording> record(std::span<const Command> commands) override {
    ++log_.recorded;
    auto recording = std::make_unique<List>(log_);
    log_.overlaps.clear();
    for (const Command& c : commands) {
      recording->launches.push_back(seen(c));
      log_.overlaps.push_back(c.overlaps);
    }
    return recording;
  }
  void replay(gpu::Recording& recording) override {
    ++log_.replayed;
    const auto& list = static_cast<List&>(recording).launches;
    log_.launches.insert(log_.launches.end(), list.begin(), list.end());
  }
  bool can_change() const override { return can_change_; }
  void change(gpu::Recording& recording, std::size_t launch, const Command& command) override {
    ++log_.changed;
    static_cast<List&>(recording).launches.at(launch) = seen(command);
  }
  bool fails = false;

 private:
  struct List : gpu::Recording {
    explicit List(Log& made_for) : log(made_for) { ++log.live; }
    ~List() override { --log.live; }
    Log& log;
    std::vector<Seen> launches;
  };
  static Seen seen(const Command& c) { return {c.module, c.groups, {c.words.begin(), c.words.end()}}; }

  Log& log_;
  bool can_change_;
};

class Replay : public ::testing::TestWithParam<bool> {
 protected:
  Replay() {
    auto recorder = std::make_unique<Recorder>(log_, GetParam());
    recorder_ = recorder.get();
    driver_ = std::make_unique<gpu::ReplayingDriver>(std::move(recorder));
    for (const char* body : {"a", "b", "c"}) {
      gpu::KernelText text;
      text.body = body;
      modules_.push_back(driver_->load(std::as_bytes(std::span(body, 1)), text));
    }
  }
  void launch(std::size_t module, std::uint32_t groups, const Words& words) {
    driver_->launch(*modules_[module], groups, words, {});
    ++count_;
  }
  // A step of n kernels whose words are `value`, but for those of launch `odd`.
  void step(std::size_t n, std::uint32_t value, std::size_t odd = 1000, std::uint32_t odd_value = 0) {
    for (std::size_t i = 0; i < n; ++i) {
      const std::uint32_t word = i == odd ? odd_value : value;
      launch(i % 3, 7, {word, static_cast<std::uint32_t>(i)});
      expected_.emplace_back(i % 3, Words{word, static_cast<std::uint32_t>(i)});
    }
    driver_->start();
  }
  void expect_the_same_launches() {
    ASSERT_EQ(log_.launches.size(), expected_.size());
    std::vector<const gpu::Module*> inner(3, nullptr);
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      const auto& [module, words] = expected_[i];
      EXPECT_EQ(log_.launches[i].words, words) << i;
      EXPECT_EQ(log_.launches[i].groups, 7u);
      if (inner[module] == nullptr) inner[module] = log_.launches[i].module;
      EXPECT_EQ(log_.launches[i].module, inner[module]) << i;
    }
  }

  Log log_;
  Recorder* recorder_ = nullptr;
  std::unique_ptr<gpu::ReplayingDriver> driver_;
  std::vector<std::unique_ptr<gpu::Module>> modules_;
  std::vector<std::pair<std::size_t, Words>> expected_;
  int count_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Drivers, Replay, ::testing::Bool());

TEST_P(Replay, TheSameListIsRecordedTheSecondTime) {
  for (int i = 0; i < 10; ++i) step(20, 5);
  expect_the_same_launches();
  EXPECT_EQ(log_.launched, 20);
  EXPECT_EQ(log_.recorded, 1);
  EXPECT_EQ(log_.replayed, 9);
}

TEST_P(Replay, LongStepsAreSeveralLists) {
  for (int i = 0; i < 4; ++i) step(300, 5);
  expect_the_same_launches();
  EXPECT_EQ(log_.launched, 300);
}

TEST_P(Replay, AFewOtherWordsAreChanged) {
  for (std::uint32_t i = 0; i < 6; ++i) step(20, 5, 3, i);
  step(20, 5, 3, 5);
  expect_the_same_launches();
  if (GetParam()) {
    EXPECT_EQ(log_.recorded, 1);
    EXPECT_EQ(log_.replayed, 6);
    EXPECT_EQ(log_.changed, 4) << "the first replay is of what was recorded, the last of the same words again";
  } else {
    EXPECT_EQ(log_.replayed, 1);
  }
}

TEST_P(Replay, MemoryThatAlternatesHasTwoRecordings) {
  for (std::uint32_t i = 0; i < 10; ++i) step(20, i % 2);
  expect_the_same_launches();
  EXPECT_EQ(log_.recorded, 2);
  EXPECT_EQ(log_.launched, 40);
}

// What a kernel reads before the one before it is over, no launch of the list may write.
TEST_P(Replay, OverlapsUnlessWhatIsReadEarlyIsWritten) {
  constexpr std::uint64_t kValue = 0x100;
  constexpr std::uint64_t kOther = 0x200;
  const auto list = [&](std::uint64_t weights) {
    for (std::uint32_t i = 0; i < 5; ++i) {
      const Access accesses[] = {{.address = i == 3 ? weights : kOther, .early = i == 3},
                                 {.address = i == 0 ? kValue : 0x300, .writes = true}};
      const Words words = {i};
      driver_->launch(*modules_[i % 3], 7, words, accesses);
    }
    driver_->start();
  };
  for (int i = 0; i < 2; ++i) list(kOther);
  EXPECT_EQ(log_.overlaps, (std::vector<bool>{false, true, true, true, true}));
  for (int i = 0; i < 2; ++i) list(kValue);
  EXPECT_EQ(log_.overlaps, (std::vector<bool>{false, true, true, false, true}));
  EXPECT_EQ(log_.recorded, 2);
}

TEST_P(Replay, RecordingsAreBounded) {
  for (std::uint32_t i = 0; i < 3000; ++i) {
    step(4 + i % 50, i / 2);
    step(4 + i % 50, i / 2);
  }
  expect_the_same_launches();
  EXPECT_LE(log_.live, 256);
  for (std::uint32_t i = 0; i < 20; ++i) {
    step(10, 100 + i);
    step(10, 100 + i);
  }
  driver_ = nullptr;
  EXPECT_EQ(log_.live, 0);
}

TEST_P(Replay, RandomStepsStayWhatTheyAre) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const std::size_t n = 1 + random() % 6 * 13;
    step(n, static_cast<std::uint32_t>(random() % 3), random() % 20, static_cast<std::uint32_t>(random() % 4));
  }
  expect_the_same_launches();
  EXPECT_GT(log_.replayed, 100);
}

TEST_P(Replay, OtherCallsStartWhatWasCollected) {
  const std::uint64_t memory = driver_->allocate(64);
  std::uint32_t word = 1;
  launch(0, 7, {1});
  driver_->upload(memory, &word, 4);
  EXPECT_EQ(log_.launches.size(), 1u);
  launch(0, 7, {1});
  driver_->download(&word, memory, 4);
  EXPECT_EQ(log_.launches.size(), 2u);
  launch(0, 7, {1});
  driver_->wait();
  EXPECT_EQ(log_.launches.size(), 3u);
  launch(0, 7, {1});
  driver_->release(memory);
  EXPECT_EQ(log_.launches.size(), 4u);
}

TEST_P(Replay, AFailedLaunchIsReportedOnce) {
  const std::uint64_t memory = driver_->allocate(64);
  recorder_->fails = true;
  launch(0, 7, {1});
  EXPECT_THROW(driver_->start(), BackendError);
  EXPECT_NO_THROW(driver_->start());
  launch(0, 7, {1});
  EXPECT_NO_THROW(driver_->release(memory)) << "releasing cannot fail";
  EXPECT_THROW(driver_->start(), BackendError) << "but the launch did";
  recorder_->fails = false;
  launch(0, 7, {1});
  EXPECT_NO_THROW(driver_->start());
}

TEST_P(Replay, ModulesOutliveTheirOwners) {
  launch(0, 7, {1});
  modules_.clear();
  EXPECT_NO_THROW(driver_->start());
  EXPECT_EQ(log_.launches.size(), 1u);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
