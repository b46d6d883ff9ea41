// The header of a safetensors file, checked completely: whoever holds one may trust every number in it.
// Below the level of Tensor, so that it can be fuzzed and listed without making any.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <lockstep/io/tensor_file.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {

inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr std::size_t kMaxHeaderTensors = 131'072;
inline constexpr std::size_t kMaxMetadataKeys = 65'536;  // of __metadata__
inline constexpr std::size_t kMaxNameBytes = 1 << 20;
inline constexpr const char* kMetadataKey = "__metadata__";

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;    ///< In the order of their bytes.
  std::vector<std::uint32_t> by_name;  ///< Indices into entries, in the order of names.
  std::map<std::string, std::string> metadata;
};

/// Throws FormatError unless the file is valid. Reads the header once, and nothing behind it.
SafetensorsHeader parse_safetensors_header(const os::FileBytes& file);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
