// The architectures of GGUF files, a row each: what one adds to the description that all have (gguf_config.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <lockstep/io/tensor_file.h>

#include "models/language/config.h"
#include "models/language/gguf_fields.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// A bound of sizes in metadata.
inline constexpr std::int64_t kMostFeatures = std::int64_t{1} << 24;

/// What an architecture's rule reads.
struct GgufSource {
  const GgufFields& fields;
  const io::TensorMap& tensors;
};

struct GgufArchitecture {
  std::string_view name;
  void (*adapt)(const GgufSource& source, DecoderConfig& config);
  bool paired = false;  ///< AttentionConfig::paired
};

/// The row that `metadata` name. FormatError, with those that are known, where there is none.
const GgufArchitecture& gguf_architecture_of(const io::Metadata& metadata, const std::string& path);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
