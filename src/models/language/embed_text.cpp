#include <lockstep/models/embed_text.h>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/error.h>
#include <lockstep/ops.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/gguf.h"
#include "io/json_fields.h"
#include "models/language/decoder.h"

namespace lockstep {
inline namespace v0 {
namespace models {
namespace {

Pooling default_pooling(const LanguageModel& model) {
  const auto* transformer = dynamic_cast<const Decoder*>(&model);
  const bool sees_all = transformer != nullptr && !transformer->config().attention.causal;
  return sees_all ? Pooling::mean : Pooling::last;
}

bool holds(const std::string& folder, std::string_view name) {
  for (const os::DirectoryEntry& entry : os::list_directory(folder)) {
    if (entry.name == name) return true;
  }
  return false;
}

// What sentence-transformers does with a text, one step after the other.
void check_steps(const std::string& folder) {
  if (!holds(folder, "modules.json")) return;
  const std::string path = folder + "/modules.json";
  const nlohmann::json steps = io::parse_json(os::map_file(path));
  for (const nlohmann::json& step : steps) {
    const io::JsonFields fields(step, path);
    const std::string type = fields.text("type");
    if (type.ends_with(".Transformer") || type.ends_with(".Pooling") || type.ends_with(".Normalize")) continue;
    fields.fail("type", in_quotes(type) + " is not offered");
  }
}

Pooling pooling_of_folder(const std::string& folder, const LanguageModel& model) {
  check_steps(folder);
  if (!holds(folder, "1_Pooling") || !holds(folder + "/1_Pooling", "config.json")) return default_pooling(model);
  const std::string path = folder + "/1_Pooling/config.json";
  const nlohmann::json json = io::parse_json(os::map_file(path));
  std::string chosen;
  for (const auto& [key, value] : json.items()) {
    if (key.starts_with("pooling_mode_") && value == true) chosen += (chosen.empty() ? "" : ", ") + key;
  }
  if (chosen.empty() && json.contains("pooling_mode") && json["pooling_mode"].is_string()) {
    return parse_pooling(json["pooling_mode"] == "lasttoken" ? "last" : json["pooling_mode"].get<std::string>());
  }
  if (chosen == "pooling_mode_mean_tokens") return Pooling::mean;
  if (chosen == "pooling_mode_cls_token") return Pooling::cls;
  if (chosen == "pooling_mode_lasttoken") return Pooling::last;
  throw FormatError(fmt::format("{}: {} is not offered (one of pooling_mode_mean_tokens, _cls_token, _lasttoken)", path,
                                chosen.empty() ? "no pooling" : chosen));
}

Pooling pooling_of_gguf(const os::FileBytes& file, const LanguageModel& model) {
  const io::GgufHeader header = io::parse_gguf(file);
  const auto found = header.metadata.find(model.family() + ".pooling_type");
  if (found == header.metadata.end()) return default_pooling(model);
  switch (found->second.as_integer()) {
    case 0: return default_pooling(model);
    case 1: return Pooling::mean;
    case 2: return Pooling::cls;
    case 3: return Pooling::last;
    case 4: return default_pooling(model);  // for scores (rerank.h)
    default: throw FormatError(fmt::format("{}: {} is not offered (0 to 4)", file.path, found->first));
  }
}

}  // namespace

Pooling parse_pooling(const std::string& word) {
  if (word == "mean") return Pooling::mean;
  if (word == "cls") return Pooling::cls;
  if (word == "last") return Pooling::last;
  throw ValueError(fmt::format("pooling: {} is none of mean, cls and last", in_quotes(word)));
}

Pooling pooling_of(const std::string& path, const LanguageModel& model) {
  if (os::is_directory(path)) return pooling_of_folder(path, model);
  const os::FileBytes file = os::map_file(path);
  return text_of(file.bytes).starts_with("GGUF") ? pooling_of_gguf(file, model) : default_pooling(model);
}

Tensor embed_text(const LanguageModel& model, const std::vector<std::int64_t>& tokens, const EmbedTextOptions& options,
                  Device device) {
  const auto* transformer = dynamic_cast<const Decoder*>(&model);
  if (transformer == nullptr) {
    throw ValueError(fmt::format("embed_text: {} is no transformer that reads texts", model.family()));
  }
  const auto length = static_cast<std::int64_t>(tokens.size());
  if (tokens.empty()) throw ValueError("embed_text: the text has no tokens");
  if (model.context() > 0 && length > model.context()) {
    throw ValueError(fmt::format("embed_text: the text has {} tokens, the model reads {}", length, model.context()));
  }
  const NoGrad no_grad;
  const Tensor states = transformer->hidden(Tensor::from(tokens, {1, length}, device)).select(0, 0);
  Tensor vector;
  switch (options.pooling) {
    case Pooling::mean: vector = states.mean(0); break;
    case Pooling::cls: vector = states.select(0, 0); break;
    case Pooling::last: vector = states.select(0, length - 1); break;
  }
  return options.normalize ? normalize(vector, 2, 0) : vector;
}

Tensor first_dimensions(const Tensor& vector, std::int64_t count) {
  if (count < 1 || count > vector.numel()) {
    throw ValueError(fmt::format("{} dimensions of a vector that has {}", count, vector.numel()));
  }
  return normalize(vector.narrow(0, 0, count), 2, 0);
}

}  // namespace models
}  // namespace v0
}  // namespace lockstep
