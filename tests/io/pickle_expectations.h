// Compares what was read from a PyTorch file with what PyTorch read from it, as JSON tells.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <lockstep/io/pytorch.h>

namespace lockstep::test {

/// The elements as double, whatever their type.
inline std::vector<double> values_of(const Tensor& tensor) {
  std::vector<std::uint8_t> bytes(static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
  tensor.read_bytes(bytes.data());
  std::vector<double> result;
  const auto collect = [&]<typename T>(T, auto convert) {
    for (std::size_t at = 0; at < bytes.size(); at += sizeof(T)) {
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      result.push_back(static_cast<double>(convert(value)));
    }
  };
  const auto same = [](auto value) { return value; };
  switch (tensor.dtype()) {
    case DType::boolean:
    case DType::u8: collect(std::uint8_t{}, same); break;
    case DType::i8: collect(std::int8_t{}, same); break;
    case DType::i16: collect(std::int16_t{}, same); break;
    case DType::i32: collect(std::int32_t{}, same); break;
    case DType::i64: collect(std::int64_t{}, same); break;
    case DType::u32: collect(std::uint32_t{}, same); break;
    case DType::f16: collect(Float16{}, [](Float16 value) { return to_f32(value); }); break;
    case DType::bf16: collect(BFloat16{}, [](BFloat16 value) { return to_f32(value); }); break;
    case DType::f32: collect(float{}, same); break;
    case DType::f64: collect(double{}, same); break;
    default: break;  // none of the recorded pickles holds a storage-only type
  }
  return result;
}

inline std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::boolean: return "bool";
    case DType::u8: return "uint8";
    case DType::i8: return "int8";
    case DType::i16: return "int16";
    case DType::i32: return "int32";
    case DType::i64: return "int64";
    case DType::u32: return "uint32";
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::f32: return "float32";
    case DType::f64: return "float64";
    default: break;
  }
  return {};
}

inline std::vector<std::int64_t> sizes_of(const Tensor& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

/// JSON writes NaN and infinities as null or as texts; finite numbers are compared exactly.
inline bool same_number(double value, const nlohmann::json& expected) {
  if (expected.is_boolean()) return value == (expected.get<bool>() ? 1.0 : 0.0);
  if (expected.is_number()) return value == expected.get<double>();
  return !std::isfinite(value);
}

}  // namespace lockstep::test
