#include <lockstep/models/lora.h>

#include <algorithm>
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

// A folder's adapter as convert_lora_to_gguf writes it: names of GGUF, rows of queries and keys of llamas as
// neighbours, all experts of a layer in one tensor.
io::TensorMap gguf_matrices(const std::string& folder, std::int64_t heads, std::int64_t kv_heads) {
  const std::pair<std::string, std::string> parts[] = {{"base_model.model.", ""},
                                                       {"model.layers.", "blk."},
                                                       {"self_attn.q_proj", "attn_q"},
                                                       {"self_attn.k_proj", "attn_k"},
                                                       {"self_attn.v_proj", "attn_v"},
                                                       {"self_attn.o_proj", "attn_output"},
                                                       {"mlp.gate_proj", "ffn_gate"},
                                                       {"mlp.up_proj", "ffn_up"},
                                                       {"mlp.down_proj", "ffn_down"},
                                                       {"mlp.gate.", "ffn_gate_inp."},
                                                       {".lora_A.weight", ".weight.lora_a"},
                                                       {".lora_B.weight", ".weight.lora_b"}};
  io::TensorMap result;
  std::map<std::string, std::vector<Tensor>> experts;
  for (const auto& [key, tensor] : io::load_weights(folder + "/adapter_model.safetensors")) {
    std::string name = key;
    for (const auto& [from, to] : parts) {
      if (const std::size_t at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
    }
    const std::string expert = "mlp.experts.";
    if (const std::size_t at = name.find(expert); at != std::string::npos) {
      const std::size_t dot = name.find('.', at + expert.size());
      const std::size_t number = std::stoul(name.substr(at + expert.size()));
      const std::size_t end = name.find("_proj", dot);
      const std::string kind = name.substr(dot + 1, end - dot - 1);
      auto& all = experts[name.substr(0, at) + "ffn_" + kind + "_exps" + name.substr(end + 5)];
      all.resize(std::max(all.size(), number + 1));
      all[number] = tensor;
      continue;
    }
    const bool query = name.ends_with("attn_q.weight.lora_b");
    const bool paired = heads > 0 && (query || name.ends_with("attn_k.weight.lora_b"));
    if (!paired) {
      result.emplace(name, tensor);
      continue;
    }
    // Row 2i of a head is its row i, row 2i + 1 that of the second half.
    const std::int64_t size = tensor.size(0) / (query ? heads : kv_heads);
    std::vector<Tensor> rows;
    for (std::int64_t row = 0; row < tensor.size(0); ++row) {
      const std::int64_t in_head = row % size;
      rows.push_back(tensor.select(0, row - in_head + in_head / 2 + in_head % 2 * (size / 2)));
    }
    result.emplace(name, stack(rows, 0));
  }
  for (const auto& [name, all] : experts) result.emplace(name, stack(all, 0));
  return result;
}

io::Metadata gguf_adapter(const std::string& architecture, float alpha) {
  return {{"general.architecture", architecture},
          {"general.type", std::string("adapter")},
          {"adapter.type", std::string("lora")},
          {"adapter.lora.alpha", alpha}};
}

TEST(Lora, OfAGgufFileGivesTheBitsOfItsFolder) {
  LOCKSTEP_REQUIRE_DATA(llama());
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 5, 9, 200}, {1, 4});
  const test::TemporaryFolder folder;
  const auto expect = [&](const std::string& source, const std::string& architecture, std::int64_t heads,
                          std::int64_t kv_heads) {
    const auto model = load_language_model(source);
    manual_seed(7);
    LoraAdapter adapter(*model, {.rank = 3, .alpha = 5});
    for (auto& [name, parameter] : adapter.named_parameters()) parameter.set(normal(0, 0.2, parameter.shape()));
    const std::uint64_t expected = model->forward(ids).hash();
    adapter.save(folder.path("a"));
    adapter.remove();
    EXPECT_NE(model->forward(ids).hash(), expected);
    io::save_gguf(folder.path("a.gguf"), gguf_matrices(folder.path("a"), heads, kv_heads),
                  gguf_adapter(architecture, 5));
    const auto again = LoraAdapter::load(*model, folder.path("a.gguf"));
    EXPECT_EQ(model->forward(ids).hash(), expected) << source;
    EXPECT_EQ(tensors_hash(*again), tensors_hash(adapter)) << source;
    EXPECT_EQ(again->options().rank, 3);
  };
  const auto heads_of = [](const std::string& source) {
    const auto config = nlohmann::json::parse(test::read_whole_file(source + "/config.json"));
    return std::pair(config.at("num_attention_heads").get<int>(), config.at("num_key_value_heads").get<int>());
  };
  const auto [heads, kv_heads] = heads_of(llama());
  expect(llama(), "llama", heads, kv_heads);
  expect((test::test_data("lm") / "qwen3_moe").string(), "qwen3moe", 0, 0);
  LOCKSTEP_REQUIRE_DATA(stories_file("q8_0"));
  const auto [story_heads, story_kv_heads] = heads_of(test::test_data("tinyllm").string());
  expect(stories_file("q8_0"), "llama", story_heads, story_kv_heads);
}

