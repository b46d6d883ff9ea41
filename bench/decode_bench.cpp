// Decoding, a token at a time, by a model of Llama-3.1-8B's shape with random weights: tokens a second, and what share
// that is of the limit, at which the device does nothing but read the weights.
//
//   decode_bench [device] [encoding] [GB/s] [tokens] [layers] [batch] [prompt] [folder]
//   default: cuda:0 q8_0 4800 64 32 0 0
//
// The encoding is one of `encodings.def`, or bf16; packed weights are multiplied in q8 numerics, bf16 ones exactly.
// GB/s is the speed of the device's memory. `batch`: then as many texts a token at a time, together; `prompt`: then one
// text of so many tokens at once, with the logits of the last. In the folder go traces of one more token, step and
// prompt, their sums to stdout.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/lockstep.h>
#include <lockstep/models/generate.h>
#include <lockstep/models/language.h>

#include "graph/early_read.h"
#include "models/language/layered.h"

namespace ls = lockstep;

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char* kConfig = R"({"model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336,
  "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": LAYERS, "vocab_size": 128256,
  "max_position_embeddings": 131072, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "hidden_act": "silu",
  "attention_bias": false, "mlp_bias": false, "tie_word_embeddings": false})";

ls::Encoding encoding_of(const std::string& name) {
  for (const ls::Encoding encoding : {
#define ENCODING(row, ...) ls::Encoding::row,
#define FLOATS(row, ...) ENCODING(row)
#include <lockstep/encodings.def>
#undef ENCODING
       }) {
    if (ls::name_of(encoding) == name) return encoding;
  }
  throw ls::ValueError(name + ": neither bf16 nor an encoding");
}

// Any codes, under scales with which elements are about 0.01.
ls::Tensor random_blocks(const ls::Shape& shape, ls::Encoding encoding, ls::Device device) {
  const ls::EncodingInfo& info = ls::info_of(encoding);
  static std::map<std::size_t, std::vector<std::uint8_t>> made;
  const std::size_t bytes = ls::encoded_bytes(encoding, ls::DType::f32, shape.numel());
  std::vector<std::uint8_t>& blocks = made[bytes];
  if (blocks.empty()) {
    blocks.resize(bytes);
    std::uint32_t state = 1;
    for (std::uint8_t& byte : blocks) byte = static_cast<std::uint8_t>((state = state * 1664525 + 1013904223) >> 24);
    for (std::size_t at = info.first_half; at < bytes; at += info.bytes) {
      for (std::size_t h = 0; h < info.halves; ++h) blocks[at + 2 * h + 1] = 0x08;
      if (ls::is_floats(encoding)) {
        const float scale = 1e-4F;
        std::memcpy(&blocks[at], &scale, sizeof scale);
        for (std::size_t i = sizeof scale; i < info.bytes; ++i) blocks[at + i] &= 0xbf;  // numbers all
      }
    }
  }
  return ls::Tensor::from_blocks(blocks.data(), blocks.size(), shape, encoding, device);
}

std::vector<std::int64_t> any_tokens(std::int64_t count) {
  std::vector<std::int64_t> ids;
  for (std::int64_t i = 0; i < count; ++i) ids.push_back(i * 7919 % 128256);
  return ids;
}

// Once more, with its kernels one after the other; nothing where no folder is given.
void trace(const std::string& folder, const std::string& name, const std::function<void()>& step) {
  if (folder.empty()) return;
  ls::Trace trace(folder + "/" + name + ".json");
  step();
  trace.finish();
  std::printf("%s:\n", name.c_str());
  for (const ls::TraceTotal& total : trace.totals()) {
    std::printf("%9.3f ms %5llu x %s\n", total.seconds * 1e3, static_cast<unsigned long long>(total.count),
                total.what.c_str());
  }
  std::fflush(stdout);
}

void step_together(const ls::models::LanguageModel& any, int rows, int tokens, ls::Device device, double single,
                   const std::string& folder) {
  const auto& model = dynamic_cast<const ls::models::LayeredModel&>(any);
  constexpr std::int64_t kBefore = 9;
  const auto cache = model.make_cache();
  const ls::Tensor first = ls::Tensor::from(any_tokens(rows * kBefore), {rows, kBefore}, device);
  ls::models::Memories& held = ls::models::LayeredCache::of(cache.get(), model)->layers;
  ls::Tensor next = ls::argmax(model.forward(first, cache.get()).select(1, kBefore - 1), -1).eval();
  std::int64_t position = kBefore;
  const auto step = [&] {
    const std::vector<std::int64_t> positions(static_cast<std::size_t>(rows), position++);
    ls::models::RowPlaces places{
        {ls::models::BandPlaces(0, positions, std::vector<bool>(positions.size(), true), device)},
        model.at_positions(positions, device)};
    for (ls::models::LayerMemory& layer : held) {
      layer.keys.reserve(position);
      layer.values.reserve(position);
    }
    next = ls::argmax(model.repeated_step(next.reshape({1, rows}), places, {&held, 1}), -1);
    return ls::graph::EarlyRead(next);
  };
  std::optional<ls::graph::EarlyRead> reading;
  Clock::time_point start;
  constexpr int kWarm = 8;
  for (int i = 0; i < kWarm + tokens; ++i) {
    if (i == kWarm) start = Clock::now();
    ls::graph::EarlyRead of_next = step();
    if (reading) reading->to_vector<std::int64_t>();
    reading = std::move(of_next);
  }
  const std::uint64_t hash = next.hash();
  const double each = std::chrono::duration<double>(Clock::now() - start).count() / tokens;
  std::printf("%d texts together: %.1f tokens/s, %.3f ms each step, %.1f times one; hash %016llx\n", rows, rows / each,
              each * 1e3, rows / each / single, static_cast<unsigned long long>(hash));
  std::fflush(stdout);
  trace(folder, "together", [&] { step().to_vector<std::int64_t>(); });
}

