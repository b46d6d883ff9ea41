// LoRA adapters in files: folders as peft writes them, GGUF files as llama.cpp's convert_lora_to_gguf does.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include <lockstep/models/lora.h>

#include "models/language/config.h"

namespace lockstep {
inline namespace v0 {
namespace models {

inline constexpr std::int64_t kMostLoraRank = 65'536;
// Of the names that peft gives to matrices: before and behind the path of a projection.
inline constexpr std::string_view kPeftPrefix = "base_model.model.";
inline constexpr std::string_view kLoraDown = ".lora_A.weight";
inline constexpr std::string_view kLoraUp = ".lora_B.weight";

struct LoraPair {
  Tensor down, up;
};

struct LoraFile {
  std::string path;  ///< Of the matrices, for messages.
  LoraOptions options;
  std::map<std::string, LoraPair> pairs;  ///< By the paths of projections.
  /// Rows of queries and keys stand as neighbours where published weights have halves.
  bool paired = false;
};

/// IoError, and FormatError for what is malformed or not supported, by name.
LoraFile read_lora_folder(const std::string& folder);
/// Under the names of a model that `config` describes. Errors as above.
LoraFile read_lora_gguf(const std::string& path, const DecoderConfig& config);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
