// A language model in a GGUF file: its metadata as a DecoderConfig, its tensors under the names of that config.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <lockstep/io/tensor_file.h>
#include <lockstep/models/language.h>

#include "models/language/config.h"

namespace lockstep {
inline namespace v0 {
namespace models {

struct GgufModel {
  std::unique_ptr<LanguageModel> model;  ///< Still without `tensors`, which have its names.
  io::TensorMap tensors;
};

/// What a tensor of a file is called in a Decoder; one that is cut into `experts` has a name for each.
struct OwnNames {
  std::vector<std::string> names;
  bool experts = false;
};
/// "blk.3.attn_q.weight" is "model.layers.3.self_attn.q_proj.weight". Unknown names stay, and are refused when the
/// model is filled.
OwnNames own_names(const ModelNames& names, const std::string& name, const Shape& shape);

/// Of the architectures in gguf_architectures.cpp and gguf_other.cpp; of a model in several files, `path` is the first
/// one. `context` as in LanguageLoadOptions. Throws FormatError for other architectures, naming these, and for metadata
/// that are missing or make no sense.
GgufModel open_gguf_model(const std::string& path, bool packed, std::int64_t context);
/// Writes a file like `source` with the tensors of `state`, which has the Decoder's names. ValueError if a tensor is
/// not there, or packed.
void save_gguf_model(const std::string& source, const io::TensorMap& state, const std::string& path);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
