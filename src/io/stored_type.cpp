// The element types that files store, each fact in one row.
#include <algorithm>
#include <array>

#include "core/assert.h"
#include "io/raw_tensor.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

struct Row {
  StoredType type;
  std::size_t bytes;
  std::string_view name;
  std::string_view safetensors;
  std::string_view torch_storage;
  std::string_view torch_dtype;
  std::optional<DType> dtype;
};

// An empty text: the format has no such type. In the order of StoredType.
constexpr std::array kRows = {
    Row{StoredType::boolean, 1, "bool", "BOOL", "BoolStorage", "bool", DType::boolean},
    Row{StoredType::u8, 1, "u8", "U8", "ByteStorage", "uint8", DType::u8},
    Row{StoredType::i8, 1, "i8", "I8", "CharStorage", "int8", DType::i8},
    Row{StoredType::u16, 2, "u16", "U16", "", "uint16", DType::u16},
    Row{StoredType::i16, 2, "i16", "I16", "ShortStorage", "int16", DType::i16},
    Row{StoredType::u32, 4, "u32", "U32", "", "uint32", DType::u32},
    Row{StoredType::i32, 4, "i32", "I32", "IntStorage", "int32", DType::i32},
    Row{StoredType::u64, 8, "u64", "U64", "", "uint64", DType::u64},
    Row{StoredType::i64, 8, "i64", "I64", "LongStorage", "int64", DType::i64},
    Row{StoredType::f8_e4m3, 1, "f8e4m3", "F8_E4M3", "", "float8_e4m3fn", DType::f8e4m3},
    Row{StoredType::f8_e5m2, 1, "f8e5m2", "F8_E5M2", "", "float8_e5m2", DType::f8e5m2},
    Row{StoredType::f16, 2, "f16", "F16", "HalfStorage", "float16", DType::f16},
    Row{StoredType::bf16, 2, "bf16", "BF16", "BFloat16Storage", "bfloat16", DType::bf16},
    Row{StoredType::f32, 4, "f32", "F32", "FloatStorage", "float32", DType::f32},
    Row{StoredType::f64, 8, "f64", "F64", "DoubleStorage", "float64", DType::f64},
    Row{StoredType::c32, 4, "complex32", "", "", "complex32", std::nullopt},
    Row{StoredType::c64, 8, "complex64", "C64", "ComplexFloatStorage", "complex64", DType::complex64},
    Row{StoredType::c128, 16, "complex128", "", "ComplexDoubleStorage", "complex128", std::nullopt},
};

const Row& row_of(StoredType type) {
  const auto index = static_cast<std::size_t>(type);
  LOCKSTEP_ASSERT(index < kRows.size() && kRows[index].type == type);
  return kRows[index];
}

std::optional<StoredType> find(std::string_view Row::*column, std::string_view name) {
  if (name.empty()) return std::nullopt;
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.*column == name; });
  return row == kRows.end() ? std::nullopt : std::optional(row->type);
}

}  // namespace

std::string_view name_of(StoredType type) {
  return row_of(type).name;
}
std::size_t size_of(StoredType type) {
  return row_of(type).bytes;
}
std::optional<DType> tensor_dtype(StoredType type) {
  return row_of(type).dtype;
}

StoredType stored_type(DType dtype) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.dtype == dtype; });
  LOCKSTEP_ASSERT(row != kRows.end());
  return row->type;
}

std::string_view safetensors_name(StoredType type) {
  return row_of(type).safetensors;
}
std::optional<StoredType> from_safetensors_name(std::string_view name) {
  return find(&Row::safetensors, name);
}
std::optional<StoredType> from_torch_storage(std::string_view name) {
  return find(&Row::torch_storage, name);
}
std::optional<StoredType> from_torch_dtype(std::string_view name) {
  return find(&Row::torch_dtype, name);
}
std::string_view torch_storage(StoredType type) {
  return row_of(type).torch_storage;
}
std::string_view torch_dtype(StoredType type) {
  return row_of(type).torch_dtype;
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
