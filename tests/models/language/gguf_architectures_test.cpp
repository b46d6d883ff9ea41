// GGUF files of each architecture, written by the Python package gguf from the random models of lm/
// (tools/make_gguf_models.py), against the same models in the form of Hugging Face.
#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <lockstep/error.h>
#include <lockstep/io/gguf.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/language.h>
#include <lockstep/models/lora.h>
#include <lockstep/ops.h>

#include "support/data.h"
#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::models {
namespace {

using test::message_of;
using testing::HasSubstr;

// They are too large for the repository, and the package gguf makes them.
#define LOCKSTEP_NEEDS_GGUF(root) \
  if (!std::filesystem::exists(root)) GTEST_SKIP() << "needs " << (root) << ": scripts/make_test_data makes it"

const std::vector<std::string> kConverted = {
    "bert", "cohere", "deepseek_v2", "deepseek_v3", "falcon",    "gemma",      "gemma2",     "gemma3",
    "glm4", "gpt2",   "gpt_oss",     "gptneox",     "lfm2",      "modernbert", "nomic_bert", "olmo2",
    "phi",  "phi3",   "qwen2",       "qwen3",       "qwen3_moe", "stablelm",   "starcoder2"};
// Heads are stored for pairs of neighbours, so that scores are sums in another order; or frequencies are divided by
// factors that were rounded to f32.
const std::vector<std::string> kReordered = {"granite", "llama", "llama3rope", "mixtral", "olmo", "smollm3"};

double largest_difference(const Tensor& a, const Tensor& b) {
  return amax(abs(a.to(DType::f64) - b.to(DType::f64))).item<double>();
}

TEST(GgufArchitectures, GiveTheBitsOfTheFolder) {
  const auto root = test::made_data("lm_gguf");
  LOCKSTEP_NEEDS_GGUF(root);
  for (const std::string& name : kConverted) {
    const auto folder = test::test_data("lm") / name;
    const Tensor ids = io::load_safetensors((folder / "golden.safetensors").string()).tensors.at("ids");
    const auto converted = load_language_model((root / (name + ".gguf")).string());
    EXPECT_EQ(converted->forward(ids).hash(), load_language_model(folder.string())->forward(ids).hash()) << name;
  }
}

// Blocks that the package gguf has made, in a folder as gpt-oss is published, and in a file; decoded, and as they are.
TEST(GgufArchitectures, BlocksOfGptOssAreThoseOfItsFolder) {
  const auto root = test::made_data("lm_gguf");
  LOCKSTEP_NEEDS_GGUF(root / "gpt_oss_mxfp4");
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 20, 3, 77, 5, 8}, {1, 6});
  const std::string folder = (root / "gpt_oss_mxfp4").string();
  const auto packed = load_language_model(folder);
  EXPECT_EQ(packed->state_dict().find("model.layers.0.mlp.experts.down_proj")->encoding(), Encoding::mxfp4);
  const std::uint64_t published = packed->forward(ids).hash();
  EXPECT_EQ(load_language_model(folder, {}, {.packed = false})->forward(ids).hash(), published);
  const std::string file = (root / "gpt_oss_mxfp4.gguf").string();
  EXPECT_EQ(load_language_model(file)->forward(ids).hash(), published);
  EXPECT_EQ(load_language_model(file, {}, {.packed = false})->forward(ids).hash(), published);
  const auto whole = test::test_data("lm") / "gpt_oss";
  EXPECT_NE(load_language_model(whole.string())->forward(ids).hash(), published);
}

// Mamba's decays are stored as they are used: exponentials of another library. All else is exact.
TEST(GgufArchitectures, OtherModelsAreThoseOfTheirFolders) {
  const auto root = test::made_data("lm_gguf_other");
  LOCKSTEP_NEEDS_GGUF(root);
  for (const std::string name : {"mamba", "mamba2", "rwkv7", "t5", "t5v11"}) {
    const auto folder = name == "rwkv7" ? test::repository_data("language/models/rwkv7") : test::test_data("lm") / name;
    const io::TensorMap golden = io::load_safetensors((folder / "golden.safetensors").string()).tensors;
    const Tensor ids = golden.at("ids").narrow(1, 0, 16);
    const bool pair = name.starts_with("t5");
    const auto logits = [&](const LanguageModel& model) {
      return pair ? model.forward_pair(ids, ids.narrow(1, 0, 12)) : model.forward(ids);
    };
    const auto model = load_language_model((root / (name + ".gguf")).string());
    const Tensor ours = logits(*model);
    if (name.starts_with("mamba")) {
      const Tensor exact = golden.at("f64").narrow(1, 0, 16);
      EXPECT_LE(largest_difference(ours, exact), 4 * largest_difference(golden.at("f32").narrow(1, 0, 16), exact))
          << name;
    } else {
      EXPECT_EQ(ours.hash(), logits(*load_language_model(folder.string())).hash()) << name;
    }
    if (pair) continue;
    const auto cache = model->make_cache();
    std::vector<Tensor> parts;
    for (const Tensor& part : ids.split(9, 1)) parts.push_back(model->forward(part, cache.get()).eval());
    EXPECT_EQ(cat(parts, 1).hash(), ours.hash()) << name;
  }
}

