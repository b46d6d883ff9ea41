// A language model in a GGUF file: its metadata as a DecoderConfig, its tensors under the names of that config.
#pragma once

#include <lockstep/io/tensor_file.h>

#include "models/language/config.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct GgufModel {
  DecoderConfig config;
  io::TensorMap tensors;
};

/// Architectures llama, qwen2 and qwen3. Throws FormatError for others, naming these, and for metadata that
/// are missing or make no sense.
GgufModel open_gguf_model(const std::string& path);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
