// Folders as they were published: models within models, fields that were left out, and names that families had before
// those of today.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <lockstep/io/weights.h>
#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// What a config.json says of the language model: all of it, or its text_config if it is one of several models, with
/// what transformers takes for fields that are absent (null is not). FormatError where it says no model_type.
nlohmann::json language_config(const nlohmann::json& document, const std::string& file);

/// Gives tensors the names that the model has for them, and drops what takes no part in its results.
void use_own_names(const LanguageModel& model, io::TensorMap& tensors);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
