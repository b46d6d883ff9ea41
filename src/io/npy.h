// The header of a NumPy array, checked completely: whoever holds one may trust every number in it. Below the level of
// Tensor, so that it can be fuzzed and listed without making any.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include <lockstep/io/tensor_file.h>

#include "core/checked.h"
#include "core/os.h"
#include "io/raw_tensor.h"
#include "io/zip_archive.h"

namespace lockstep {
inline namespace v0 {
namespace io {

inline constexpr std::size_t kMaxNpyHeaderBytes = 65'536;

struct NpyHeader {
  StoredType type = StoredType::f32;
  Shape shape;                 ///< As NumPy shows it.
  bool fortran_order = false;  ///< The first dimension is the innermost in memory.
  std::size_t data_offset = 0;
  std::uint64_t bytes = 0;  ///< Of the elements.
};

/// Whether the bytes begin as a .npy file does.
bool is_npy(std::span<const std::byte> bytes);

/// Reads the header at the front of `start`. `file` names the file (and the entry) in messages; `total` is how many
/// bytes there are behind and including the header: the elements must fill them exactly. Throws FormatError.
NpyHeader parse_npy_header(std::string_view file, std::span<const std::byte> start, std::uint64_t total);

/// The elements of a whole array in memory.
RawTensor npy_elements(const NpyHeader& header, std::span<const std::byte> array, std::shared_ptr<const void> owner);

/// What stands before the elements of this tensor. Throws FormatError for types that NumPy lacks; `what` names it.
std::string npy_header_text(std::string_view what, const Tensor& tensor);

/// An opened .npz file.
ZipArchive npz_archive(os::FileBytes file);
/// Whether the entries of a zip file are arrays (and so not torch.save's).
bool is_npz(const ZipArchive& archive);
/// The name of an entry's array. Throws FormatError if the entry is none.
std::string npz_name(const ZipArchive& archive, const ZipEntry& entry);
/// The header of an entry's array; of a deflated entry only the front is unpacked.
NpyHeader npz_header(const ZipArchive& archive, const ZipEntry& entry);

/// The writers, with the system calls as a parameter so that tests can make them fail.
void write_npy(const std::string& path, const Tensor& tensor, os::SystemCalls& calls);
void write_npz(const std::string& path, const TensorMap& tensors, os::SystemCalls& calls);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
