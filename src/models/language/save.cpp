// Models into files, as they were published.
#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/io/safetensors.h>
#include <lockstep/models/lora.h>

#include "core/checked.h"
#include "io/json_fields.h"
#include "models/language/gguf_model.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

// What a folder holds beside its weights, where it is there.
constexpr const char* kBeside[] = {"tokenizer.json",
                                   "tokenizer_config.json",
                                   "special_tokens_map.json",
                                   "chat_template.jinja",
                                   "generation_config.json",
                                   "tokenizer.model",
                                   "vocab.json",
                                   "merges.txt",
                                   "added_tokens.json"};

void save_text(const std::string& path, const std::string& text) {
  os::AtomicFile file(path);
  file.write(text);
  file.commit();
}

}  // namespace

void save_language_model(const LanguageModel& model, const std::string& source, const std::string& path) {
  const io::TensorMap state = model.state_dict();
  if (!os::is_directory(source)) {
    save_gguf_model(source, state, path);
    return;
  }
  for (const auto& [name, tensor] : state) {
    if (tensor.encoding() == Encoding::dense) continue;
    throw ValueError(fmt::format("save_language_model: {} is packed", name));
  }
  os::make_directories(path);
  const os::FileBytes text = os::map_file(source + "/config.json");
  io::parse_json(text);  // with its limits
  auto config = nlohmann::ordered_json::parse(text_of(text.bytes));
  // Of several models in one, the language model is what there is.
  if (config.contains("text_config") && config["model_type"] != model.family()) {
    nlohmann::ordered_json own = config["text_config"];
    constexpr const char* kTied = "tie_word_embeddings";
    if (config.contains(kTied) && !own.contains(kTied)) own[kTied] = config[kTied];
    config = std::move(own);
  }
  for (const char* key : {"dtype", "torch_dtype"}) {
    if (config.contains(key)) config[key] = "float32";
  }
  for (const char* key : {"quantization_config", "quantization"}) config.erase(key);
  save_text(path + "/config.json", config.dump(2) + "\n");
  for (const char* name : kBeside) {
    const std::filesystem::path from = std::filesystem::path(source) / name;
    if (std::filesystem::exists(from))
      save_text(path + "/" + name, std::string(text_of(os::read_file(from.string()).bytes)));
  }
  io::save_safetensors(path + "/model.safetensors", state, {{"format", "pt"}});
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
