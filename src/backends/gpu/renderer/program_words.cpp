// The names of types, and of the words of elements: what loads, stores, decodes and encodes them (source.h).
#include <array>

#include "backends/gpu/renderer/program.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

const char* type_name(ComputeType type) {
  switch (type) {
    case ComputeType::f32: return "float";
    case ComputeType::f64: return "double";
    case ComputeType::i32: return "int";
    case ComputeType::i64: return "LONG";
  }
  return "";
}

const char* load_of(DType dtype) {
  static constexpr std::array kNames = {"LOAD_U8", "LOAD_U16", "LOAD_U32", "LOAD_U64"};
  return kNames[size_of(dtype) == 8 ? 3 : size_of(dtype) / 2];
}
const char* load_of(Encoding encoding, DType dtype) {
  switch (encoding) {
    case Encoding::dense: return load_of(dtype);
#define ENCODING(name, ...) \
  case Encoding::name: return "word_" #name;
#define FLOATS(name, ...) ENCODING(name)
#define NARROW(name, ...) \
  case Encoding::name: break;  // kernels see dense elements
#include <lockstep/encodings.def>
#undef ENCODING
  }
  return "";
}
const char* store_of(DType dtype) {
  static constexpr std::array kNames = {"STORE_U8", "STORE_U16", "STORE_U32", "STORE_U64"};
  return kNames[size_of(dtype) == 8 ? 3 : size_of(dtype) / 2];
}
const char* word_type_of(DType dtype) {
  return size_of(dtype) == 8 ? "ULONG" : "UINT";
}

std::string decoded(DType dtype, const std::string& word, bool canonical) {
  switch (dtype) {
    case DType::boolean:
    case DType::u8:
    case DType::i32: return fmt::format("int({})", word);
    case DType::i8: return fmt::format("(int(({}) << 24) >> 24)", word);
    case DType::i16: return fmt::format("(int(({}) << 16) >> 16)", word);
    case DType::u32:
    case DType::i64: return fmt::format("LONG({})", word);
    case DType::f16: return fmt::format("DECODE_F16({})", word);
    case DType::bf16:
      return canonical ? fmt::format("FROM_BITS(({}) << 16)", word) : fmt::format("decode_bf16({})", word);
    case DType::f32:
      return canonical ? fmt::format("FROM_BITS({})", word) : fmt::format("operand_f32(FROM_BITS({}))", word);
    case DType::f64: return fmt::format("FROM_BITS64({})", word);
    case DType::u16:
    case DType::u64:
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::complex64: break;  // never in kernels: kernel_dtype
  }
  return "";
}

std::string encoded(DType dtype, const std::string& value, ComputeType type) {
  switch (type) {
    case ComputeType::f32:
      switch (dtype) {
        case DType::f16: return fmt::format("ENCODE_F16({})", value);
        case DType::bf16: return fmt::format("ENCODE_BF16({})", value);
        case DType::boolean:
        case DType::u8:
        case DType::i8:
        case DType::i16:
        case DType::i32:
        case DType::i64:
        case DType::u32:
        case DType::f32:
        case DType::f64:
        case DType::u16:
        case DType::u64:
        case DType::f8e4m3:
        case DType::f8e5m2:
        case DType::complex64: break;
      }
      return fmt::format("BITS({})", value);
    case ComputeType::f64: return fmt::format("BITS64({})", value);
    case ComputeType::i32: return (size_of(dtype) == 8 ? "ULONG(LONG(" : "UINT((") + value + "))";
    case ComputeType::i64: return (size_of(dtype) == 8 ? "(ULONG(" : "UINT(ULONG(") + value + "))";
  }
  return "";
}

std::string converted(const std::string& value, ComputeType from, ComputeType to) {
  return from == to ? value : fmt::format("{}({})", type_name(to), value);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
