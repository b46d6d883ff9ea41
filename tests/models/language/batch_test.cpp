#include <lockstep/models/batch.h>

#include <atomic>
#include <memory>
#include <random>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>

#include "core/os.h"
#include "graph/kernel_watch.h"
#include "support/data.h"

namespace lockstep::models {
namespace {

std::string stories_path(const char* type = "f32") {
  return (test::test_data("tinyllm") / (std::string("stories260K-") + type + ".gguf")).string();
}

std::vector<std::vector<std::int64_t>> random_prompts(std::size_t count, std::int64_t vocabulary,
                                                      std::mt19937& random) {
  std::vector<std::vector<std::int64_t>> prompts(count);
  for (auto& prompt : prompts) {
    const std::size_t length = 1 + random() % 20;
    for (std::size_t i = 0; i < length; ++i) prompt.push_back(static_cast<std::int64_t>(random()) % vocabulary);
  }
  return prompts;
}

void expect_as_alone(const LanguageModel& model, const std::vector<std::vector<std::int64_t>>& prompts,
                     const GenerateOptions& options, std::int64_t at_once, Device device, const std::string& what) {
  const auto together = generate_together(model, prompts, options, at_once, {}, device);
  ASSERT_EQ(together.size(), prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto alone = generate(model, prompts[i], options, {}, device);
    ASSERT_EQ(together[i].size(), alone.size()) << what << ", prompt " << i;
    for (std::size_t t = 0; t < alone.size(); ++t) {
      ASSERT_EQ(together[i][t].token, alone[t].token) << what << ", prompt " << i << ", token " << t;
      ASSERT_EQ(together[i][t].log_probability, alone[t].log_probability)
          << what << ", prompt " << i << ", token " << t;
    }
  }
}

// Texts of several lengths that come and go: each has the bits that it has alone.
TEST(GenerateTogether, GivesEachTextWhatItGetsAlone) {
  LOCKSTEP_REQUIRE_DATA(stories_path());
  const std::uint32_t seed = 7;
  std::mt19937 random(seed);
  for (const char* type : {"f32", "q4_0"}) {
    const auto model = load_language_model(stories_path(type));
    const auto prompts = random_prompts(9, model->vocabulary(), random);
    GenerateOptions options{.sampling = {.temperature = 0.9, .top_k = 40, .seed = 5, .repetition_penalty = 1.2},
                            .max_tokens = 24};
    options.end_tokens = {10, 11, 12, 13, 14};  // so that they end at different times
    for (const std::int64_t at_once : {1, 4, 16}) {
      expect_as_alone(*model, prompts, options, at_once, Device{}, fmt::format("{} {} seed {}", type, at_once, seed));
    }
  }
  const auto model = load_language_model(stories_path(), Device::parse("ref"));
  expect_as_alone(*model, random_prompts(3, model->vocabulary(), random), {.max_tokens = 4}, 3, Device::parse("ref"),
                  "ref");
}

// Windows, head norms, soft-caps, learned positions, fused and latent projections, experts, sinks, states.
TEST(GenerateTogether, WorksForAllFamilies) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  std::mt19937 random(11);
  int batched = 0;
  for (const os::DirectoryEntry& entry : os::list_directory(root.string())) {
    if (!entry.is_directory) continue;
    const auto model = load_language_model((root / entry.name).string());
    if (!StepBatch::supports(*model)) continue;
    ++batched;
    expect_as_alone(*model, random_prompts(2, model->vocabulary(), random), {.max_tokens = 3}, 2, Device{}, entry.name);
  }
  EXPECT_EQ(batched, 31);
}

// Rows that nobody steps keep their states, and rows of texts that left are taken again or given back.
TEST(StepBatch, KeepsTheStatesOfTextsThatWait) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  for (const char* name : {"mamba2", "rwkv4", "qwen3_next"}) {
    const auto model = load_language_model((root / name).string());
    const std::vector<std::int64_t> tokens = {5, 9, 77, 31, 8, 200, 13, 60, 2, 91};
    const auto alone = [&](std::size_t count) {
      const auto length = static_cast<std::int64_t>(count);
      const Tensor ids = Tensor::from(std::vector(tokens.begin(), tokens.begin() + length), {1, length});
      return model->forward(ids).select(0, 0).select(0, length - 1).to_vector<float>();
    };
    StepBatch batch(*model);
    const auto join = [&] {
      const auto cache = model->make_cache();
      model->forward(Tensor::from(std::vector(tokens.begin(), tokens.begin() + 2), {1, 2}), cache.get());
      return batch.join(*cache);
    };
    const std::int64_t first = join();
    const std::int64_t second = join();
    const std::int64_t third = join();
    for (std::size_t i = 2; i < 5; ++i) EXPECT_EQ(batch.step({{second, tokens[i]}}).front(), alone(i + 1)) << name;
    EXPECT_EQ(batch.step({{first, tokens[2]}}).front(), alone(3)) << name;
    batch.leave(second);
    const std::int64_t fourth = join();
    EXPECT_EQ(batch.size(), 3);
    EXPECT_EQ(batch.step({{fourth, tokens[2]}, {third, tokens[2]}}), (std::vector{alone(3), alone(3)})) << name;
    batch.leave(third);
    for (std::size_t i = 3; i < 10; ++i) EXPECT_EQ(batch.step({{first, tokens[i]}}).front(), alone(i + 1)) << name;
    EXPECT_EQ(batch.step({{fourth, tokens[3]}}).front(), alone(4)) << name;
  }
}

