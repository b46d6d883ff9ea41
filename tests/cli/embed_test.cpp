// lockstep embed of texts, as a user runs it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/io/numpy.h>
#include <lockstep/models/embed_text.h>
#include <lockstep/text/tokenizer.h>

#include "cli/run_command.h"
#include "support/data.h"

namespace lockstep::test {
namespace {

TEST(Embed, WritesAVectorForEachText) {
  const std::string weights = (test_data("tinyllm") / "stories260K-f32.gguf").string();
  LOCKSTEP_REQUIRE_DATA(weights);
  const TemporaryFolder folder;
  const std::string out = folder.path("out.npy");
  const auto model = models::load_language_model(weights);
  const auto tokens = text::Tokenizer::load(weights).encode("Tom had a dog");
  const CommandResult result =
      run_command({"embed", "--model", weights, "--json", "--out", out, "Tom had a dog", "Once"});
  ASSERT_EQ(result.exit_code, 0) << result.errors;
  const Tensor expected = models::embed_text(*model, tokens, {.pooling = models::Pooling::last});
  EXPECT_EQ(result.json().at(0).at("text"), "Tom had a dog");
  EXPECT_EQ(result.json().at(0).at("vector").get<std::vector<float>>(), expected.to_vector<float>());
  EXPECT_EQ(io::load_npy(out).shape(), (Shape{2, 64}));
  const CommandResult mean =
      run_command({"embed", "--model", weights, "--pooling", "mean", "--not-normalized", "--json", "Tom had a dog"});
  const Tensor plain = models::embed_text(*model, tokens, {.pooling = models::Pooling::mean, .normalize = false});
  EXPECT_EQ(mean.json().at(0).at("vector").get<std::vector<float>>(), plain.to_vector<float>());
  const CommandResult few = run_command({"embed", "--model", weights, "--dimensions", "8", "--json", "Tom had a dog"});
  EXPECT_EQ(few.json().at(0).at("vector").size(), 8);
  EXPECT_EQ(run_command({"embed", "--model", weights, "--dimensions", "65", "a"}).exit_code, 1);
  EXPECT_EQ(run_command({"embed", "--arch", "dinov2_vits14", "--dimensions", "8", "a"}).exit_code, 2);
  EXPECT_EQ(run_command({"embed", "--model", weights, "--dimensions", "8", "--not-normalized", "a"}).exit_code, 2);
  EXPECT_EQ(run_command({"embed", "a"}).exit_code, 2);
  EXPECT_EQ(run_command({"embed", "--model", weights, "--arch", "dinov2_vits14", "a"}).exit_code, 2);
  EXPECT_EQ(run_command({"embed", "--model", weights, "--pooling", "max", "a"}).exit_code, 2);
  EXPECT_EQ(run_command({"embed", "--arch", "dinov2_vits14", "--pooling", "mean", "a"}).exit_code, 2);
}

}  // namespace
}  // namespace lockstep::test
