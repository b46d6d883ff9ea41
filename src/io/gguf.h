// The header of a GGUF file (versions 2 and 3), checked completely: whoever holds one may trust every number in it.
// Below the level of Tensor, so that it can be fuzzed and listed without making any.
//
// Files are untrusted. Accepted are at most 65,536 metadata values and tensors; texts and arrays that fit the file,
// arrays without arrays inside; unique names, of tensors of at most 64 bytes; up to 4 dimensions; spans that lie in
// the file, aligned, in ascending order and without overlap.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/io/metadata.h>

#include "core/os.h"
#include "io/block_type.h"
#include "io/raw_tensor.h"

namespace lockstep {
inline namespace v0 {
namespace io {

// What a file may hold, for its reader and its writer.
inline constexpr std::uint64_t kMaxGgufEntries = 65'536;
inline constexpr std::uint64_t kMaxGgufTensorName = 64;
inline constexpr std::uint64_t kMaxGgufKey = 65'535;
inline constexpr std::uint32_t kMaxGgufRank = 4;
inline constexpr std::uint64_t kDefaultGgufAlignment = 32;
inline constexpr std::uint64_t kMaxGgufAlignment = 1 << 20;
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";

/// The types of metadata, by their numbers in the file.
enum class GgufValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, text, array, u64, i64, f64 };

struct GgufTensor {
  std::string name;
  const BlockType* type = nullptr;
  Shape shape;               ///< Row-major: the file's dimensions in the opposite order.
  std::uint64_t offset = 0;  ///< Of its first byte in the file.
  std::uint64_t bytes = 0;
};

struct GgufHeader {
  std::uint32_t version = 0;
  Metadata metadata;
  std::vector<GgufTensor> tensors;
};

/// Throws FormatError unless the file is valid. Reads the header, and nothing behind it.
GgufHeader parse_gguf(const os::FileBytes& file);

/// The files of the model that `path` begins, by split.count of its metadata: "model-00001-of-00003.gguf" has two
/// others. FormatError where `path` is one of several and not the first.
std::vector<std::string> gguf_files(const std::string& path, const Metadata& metadata);
/// FormatError unless a file says that it is `files[number]`.
void check_gguf_file(const std::vector<std::string>& files, std::size_t number, const Metadata& metadata);
/// FormatError unless all files together have as many tensors as the first one's metadata say, if they do.
void check_gguf_count(const std::string& path, const Metadata& metadata, std::size_t tensors);

/// The elements of a tensor of `file`: dense ones where they lie in the file; blocks decoded into f32, in memory of
/// their own. Throws FormatError for a block type that cannot be decoded.
RawTensor gguf_elements(const os::FileBytes& file, const GgufTensor& tensor);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
