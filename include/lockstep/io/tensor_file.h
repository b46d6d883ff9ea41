// What files of tensors have in common: the element types they can store, the options for reading them, and the named
// tensors that come out. The formats: io/safetensors.h and io/pytorch.h; io/weights.h reads either.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/dtype.h>
#include <lockstep/export.h>
#include <lockstep/shape.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// Element types that files store. Those without a DType (c32, c128) can be listed but not loaded.
enum class StoredType : std::uint8_t {
  boolean,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  f8_e4m3,
  f8_e5m2,
  f16,
  bf16,
  f32,
  f64,
  c32,
  c64,
  c128
};

/// "f32", "u16", ...: the name of the DType where there is one.
LOCKSTEP_API std::string_view name_of(StoredType type);
/// Bytes of one element.
LOCKSTEP_API std::size_t size_of(StoredType type);
/// The element type of the tensor that such elements load as; nothing for c32 and c128.
LOCKSTEP_API std::optional<DType> tensor_dtype(StoredType type);
LOCKSTEP_API StoredType stored_type(DType dtype);

struct LoadOptions {
  /// Map the file instead of reading it: loading costs no memory until values are used. The file must then neither
  /// shrink (the process would die of SIGBUS) nor change while tensors of it live; set false for files that others
  /// write to, or that lie on a network.
  bool map = true;
  /// Verify the checksums of a zip file's records. Formats without checksums ignore it.
  bool verify_checksums = true;
  /// Leave blocks of quantised elements as they are where lockstep/encodings.def knows them (Tensor::encoding), instead of
  /// decoding them into f32. Only GGUF files have them.
  bool packed = false;
};

/// Tensors by name, in the order of their names.
using TensorMap = std::map<std::string, Tensor, std::less<>>;

/// The tensors of a file, on the CPU, and the texts stored beside them.
struct TensorFile {
  TensorMap tensors;
  std::map<std::string, std::string> metadata;
};

/// One tensor of a file, as the file describes it.
struct TensorEntry {
  std::string name;
  StoredType type = StoredType::f32;
  Shape shape;
  std::uint64_t offset = 0;  ///< Of its first byte in the file.
  std::uint64_t bytes = 0;   ///< That it occupies in the file.
  /// Of packed elements, which are decoded into `type`: "Q4_K". Empty for elements that lie in the file as they are.
  std::string encoding = {};
};

}  // namespace io
}  // namespace v0
}  // namespace lockstep
