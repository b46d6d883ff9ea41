#include <lockstep/train/checkpoint.h>

#include <csignal>
#include <filesystem>
#include <limits>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/data/loader.h>
#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/nn.h>
#include <lockstep/ops.h>

#include "support/failing_calls.h"
#include "support/files.h"
#include "train/checkpoint_files.h"

namespace lockstep::train {
namespace {

using test::message_of;
using test::TemporaryFolder;

struct SavedNet : nn::Module {
  explicit SavedNet(std::int64_t width = 3) : layer(*this, "layer", 2, width) {}
  nn::Linear layer;
};

Checkpoint example(std::int64_t step = 7) {
  Checkpoint checkpoint{.step = step, .scalars = {{"best accuracy", 0.1}}, .texts = {{"arch", "lenet \"5\""}}};
  nn::StateDict state;
  state.push_back("a.weight", Tensor::from(std::vector<float>{1, 2, 3}, {3}));
  state.push_back("b", Tensor::from(std::vector<std::int64_t>{-1}, {}));
  checkpoint.parts.emplace("model", state);
  checkpoint.parts.emplace("nothing", nn::StateDict());
  return checkpoint;
}

TEST(Checkpoint, ComesBackAsItWas) {
  const TemporaryFolder folder;
  const std::string path = save_checkpoint(folder.path("run/1"), example());
  EXPECT_EQ(path, folder.path("run/1") + "/step-000000007.safetensors");
  const Checkpoint loaded = load_checkpoint(path);
  EXPECT_EQ(loaded.step, 7);
  EXPECT_EQ(loaded.scalars, example().scalars);
  EXPECT_EQ(loaded.texts, example().texts);
  EXPECT_EQ(loaded.parts.size(), 2u);
  EXPECT_EQ(loaded.part("nothing").size(), 0u);
  EXPECT_EQ(loaded.part("model").size(), 2u);
  EXPECT_EQ(loaded.part("model").find("a.weight")->to_vector<float>(), (std::vector<float>{1, 2, 3}));
  EXPECT_EQ(loaded.part("model").find("b")->item<std::int64_t>(), -1);
  EXPECT_THAT(message_of<ValueError>([&] { loaded.part("optimizer"); }),
              testing::HasSubstr("there is no part \"optimizer\"\n  fix: it has model, nothing"));
}

TEST(Checkpoint, PartsTakeAndGiveStates) {
  const TemporaryFolder folder;
  SavedNet net;
  Generator generator(5);
  generator.next_draw();
  const auto dataset = std::make_shared<data::TensorDataset>(zeros({10, 1}));
  data::DataLoader loader(dataset, {.shuffle = true, .seed = 4});
  for ([[maybe_unused]] const data::Batch& batch : loader) {
    if (loader.position() == 3) break;
  }
  Checkpoint saved{.step = 1};
  saved.add("model", net).add("loader", loader).add("generator", generator);
  save_checkpoint(folder.path("run"), saved);

  SavedNet other;
  Generator other_generator(6);
  data::DataLoader other_loader(dataset, {.shuffle = true});
  const auto found = load_latest(folder.path("run"));
  ASSERT_TRUE(found);
  found->restore("model", other);
  found->restore("generator", other_generator);
  found->restore("loader", other_loader);
  EXPECT_EQ(other.layer.weight.tensor().hash(), net.layer.weight.tensor().hash());
  EXPECT_EQ(other_generator.seed(), 5u);
  EXPECT_EQ(other_generator.draws(), 1u);
  EXPECT_EQ(other_loader.position(), 3);
  EXPECT_EQ(other_loader.seed(), 4u);
  EXPECT_THROW(found->restore("generator", other_loader), ValueError);
}

TEST(Checkpoint, RefusesAnotherModel) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path("run"), Checkpoint().add("model", SavedNet()));
  const Checkpoint loaded = *load_latest(folder.path("run"));
  SavedNet wider(4);
  EXPECT_THROW(loaded.restore("model", wider), ShapeError);
  struct Other : nn::Module {
    nn::Linear head{*this, "head", 2, 3};
  } other;
  EXPECT_THROW(loaded.restore("model", other), ValueError);
  SavedNet half;
  half.to(DType::f16);
  const std::uint64_t before = half.layer.weight.tensor().hash();
  EXPECT_THAT(message_of<DTypeError>([&] { loaded.restore("model", half); }),
              testing::HasSubstr("layer.weight was saved as f32, and the module has f16"));
  EXPECT_EQ(half.layer.weight.tensor().hash(), before);
}