// DeepSeek's scores are scaled beside its rotary embeddings; ModernBERT has windows; LFM2's layers are convolutions and
// attention.
TEST(GgufArchitectures, OtherMadeModelsGiveTheBitsOfTheirFolders) {
  const auto root = test::made_data("lm_gguf");
  LOCKSTEP_NEEDS_GGUF(root / "deepseek_yarn");
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 20, 3, 47, 5, 8}, {1, 6});
  const auto hash = [&](const std::filesystem::path& path) {
    return load_language_model(path.string())->forward(ids).hash();
  };
  EXPECT_EQ(hash(root / "deepseek_yarn.gguf"), hash(root / "deepseek_yarn"));
  EXPECT_NE(hash(root / "deepseek_yarn.gguf"), hash(root / "deepseek_v3.gguf"));
  EXPECT_EQ(hash(root / "modernbert_windows.gguf"), hash(root / "modernbert_windows"));
  EXPECT_NE(hash(root / "modernbert_windows.gguf"), hash(root / "modernbert.gguf"));
  EXPECT_EQ(hash(root / "lfm2_conv.gguf"), hash(test::repository_data("language/models/lfm2")));
}

// What was joined or reshaped when it was read is what it was when it is written.
TEST(GgufArchitectures, SavedModelsAreTheirFiles) {
  const auto root = test::made_data("lm_gguf");
  LOCKSTEP_NEEDS_GGUF(root / "deepseek_yarn");
  const test::TemporaryFolder folder;
  for (const std::string name : {"deepseek_v3", "lfm2_conv"}) {
    const std::string path = (root / (name + ".gguf")).string();
    save_language_model(*load_language_model(path), path, folder.path("saved.gguf"));
    const io::TensorMap saved = io::load_weights(folder.path("saved.gguf"));
    for (const auto& [key, tensor] : io::load_weights(path)) EXPECT_BITS_EQ(saved.at(key), tensor) << name << key;
  }
}

// Factors for short texts, and for long ones, by the length that a model is loaded for.
TEST(GgufArchitectures, LongRopeGivesTheBitsOfTheFolder) {
  const auto path = test::made_data("lm_gguf") / "phi3_longrope.gguf";
  LOCKSTEP_NEEDS_GGUF(path);
  const auto folder = test::repository_data("language/models/phi3_longrope");
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 20, 3, 47, 5}, {1, 5});
  std::vector<std::uint64_t> hashes;
  for (const std::int64_t context : {std::int64_t{0}, std::int64_t{64}, std::int64_t{128}}) {
    const auto converted = load_language_model(path.string(), {}, {.context = context});
    hashes.push_back(converted->forward(ids).hash());
    EXPECT_EQ(hashes.back(), load_language_model(folder.string(), {}, {.context = context})->forward(ids).hash());
  }
  EXPECT_NE(hashes[0], hashes[2]);
}

TEST(GgufArchitectures, FactorsOfGraniteCount) {
  const auto path = test::made_data("lm_gguf") / "granite.gguf";
  LOCKSTEP_NEEDS_GGUF(path);
  const test::TemporaryFolder folder;
  const io::TensorMap tensors = io::load_weights(path.string());
  const io::Metadata own = io::list_tensors(path.string()).metadata;
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 20, 3, 77, 5}, {1, 5});
  const auto logits = [&](const char* key, float value) {
    io::Metadata metadata = own;
    metadata[std::string("granite.") + key] = value;
    io::save_gguf(folder.path("x.gguf"), tensors, metadata);
    return load_language_model(folder.path("x.gguf"))->forward(ids);
  };
  const Tensor plain = logits("logit_scale", 1);
  EXPECT_EQ(logits("logit_scale", 8).hash(), (plain / 8).hash());
  for (const char* key : {"attention.scale", "embedding_scale", "residual_scale"}) {
    EXPECT_EQ(logits(key, 1).hash(), plain.hash()) << key;
    EXPECT_NE(logits(key, 2).hash(), plain.hash()) << key;
  }
}

