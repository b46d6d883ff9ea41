// Language models on every device of LOCKSTEP_TEST_DEVICES: one answer. The families are tests of their own, so that
// slow devices can be given a few of them (scripts/test_stages).
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/io/wav.h>
#include <lockstep/models/generate.h>
#include <lockstep/models/language.h>
#include <lockstep/models/lora.h>
#include <lockstep/models/speech.h>
#include <lockstep/numerics.h>
#include <lockstep/ops.h>
#include <lockstep/optim/adam.h>
#include <lockstep/random.h>

#include "support/data.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::models {
namespace {

class LanguageFamily : public testing::TestWithParam<std::string> {};

TEST_P(LanguageFamily, GivesTheSameBitsOnEveryDevice) {
  const std::string& name = GetParam();
  std::filesystem::path path = test::test_data("lm") / name;
  if (name == "rwkv5") path = test::test_data("tinyllm") / "rwkv" / "tiny-rwkv-5v2-730K-FP16.bin";
  if (name == "rwkv7") path = test::repository_data("language/models") / name;
  LOCKSTEP_REQUIRE_DATA(path);
  const bool pair = name == "t5" || name == "t5v11" || name == "whisper";
  std::uint64_t expected = 0;
  for (const Device& device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    const auto model = load_language_model(path.string(), device);
    const Tensor ids = (arange(0, 26, 1, {.dtype = DType::i64, .device = device}).reshape({2, 13}) * 7 + 3) % 30;
    const Tensor heard = linspace(-1, 1, 2 * 80 * 100, {.device = device}).reshape({2, 80, 100});
    const Tensor result = pair ? model->forward_pair(name == "whisper" ? heard : ids, ids) : model->forward(ids);
    const std::uint64_t hash = result.hash();
    if (expected == 0) expected = hash;
    EXPECT_EQ(hash, expected);
    if (pair || model->encoder()) continue;
    const auto cache = model->make_cache();
    std::vector<Tensor> parts;
    for (const std::int64_t length : {11, 1, 1}) {
      parts.push_back(model->forward(ids.narrow(1, cache->length(), length), cache.get()).eval());
    }
    EXPECT_EQ(cat(parts, 1).hash(), expected) << "with a cache";
  }
}

INSTANTIATE_TEST_SUITE_P(Of, LanguageFamily,
                         testing::Values("bert", "cohere", "deepseek_v2", "deepseek_v3", "distilbert", "falcon",
                                         "gemma", "gemma2", "gemma3", "glm4", "gpt2", "gpt_oss", "gptneox", "granite",
                                         "lfm2", "llama", "llama3rope", "mamba", "mamba2", "mistral", "mixtral",
                                         "modernbert", "nomic_bert", "olmo", "olmo2", "phi", "phi3", "qwen2", "qwen3",
                                         "qwen3_moe", "qwen3_next", "roberta", "rwkv4", "rwkv5", "rwkv7", "smollm3",
                                         "stablelm", "starcoder2", "t5", "t5v11", "whisper"),
                         [](const auto& family) { return family.param; });

TEST(LanguageDevices, TellTheSameStories) {
  for (const std::string type : {"f32", "q8_0", "q4_0"}) {
    const std::filesystem::path file = test::test_data("tinyllm") / ("stories260K-" + type + ".gguf");
    LOCKSTEP_REQUIRE_DATA(file);
    for (const Numerics numerics : {Numerics::exact, Numerics::q8}) {
      SCOPED_TRACE(type + (numerics == Numerics::q8 ? " in q8" : ""));
      const NumericsScope scope(numerics);
      std::vector<SampledToken> expected;
      for (const Device& device : test_devices()) {
        SCOPED_TRACE(device.to_string());
        const auto model = load_language_model(file.string(), device);
        const std::vector<SampledToken> told =
            generate(*model, std::vector<std::int64_t>{1, 403, 407, 261, 378}, {.max_tokens = 12}, {}, device);
        if (expected.empty()) expected = told;
        ASSERT_EQ(told.size(), expected.size());
        for (std::size_t i = 0; i < told.size(); ++i) {
          EXPECT_EQ(told[i].token, expected[i].token) << i;
          EXPECT_EQ(told[i].log_probability, expected[i].log_probability) << i;
        }
      }
    }
  }
}

TEST(LanguageDevices, LearnTheSame) {
  const std::filesystem::path folder = test::test_data("lm") / "llama";
  LOCKSTEP_REQUIRE_DATA(folder);
  for (const bool adapted : {false, true}) {
    std::uint64_t expected = 0;
    for (const Device& device : test_devices()) {
      SCOPED_TRACE(device.to_string() + (adapted ? ", an adapter" : ""));
      manual_seed(3);
      const auto model = load_language_model(folder.string(), device, {.packed = false});
      std::unique_ptr<LoraAdapter> adapter;
      if (adapted) adapter = std::make_unique<LoraAdapter>(*model, LoraOptions{.rank = 4});
      nn::Module& learning = adapted ? static_cast<nn::Module&>(*adapter) : *model;
      optim::AdamW optimizer(learning.parameters(), {.lr = 1e-3});
      const Tensor ids = (arange(0, 26, 1, {.dtype = DType::i64, .device = device}).reshape({2, 13}) * 7 + 3) % 90;
      for (int step = 0; step < 2; ++step) {
        const Tensor logits = model->forward(ids).narrow(1, 0, 12);
        optimizer.step(cross_entropy(logits.flatten(0, 1), ids.narrow(1, 1, 12).flatten()));
      }
      const std::uint64_t hash = nn::state_hash(learning.state_dict());
      if (expected == 0) expected = hash;
      EXPECT_EQ(hash, expected);
    }
  }
}

TEST(LanguageDevices, HearTheSame) {
  const std::filesystem::path weights = test::test_data("lm") / "whisper";
  LOCKSTEP_REQUIRE_DATA(weights);
  const std::filesystem::path goldens = test::repository_data("language/whisper");
  const test::TemporaryFolder folder;
  for (const char* name : {"config.json", "model.safetensors"})
    std::filesystem::copy_file(weights / name, folder.path(name));
  for (const char* name : {"tokenizer.json", "generation_config.json"}) {
    std::filesystem::copy_file(goldens / name, folder.path(name));
  }
  const Tensor samples =
      resample(io::load_wav((goldens / "sound.wav").string()).samples, kSpeechRate).narrow(0, 0, kSpeechRate);
  std::vector<std::int64_t> expected;
  double probability = 0;
  for (const Device& device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    const Transcription heard = SpeechModel::load(folder.path(""), device).transcribe(samples, {.language = "en"});
    ASSERT_FALSE(heard.segments.empty());
    if (expected.empty()) {
      expected = heard.tokens();
      probability = heard.segments[0].log_probability;
    }
    EXPECT_EQ(heard.tokens(), expected);
    EXPECT_EQ(heard.segments[0].log_probability, probability);
  }
}

}  // namespace
}  // namespace lockstep::models