TEST(Checkpoint, LatestIsTheHighestStep) {
  const TemporaryFolder folder;
  EXPECT_FALSE(load_latest(folder.path("run")));
  EXPECT_TRUE(list_checkpoints(folder.path("run")).empty());
  const std::int64_t large = 12'345'678'901;
  for (const std::int64_t step : {std::int64_t{5}, std::int64_t{0}, large, std::int64_t{999'999'999}}) {
    save_checkpoint(folder.path("run"), example(step), {.keep = 0});
  }
  EXPECT_EQ(load_latest(folder.path("run"))->step, large);
  EXPECT_EQ(list_checkpoints(folder.path("run")).size(), 4u);
  EXPECT_EQ(load_checkpoint(list_checkpoints(folder.path("run")).front()).step, 0);
  // Other files are not taken for checkpoints.
  for (const char* name : {"step-.safetensors", "step--1.safetensors", "step-1x.safetensors", "step-1", "log.csv"}) {
    folder.write(std::string("run/") + name, "");
  }
  EXPECT_EQ(list_checkpoints(folder.path("run")).size(), 4u);
}

TEST(Checkpoint, KeepsTheNewest) {
  const TemporaryFolder folder;
  const auto steps = [&] {
    std::vector<std::int64_t> result;
    for (const std::string& path : list_checkpoints(folder.path("run"))) result.push_back(load_checkpoint(path).step);
    return result;
  };
  for (std::int64_t step = 1; step <= 5; ++step) save_checkpoint(folder.path("run"), example(step), {.keep = 2});
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{4, 5}));
  save_checkpoint(folder.path("run"), example(5), {.keep = 2});  // again
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{4, 5}));
  save_checkpoint(folder.path("run"), example(2), {.keep = 1});  // back in time: nothing that is newer goes
  EXPECT_EQ(steps(), (std::vector<std::int64_t>{2, 4, 5}));
}

TEST(Checkpoint, FindsEveryDamage) {
  const TemporaryFolder folder;
  const std::string path = save_checkpoint(folder.path("run"), example());
  const std::string whole = test::read_whole_file(path);
  for (std::size_t size = 0; size < whole.size(); size += 41) {
    folder.write("cut", whole.substr(0, size));
    EXPECT_THROW(load_checkpoint(folder.path("cut")), FormatError) << size;
  }
  for (std::size_t byte = 0; byte < whole.size(); byte += 5) {
    std::string changed = whole;
    changed[byte] ^= 1;
    folder.write("changed", changed);
    try {
      const Checkpoint loaded = load_checkpoint(folder.path("changed"));
      ADD_FAILURE() << "byte " << byte << " of the file does not matter";
    } catch (const FormatError&) {
    }
  }
  io::save_safetensors(folder.path("weights"), {{"a", zeros({1})}});
  EXPECT_THAT(message_of<FormatError>([&] { load_checkpoint(folder.path("weights")); }),
              testing::HasSubstr("not a checkpoint"));
  EXPECT_THROW(load_checkpoint(folder.path("missing")), IoError);
  folder.write("run/step-000000008.safetensors", whole.substr(0, 50));
  EXPECT_THROW(load_latest(folder.path("run")), FormatError);
}

