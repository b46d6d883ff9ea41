// The formats of files, one row each: how a file of it is recognised, what it is called, and who reads it. Rows without
// a reader name the files that are met and not read, so that an error says what a file is, and what to do.
//
// A new format of tensors is a file with its OpenTensors function, that function's declaration below, and a row.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>

#include <lockstep/io/cifar.h>
#include <lockstep/io/image.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/tensor_source.h"
#include "io/zip_archive.h"

namespace lockstep {
inline namespace v0 {
namespace io {

OpenTensors open_safetensors, open_npy, open_npz, open_pytorch, open_gguf, open_onnx;

/// What a row's `matches` looks at: the file's bytes and, if it is a zip file, its entries.
class Candidate {
 public:
  explicit Candidate(os::FileBytes file) : file_(std::move(file)) {}

  const os::FileBytes& file() const { return file_; }
  std::string_view text() const { return text_of(file_.bytes); }
  /// Null if the file is no zip file, or one that cannot be read. Opened once.
  const ZipArchive* zip() const;

 private:
  os::FileBytes file_;
  mutable bool opened_ = false;
  mutable std::optional<ZipArchive> zip_;
};

// What can be done with a file. `name` serves messages.
using DecodePicture = Image(std::string_view name, std::span<const std::byte> bytes);
using ParseRecords = CifarFile(std::string_view name, std::span<const std::byte> bytes);
struct NotRead {
  const char* why;  ///< Behind "it is a GIF image: ".
};
using Reader = std::variant<OpenTensors*, DecodePicture*, ParseRecords*, NotRead>;

struct Format {
  const char* name;                   ///< As listings show it: "safetensors".
  const char* is;                     ///< Behind "it is": "a safetensors file".
  std::string_view magic;             ///< The first bytes.
  bool (*matches)(const Candidate&);  ///< What must be true besides; null: nothing.
  Reader reader;
};

/// All rows, the more special ones first.
std::span<const Format> formats();

/// The first row that the file matches, or null. A guess that says which parser to ask; the parser checks everything.
const Format* find_format(const os::FileBytes& file);

/// The row of a file that is read. Throws FormatError for the others, saying what the file is.
const Format& readable_format(const os::FileBytes& file);

/// What the file seems to be, for an error that says it is not what was wanted: "it is a GGUF file: ...", "it is
/// empty", "it begins with the bytes 61 62 63".
std::string describe_start(std::span<const std::byte> bytes);

/// The tensors of a file of any format that has some. Throws FormatError for others, saying what the file is.
std::unique_ptr<TensorSource> open_tensors(const Format& format, os::FileBytes file, const OpenOptions& options);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
