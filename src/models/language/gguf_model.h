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

/// Of the architectures in gguf_architectures.cpp; of a model in several files, `path` is the first one. Throws
/// FormatError for other architectures, naming these, and for metadata that are missing or make no sense.
GgufModel open_gguf_model(const std::string& path, bool packed);
/// Writes a file like `source` with the tensors of `state`, which has the Decoder's names. ValueError if a tensor is not
/// there, or packed.
void save_gguf_model(const std::string& source, const io::TensorMap& state, const std::string& path);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
