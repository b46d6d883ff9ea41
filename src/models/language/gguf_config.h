// What the metadata of a GGUF file mean, as a DecoderConfig.
#pragma once

#include <string>

#include <lockstep/io/metadata.h>
#include <lockstep/io/tensor_file.h>

#include "models/language/config.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// The description of the model that `metadata` and the names of `tensors` (those of the file) give; vocabulary and
/// learned positions are left to be counted. Throws FormatError, naming the file and the key, for architectures that
/// are not supported, and for metadata that are missing or make no sense.
DecoderConfig read_gguf_config(const io::Metadata& metadata, const io::TensorMap& tensors, const std::string& path);
/// Whether files of the architecture that `metadata` name have the rows of queries and keys as neighbours where
/// published weights have halves. Throws like the above.
bool has_paired_rows(const io::Metadata& metadata, const std::string& path);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
