// How long language models of a gigabyte take to load, and how much memory: what is mapped need not be read. The files
// have holes where weights would be, so that they cost no disk.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/lockstep.h>

#include "core/os.h"
#include "io/gguf_builder.h"

namespace ls = lockstep;
using ls::test::bytes_of;

namespace {

constexpr std::int64_t kHidden = 2048;
constexpr std::int64_t kKeys = 512;
constexpr std::int64_t kFeed = 8192;

// Gone when it is.
class Folder {
 public:
  Folder() : root_(std::filesystem::temp_directory_path() / fmt::format("lockstep-load-bench-{}", ::getpid())) {
    std::filesystem::create_directories(root_);
  }
  ~Folder() { std::filesystem::remove_all(root_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string path() const { return root_.string(); }
  /// A file that goes on with `hole` bytes of zeros, which take no room.
  std::string write(const std::string& name, const std::string& bytes, std::uint64_t hole) const {
    const std::filesystem::path path = root_ / name;
    std::ofstream(path, std::ios::binary) << bytes;
    std::filesystem::resize_file(path, bytes.size() + hole);
    return path.string();
  }

 private:
  std::filesystem::path root_;
};

struct Weight {
  std::string stored, published;
  std::vector<std::int64_t> shape;
};

std::vector<Weight> weights(std::int64_t layers, std::int64_t words) {
  std::vector<Weight> result = {{"token_embd", "model.embed_tokens", {words, kHidden}},
                                {"output_norm", "model.norm", {kHidden}}};
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto add = [&](const char* stored, const char* published, std::vector<std::int64_t> shape) {
      result.push_back({fmt::format("blk.{}.{}", i, stored), fmt::format("model.layers.{}.{}", i, published), shape});
    };
    add("attn_norm", "input_layernorm", {kHidden});
    add("attn_q", "self_attn.q_proj", {kHidden, kHidden});
    add("attn_k", "self_attn.k_proj", {kKeys, kHidden});
    add("attn_v", "self_attn.v_proj", {kKeys, kHidden});
    add("attn_output", "self_attn.o_proj", {kHidden, kHidden});
    add("ffn_norm", "post_attention_layernorm", {kHidden});
    add("ffn_gate", "mlp.gate_proj", {kFeed, kHidden});
    add("ffn_up", "mlp.up_proj", {kFeed, kHidden});
    add("ffn_down", "mlp.down_proj", {kHidden, kFeed});
  }
  return result;
}

// Of Llama-3.2-1B's shape, with as many tokens and merges.
std::string gguf_model(const Folder& folder, bool is_q8_0) {
  const std::int64_t layers = is_q8_0 ? 16 : 4;
  constexpr std::uint64_t kWords = 128'256;
  const auto number = [](const std::string& key, std::int64_t value) {
    return ls::test::gguf_value("llama." + key, 4, bytes_of(static_cast<std::uint32_t>(value)));
  };
  const auto text = [](const std::string& key, const std::string& value) {
    return ls::test::gguf_value(key, 8, ls::test::gguf_text(value));
  };
  // Each word is a word before it and a letter.
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::vector<std::string> words;
  std::string tokens = bytes_of<std::uint32_t>(8) + bytes_of(kWords);
  std::string merges = bytes_of<std::uint32_t>(8) + bytes_of(kWords - kLetters.size());
  std::string kinds = bytes_of<std::uint32_t>(5) + bytes_of(kWords);
  for (const char letter : kLetters) words.emplace_back(1, letter);
  while (words.size() < kWords) {
    const std::size_t i = words.size() - kLetters.size();
    const std::string& start = words[i / kLetters.size()];
    merges += ls::test::gguf_text(fmt::format("{} {}", start, kLetters[i % kLetters.size()]));
    words.push_back(start + kLetters[i % kLetters.size()]);
  }
  for (const std::string& word : words) {
    tokens += ls::test::gguf_text(word);
    kinds += bytes_of<std::int32_t>(1);
  }
  const auto list = [](const std::string& key, const std::string& bytes) {
    return ls::test::gguf_value(key, 9, bytes);
  };
  const std::vector<std::string> values = {
      text("general.architecture", "llama"), number("embedding_length", kHidden),
      number("block_count", layers),         number("feed_forward_length", kFeed),
      number("attention.head_count", 32),    number("attention.head_count_kv", 8),
      text("tokenizer.ggml.model", "gpt2"),  text("tokenizer.ggml.pre", "llama-bpe"),
      list("tokenizer.ggml.tokens", tokens), list("tokenizer.ggml.token_type", kinds),
      list("tokenizer.ggml.merges", merges)};
  std::vector<std::string> tensors;
  std::uint64_t end = 0;
  for (const Weight& weight : weights(layers, kWords)) {
    const std::vector<std::uint64_t> sizes(weight.shape.rbegin(), weight.shape.rend());
    const bool matrix = sizes.size() == 2;
    constexpr std::uint32_t kF32 = 0;
    constexpr std::uint32_t kQ8_0 = 8;
    constexpr std::uint32_t kBF16 = 30;
    tensors.push_back(ls::test::gguf_tensor(weight.stored + ".weight", sizes,
                                            !matrix   ? kF32
                                            : is_q8_0 ? kQ8_0
                                                      : kBF16,
                                            end));
    end += !matrix ? sizes[0] * 4 : is_q8_0 ? sizes[0] / 32 * 34 * sizes[1] : sizes[0] * sizes[1] * 2;
  }
  const std::string head = ls::test::gguf_file(values, tensors);
  return folder.write("model.gguf", head, end);
}

std::string gguf_q8_0(const Folder& folder) {
  return gguf_model(folder, true);
}
std::string gguf_bf16(const Folder& folder) {
  return gguf_model(folder, false);
}

// A folder with weights of f32 or bf16.
std::string model_folder(const Folder& folder, bool is_f32) {
  const std::int64_t layers = is_f32 ? 2 : 6;
  constexpr std::int64_t kWords = 64'000;
  std::string header = "{";
  std::int64_t end = 0;
  for (const Weight& weight : weights(layers, kWords)) {
    std::int64_t bytes = is_f32 ? 4 : 2;
    for (const std::int64_t size : weight.shape) bytes *= size;
    header += fmt::format(R"({}"{}.weight":{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", end == 0 ? "" : ",",
                          weight.published, is_f32 ? "F32" : "BF16", fmt::join(weight.shape, ","), end, end + bytes);
    end += bytes;
  }
  header += "}";
  header.append(-header.size() % 8, ' ');  // elements are aligned, as its own writer has them
  const std::string head = ls::test::safetensors_bytes(header);
  folder.write("model.safetensors", head, static_cast<std::uint64_t>(end));
  folder.write("config.json",
               fmt::format(R"({{"model_type":"llama","vocab_size":{},"hidden_size":{},"num_hidden_layers":{},
      "intermediate_size":{},"num_attention_heads":32,"num_key_value_heads":8,"rms_norm_eps":1e-5,"max_position_embeddings":2048,
      "tie_word_embeddings":true}})",
                           kWords, kHidden, layers, kFeed),
               0);
  return folder.path();
}

