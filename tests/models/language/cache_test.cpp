#include "models/language/cache.h"

#include <random>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io/gguf.h>
#include <lockstep/models/batch.h>
#include <lockstep/ops.h>

#include "core/device.h"
#include "graph/window.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::models {
namespace {

using test::message_of;
using testing::HasSubstr;

constexpr CacheType kTypes[] = {CacheType::f32, CacheType::f16, CacheType::bf16, CacheType::q8_0};

Tensor random_heads(Shape shape, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (float& value : values) value = normal(random) * 3;
  return Tensor::from(values, shape);
}

// What is remembered is what a cast, or io::quantize with Q8_0, makes of it.
TEST(HeldHeads, RoundsOnceWhenItIsWritten) {
  Tensor heads = random_heads({2, 3, 5, 64}, 1);
  heads = slice_scatter(heads, zeros({2, 3, 1, 64}), 2, {.start = 1, .stop = 2});
  for (const CacheType type : kTypes) {
    Tensor expected = heads;
    if (type == CacheType::f16) expected = heads.to(DType::f16).to(DType::f32);
    if (type == CacheType::bf16) expected = heads.to(DType::bf16).to(DType::f32);
    if (type == CacheType::q8_0) {
      expected = dequantize(io::quantize(heads.reshape({-1, 64}), Encoding::q8_0)).reshape(heads.shape());
    }
    for (const char* device : {"cpu", "ref"}) {
      HeldHeads held(type);
      held.put({0, 5}, heads.to(Device::parse(device)));
      EXPECT_EQ(held.places(), 256);
      EXPECT_BITS_EQ(held.all().narrow(2, 0, 5).to(Device{}), expected) << cache_type_name(type) << " " << device;
      EXPECT_EQ(sum(abs(held.all().narrow(2, 5, 251))).item<float>(), 0);
      held.clear({2, 3});
      EXPECT_EQ(sum(abs(held.all().narrow(2, 2, 254))).item<float>(), 0);
    }
  }
}

TEST(HeldHeads, GrowsInSteps) {
  HeldHeads held(CacheType::q8_0);
  std::vector<std::int64_t> places;
  for (std::int64_t end = 0; end < 1000; end += 100) {
    held.put({end, 100}, random_heads({1, 2, 100, 32}, 2));
    held.eval();
    places.push_back(held.places());
  }
  EXPECT_EQ(places, (std::vector<std::int64_t>{256, 256, 512, 512, 512, 768, 768, 1280, 1280, 1280}));
  EXPECT_EQ(held.bytes(), 1280 * 2 * (32 + 2));
}

const char* kCachedModel =
    R"({"model_type": "qwen3", "vocab_size": 64, "hidden_size": 48, "intermediate_size": 40, "head_dim": 32,
                         "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2})";

std::unique_ptr<LanguageModel> small_model(const std::string& config = kCachedModel) {
  auto model = create_language_model(config);
  // Larger weights than those of a model before training, whose logits hardly differ.
  const NoGrad no_grad;
  std::uint32_t seed = 10;
  for (auto& [name, parameter] : model->named_parameters()) {
    if (parameter.tensor().rank() > 1) parameter = random_heads(parameter.tensor().shape(), seed++) * 0.1;
  }
  model->eval();
  return model;
}

Tensor cached(const LanguageModel& model, const Tensor& ids, std::int64_t chunk) {
  const auto cache = model.make_cache();
  std::vector<Tensor> parts;
  for (const Tensor& part : ids.split(chunk, 1)) parts.push_back(model.forward(part, cache.get()).eval());
  return cat(parts, 1);
}

// Whatever it is made of: in one piece, in chunks, token by token, a row alone, a row of a batch, on ref.
TEST(LanguageCache, OfEveryTypeGivesTheSameBitsHoweverItIsFilled) {
  const auto model = small_model();
  const auto on_ref = small_model();
  on_ref->to(Device::parse("ref"));
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < 48; ++i) numbers.push_back((i * i * 7 + 3 * i) % 64);
  const Tensor ids = Tensor::from(numbers, {2, 24});
  std::vector<std::uint64_t> hashes;
  for (const CacheType type : kTypes) {
    model->set_cache_type(type);
    on_ref->set_cache_type(type);
    const Tensor whole = cached(*model, ids, 24);
    hashes.push_back(whole.hash());
    for (const std::int64_t chunk : {1, 7}) EXPECT_EQ(cached(*model, ids, chunk).hash(), whole.hash());
    EXPECT_EQ(cached(*model, ids.narrow(0, 1, 1), 5).hash(), whole.narrow(0, 1, 1).hash());
    EXPECT_EQ(cached(*on_ref, ids.to(Device::parse("ref")), 9).hash(), whole.hash());
    const std::vector<std::vector<std::int64_t>> prompts = {{1, 2, 3}, {7, 8, 9, 10, 11}, {5}};
    const GenerateOptions options{.sampling = {.temperature = 1, .seed = 3}, .max_tokens = 6};
    const auto together = generate_together(*model, prompts, options, 2);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      const auto alone = generate(*model, prompts[i], options);
      ASSERT_EQ(together[i].size(), alone.size());
      for (std::size_t t = 0; t < alone.size(); ++t) {
        EXPECT_EQ(together[i][t].token, alone[t].token);
        EXPECT_EQ(together[i][t].log_probability, alone[t].log_probability);
      }
    }
  }
  EXPECT_EQ(hashes[0], model->forward(ids).hash());
  EXPECT_EQ(std::set(hashes.begin(), hashes.end()).size(), 4u);
}

