#include <lockstep/models/lora.h>

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/io/gguf.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>
#include <lockstep/optim/adam.h>
#include <lockstep/random.h>

#include "support/data.h"
#include "support/files.h"

namespace lockstep::models {
namespace {

using test::message_of;
using testing::HasSubstr;

// What peft has written and computed for the tiny Llama (tools/make_lora_golden.py).
std::string peft_adapter() {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/language/lora";
}
std::string llama() {
  return (test::test_data("lm") / "llama").string();
}
std::string stories_file(const std::string& type) {
  return (test::test_data("tinyllm") / ("stories260K-" + type + ".gguf")).string();
}

double farthest(const Tensor& a, const Tensor& b) {
  return amax(abs(a.to(DType::f64) - b.to(DType::f64))).item<double>();
}

std::uint64_t tensors_hash(const nn::Module& module) {
  return nn::state_hash(module.state_dict());
}

TEST(Lora, ComputesWithAnAdapterOfPeft) {
  LOCKSTEP_REQUIRE_DATA(llama());
  const io::TensorMap golden = io::load_weights(peft_adapter() + "/golden.safetensors");
  const Tensor& ids = golden.at("ids");
  const double theirs = farthest(golden.at("f32"), golden.at("f64"));
  const auto model = load_language_model(llama(), {}, {.adapter = peft_adapter()});
  const Tensor logits = model->forward(ids).eval();
  EXPECT_LE(farthest(logits, golden.at("f64")), 4 * theirs);
  EXPECT_GT(farthest(load_language_model(llama())->forward(ids), logits), 0.1);

  // Merged it is the same function, rounded otherwise.
  const auto other = load_language_model(llama());
  LoraAdapter::load(*other, peft_adapter())->merge();
  EXPECT_LE(farthest(other->forward(ids), golden.at("f64")), 8 * theirs);
}

TEST(Lora, LearnsAsPeftDoes) {
  LOCKSTEP_REQUIRE_DATA(llama());
  const io::TensorMap golden = io::load_weights(peft_adapter() + "/golden.safetensors");
  const Tensor& ids = golden.at("ids");
  const auto model = load_language_model(llama());
  const std::uint64_t base = tensors_hash(*model);
  const auto adapter = LoraAdapter::load(*model, peft_adapter());
  optim::AdamW optimizer(adapter->parameters(), {.lr = 1e-2, .weight_decay = 0});
  const std::int64_t length = ids.size(1);
  std::size_t step = 0;
  for (const double expected : golden.at("losses").to_vector<double>()) {
    const Tensor logits = model->forward(ids).narrow(1, 0, length - 1);
    const Tensor loss = cross_entropy(logits.flatten(0, 1), ids.narrow(1, 1, length - 1).flatten());
    EXPECT_NEAR(loss.item<float>(), expected, 1e-4 * expected) << "step " << step++;
    optimizer.step(loss);
  }
  EXPECT_EQ(tensors_hash(*model), base);  // the model itself does not change
}

TEST(Lora, ANewOneChangesNothingAndSavedOnesComeBack) {
  LOCKSTEP_REQUIRE_DATA(llama());
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 5, 9, 200}, {1, 4});
  const auto model = load_language_model(llama());
  const std::uint64_t before = model->forward(ids).hash();
  const test::TemporaryFolder folder;
  manual_seed(3);
  LoraAdapter adapter(*model,
                      {.rank = 3, .alpha = 5, .root_of_rank = true, .targets = {"o_proj", "layers.1.mlp.up_proj"}});
  EXPECT_EQ(adapter.parameters().size(), 6U);
  EXPECT_EQ(model->forward(ids).hash(), before);
  for (auto& [name, parameter] : adapter.named_parameters()) parameter.set(normal(0, 0.1, parameter.shape()));
  const std::uint64_t changed = model->forward(ids).hash();
  EXPECT_NE(changed, before);
  adapter.save(folder.path("a"), "llama");

