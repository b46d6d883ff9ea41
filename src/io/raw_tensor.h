// What the readers of tensor files share below the level of Tensor: a checked description of elements in memory.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/io/tensor_file.h>

#include "core/checked.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {

/// Elements of a file and what keeps them in memory. `bytes` has exactly the size that type, shape and encoding ask.
struct RawTensor {
  StoredType type = StoredType::f32;
  Shape shape;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
  bool fortran_order = false;  ///< The first dimension is the innermost in memory, not the last.
  Encoding encoding = Encoding::dense;  ///< Of blocks; `type` is then that of their values.
};

/// Elements of `shape`. No file may state more than 2^63 - 1, even when another dimension is 0.
CheckedSize element_count(const Shape& shape);

/// "f32 [32, 8]".
std::string describe(StoredType type, const Shape& shape);

/// The tensor that uses the same memory. `file` and `name` serve messages; the tensor is not named.
/// Throws DTypeError for complex32 and complex128, and FormatError if a bool is neither 0 nor 1.
Tensor to_tensor(const RawTensor& raw, std::string_view file, std::string_view name);

/// The elements of an entry of `file`. Throws ValueError if the entry does not describe bytes of the file.
RawTensor raw_tensor(const os::FileBytes& file, const TensorEntry& entry);

/// All elements, from any device, in row-major order.
std::vector<std::byte> elements_of(const Tensor& tensor);

/// What the writers ask of their arguments: throws ValueError naming the tensor unless it is defined.
void check_defined(const std::string& path, std::string_view name, const Tensor& tensor);

/// The file's bytes, mapped or read as `options` say.
os::FileBytes open_file(const std::string& path, const LoadOptions& options);

// The names of element types in the formats that we read.
std::string_view safetensors_name(StoredType type);
std::optional<StoredType> from_safetensors_name(std::string_view name);
/// By the class of a storage ("FloatStorage"; empty where PyTorch has none) or by dtype ("float32").
std::optional<StoredType> from_torch_storage(std::string_view name);
std::optional<StoredType> from_torch_dtype(std::string_view name);
/// In NumPy's descr, without the byte order ("f4"), and in GGUF ("F32").
std::string_view numpy_code(StoredType type);
std::optional<StoredType> from_numpy_code(std::string_view code);
std::string_view gguf_name(StoredType type);
std::string_view torch_storage(StoredType type);
std::string_view torch_dtype(StoredType type);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
