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
  std::string_view numpy;
  std::string_view gguf;
  std::optional<DType> dtype;
};

// An empty text: the format has no such type. The types of tensors are those of dtypes.def; the others are listed, but
// not loaded.
constexpr std::array kRows = {
#define LOCKSTEP_DTYPE(name, text, element, bytes, kind, use, word, compute, kernel, digits, largest, subnormals, \
                       stored, torch, torch_storage, safetensors, numpy, gguf, ...)                              \
  Row{StoredType::stored, bytes, text, safetensors, torch_storage, torch, numpy, gguf, DType::name},
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
    Row{StoredType::c32, 4, "complex32", "", "", "complex32", "", "", std::nullopt},
    Row{StoredType::c128, 16, "complex128", "", "ComplexDoubleStorage", "complex128", "c16", "", std::nullopt},
};

const Row& row_of(StoredType type) {
  const auto row = std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.type == type; });
  LOCKSTEP_ASSERT(row != kRows.end());
  return *row;
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
std::string_view numpy_code(StoredType type) {
  return row_of(type).numpy;
}
std::optional<StoredType> from_numpy_code(std::string_view code) {
  return find(&Row::numpy, code);
}
std::string_view gguf_name(StoredType type) {
  return row_of(type).gguf;
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