TEST(GgufArchitectures, GiveTheLogitsOfTransformers) {
  const auto root = test::made_data("lm_gguf");
  LOCKSTEP_NEEDS_GGUF(root);
  for (const std::string& name : kReordered) {
    const io::TensorFile golden = io::load_safetensors((test::test_data("lm") / name / "golden.safetensors").string());
    const Tensor& exact = golden.tensors.at("f64");
    const Tensor ours = load_language_model((root / (name + ".gguf")).string())->forward(golden.tensors.at("ids"));
    EXPECT_LE(largest_difference(ours, exact), 4 * largest_difference(golden.tensors.at("f32"), exact)) << name;
  }
}

TEST(GgufArchitectures, CachedTokensGiveTheSameBits) {
  const auto root = test::made_data("lm_gguf");
  LOCKSTEP_NEEDS_GGUF(root);
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 20, 3, 77, 5, 60, 7, 200}, {1, 8});
  for (const std::string name : {"gemma3", "gpt2", "gpt_oss", "llama3rope", "qwen3_moe"}) {
    const auto model = load_language_model((root / (name + ".gguf")).string());
    const auto cache = model->make_cache();
    std::vector<Tensor> parts;
    for (const Tensor& part : ids.split(3, 1)) parts.push_back(model->forward(part, cache.get()).eval());
    EXPECT_EQ(cat(parts, 1).hash(), model->forward(ids).hash()) << name;
  }
}

// Fused, transposed and stacked weights, too, are the same whether blocks are decoded as they are read or as they are
// used.
TEST(GgufArchitectures, PackedWeightsGiveTheBitsOfDecodedOnes) {
  const auto root = test::made_data("lm_gguf");
  LOCKSTEP_NEEDS_GGUF(root);
  const test::TemporaryFolder folder;
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 20, 3, 77}, {1, 4});
  for (const std::string name : {"gemma2", "gpt2", "gpt_oss", "phi3", "qwen3_moe"}) {
    const std::string path = folder.path(name + ".gguf");
    io::quantize_gguf((root / (name + ".gguf")).string(), path, "Q8_0");
    const auto packed = load_language_model(path);
    const auto decoded = load_language_model(path, {}, {.packed = false});
    EXPECT_EQ(packed->forward(ids).hash(), decoded->forward(ids).hash()) << name;
  }
}

// Latent attention is joined, experts are cut out of one tensor.
TEST(GgufArchitectures, SixteenBitsGiveTheBitsOfDecodedOnes) {
  const auto root = test::made_data("lm_gguf");
  LOCKSTEP_NEEDS_GGUF(root);
  const test::TemporaryFolder folder;
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 20, 3, 77}, {1, 4});
  for (const std::string name : {"deepseek_v2", "lfm2", "qwen3_moe"}) {
    const std::string source = (root / (name + ".gguf")).string();
    io::TensorMap tensors = io::load_weights(source);
    for (auto& [key, tensor] : tensors) {
      if (tensor.rank() >= 2) tensor = tensor.to(DType::bf16);
    }
    const std::string path = folder.path(name + ".gguf");
    io::save_gguf(path, tensors, io::list_tensors(source).metadata);
    const auto packed = load_language_model(path);
    const auto decoded = load_language_model(path, {}, {.packed = false});
    std::int64_t narrow = 0;
    for (auto& [key, parameter] : packed->named_parameters()) {
      if (parameter.tensor().encoding() == Encoding::bf16) narrow += parameter.tensor().numel();
    }
    EXPECT_GT(narrow, packed->parameter_count() * 9 / 10) << name;
    EXPECT_EQ(packed->forward(ids).hash(), decoded->forward(ids).hash()) << name;
  }
}

TEST(GgufArchitectures, SplitFilesAreOneModel) {
  const auto root = test::made_data("lm_gguf");
  LOCKSTEP_NEEDS_GGUF(root);
  const Tensor ids = Tensor::from(std::vector<std::int64_t>{1, 2, 3}, {1, 3});
  const auto whole = load_language_model((root / "llama.gguf").string());
  const auto split = load_language_model((root / "split-00001-of-00003.gguf").string());
  EXPECT_EQ(split->forward(ids).hash(), whole->forward(ids).hash());
}

// A llama of one layer; what a test takes away or changes makes it wrong.
struct SmallGguf {
  io::TensorMap tensors;
  io::Metadata metadata;
};