// Texts lie in bands by their room of 256, 512, 1,024 tokens and go from one to the next: keys, windows, sinks, latent
// projections, and layers with a state between those with keys.
TEST(StepBatch, GivesTextsOfAllLengthsWhatTheyGetAlone) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  for (const char* name : {"llama", "gemma3", "gpt_oss", "deepseek_v3", "qwen3_next", "lfm2"}) {
    const auto model = load_language_model((root / name).string());
    StepBatch batch(*model);
    std::mt19937 random(3);
    const auto draw = [&] { return static_cast<std::int64_t>(random()) % model->vocabulary(); };
    struct One {
      std::unique_ptr<LanguageCache> cache;
      std::int64_t number = 0;
    };
    std::vector<One> texts;
    std::int64_t bytes_alone = 0;
    for (const std::int64_t length : {254, 5, 509, 252}) {
      One one{.cache = model->make_cache()};
      std::vector<std::int64_t> prompt(static_cast<std::size_t>(length));
      for (std::int64_t& token : prompt) token = draw();
      model->forward(Tensor::from(prompt, {1, length}), one.cache.get()).eval();
      one.number = batch.join(*one.cache);
      StepBatch alone(*model);
      alone.join(*one.cache);
      bytes_alone += alone.bytes();
      texts.push_back(std::move(one));
    }
    EXPECT_EQ(batch.bytes(), bytes_alone) << name;
    for (int step = 0; step < 6; ++step) {
      std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
      std::vector<std::vector<float>> expected;
      for (std::size_t i = 0; i < texts.size(); ++i) {
        if (i == 3 && step % 3 == 1) continue;  // one that waits
        tokens.emplace_back(texts[i].number, draw());
        const Tensor ids = Tensor::from(std::vector{tokens.back().second}, {1, 1});
        expected.push_back(model->forward(ids, texts[i].cache.get()).to_vector<float>());
      }
      ASSERT_EQ(batch.step(tokens), expected) << name << ", step " << step;
      if (step == 3) {
        batch.leave(texts.back().number);
        texts.pop_back();
        texts[1].number = batch.join(*batch.cache_of(texts[1].number));  // a copy goes on
      }
    }
  }
}

/// While it lives the device has no memory for the flush of this number.
class WithoutMemory {
 public:
  explicit WithoutMemory(int flush) : watch_(std::make_shared<Watch>(flush)) { graph::add_watch(watch_); }
  ~WithoutMemory() { graph::remove_watch(watch_.get()); }
  WithoutMemory(const WithoutMemory&) = delete;
  WithoutMemory& operator=(const WithoutMemory&) = delete;

 private:
  struct Watch : graph::KernelWatch {
    explicit Watch(int flush) : left(flush) {}
    std::unique_ptr<graph::FlushWatch> begin(Backend& /*backend*/, const graph::Window& /*window*/,
                                             const graph::Plan& /*plan*/) override {
      if (left-- == 0) throw OutOfMemoryError("a test has taken all memory");
      return nullptr;
    }
    std::atomic<int> left;
  };
  std::shared_ptr<Watch> watch_;
};

