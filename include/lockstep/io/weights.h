// Weights from a file of any supported format, recognised by its content and never by its name.
#pragma once

#include <string>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/io/metadata.h>
#include <lockstep/io/tensor_file.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// The tensors of a model, under the names that Module::load_state_dict wants. Of a PyTorch checkpoint this is its
/// state dict: the file's top level if tensors stand there, else what stands under "state_dict", "model_state_dict",
/// "model", "net", "weights" or "params". A prefix "module." that all names share (DataParallel) is removed.
/// Throws IoError if the file cannot be read, FormatError if it is of no supported format (an error says of which it
/// is, where it is known), is malformed or has no names (.npy: load_npy reads it), DTypeError if tensors cannot have an
/// element type (complex32, complex128).
LOCKSTEP_API TensorMap load_weights(const std::string& path, LoadOptions options = {});

/// What a file holds, without making tensors of it.
struct FileListing {
  std::string format;  ///< "safetensors", "PyTorch zip", "PyTorch legacy", "NumPy npy" or "NumPy npz".
  std::vector<TensorEntry> tensors;
  Metadata metadata;
};

/// Lists a file of any supported format, complex32 and complex128 included. Throws like load_weights, never DTypeError.
LOCKSTEP_API FileListing list_tensors(const std::string& path, LoadOptions options = {});

}  // namespace io
}  // namespace v0
}  // namespace lockstep
