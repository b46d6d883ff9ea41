// Builds GGUF files piece by piece, valid or not.
#pragma once

#include <string>
#include <vector>

#include "io/builders.h"

namespace lockstep::test {

inline std::string gguf_text(const std::string& text) {
  return bytes_of<std::uint64_t>(text.size()) + text;
}

/// A metadata value: its key, the number of its type, and its bytes.
inline std::string gguf_value(const std::string& key, std::uint32_t type, const std::string& bytes) {
  return gguf_text(key) + bytes_of(type) + bytes;
}

/// A tensor's description. `sizes` are in the file's order, the innermost first.
inline std::string gguf_tensor(const std::string& name, const std::vector<std::uint64_t>& sizes, std::uint32_t type,
                               std::uint64_t offset) {
  std::string result = gguf_text(name) + bytes_of(static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint64_t size : sizes) result += bytes_of(size);
  return result + bytes_of(type) + bytes_of(offset);
}

/// A whole file, its data aligned to 32 bytes.
inline std::string gguf_file(const std::vector<std::string>& values, const std::vector<std::string>& tensors = {},
                             const std::string& data = {}, std::uint32_t version = 3) {
  std::string result =
      "GGUF" + bytes_of(version) + bytes_of<std::uint64_t>(tensors.size()) + bytes_of<std::uint64_t>(values.size());
  for (const std::string& value : values) result += value;
  for (const std::string& tensor : tensors) result += tensor;
  result.resize((result.size() + 31) / 32 * 32, '\0');
  return result + data;
}

}  // namespace lockstep::test
