// Names of element types in the formats: each leads back to its type, and every dtype can be stored.
#include <set>

#include <gtest/gtest.h>

#include "io/raw_tensor.h"

namespace lockstep::io {
namespace {

std::vector<StoredType> every_type() {
  std::vector<StoredType> types;
  for (int i = 0; i <= static_cast<int>(StoredType::c128); ++i) types.push_back(static_cast<StoredType>(i));
  return types;
}

TEST(StoredTypes, EveryDTypeIsStoredAsItself) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const StoredType type = stored_type(dtype);
    EXPECT_EQ(tensor_dtype(type), dtype);
    EXPECT_EQ(name_of(type), lockstep::name_of(dtype));
    EXPECT_EQ(size_of(type), lockstep::size_of(dtype));
  }
  EXPECT_EQ(tensor_dtype(StoredType::c128), std::nullopt);
}

TEST(StoredTypes, NamesLeadBack) {
  for (const StoredType type : every_type()) {
    SCOPED_TRACE(name_of(type));
    if (!safetensors_name(type).empty()) {
      EXPECT_EQ(from_safetensors_name(safetensors_name(type)), type);
    }
    if (!numpy_code(type).empty()) {
      EXPECT_EQ(from_numpy_code(numpy_code(type)), type);
    }
  }
  EXPECT_EQ(from_safetensors_name(""), std::nullopt);
  EXPECT_EQ(from_numpy_code(""), std::nullopt);
}

TEST(StoredTypes, NamesOfTheFormats) {
  EXPECT_EQ(safetensors_name(StoredType::f8_e4m3), "F8_E4M3");
  EXPECT_EQ(from_torch_storage("HalfStorage"), StoredType::f16);
  EXPECT_EQ(from_torch_dtype("float8_e4m3fn"), StoredType::f8_e4m3);
  EXPECT_EQ(from_torch_dtype("complex128"), StoredType::c128);
  EXPECT_EQ(numpy_code(StoredType::c128), "c16");
  EXPECT_EQ(numpy_code(StoredType::bf16), "");
}

TEST(StoredTypes, OfGgufAreItsUnpackedOnes) {
  std::set<std::string_view> names;
  for (const StoredType type : every_type()) names.insert(gguf_name(type));
  EXPECT_EQ(names, (std::set<std::string_view>{"", "F16", "BF16", "F32", "F64", "I8", "I16", "I32", "I64"}));
  EXPECT_EQ(gguf_name(StoredType::bf16), "BF16");
}

}  // namespace
}  // namespace lockstep::io