void read_prompt(const ls::models::LanguageModel& model, int length, ls::Device device, const std::string& folder) {
  const std::vector<std::int64_t> ids = any_tokens(length);
  double best = 1e9;
  std::uint64_t hash = 0;
  const auto read = [&] {
    ls::models::PromptCache cache(model);
    hash = ls::argmax(cache.logits(ids, 1, device), -1).hash();
  };
  constexpr int kTimes = 6;  // windows settle in the first ones, which compile kernels
  for (int i = 0; i < kTimes; ++i) {
    const auto start = Clock::now();
    read();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
    std::printf("a prompt of %d tokens: %.1f tokens/s\n", length,
                length / std::chrono::duration<double>(Clock::now() - start).count());
    std::fflush(stdout);
  }
  std::printf("prompt of %d tokens: %.1f tokens/s at best; hash %016llx\n", length, length / best,
              static_cast<unsigned long long>(hash));
  std::fflush(stdout);
  trace(folder, "prompt", read);
}

}  // namespace

int main(int count, char** arguments) {
  const auto argument = [&](int i, const char* otherwise) { return std::string(count > i ? arguments[i] : otherwise); };
  try {
    const ls::Device device = ls::Device::parse(argument(1, "cuda:0"));
    const std::string name = argument(2, "q8_0");
    const double speed = std::atof(argument(3, "4800").c_str()) * 1e9;
    const int tokens = std::atoi(argument(4, "64").c_str());
    std::string config = kConfig;
    config.replace(config.find("LAYERS"), 6, argument(5, "32"));
    const int batch = std::atoi(argument(6, "0").c_str());
    const int prompt = std::atoi(argument(7, "0").c_str());
    const std::string folder = argument(8, "");
    const bool packed = name != "bf16";
    const ls::Encoding encoding = packed ? encoding_of(name) : ls::Encoding::dense;
    const ls::NoGrad no_grad;
    ls::manual_seed(1);
    const ls::NumericsScope scope(packed ? ls::Numerics::q8 : ls::Numerics::exact);
    const std::unique_ptr<ls::models::LanguageModel> model =
        ls::models::create_language_model(config, "config.json", 0);
    double bytes = 0;
    for (auto& [path, parameter] : model->named_parameters()) {
      if (parameter.tensor().shape().rank() != 2) continue;
      const ls::Shape shape = parameter.tensor().shape();
      parameter.requires_grad(false);
      if (packed) {
        parameter.set(random_blocks(shape, encoding, device));
      } else {
        parameter.set((ls::randn(shape, {.device = device}) * 0.01).to(ls::DType::bf16).eval());
      }
      const auto size = static_cast<double>(ls::encoded_bytes(encoding, ls::DType::bf16, shape.numel()));
      // Of the embedding a row is read.
      if (path.find("embed_tokens") == std::string::npos) bytes += size;
    }
    model->to(device);
    model->eval();
    ls::models::PromptCache cache(*model);
    std::vector<std::int64_t> text = {1};
    // As `generate` does it at temperature 0: a step is begun before the token of the one before is read.
    double recording = 0;  // until that is asked for
    ls::Tensor next = ls::argmax(cache.logits(text, 1, device), 1);
    std::optional<ls::graph::EarlyRead> reading(next);
    const auto step = [&] {
      const auto start = Clock::now();
      next = ls::argmax(cache.logits_behind(next), 1);
      ls::graph::EarlyRead of_next(next);
      recording += std::chrono::duration<double>(Clock::now() - start).count();
      text.push_back(reading->to_vector<std::int64_t>().front());
      cache.add(text.back());
      reading = std::move(of_next);
    };
    const auto timed = [&](int times) {
      const auto start = Clock::now();
      for (int i = 0; i < times; ++i) step();
      return std::chrono::duration<double>(Clock::now() - start).count();
    };
    const double first = timed(1);
    std::printf("first token after %.2f s\n", first);
    const double warm = timed(8);
    std::printf("8 more in %.3f s\n", warm);
    recording = 0;
    const double seconds = timed(tokens) / tokens;
    recording /= tokens;
    std::uint64_t hash = 0;
    for (const std::int64_t token : text) hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x9e3779b97f4a7c15u;
    std::printf(
        "%s: %.1f tokens/s, %.3f ms each (%.3f until it is waited for); limit %.1f, share %.3f; hash of the tokens "
        "%016llx\n",
        name.c_str(), 1 / seconds, seconds * 1e3, recording * 1e3, speed / bytes, bytes / seconds / speed,
        static_cast<unsigned long long>(hash));
    std::fflush(stdout);
    if (batch > 0) step_together(*model, batch, tokens, device, 1 / seconds, folder);
    if (prompt > 0) read_prompt(*model, prompt, device, folder);
    trace(folder, "decode_" + name, step);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
