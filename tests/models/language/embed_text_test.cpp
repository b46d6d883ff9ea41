#include <lockstep/models/embed_text.h>

#include <cmath>
#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

// The pooled f64 states of transformers, as torch would pool them.
TEST(EmbedText, PoolsTheStatesOfTransformers) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  const NoGrad no_grad;
  for (const std::string name : {"bert", "nomic_bert", "modernbert"}) {
    const auto model = load_language_model((root / name).string());
    const io::TensorMap golden = io::load_weights((root / name / "golden.safetensors").string());
    for (std::int64_t row = 0; row < 2; ++row) {
      const auto ids = golden.at("ids").select(0, row).to_vector<std::int64_t>();
      const Tensor states = golden.at("f64").select(0, row);
      const auto length = static_cast<std::int64_t>(ids.size());
      for (const Pooling pooling : {Pooling::mean, Pooling::cls, Pooling::last}) {
        const Tensor raw =
            pooling == Pooling::mean ? states.mean(0) : states.select(0, pooling == Pooling::cls ? 0 : length - 1);
        const Tensor unit = raw / raw.square().sum().sqrt();
        const Tensor own = embed_text(*model, ids, {.pooling = pooling});
        EXPECT_EQ(own.shape(), Shape{states.size(1)});
        EXPECT_LT((own.to(DType::f64) - unit).abs().max().item<double>(), 2e-5) << name;
        const Tensor plain = embed_text(*model, ids, {.pooling = pooling, .normalize = false});
        EXPECT_LT((plain.to(DType::f64) - raw).abs().max().item<double>(), 2e-4) << name;
      }
    }
  }
}

TEST(EmbedText, OfFewerDimensionsIsTheBeginning) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  const auto model = load_language_model((root / "bert").string());
  const std::vector<std::int64_t> ids = {3, 1, 4, 1, 5};
  const Tensor whole = embed_text(*model, ids);
  EXPECT_BITS_EQ(first_dimensions(whole, 16), normalize(whole.narrow(0, 0, 16), 2, 0));
  EXPECT_THROW(first_dimensions(whole, 65), ValueError);
  EXPECT_THROW(first_dimensions(whole, 0), ValueError);
}

TEST(EmbedText, OfADecoderIsWhatItsLogitsAreMadeOf) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  const NoGrad no_grad;
  const auto model = load_language_model((root / "llama").string());
  const std::vector<std::int64_t> ids = {3, 1, 4, 1, 5};
  const Tensor state = embed_text(*model, ids, {.pooling = Pooling::last, .normalize = false});
  const auto weights = model->state_dict();
  const Tensor* head = weights.find("lm_head.weight");
  const Tensor& table = *(head == nullptr ? weights.find("model.embed_tokens.weight") : head);
  const Tensor logits = model->forward(Tensor::from(ids, {1, 5})).select(0, 0).select(0, 4);
  EXPECT_LT((matmul(table, state) - logits).abs().max().item<float>(), 1e-4f);
  EXPECT_EQ(pooling_of((root / "llama").string(), *model), Pooling::last);
}

TEST(EmbedText, PoolingIsWhatTheFilesSay) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  const auto model = load_language_model((root / "bert").string());
  EXPECT_EQ(pooling_of((root / "bert").string(), *model), Pooling::mean);
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("1_Pooling"));
  const auto says = [&](const std::string& config) {
    std::ofstream(folder.path("1_Pooling/config.json")) << config;
    return pooling_of(folder.path(""), *model);
  };
  EXPECT_EQ(says(R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})"), Pooling::cls);
  EXPECT_EQ(says(R"({"pooling_mode_lasttoken":true})"), Pooling::last);
  EXPECT_EQ(says(R"({"pooling_mode":"mean"})"), Pooling::mean);
  EXPECT_THROW(says(R"({"pooling_mode_max_tokens":true})"), FormatError);
  EXPECT_THROW(says(R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})"), FormatError);
  EXPECT_THROW(says("{}"), FormatError);
  // What sentence-transformers does behind it.
  const auto steps = [&](const std::string& last) {
    folder.write("modules.json", R"([{"idx":0,"path":"","type":"sentence_transformers.models.Transformer"},
        {"idx":1,"path":"1_Pooling","type":"sentence_transformers.models.Pooling"},
        {"idx":2,"path":"2","type":"sentence_transformers.models.)" +
                                     last + R"("}])");
    return says(R"({"pooling_mode":"mean"})");
  };
  EXPECT_EQ(steps("Normalize"), Pooling::mean);
  EXPECT_THAT(test::message_of<FormatError>([&] { steps("Dense"); }),
              testing::HasSubstr(R"(type: "sentence_transformers.models.Dense" is not offered)"));
}

TEST(EmbedText, RefusesWhatMakesNoSense) {
  const auto root = test::test_data("lm");
  LOCKSTEP_REQUIRE_DATA(root);
  const auto bert = load_language_model((root / "bert").string());
  EXPECT_THROW(embed_text(*bert, {}), ValueError);
  EXPECT_THROW(embed_text(*bert, std::vector<std::int64_t>(static_cast<std::size_t>(bert->context()) + 1, 1)),
               ValueError);
  EXPECT_THROW(embed_text(*load_language_model((root / "mamba").string()), {1}), ValueError);
  EXPECT_THROW(parse_pooling("max"), ValueError);
}

}  // namespace
}  // namespace lockstep::models