std::string folder_f32(const Folder& folder) {
  return model_folder(folder, true);
}
std::string folder_bf16(const Folder& folder) {
  return model_folder(folder, false);
}

void load(benchmark::State& state, std::string (*make)(const Folder&)) {
  const Folder folder;
  const std::string path = make(folder);
  std::uint64_t file = 0;
  for (const auto& item : std::filesystem::directory_iterator(folder.path())) file += item.file_size();
  constexpr double kMiB = 1 << 20;
  const std::uint64_t before = ls::os::resident_bytes();
  const auto added = [&] {
    return static_cast<double>(ls::os::resident_bytes() - std::min(ls::os::resident_bytes(), before)) / kMiB;
  };
  for (auto _ : state) {
    const auto model = ls::models::load_language_model(path);
    state.PauseTiming();
    state.counters["MiB_loaded"] = added();
    const ls::NoGrad no_grad;
    model->forward(ls::Tensor::from(std::vector<std::int64_t>{1, 2}, {1, 2})).eval();
    state.counters["MiB_used"] = added();
    state.counters["MiB_file"] = static_cast<double>(file) / kMiB;
    state.ResumeTiming();
  }
}
BENCHMARK_CAPTURE(load, gguf, gguf_q8_0)->Name("load_gguf")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, gguf, gguf_bf16)->Name("load_gguf_bf16")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, folder, folder_f32)->Name("load_safetensors")->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, folder, folder_bf16)
    ->Name("load_safetensors_bf16")
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void tokenizer(benchmark::State& state) {
  const Folder folder;
  const std::string path = gguf_q8_0(folder);
  for (auto _ : state) benchmark::DoNotOptimize(ls::text::Tokenizer::load(path));
}
BENCHMARK(tokenizer)->Name("load_tokenizer_gguf")->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
