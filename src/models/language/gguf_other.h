// Models in GGUF files that are no Decoders: Mamba, RWKV 7, T5.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/io/metadata.h>
#include <lockstep/io/tensor_file.h>
#include <lockstep/models/language.h>

namespace lockstep {
inline namespace v0 {
namespace models {

/// Their general.architecture, sorted.
std::vector<std::string_view> gguf_other_architectures();

/// The model that `metadata` and `tensors` describe, still without these; `tensors` get its names and shapes. Null for
/// other architectures. Throws FormatError, naming the file and the key, for metadata that are missing or make no
/// sense.
std::unique_ptr<LanguageModel> make_gguf_other(const io::Metadata& metadata, io::TensorMap& tensors,
                                               const std::string& path);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
