// Models from files: folders of Hugging Face and GGUF files.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/io/weights.h>
#include <lockstep/models/language.h>
#include <lockstep/models/lora.h>

#include "core/checked.h"
#include "graph/stored_tensor.h"
#include "io/formats.h"
#include "io/json_fields.h"
#include "models/language/classifier.h"
#include "models/language/decoder.h"
#include "models/language/encoder_decoder.h"
#include "models/language/families.h"
#include "models/language/gguf_model.h"
#include "models/language/packed_folder.h"
#include "models/language/published.h"
#include "models/language/rwkv.h"
#include "models/language/rwkv7.h"
#include "models/language/states.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

/// Families that are no transformers.
struct OtherFamily {
  std::string_view name;
  std::unique_ptr<LanguageModel> (*create)(const io::JsonFields& config);
};
constexpr std::array kOthers = {OtherFamily{"mamba", create_mamba},    OtherFamily{"mamba2", create_mamba2},
                                OtherFamily{"mt5", create_t5},         OtherFamily{"rwkv", create_rwkv4},
                                OtherFamily{"rwkv7", create_rwkv7},    OtherFamily{"t5", create_t5},
                                OtherFamily{"whisper", create_whisper}};

constexpr const char* kIndex = "model.safetensors.index.json";
constexpr const char* kWhole = "model.safetensors";
constexpr const char* kPickle = "pytorch_model.bin";  // of folders that are older

bool folder_has(const std::string& folder, std::string_view name) {
  const std::vector<os::DirectoryEntry> entries = os::list_directory(folder);
  return std::any_of(entries.begin(), entries.end(), [&](const auto& entry) { return entry.name == name; });
}

// A folder without the files of a model: what was looked for, and what lies there instead.
void check_folder(const std::string& path) {
  const bool described = folder_has(path, "config.json");
  const auto has = [&](const char* name) { return folder_has(path, name); };
  if (described && (has(kWhole) || has(kIndex) || has(kPickle))) return;
  std::string others;
  for (const os::DirectoryEntry& entry : os::list_directory(path)) {
    for (const std::string_view kind : {".gguf", ".safetensors", ".bin", ".pth", ".model"}) {
      if (entry.name.ends_with(kind)) others += (others.empty() ? "" : ", ") + entry.name;
    }
  }
  throw FormatError(
      fmt::format("{}: the folder has {}\n  looked for: config.json, which says what model it is, beside {}, or beside "
                  "{} and the files "
                  "that it names\n  weights there: {}\n  fix: give the folder that a model was published as, or the "
                  "path of a GGUF file",
                  path, described ? "config.json, but no weights" : "no config.json", kWhole, kIndex,
                  others.empty() ? "none" : others));
}

// Whether a decoder was saved by itself, without the head that its config speaks of: Qwen3-Embedding.
bool lacks_head(const LanguageModel& model, const io::TensorMap& tensors) {
  const auto* const decoder = dynamic_cast<const Decoder*>(&model);
  if (decoder == nullptr || decoder->config().encoder || decoder->config().tied) return false;
  const ModelNames& names = decoder->config().names;
  if (tensors.contains(names.head + ".weight")) return false;
  return tensors.contains(names.embedding.substr(names.embedding.find('.') + 1) + ".weight");
}

std::unique_ptr<LanguageModel> create(const nlohmann::json& document, std::string_view file, std::int64_t context,
                                      bool headless = false) {
  const io::JsonFields config(document, std::string(file));
  const std::string family = config.text("model_type");
  for (const OtherFamily& other : kOthers) {
    if (other.name != family) continue;
    if (context != 0) throw ValueError(fmt::format("{}: a context is asked for, and there is none to choose", family));
    return other.create(config);
  }
  const auto rows = families();
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const Family& f) { return f.name == family; });
  if (row == rows.end()) {
    std::string known;
    for (const std::string& name : language_families()) known += (known.empty() ? "" : ", ") + name;
    throw FormatError(
        fmt::format("{}: model_type: {} is no family that is supported ({})", file, in_quotes(family), known));
  }
  DecoderConfig described = row->read(config);
  if (headless) described.encoder = true;
  read_classifier(config, described);
  use_context(described, context);
  return std::make_unique<Decoder>(std::move(described));
}

// Whether a model reads a parameter by products and look-ups alone: these read packed weights where they lie.
bool is_read_packed(const std::string& name, const Tensor& tensor) {
  if (tensor.rank() == 3) return name.ends_with(".experts.gate_up_proj") || name.ends_with(".experts.down_proj");
  return tensor.rank() == 2 && name.ends_with(".weight");
}

void load_into(LanguageModel& model, io::TensorMap tensors, bool packed) {
  use_own_names(model, tensors);
  for (auto& [name, parameter] : model.named_parameters()) {
    const auto found = tensors.find(name);
    if (found == tensors.end()) continue;
    if (packed && is_read_packed(name, found->second)) found->second = graph::packed_as_f32(found->second);
    if (found->second.encoding() != Encoding::dense) parameter.requires_grad(false);
  }
  model.load_state_dict(tensors);
}