SmallGguf small_gguf() {
  SmallGguf model;
  const auto u32 = [](int value) { return io::MetadataValue(static_cast<std::uint32_t>(value)); };
  model.metadata = {{"general.architecture", "llama"},
                    {"llama.embedding_length", u32(8)},
                    {"llama.block_count", u32(1)},
                    {"llama.feed_forward_length", u32(12)},
                    {"llama.attention.head_count", u32(2)}};
  const auto add = [&](const std::string& name, const Shape& shape) {
    model.tensors.emplace(name + ".weight", full(shape, 0.5));
  };
  for (const char* name : {"blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.attn_output"}) add(name, {8, 8});
  for (const char* name : {"blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"}) add(name, {8});
  for (const char* name : {"blk.0.ffn_gate", "blk.0.ffn_up"}) add(name, {12, 8});
  add("blk.0.ffn_down", {8, 12});
  add("token_embd", {16, 8});
  return model;
}

TEST(GgufArchitectures, RefuseWhatMakesNoSense) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](auto change) {
    SmallGguf model = small_gguf();
    change(model);
    io::save_gguf(folder.path("x.gguf"), model.tensors, model.metadata);
    return message_of<Error>([&] { load_language_model(folder.path("x.gguf")); });
  };
  const auto with_key = [&](const std::string& key, io::MetadataValue value) {
    return refusal([&](SmallGguf& model) { model.metadata[key] = value; });
  };
  const auto with_factors = [&](const Tensor& factors) {
    return refusal([&](SmallGguf& model) { model.tensors.emplace("rope_freqs.weight", factors); });
  };
  EXPECT_EQ(refusal([](SmallGguf&) {}), "no error");
  EXPECT_THAT(with_key("general.architecture", "magic"),
              HasSubstr("\"magic\" is not supported in GGUF files (bert, command-r, deepseek2, falcon, gemma, gemma2"));
  EXPECT_THAT(with_key("llama.attention.head_count", "two"), HasSubstr("is text, not an integer"));
  EXPECT_THAT(with_key("llama.rope.scaling.type", "magic"), HasSubstr("\"magic\" is not supported"));
  EXPECT_EQ(with_factors(full({2}, 2)), "no error");
  EXPECT_THAT(with_factors(full({3}, 2)), HasSubstr("is not an f32 factor for each pair"));
  EXPECT_THAT(with_factors(zeros({2})), HasSubstr("holds 0, not positive"));
  EXPECT_THAT(refusal([](SmallGguf& model) { model.tensors.emplace("blk.0.magic.weight", ones({2})); }),
              HasSubstr("blk.0.magic.weight"));
  EXPECT_THAT(with_key("llama.expert_count", std::uint32_t{4}), HasSubstr("llama.expert_used_count: is missing"));
  EXPECT_THAT(refusal([](SmallGguf& model) { model.metadata["general.architecture"] = "gemma2"; }),
              HasSubstr("gemma2.embedding_length: is missing"));
}