  EXPECT_THAT(message_of<ValueError>([&] { LoraAdapter::load(*model, folder.path("a")); }),
              HasSubstr("has an adapter already"));
  adapter.remove();
  EXPECT_EQ(model->forward(ids).hash(), before);
  const auto again = LoraAdapter::load(*model, folder.path("a"));
  EXPECT_EQ(model->forward(ids).hash(), changed);
  EXPECT_EQ(tensors_hash(*again), tensors_hash(adapter));
  const auto config = nlohmann::json::parse(test::read_whole_file(folder.path("a/adapter_config.json")));
  EXPECT_EQ(config.at("r"), 3);
  EXPECT_EQ(config.at("target_modules"), (std::vector<std::string>{"o_proj", "layers.1.mlp.up_proj"}));
  EXPECT_TRUE(io::load_weights(folder.path("a/adapter_model.safetensors"))
                  .contains("base_model.model.model.layers.1.self_attn.o_proj.lora_B.weight"));
}

// Gradients pass blocks; nothing but the adapter learns, to the bits of the same values stored densely.
TEST(Lora, LearnsOnPackedWeightsAsOnTheirValues) {
  LOCKSTEP_REQUIRE_DATA(stories_file("q8_0"));
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 403, 407, 261, 378, 30, 7, 9}, {1, 8});
  std::vector<std::uint64_t> hashes;
  for (const bool packed : {true, false}) {
    const auto model = load_language_model(stories_file("q8_0"), {}, {.packed = packed});
    manual_seed(1);
    LoraAdapter adapter(*model, {.rank = 4});
    optim::AdamW optimizer(adapter.parameters(), {.lr = 1e-2});
    float first = 0;
    float last = 0;
    for (int step = 0; step < 4; ++step) {
      const Tensor logits = model->forward(ids).narrow(1, 0, 7);
      const Tensor loss = cross_entropy(logits.flatten(0, 1), ids.narrow(1, 1, 7).flatten());
      optimizer.step(loss);
      last = loss.item<float>();
      if (step == 0) first = last;
    }
    EXPECT_LT(last, first);
    hashes.push_back(tensors_hash(adapter));
    if (packed) {
      EXPECT_THAT(message_of<ValueError>([&] { adapter.merge(); }), HasSubstr("packed"));
    }
  }
  EXPECT_EQ(hashes[0], hashes[1]);
}

// Queries and keys of a GGUF file stand in another order; an adapter's file does not.
TEST(Lora, OfAGgufFileHasThePublishedOrderOfRows) {
  const auto root = test::test_data("tinyllm");
  LOCKSTEP_REQUIRE_DATA(root);
  // The same weights as Hugging Face has them.
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder.path("hf"));
  std::filesystem::copy_file(root / "config.json", folder.path("hf/config.json"));
  std::filesystem::copy_file(root / "stories260K.safetensors", folder.path("hf/model.safetensors"));
  const auto published = load_language_model(folder.path("hf"));
  manual_seed(5);
  LoraAdapter adapter(*published, {.rank = 2, .targets = {"q_proj", "k_proj", "v_proj"}});
  for (auto& [name, parameter] : adapter.named_parameters()) parameter.set(normal(0, 0.3, parameter.shape()));
  adapter.save(folder.path("a"));
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 403, 407, 261, 378}, {1, 5});
  const Tensor expected = published->forward(ids);
  const auto model = load_language_model(stories_file("f32"), {}, {.adapter = folder.path("a")});
  EXPECT_LE(farthest(model->forward(ids), expected), 1e-3);
  EXPECT_GT(farthest(load_language_model(stories_file("f32"))->forward(ids), expected), 0.1);
  const auto again = load_language_model(stories_file("f32"));
  LoraAdapter::load(*again, folder.path("a"))->save(folder.path("b"));
  EXPECT_EQ(io::load_weights(folder.path("b/adapter_model.safetensors"))
                .at("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight")
                .hash(),
            io::load_weights(folder.path("a/adapter_model.safetensors"))
                .at("base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight")
                .hash());
}