// Keys and values, in one tensor and in two, and states. A text comes behind the others, takes the row of one that
// left, and rows are given back: wherever memory runs out, the others go on as if nothing had been.
TEST(StepBatch, LosesNothingWhenMemoryRunsOut) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  for (const auto& [name, type] : {std::pair{"llama", CacheType::f32}, std::pair{"qwen3", CacheType::q8_0},
                                   std::pair{"qwen3_next", CacheType::f32}}) {
    SCOPED_TRACE(fmt::format("{} {}", name, cache_type_name(type)));
    const auto model = load_language_model((root / name).string(), {}, {.cache = type});
    StepBatch batch(*model);
    std::mt19937 random(5);
    const auto draw = [&] { return static_cast<std::int64_t>(random()) % model->vocabulary(); };
    struct One {
      std::unique_ptr<LanguageCache> cache;
      std::int64_t number = 0;
    };
    std::vector<One> texts;
    const auto read = [&] {
      One one{.cache = model->make_cache()};
      model->forward(Tensor::from(std::vector{draw(), draw(), draw()}, {1, 3}), one.cache.get()).eval();
      return one;
    };
    const auto step = [&](int failing) {
      std::vector<std::pair<std::int64_t, std::int64_t>> tokens;
      std::vector<std::vector<float>> expected;
      for (const One& one : texts) {
        tokens.emplace_back(one.number, draw());
        const Tensor ids = Tensor::from(std::vector{tokens.back().second}, {1, 1});
        expected.push_back(model->forward(ids, one.cache.get()).to_vector<float>());
      }
      if (failing >= 0) {
        const WithoutMemory none(failing);
        EXPECT_THROW(batch.step(tokens), OutOfMemoryError);
      }
      ASSERT_EQ(batch.step(tokens), expected);
    };
    // Fails at one flush after the other, until there are no more of them, with a step after those from `first` to
    // `last`: where rows are free, more steps would give them back.
    const auto join = [&](int first = 0, int last = 1 << 20) {
      One one = read();
      const std::int64_t size = batch.size();
      const std::int64_t bytes = batch.bytes();
      int failures = 0;
      for (bool joined = false; !joined;) {
        try {
          const WithoutMemory none(failures);
          one.number = batch.join(*one.cache);
          joined = true;
        } catch (const OutOfMemoryError&) {
          EXPECT_EQ(batch.size(), size);
          EXPECT_EQ(batch.bytes(), bytes);
          if (failures >= first && failures <= last) step(-1);
          ++failures;
        }
      }
      texts.push_back(std::move(one));
      EXPECT_EQ(batch.size(), size + 1);
      step(-1);
      return failures;
    };
    const auto leave = [&](std::size_t text) {
      batch.leave(texts[text].number);
      texts.erase(texts.begin() + static_cast<std::ptrdiff_t>(text));
    };
    const int alone = join();
    const int behind = join();
    EXPECT_GT(behind, alone);
    EXPECT_EQ(join(), behind);
    leave(1);
    EXPECT_GE(join(alone, alone + 2), behind);  // in its place
    leave(0);
    const std::int64_t bytes = batch.bytes();
    for (int i = 0; i < 4; ++i) step(-1);
    EXPECT_EQ(batch.bytes(), bytes);
    step(1);
    EXPECT_LT(batch.bytes(), bytes);
  }
}

TEST(GenerateTogether, StopsATextThatNobodyWants) {
  LOCKSTEP_REQUIRE_DATA(stories_path());
  const auto model = load_language_model(stories_path());
  const auto result = generate_together(*model, {{1, 403}, {1, 407}}, {.max_tokens = 8}, 2,
                                        [](std::size_t prompt, const SampledToken&) { return prompt != 0; });
  EXPECT_EQ(result[0].size(), 1U);
  EXPECT_EQ(result[1].size(), 8U);
}

TEST(StepBatch, RefusesWhatIsNotThere) {
  LOCKSTEP_REQUIRE_DATA(stories_path());
  const auto model = load_language_model(stories_path());
  StepBatch batch(*model);
  EXPECT_TRUE(batch.step({}).empty());
  const auto cache = model->make_cache();
  EXPECT_THROW(batch.join(*cache), ValueError);  // nothing in it
  model->forward(Tensor::from(std::vector<std::int64_t>{1, 2}, {1, 2}), cache.get());
  const std::int64_t text = batch.join(*cache);
  EXPECT_EQ(batch.length(text), 2);
  EXPECT_THROW(batch.step({{text + 1, 0}}), IndexError);
  EXPECT_THROW(batch.step({{text, 512}}), IndexError);
  EXPECT_THROW(batch.step({{text, 1}, {text, 1}}), ValueError);
  EXPECT_EQ(batch.length(text), 2);
  batch.leave(text);
  EXPECT_THROW(batch.leave(text), IndexError);
  EXPECT_EQ(batch.size(), 0);
  const auto other = load_language_model(stories_path());
  StepBatch others(*other);
  EXPECT_THROW(others.join(*cache), ValueError);
  EXPECT_THROW(generate_together(*model, {{1}}, {.speculation = {.lookup = 2}}), ValueError);
  EXPECT_THROW(generate_together(*model, {{}}), ValueError);
}

}  // namespace
}  // namespace lockstep::models
