#include "models/language/lora_files.h"

#include <filesystem>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <lockstep/error.h>
#include <lockstep/io/weights.h>
#include <lockstep/ops.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/json_fields.h"
#include "models/language/gguf_config.h"
#include "models/language/gguf_fields.h"
#include "models/language/gguf_model.h"
#include "models/language/parameters.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

void check_some(const LoraFile& file) {
  if (file.pairs.empty()) throw FormatError(fmt::format("{}: there is no adapter in it", file.path));
}

LoraOptions read_config(const std::string& path) {
  const nlohmann::json document = io::parse_json(os::map_file(path));
  const io::JsonFields config(document, path);
  const auto refuse = [&](const char* key, const std::string& what) { config.fail(key, what + " is not supported"); };
  if (config.text("peft_type") != "LORA") refuse("peft_type", config.text("peft_type"));
  if (config.text_or("bias", "none") != "none") refuse("bias", "training of biases");
  for (const char* key : {"use_dora", "use_qalora", "use_bdlora", "lora_bias"}) {
    if (config.flag_or(key, false)) refuse(key, "this kind of adapter");
  }
  for (const char* key :
       {"alpha_pattern", "modules_to_save", "layer_replication", "target_parameters", "trainable_token_indices",
        "alora_invocation_tokens", "kasa_config", "monteclora_config", "velora_config"}) {
    const nlohmann::json* value = config.find(key);
    if (value != nullptr && !value->empty()) refuse(key, "what it asks for");
  }
  // Such a beginning changes the model, too.
  if (const nlohmann::json* begin = config.find("init_lora_weights"); begin != nullptr && begin->is_string()) {
    const auto kind = begin->get<std::string>();
    if (kind != "gaussian" && kind != "eva" && kind != "orthogonal") refuse("init_lora_weights", kind);
  }
  LoraOptions result;
  result.rank = config.integer("r", 1, kMostLoraRank);
  result.alpha = config.real("lora_alpha");
  result.root_of_rank = config.flag_or("use_rslora", false);
  return result;
}

}  // namespace

LoraFile read_lora_folder(const std::string& folder) {
  LoraFile result;
  result.options = read_config(folder + "/adapter_config.json");
  const std::string safe = folder + "/adapter_model.safetensors";
  result.path = std::filesystem::exists(safe) ? safe : folder + "/adapter_model.bin";
  for (const auto& [key, tensor] : io::load_weights(result.path)) {
    const std::string name = key.starts_with(kPeftPrefix) ? key.substr(kPeftPrefix.size()) : key;
    const bool down = name.ends_with(kLoraDown);
    if (!down && !name.ends_with(kLoraUp)) {
      throw FormatError(fmt::format("{}: {} is no matrix of a projection (lora_A, lora_B), which alone are supported",
                                    result.path, in_quotes(key)));
    }
    LoraPair& pair = result.pairs[name.substr(0, name.size() - (down ? kLoraDown : kLoraUp).size())];
    (down ? pair.down : pair.up) = tensor;
  }
  check_some(result);
  return result;
}

LoraFile read_lora_gguf(const std::string& path, const DecoderConfig& config) {
  constexpr std::string_view kWeight = ".weight";
  constexpr std::string_view kGgufDown = ".lora_a";
  constexpr std::string_view kGgufUp = ".lora_b";
  const io::Metadata metadata = io::list_tensors(path).metadata;
  const GgufFields general(metadata, path, "general.");
  const GgufFields adapter(metadata, path, "adapter.");
  const std::string type = general.text_or("type", "");
  if (type != "adapter") general.fail("type", fmt::format("{} is no adapter", in_quotes(type)));
  const std::string kind = adapter.text_or("type", "");
  if (kind != "lora") adapter.fail("type", fmt::format("{} is not supported (lora is)", in_quotes(kind)));
  if (adapter.has("alora.invocation_tokens")) adapter.fail("alora.invocation_tokens", "is not supported");
  if (!adapter.has("lora.alpha")) adapter.fail("lora.alpha", "is missing");
  // Their converters make other matrices of the model's, which an adapter's file does not have in that form.
  if (config.transposed || config.attention.fusion == Fusion::grouped) {
    general.fail("type",
                 "adapters in GGUF files are not supported for this model\n  fix: load it from a GGUF file, or "
                 "the adapter from its folder");
  }
  LoraFile result{.path = path};
  result.options.alpha = adapter.positive_or("lora.alpha", 1);
  result.paired = has_paired_rows(metadata, path);
  for (const auto& [name, tensor] : io::load_weights(path)) {
    const bool down = name.ends_with(kGgufDown);
    const std::string weight = name.substr(0, name.size() - std::min(name.size(), kGgufDown.size()));
    if ((!down && !name.ends_with(kGgufUp)) || !weight.ends_with(kWeight)) {
      throw FormatError(fmt::format("{}: {} is no matrix of a projection (lora_a, lora_b), which alone are supported",
                                    path, in_quotes(name)));
    }
    // All experts of a layer.
    if (tensor.rank() == 3 && tensor.size(0) != config.experts.count) {
      throw FormatError(fmt::format("{}: {} is of {} experts, the model has {}", path, in_quotes(name), tensor.size(0),
                                    config.experts.count));
    }
    const OwnNames own = own_names(config.names, weight, tensor.shape());
    std::int64_t number = 0;
    for (const std::string& one : own.names) {
      LoraPair& pair = result.pairs[one.substr(0, one.size() - kWeight.size())];
      (down ? pair.down : pair.up) = own.experts ? tensor.select(0, number++) : tensor;
    }
  }
  check_some(result);
  // Of peft's configuration, which has one rank and names the projections that differ.
  const Tensor& first = result.pairs.begin()->second.down;
  if (first.defined() && first.rank() == 2) result.options.rank = first.size(0);
  return result;
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
