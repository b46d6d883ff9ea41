#include "cli/language.h"

#include <charconv>

#include <fmt/format.h>

#include <lockstep/error.h>
#include <lockstep/models/columns.h>

#include "cli/command.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

std::vector<std::int64_t> parse_tokens(const std::string& text) {
  std::vector<std::int64_t> result;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::int64_t value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value < 0 || (next < end && *next != ',') || next + 1 == end) {
      throw UsageError(fmt::format("\"{}\" is no list of tokens such as 1,2,3", text));
    }
    result.push_back(value);
    at = next + 1;
  }
  if (result.empty()) throw UsageError("the list of tokens is empty");
  return result;
}

void ProductOptions::add_to(Subcommand& command) {
  command
      .option("--numerics", numerics,
              "Of products with quantised weights: q8 rounds activations to 8 bits in blocks of 32 and multiplies "
              "integers, exact decodes weights to f32; other products are exact in both")
      .one_of({name_of(Numerics::q8), name_of(Numerics::exact)})
      .show_default();
}

void ModelOptions::add_to(Subcommand& command) {
  command.option("--adapter", adapter, "A LoRA adapter of the model: a folder (adapter_config.json) or a GGUF file");
  command.option("--cache-type", cache_type, "Of keys and values that are remembered: f32, f16, bf16 or q8_0")
      .show_default();
  command
      .option(
          "--context", context,
          "Positions that the model is used for, where its rotary embeddings depend on that; absent: its usual ones")
      .positive();
}

models::LanguageLoadOptions ModelOptions::load() const {
  try {
    return {.adapter = adapter, .cache = models::parse_cache_type(cache_type), .context = context};
  } catch (const ValueError& error) {
    throw UsageError(fmt::format("--cache-type: {}", error.what()));
  }
}

std::unique_ptr<models::LanguageModel> ModelOptions::load_model(
    const std::string& path, Device device, const std::function<void(const models::LanguageModel& whole)>& seen) const {
  const bool is_divided = group && group->size() > 1;
  std::unique_ptr<models::LanguageModel> model =
      models::load_language_model(path, is_divided ? Device{} : device, load());
  if (seen) seen(*model);
  if (!is_divided) return model;
  models::divide_columns(*model, *group, device);
  model->to(device);
  return model;
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