std::unique_ptr<LanguageModel> ready(std::unique_ptr<LanguageModel> model, Device device,
                                     const LanguageLoadOptions& options) {
  model->eval();
  model->to(device);
  model->set_cache_type(options.cache);
  if (!options.adapter.empty()) LoraAdapter::load(*model, options.adapter);
  return model;
}

// The files that an index names, with their tensors.
std::map<std::string, std::set<std::string>> shards_of(const std::string& index) {
  const nlohmann::json document = io::parse_json(os::map_file(index));
  const io::JsonFields fields(document, index);
  std::map<std::string, std::set<std::string>> shards;
  for (const auto& [name, shard] : fields.object("weight_map").at_object().items()) {
    if (!shard.is_string()) fields.fail("weight_map", fmt::format("{} has no file's name", in_quotes(name)));
    const std::string file = shard.get<std::string>();
    if (file.empty() || file.find_first_of("/\\") != std::string::npos || file == "..") {
      fields.fail("weight_map", fmt::format("{} is no file of the folder", in_quotes(file)));
    }
    shards[file].insert(name);
  }
  return shards;
}

}  // namespace

std::vector<std::string> language_families() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.emplace_back(family.name);
  for (const OtherFamily& family : kOthers) names.emplace_back(family.name);
  std::sort(names.begin(), names.end());
  return names;
}

std::unique_ptr<LanguageModel> create_language_model(std::string_view config_json, std::string_view file,
                                                     std::int64_t context) {
  return create(language_config(io::parse_json(file, config_json), std::string(file)), file, context);
}

std::string local_language_model(const std::string& path, const io::HubOptions& options) {
  const std::optional<io::HubName> name = io::parse_hub_name(path);
  if (!name || !name->file.empty()) return io::local_file(path, options);
  const std::string config = io::hub_file(name->repository, "config.json", name->revision, options);
  const std::filesystem::path folder = std::filesystem::path(config).parent_path();
  // All else of the commit that this is of, whatever the branch does meanwhile.
  const std::string commit = folder.filename().string();
  for (const char* beside : {"tokenizer.json", "tokenizer_config.json", "generation_config.json"}) {
    io::find_hub_file(name->repository, beside, commit, options);
  }
  if (const auto index = io::find_hub_file(name->repository, kIndex, commit, options)) {
    for (const auto& [shard, tensors] : shards_of(*index)) io::hub_file(name->repository, shard, commit, options);
  } else {
    io::hub_file(name->repository, kWhole, commit, options);
  }
  return folder.string();
}

io::TensorMap load_model_folder(const std::string& path, io::LoadOptions options) {
  if (!folder_has(path, kIndex)) {
    return io::load_weights(path + "/" + (folder_has(path, kWhole) ? kWhole : kPickle), options);
  }
  const std::string index = path + "/" + kIndex;
  io::TensorMap result;
  for (const auto& [file, names] : shards_of(index)) {
    io::TensorMap tensors = io::load_weights(path + "/" + file, options);
    for (const std::string& name : names) {
      const auto found = tensors.find(name);
      if (found == tensors.end()) {
        throw FormatError(fmt::format("{}: tensor {} should be in {}, and is not", index, in_quotes(name), file));
      }
      result.emplace(name, std::move(found->second));
    }
  }
  return result;
}

std::unique_ptr<LanguageModel> load_language_model(const std::string& path, Device device,
                                                   LanguageLoadOptions options) {
  std::unique_ptr<LanguageModel> model;
  if (os::is_directory(path)) {
    const std::string config = path + "/config.json";
    check_folder(path);
    const nlohmann::json document = language_config(io::parse_json(os::map_file(config)), config);
    model = create(document, config, options.context);
    io::TensorMap tensors = load_model_folder(path);
    if (lacks_head(*model, tensors)) model = create(document, config, options.context, true);
    read_packed_weights(io::JsonFields(document, config), tensors, options.packed);
    split_rwkv7_shares(tensors);
    load_into(*model, std::move(tensors), options.packed);
  } else {
    const os::FileBytes bytes = os::map_file(path);
    if (is_rwkv_file(bytes)) {
      if (options.context != 0) throw ValueError(fmt::format("{}: RWKV has no context to choose", path));
      model = load_rwkv_file(bytes);
      return ready(std::move(model), device, options);
    }
    const std::string_view format = io::readable_format(bytes).name;
    if (format != "GGUF") {
      throw FormatError(
          fmt::format("{}: a language model is a GGUF file, or a folder with config.json and "
                      "model.safetensors; this is a file of {}",
                      path, format));
    }
    GgufModel file = open_gguf_model(path, options.packed, options.context);
    model = std::move(file.model);
    load_into(*model, std::move(file.tensors), options.packed);
  }
  return ready(std::move(model), device, options);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