TEST(Lora, RefusesGgufFilesThatAreNoAdaptersOfTheModel) {
  LOCKSTEP_REQUIRE_DATA(llama());
  const auto model = load_language_model(llama());
  const test::TemporaryFolder folder;
  const io::TensorMap good = gguf_matrices(peft_adapter(), 0, 0);
  const auto message = [&](const io::TensorMap& tensors, const io::Metadata& metadata) {
    io::save_gguf(folder.path("a.gguf"), tensors, metadata);
    return message_of<Error>([&] { LoraAdapter::load(*model, folder.path("a.gguf")); });
  };
  const auto with = [&](const char* key, const io::MetadataValue& value) {
    io::Metadata metadata = gguf_adapter("llama", 6);
    metadata[key] = value;
    return message(good, metadata);
  };
  EXPECT_THAT(with("general.type", std::string("model")), HasSubstr("general.type: \"model\" is no adapter"));
  EXPECT_THAT(with("adapter.type", std::string("ia3")), HasSubstr("adapter.type: \"ia3\" is not supported"));
  EXPECT_THAT(with("adapter.lora.alpha", 0.0F), HasSubstr("adapter.lora.alpha: 0 is not positive"));
  EXPECT_THAT(with("adapter.alora.invocation_tokens", std::uint32_t{1}), HasSubstr("alora.invocation_tokens"));
  EXPECT_THAT(with("general.architecture", std::string("mamba")),
              HasSubstr("\"mamba\" has no adapters and is not saved"));
  io::Metadata metadata = gguf_adapter("llama", 6);
  metadata.erase("adapter.lora.alpha");
  EXPECT_THAT(message(good, metadata), HasSubstr("adapter.lora.alpha: is missing"));
  metadata = gguf_adapter("llama", 6);
  const auto plus = [&](const char* name, const Shape& shape) {
    io::TensorMap tensors = good;
    tensors.insert_or_assign(name, zeros(shape));
    return message(tensors, metadata);
  };
  EXPECT_THAT(message({}, metadata), HasSubstr("no adapter in it"));
  EXPECT_THAT(plus("blk.0.attn_norm.weight", {64}), HasSubstr("no matrix of a projection"));
  EXPECT_THAT(plus("blk.0.ffn_up.weight.lora_a", {2, 64}), HasSubstr("only one of its two"));
  EXPECT_THAT(plus("blk.77.ffn_up.weight.lora_a", {2, 64}), HasSubstr("model.layers.77.mlp.up_proj"));
  EXPECT_THAT(plus("token_embd.weight.lora_a", {2, 64}), HasSubstr("no projection"));
  EXPECT_THAT(plus("blk.0.attn_q.weight.lora_b", {3, 2}), HasSubstr("shapes"));
  EXPECT_THAT(plus("blk.0.ffn_up_exps.weight.lora_a", {2, 2, 64}), HasSubstr("the model has 0"));
  if (const auto other = test::test_data("lm") / "gpt2"; std::filesystem::exists(other)) {
    const auto gpt = load_language_model(other.string());
    EXPECT_THAT(message_of<FormatError>([&] { LoraAdapter::load(*gpt, folder.path("a.gguf")); }),
                HasSubstr("not supported for this model"));
  }
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