// Steps that come again, without nodes: over a block's end, where the first step is recorded at once, beside a copy
// that stays what it was, back and on again, with other weights.
TEST(LanguageCache, RepeatsStepsWithTheSameBits) {
  const NoGrad no_grad;
  const auto model = small_model();
  constexpr std::int64_t kLength = 264;
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < kLength; ++i) numbers.push_back((i * i * 7 + 3 * i) % 64);
  const Tensor ids = Tensor::from(numbers, {1, kLength});
  for (const Device device : test_devices()) {
    model->to(device);
    const Tensor there = ids.to(device);
    const Tensor whole = model->forward(there).eval();
    const auto cache = model->make_cache();
    const std::int64_t begin = is_host(device) && device != Device{} ? 250 : 245;
    model->forward(there.narrow(1, 0, begin), cache.get()).eval();
    std::unique_ptr<LanguageCache> copy;
    const auto step = [&](LanguageCache& of, std::int64_t position) {
      const Tensor token = Tensor::from(std::vector{numbers[static_cast<std::size_t>(position)]}, {1, 1}, device);
      const Tensor logits = model->forward(token, &of);
      EXPECT_BITS_EQ(logits, whole.narrow(1, position, 1)) << device.to_string() << " " << position;
    };
    const auto plans = [&] {
      const graph::WindowStatistics now = graph::window_statistics(device);
      return now.plans_made + now.plans_reused;
    };
    for (std::int64_t position = begin; position < kLength; ++position) {
      if (position == begin + 4) copy = cache->clone();
      const std::uint64_t before = plans();
      step(*cache, position);
      if (position == begin + 5 || position == 257) {  // the first step with another block was recorded
        EXPECT_EQ(plans(), before) << device.to_string() << " " << position;
      }
    }
    step(*copy, begin + 4);
    cache->truncate(258);
    step(*cache, 258);
    step(*copy, begin + 5);
    const Tensor bad = Tensor::from(std::vector<std::int64_t>{64}, {1, 1}, device);
    EXPECT_THROW(model->forward(bad, copy.get()).eval(), IndexError);
  }
  model->to(Device{});
  for (auto& [name, parameter] : model->named_parameters()) {
    if (name == "model.norm.weight") parameter = Tensor(parameter) * 2;
  }
  EXPECT_EQ(cached(*model, ids.narrow(1, 0, 8), 1).hash(), model->forward(ids.narrow(1, 0, 8)).hash());
}

TEST(LanguageCache, GoesBackInEveryType) {
  const auto model = small_model();
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}, {1, 6});
  for (const CacheType type : kTypes) {
    model->set_cache_type(type);
    const auto cache = model->make_cache();
    const Tensor first = model->forward(ids, cache.get()).eval();
    cache->truncate(2);
    EXPECT_EQ(model->forward(ids.narrow(1, 2, 4), cache.get()).hash(), first.narrow(1, 2, 4).hash());
  }
}

TEST(LanguageCache, RefusesTypesThatAModelCannotHave) {
  EXPECT_EQ(parse_cache_type("bf16"), CacheType::bf16);
  EXPECT_THAT(message_of<ValueError>([] { parse_cache_type("f64"); }),
              HasSubstr("a cache is of f32, f16, bf16 or q8_0, not \"f64\""));
  const auto narrow = create_language_model(
      R"({"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1,
          "num_attention_heads": 4})");
  narrow->set_cache_type(CacheType::f16);
  EXPECT_THAT(message_of<ValueError>([&] { narrow->set_cache_type(CacheType::q8_0); }),
              HasSubstr("heads of 4 elements are no whole blocks of 32"));
  const auto mamba = create_language_model(
      R"({"model_type": "mamba", "vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "state_size": 4})");
  mamba->set_cache_type(CacheType::f32);
  EXPECT_THAT(message_of<ValueError>([&] { mamba->set_cache_type(CacheType::f16); }),
              HasSubstr("mamba has no cache of keys and values that could be of f16"));
}

}  // namespace
}  // namespace lockstep::models