TEST(Checkpoint, RefusesNamesThatAreNotOne) {
  const TemporaryFolder folder;
  const auto save = [&](const Checkpoint& checkpoint, SaveCheckpointOptions options = {}) {
    save_checkpoint(folder.path("run"), checkpoint, options);
  };
  for (const char* name : {"", "a/b", "a,b", "scalars"}) {
    EXPECT_THROW(save({.parts = {{name, {}}}}), ValueError) << name;
  }
  EXPECT_THROW(save({.step = -1}), ValueError);
  EXPECT_THROW(save({}, {.keep = -1}), ValueError);
  EXPECT_THROW(save({.texts = {{"x", "\xff"}}}), ValueError);
  nn::StateDict twice;
  twice.push_back("a", zeros({1}));
  twice.push_back("a", zeros({1}));
  EXPECT_THROW(save({.parts = {{"model", twice}}}), ValueError);
  nn::StateDict undefined;
  undefined.push_back("a", Tensor());
  EXPECT_THROW(save({.parts = {{"model", undefined}}}), ValueError);
  EXPECT_FALSE(load_latest(folder.path("run")));
  folder.write("file", "");
  EXPECT_THROW(save_checkpoint(folder.path("file"), example()), IoError);
}

TEST(Checkpoint, AFailedSaveLeavesTheOneBefore) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path("run"), example(1));
  const std::string before = test::read_whole_file(list_checkpoints(folder.path("run"))[0]);
  bool failed = true;
  for (int call = 0; failed; ++call) {
    test::FailingCalls calls(call, ENOSPC);
    std::string error;
    try {
      write_checkpoint(folder.path("run"), example(2), {.keep = 1}, calls);
    } catch (const IoError& e) {
      error = e.what();
    }
    failed = calls.failed();
    EXPECT_EQ(failed, !error.empty()) << call;
    ASSERT_LT(call, 100);
    if (!failed || error.find("the new file is in place") != std::string::npos) continue;
    EXPECT_THAT(error, testing::HasSubstr("No space left on device"));
    const auto left = list_checkpoints(folder.path("run"));
    ASSERT_EQ(left.size(), 1u) << error;
    EXPECT_EQ(test::read_whole_file(left[0]), before);
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("run")), {}), 1);
  }
  EXPECT_EQ(load_latest(folder.path("run"))->step, 2);
}

TEST(Checkpoint, AFullDiskLeavesTheOneBefore) {
  const TemporaryFolder folder;
  save_checkpoint(folder.path("run"), example(1));
  Checkpoint large{.step = 2};
  large.add("model", SavedNet(100000));
  for (const auto& [name, tensor] : large.part("model")) tensor.eval();
  // The limit holds for a process, so a child has it. It must not compute: threads do not survive the fork.
  const pid_t child = ::fork();
  if (child == 0) {
    const struct rlimit limit = {100'000, 100'000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::signal(SIGXFSZ, SIG_IGN);
    try {
      save_checkpoint(folder.path("run"), large);
    } catch (const IoError&) {
      ::_exit(7);
    } catch (...) {
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(load_latest(folder.path("run"))->step, 1);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path("run")), {}), 1);
}

TEST(Checkpoint, RemovesWhatKilledSavesLeft) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("run"));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);  // a process that certainly is no more
  const std::string dead = "run/.lockstep-" + std::to_string(child) + "-0.tmp";
  const std::string alive = "run/.lockstep-" + std::to_string(::getpid()) + "-999.tmp";
  for (const std::string& name : {dead, alive, std::string("run/.lockstep-x.tmp")}) folder.write(name, "half");
  save_checkpoint(folder.path("run"), example());
  EXPECT_FALSE(std::filesystem::exists(folder.path(dead)));
  EXPECT_TRUE(std::filesystem::exists(folder.path(alive)));
  EXPECT_TRUE(std::filesystem::exists(folder.path("run/.lockstep-x.tmp")));
}

}  // namespace
}  // namespace lockstep::train