TEST(Lora, RefusesWhatItDoesNotKnow) {
  LOCKSTEP_REQUIRE_DATA(llama());
  const auto model = load_language_model(llama());
  EXPECT_THROW(LoraAdapter adapter(*model, {.rank = 0}), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] { LoraAdapter adapter(*model, {.targets = {"query"}}); }),
              HasSubstr("q_proj"));
  const test::TemporaryFolder folder;
  std::filesystem::copy(peft_adapter(), folder.path("a"));
  const auto original = nlohmann::json::parse(test::read_whole_file(peft_adapter() + "/adapter_config.json"));
  const auto with = [&](const char* key, const nlohmann::json& value) {
    auto config = original;
    config[key] = value;
    folder.write("a/adapter_config.json", config.dump());
    return message_of<FormatError>([&] { LoraAdapter::load(*model, folder.path("a")); });
  };
  EXPECT_THAT(with("use_dora", true), HasSubstr("use_dora"));
  EXPECT_THAT(with("bias", "all"), HasSubstr("bias"));
  EXPECT_THAT(with("peft_type", "IA3"), HasSubstr("IA3"));
  EXPECT_THAT(with("modules_to_save", {"lm_head"}), HasSubstr("modules_to_save"));
  EXPECT_THAT(with("alpha_pattern", {{"q_proj", 3}}), HasSubstr("alpha_pattern"));
  EXPECT_THAT(with("init_lora_weights", "pissa"), HasSubstr("pissa"));
  EXPECT_THAT(with("r", -1), HasSubstr("r"));
  const std::uint64_t hash = model->forward(Tensor::from(std::vector<std::int64_t>{1}, {1, 1})).hash();
  if (const auto other = test::test_data("lm") / "gpt2"; std::filesystem::exists(other)) {
    const auto gpt = load_language_model(other.string());
    EXPECT_THAT(message_of<ValueError>([&] { LoraAdapter::load(*gpt, peft_adapter()); }), HasSubstr("another model's"));
  }
  const auto mamba = load_language_model((test::test_data("lm") / "mamba").string());
  EXPECT_THROW(LoraAdapter adapter(*mamba), ValueError);
  EXPECT_EQ(model->forward(Tensor::from(std::vector<std::int64_t>{1}, {1, 1})).hash(), hash);
}

// A saved model is the model, of folders (with weights stored [in, out], too) and of GGUF files.
TEST(SaveLanguageModel, WritesWhatIsLoadedAgain) {
  LOCKSTEP_REQUIRE_DATA(llama());
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 5, 9, 200}, {1, 4});
  const test::TemporaryFolder folder;
  for (const std::string name : {"llama", "gpt2", "qwen3_moe"}) {
    const std::string source = (test::test_data("lm") / name).string();
    const auto model = load_language_model(source);
    manual_seed(2);
    LoraAdapter adapter(*model, {.rank = 2});
    for (auto& [key, parameter] : adapter.named_parameters()) parameter.set(normal(0, 0.1, parameter.shape()));
    adapter.merge();
    save_language_model(*model, source, folder.path(name));
    EXPECT_EQ(load_language_model(folder.path(name))->forward(ids).hash(), model->forward(ids).hash()) << name;
  }
  const auto stories = load_language_model(stories_file("q8_0"), {}, {.packed = false});
  save_language_model(*stories, stories_file("q8_0"), folder.path("s.gguf"));
  EXPECT_EQ(load_language_model(folder.path("s.gguf"))->forward(ids).hash(), stories->forward(ids).hash());
  const auto packed = load_language_model(stories_file("q8_0"));
  EXPECT_THAT(
      message_of<ValueError>([&] { save_language_model(*packed, stories_file("q8_0"), folder.path("t.gguf")); }),
      HasSubstr("packed"));
}

}  // namespace
}  // namespace lockstep::models
