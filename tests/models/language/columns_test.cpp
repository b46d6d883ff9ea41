// Language models of which several ranks have a part each.
#include <lockstep/models/columns.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>
#include <lockstep/models.h>

#include "support/ranks.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

using ::testing::HasSubstr;

constexpr const char* kLlama =
    R"({"model_type":"qwen2","hidden_size":32,"intermediate_size":64,"vocab_size":37,"num_hidden_layers":2,
        "num_attention_heads":4,"num_key_value_heads":2,"rms_norm_eps":1e-5,"rope_theta":10000.0,
        "max_position_embeddings":64,"tie_word_embeddings":false})";
constexpr const char* kGpt2 =
    R"({"model_type":"gpt2","n_embd":16,"n_layer":2,"n_head":2,"n_positions":64,"vocab_size":29})";
constexpr const char* kMixtral =
    R"({"model_type":"mixtral","hidden_size":16,"intermediate_size":24,"vocab_size":37,"num_hidden_layers":2,
        "num_attention_heads":2,"num_key_value_heads":2,"num_local_experts":5,"num_experts_per_tok":2,
        "rms_norm_eps":1e-5,"max_position_embeddings":64,"tie_word_embeddings":true})";
// Experts whose matrices are one tensor.
constexpr const char* kGptOss =
    R"({"model_type":"gpt_oss","hidden_size":32,"intermediate_size":32,"vocab_size":37,"num_hidden_layers":1,"head_dim":16,
        "num_attention_heads":2,"num_key_value_heads":2,"num_local_experts":4,"num_experts_per_tok":2,
        "layer_types":["full_attention"],"sliding_window":16,"attention_bias":true,"rms_norm_eps":1e-5,
        "max_position_embeddings":64,"tie_word_embeddings":false})";
// An expert that all tokens use beside their own.
constexpr const char* kShared =
    R"({"model_type":"deepseek_v2","hidden_size":16,"intermediate_size":24,"moe_intermediate_size":8,"vocab_size":37,
        "num_hidden_layers":2,"num_attention_heads":2,"num_key_value_heads":2,"n_routed_experts":4,"n_shared_experts":1,
        "num_experts_per_tok":2,"first_k_dense_replace":1,"kv_lora_rank":8,"q_lora_rank":null,"qk_nope_head_dim":4,
        "qk_rope_head_dim":4,"v_head_dim":8,"topk_method":"greedy","rms_norm_eps":1e-5,"max_position_embeddings":64})";

std::unique_ptr<LanguageModel> model_of(const char* config) {
  manual_seed(4);
  std::unique_ptr<LanguageModel> model = create_language_model(config);
  model->eval();
  return model;
}

// Projections in blocks of 32 elements; those of stacked experts, [in, out], lie as [out, in].
void pack(LanguageModel& model) {
  for (auto& [name, parameter] : model.named_parameters()) {
    if (parameter.shape().rank() == 3) {
      parameter.requires_grad(false);
      parameter.set(io::quantize(detach(parameter).transpose(1, 2).clone(), Encoding::q8_0).transpose(1, 2));
    }
    if (!name.ends_with("_proj.weight") && name != "model.embed_tokens.weight") continue;
    parameter.requires_grad(false);
    parameter.set(io::quantize(detach(parameter), Encoding::q8_0));
  }
}

// Of a prompt, and of two more tokens that continue it.
std::vector<std::uint64_t> logits_of(const LanguageModel& model) {
  const NoGrad no_grad;
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 5, 9, 2, 7, 3}, {1, 6});
  const auto cache = model.make_cache();
  std::vector<std::uint64_t> hashes{model.forward(ids).hash()};
  hashes.push_back(model.forward(ids.narrow(1, 0, 4), cache.get()).hash());
  for (int i = 4; i < 6; ++i) hashes.push_back(model.forward(ids.narrow(1, i, 1), cache.get()).hash());
  return hashes;
}