// One thing of a good file changed, in the architectures that are read in other ways than most.
TEST(GgufArchitectures, RefuseOtherModelsThatMakeNoSense) {
  const auto root = test::made_data("lm_gguf");
  const auto others = test::made_data("lm_gguf_other");
  LOCKSTEP_NEEDS_GGUF(others);
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::filesystem::path& path, auto change) {
    SmallGguf model{io::load_weights(path.string()), io::list_tensors(path.string()).metadata};
    change(model);
    io::save_gguf(folder.path("x.gguf"), model.tensors, model.metadata);
    return message_of<Error>([&] { load_language_model(folder.path("x.gguf")); });
  };
  const auto with_key = [&](const std::filesystem::path& path, const std::string& key, io::MetadataValue value) {
    return refusal(path, [&](SmallGguf& model) { model.metadata[key] = value; });
  };
  const auto without = [&](const std::filesystem::path& path, const std::string& tensor) {
    return refusal(path, [&](SmallGguf& model) { model.tensors.erase(tensor); });
  };
  const auto u32 = [](int value) { return io::MetadataValue(static_cast<std::uint32_t>(value)); };
  const auto deepseek = root / "deepseek_v3.gguf";
  EXPECT_EQ(refusal(deepseek, [](SmallGguf&) {}), "no error");
  EXPECT_THAT(without(deepseek, "blk.1.attn_v_b.weight"), HasSubstr("do not belong to these keys"));
  EXPECT_THAT(with_key(deepseek, "deepseek2.rope.dimension_count", u32(24)), HasSubstr("leaves nothing of a head"));
  EXPECT_THAT(with_key(deepseek, "deepseek2.expert_group_count", u32(3)), HasSubstr("does not divide the experts"));
  EXPECT_THAT(with_key(deepseek, "deepseek2.expert_gating_func", u32(1)), HasSubstr("groups need the gate sigmoid"));
  const auto lfm2 = root / "lfm2_conv.gguf";
  EXPECT_THAT(with_key(lfm2, "lfm2.attention.head_count_kv", std::vector<std::int32_t>{0, 2}),
              HasSubstr("has 2 numbers for 4 layers"));
  EXPECT_THAT(with_key(lfm2, "lfm2.attention.head_count_kv", std::vector<std::int32_t>{0, 2, 1, 0}),
              HasSubstr("different numbers of heads are not supported"));
  EXPECT_THAT(with_key(lfm2, "lfm2.attention.head_count_kv", std::vector<std::int32_t>(4)), HasSubstr("is 0"));
  EXPECT_THAT(with_key(others / "mamba.gguf", "mamba.ssm.dt_b_c_rms", true), HasSubstr("is not supported"));
  EXPECT_THAT(without(others / "mamba.gguf", "blk.0.ssm_a"), HasSubstr("backbone.layers.0.mixer.A"));
  EXPECT_THAT(without(others / "mamba.gguf", "token_embd.weight"),
              HasSubstr("there is no tensor \"token_embd.weight\""));
  EXPECT_THAT(with_key(others / "mamba2.gguf", "mamba2.ssm.time_step_rank", u32(7)), HasSubstr("does not divide"));
  EXPECT_THAT(with_key(others / "rwkv7.gguf", "rwkv7.wkv.head_size", u32(15)), HasSubstr("does not divide"));
  EXPECT_THAT(without(others / "rwkv7.gguf", "blk.1.time_mix_lerp_fused.weight"), HasSubstr("attn.x_"));
  EXPECT_THAT(with_key(others / "t5.gguf", "t5.attention.relative_buckets_count", u32(1000)),
              HasSubstr("1000 is not from 4 to 255"));
  EXPECT_THAT(message_of<FormatError>([&] {
                const std::string path = (others / "t5.gguf").string();
                save_language_model(*load_language_model(path), path, folder.path("y.gguf"));
              }),
              HasSubstr("has no adapters and is not saved"));
}

TEST(GgufArchitectures, RefuseSplitFilesThatDoNotFit) {
  const test::TemporaryFolder folder;
  const auto save = [&](const std::string& name, const io::TensorMap& tensors, io::Metadata metadata, int number,
                        int count = 2) {
    metadata["split.no"] = static_cast<std::uint16_t>(number);
    metadata["split.count"] = static_cast<std::uint16_t>(count);
    io::save_gguf(folder.path(name), tensors, metadata);
  };
  const auto refusal = [&](const std::string& name = "m-00001-of-00002.gguf") {
    return message_of<Error>([&] { load_language_model(folder.path(name)); });
  };
  SmallGguf first = small_gguf();
  io::TensorMap rest{{"token_embd.weight", first.tensors.at("token_embd.weight")}};
  first.tensors.erase("token_embd.weight");
  save("m-00001-of-00002.gguf", first.tensors, first.metadata, 0);
  EXPECT_THAT(refusal(), HasSubstr("m-00002-of-00002.gguf"));  // There is none.
  save("m-00002-of-00002.gguf", rest, {}, 1);
  EXPECT_EQ(refusal(), "no error");
  save("one.gguf", first.tensors, first.metadata, 0);
  EXPECT_THAT(refusal("one.gguf"), HasSubstr("the model is in 2 files; give the first one, whose name ends in -00001"));
  save("m-00002-of-00002.gguf", rest, {}, 0);
  EXPECT_THAT(refusal(), HasSubstr("split.no: is not 1"));
  save("m-00002-of-00002.gguf", rest, {}, 1, 3);
  EXPECT_THAT(refusal(), HasSubstr("split.count: is not 2"));
  save("m-00002-of-00002.gguf", first.tensors, {}, 1);
  EXPECT_THAT(refusal(), HasSubstr("is in an earlier file, too"));
  save("m-00002-of-00002.gguf", rest, {}, 1);
  first.metadata["split.tensors.count"] = std::int32_t{5};
  save("m-00001-of-00002.gguf", first.tensors, first.metadata, 0);
  EXPECT_THAT(refusal(), HasSubstr("split.tensors.count: the files have 11 tensors"));
}

}  // namespace
}  // namespace lockstep::models
