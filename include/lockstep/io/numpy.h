// NumPy's array files: .npy holds one array, .npz is a zip file of them.
//
// Files are untrusted. Read are versions 1.0 to 3.0 of the format, little-endian: bool, integers, float16/32/64 and
// complex64, in C or Fortran order; .npz with stored or deflated entries. Python objects, texts and structures are
// refused: nothing in a file is executed. See docs/limits.md.
#pragma once

#include <string>

#include <lockstep/export.h>
#include <lockstep/io/tensor_file.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// The array of a .npy file, without a copy: an array in Fortran order is a permuted view. Throws IoError if the file
/// cannot be read, FormatError if it is malformed, big-endian or of an element type that tensors lack (the message says
/// how to convert it). NumPy: load.
LOCKSTEP_API Tensor load_npy(const std::string& path, LoadOptions options = {});

/// Writes version 1.0 in C order, so that a crash or an error leaves either the old file or the new. Throws IoError if
/// writing fails, ValueError for an undefined tensor, FormatError for bf16 and 8-bit floats, which NumPy lacks.
/// NumPy: save.
LOCKSTEP_API void save_npy(const std::string& path, const Tensor& tensor);

/// The arrays of a .npz file by name (without ".npy"). Stored entries are not copied, deflated ones are unpacked.
/// Throws like load_npy. NumPy: load.
LOCKSTEP_API TensorMap load_npz(const std::string& path, LoadOptions options = {});

/// Writes stored entries, aligned so that a reader may map them; equal tensors give equal files. Throws like save_npy,
/// and ValueError for a name that is not UTF-8 or that a zip file cannot hold. NumPy: savez.
LOCKSTEP_API void save_npz(const std::string& path, const TensorMap& tensors);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