TEST(DividedColumns, LogitsAreThoseOfOneProcess) {
  for (const char* config : {kLlama, kGpt2, kMixtral, kGptOss, kShared}) {
    const std::vector<std::uint64_t> expected = logits_of(*model_of(config));
    for (const int ranks : {2, 3}) {
      test::expect_success(test::run_ranks(ranks, [&](const dist::Group& group) {
        const std::unique_ptr<LanguageModel> model = model_of(config);
        divide_columns(*model, group, Device{});
        EXPECT_EQ(logits_of(*model), expected) << ranks;
      }));
    }
  }
}

TEST(DividedColumns, OfPackedWeightsToo) {
  for (const char* config : {kLlama, kGptOss}) {
    const std::unique_ptr<LanguageModel> whole = model_of(config);
    pack(*whole);
    const std::vector<std::uint64_t> expected = logits_of(*whole);
    EXPECT_NE(expected, logits_of(*model_of(config)));
    test::expect_success(test::run_ranks(3, [&](const dist::Group& group) {
      const std::unique_ptr<LanguageModel> model = model_of(config);
      pack(*model);
      divide_columns(*model, group, Device{});
      EXPECT_EQ(logits_of(*model), expected);
    }));
  }
}

TEST(DividedColumns, ARankHasItsPartOnly) {
  test::expect_success(test::run_ranks(2, [&](const dist::Group& group) {
    const std::unique_ptr<LanguageModel> model = model_of(kLlama);
    divide_columns(*model, group, Device{});
    const Tensor* weight = nullptr;
    const nn::StateDict state = model->state_dict();
    weight = state.find("model.layers.0.mlp.up_proj.weight");
    ASSERT_NE(weight, nullptr);
    EXPECT_EQ(weight->shape(), (Shape{64, 32}));
    try {
      weight->hash();
      ADD_FAILURE();
    } catch (const ValueError& error) {
      EXPECT_THAT(error.what(), HasSubstr("lies with other processes"));
    }
  }));
}

// An embedding that is the head, too, and experts, by their owners.
TEST(DividedColumns, EmbeddingsAndExpertsAreDividedToo) {
  test::expect_success(test::run_ranks(2, [&](const dist::Group& group) {
    const std::unique_ptr<LanguageModel> model = model_of(kMixtral);
    divide_columns(*model, group, Device{});
    const auto is_here = [&](const std::string& name) {
      const nn::StateDict state = model->state_dict();
      try {
        state.find(name)->hash();
        return true;
      } catch (const ValueError&) {
        return false;
      }
    };
    EXPECT_FALSE(is_here("model.embed_tokens.weight"));
    EXPECT_TRUE(is_here("model.layers.0.block_sparse_moe.gate.weight"));
    for (int e = 0; e < 5; ++e) {
      const bool is_own = (e < 2) == (group.rank() == 0);
      EXPECT_EQ(is_here(fmt::format("model.layers.1.block_sparse_moe.experts.{}.w1.weight", e)), is_own) << e;
    }
    const NoGrad no_grad;
    for (const std::int64_t token : {-1, 37}) {
      EXPECT_THROW(model->forward(Tensor::from(std::vector{token}, {1, 1})).eval(), IndexError);
    }
  }));
}

TEST(DividedColumns, OtherModelsAreRefused) {
  const auto mamba = create_language_model(
      R"({"model_type":"mamba","hidden_size":8,"intermediate_size":16,"vocab_size":9,"num_hidden_layers":1,"state_size":4,
          "conv_kernel":4,"time_step_rank":1,"layer_norm_epsilon":1e-5,"use_bias":false,"use_conv_bias":true})");
  test::expect_success(test::run_ranks(
      2, [&](const dist::Group& group) { EXPECT_THROW(divide_columns(*mamba, group, Device{}), ValueError); }));
}

}  // namespace
}  // namespace models
}  // namespace v0
}  // namespace lockstep
