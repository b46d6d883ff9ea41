// The safetensors format: an 8-byte length, a JSON header, and the tensors' bytes.
//
// Files are untrusted. Accepted is only what has one meaning: a header of at most 100,000,000 bytes that starts with
// "{", nested no deeper than 64, without duplicate or unknown keys; at most 131,072 tensors of rank at most 8 whose
// names have at most 1 MiB; spans that follow each other and cover the data exactly. See docs/limits.md.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/io/tensor_file.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// An open safetensors file: its header is checked, its tensors are not touched yet. A value; copies share the file,
/// and tensors keep it alive.
class LOCKSTEP_API SafetensorsReader {
 public:
  /// Throws IoError if the file cannot be read, FormatError if it is not a valid safetensors file.
  explicit SafetensorsReader(const std::string& path, LoadOptions options = {});

  /// All tensors, in the order of their bytes.
  const std::vector<TensorEntry>& entries() const;
  const std::map<std::string, std::string>& metadata() const;
  /// The tensor's values without a copy. Throws ValueError if there is none of that name, FormatError if a bool is
  /// neither 0 nor 1.
  Tensor load(std::string_view name) const;
  Tensor load(const TensorEntry& entry) const;

 private:
  struct File;
  std::shared_ptr<const File> file_;
};

/// Every tensor of the file, without a copy. Throws what SafetensorsReader throws.
LOCKSTEP_API TensorFile load_safetensors(const std::string& path, LoadOptions options = {});

/// Writes the tensors (from any device) and texts so that a crash or an error leaves either the old file or the new.
/// Tensors lie in the order of their element size, largest first, then of their names, each aligned to its elements.
/// Equal tensors and metadata give equal files. Throws IoError if writing fails, ValueError if a name or text is not
/// UTF-8, or is "__metadata__", or a tensor is undefined.
LOCKSTEP_API void save_safetensors(const std::string& path, const TensorMap& tensors,
                                   const std::map<std::string, std::string>& metadata = {});

}  // namespace io
}  // namespace v0
}  // namespace lockstep
