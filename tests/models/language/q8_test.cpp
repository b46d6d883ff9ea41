// Language models in q8 numerics: one text, whatever computes it and however it is cut.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <lockstep/autograd.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/batch.h>
#include <lockstep/models/generate.h>
#include <lockstep/models/language.h>
#include <lockstep/numerics.h>
#include <lockstep/ops.h>
#include <lockstep/threads.h>

#include "support/data.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

std::string story_path(const std::string& type) {
  return test::test_data("tinyllm/stories260K-" + type + ".gguf").string();
}

Tensor story_ids(const std::string& type, Device device) {
  const io::TensorMap golden = io::load_weights(test::test_data("tinyllm/" + type + "_logits.safetensors").string());
  return golden.at("input_ids").to(DType::i64).reshape({1, -1}).narrow(1, 0, 16).to(device);
}

struct Story {
  std::string type;
  std::uint64_t logits;  ///< hash
  double largest;        ///< distance from those of exact products of the same weights
};
const Story kStories[] = {{"q8_0", 0x50a00919e0b0e12a, 0.5}, {"q4_0", 0xee96b09ea54be796, 0.5}};

TEST(Q8Language, LogitsAreTheSameOnEveryDeviceAndHoweverTheyAreCut) {
  LOCKSTEP_REQUIRE_DATA(story_path("q8_0"));
  const NoGrad no_grad;
  for (const Story& story : kStories) {
    SCOPED_TRACE(story.type);
    for (const Device& device : test_devices()) {
      const auto model = load_language_model(story_path(story.type), device);
      const Tensor ids = story_ids(story.type, device);
      const Tensor exact = model->forward(ids);
      const NumericsScope scope(Numerics::q8);
      const Tensor logits = model->forward(ids);
      EXPECT_EQ(logits.hash(), story.logits) << device.to_string() << std::hex << " " << logits.hash();
      EXPECT_LE(amax(abs(logits - exact)).item<float>(), story.largest);
      for (const std::int64_t chunk : {1, 7}) {
        const auto cache = model->make_cache();
        std::vector<Tensor> parts;
        for (const Tensor& part : ids.split(chunk, 1)) parts.push_back(model->forward(part, cache.get()).eval());
        EXPECT_BITS_EQ(cat(parts, 1), logits);
      }
      const Tensor twice = cat({ids.flip({1}), ids}, 0);
      EXPECT_BITS_EQ(model->forward(twice).narrow(0, 1, 1), logits);
    }
  }
}

TEST(Q8Language, TextsDoNotDependOnThreadsOrOnTheOthersOfABatch) {
  LOCKSTEP_REQUIRE_DATA(story_path("q8_0"));
  const NumericsScope scope(Numerics::q8);
  const int before = num_threads();
  for (const Story& story : kStories) {
    const auto model = load_language_model(story_path(story.type));
    const std::vector<std::vector<std::int64_t>> prompts = {{1, 403, 407, 261, 378}, {1, 400}, {1, 403, 407, 261}};
    const GenerateOptions options{.max_tokens = 40};
    std::vector<std::vector<SampledToken>> alone;
    for (const auto& prompt : prompts) alone.push_back(generate(*model, prompt, options));
    for (const int threads : {1, 2, 7}) {
      set_num_threads(threads);
      const auto together = generate_together(*model, prompts, options, 3);
      for (std::size_t i = 0; i < prompts.size(); ++i) {
        ASSERT_EQ(together[i].size(), alone[i].size());
        for (std::size_t t = 0; t < alone[i].size(); ++t) {
          ASSERT_EQ(together[i][t].token, alone[i][t].token) << story.type << " " << threads << " " << i << " " << t;
          ASSERT_EQ(together[i][t].log_probability, alone[i][t].log_probability) << story.type << " " << threads;
        }
      }
    }
    set_num_threads(before);
  }
}

}  // namespace
}  // namespace models
}  // namespace v0
}  // namespace lockstep
