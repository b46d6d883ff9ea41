// Tensors for the tests of writers: one of every dtype, and how two files of them are compared.
#pragma once

#include <cmath>
#include <complex>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/io/tensor_file.h>

namespace lockstep::test {

inline std::vector<std::uint8_t> bytes_of(const Tensor& tensor) {
  std::vector<std::uint8_t> result(static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
  tensor.read_bytes(result.data());
  return result;
}

/// The same names, dtypes, shapes and bytes.
inline void expect_equal(const io::TensorMap& a, const io::TensorMap& b) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    ASSERT_TRUE(b.contains(name)) << name;
    const Tensor& other = b.find(name)->second;
    EXPECT_EQ(tensor.dtype(), other.dtype()) << name;
    EXPECT_EQ(tensor.shape(), other.shape()) << name;
    EXPECT_EQ(bytes_of(tensor), bytes_of(other)) << name;
  }
}

/// A tensor of each dtype, with the values that are easily lost.
inline io::TensorMap every_dtype() {
  io::TensorMap tensors;
  tensors["bool"] = Tensor::from(std::vector<bool>{true, false, true}, {3});
  tensors["u8"] = Tensor::from(std::vector<std::uint8_t>{1, 2, 255}, {3});
  tensors["i8"] = Tensor::from(std::vector<std::int8_t>{-1, 2, -128}, {3, 1});
  tensors["i16"] = Tensor::from(std::vector<std::int16_t>{-1, 2}, {2});
  tensors["i32"] = Tensor::from(std::vector<std::int32_t>{-1, 2}, {2});
  tensors["i64"] = Tensor::from(std::vector<std::int64_t>{-1, INT64_MAX}, {1, 2});
  tensors["u32"] = Tensor::from(std::vector<std::uint32_t>{UINT32_MAX}, {});
  tensors["f16"] = Tensor::from(std::vector<Float16>{{0x3c00}, {0x7c01}}, {2});
  tensors["bf16"] = Tensor::from(std::vector<BFloat16>{{0x3f80}}, {1, 1, 1});
  tensors["f32"] = Tensor::from(std::vector<float>{1.5f, -0.0f, NAN, INFINITY}, {2, 2});
  tensors["f64"] = Tensor::from(std::vector<double>{1e300}, {1});
  tensors["u16"] = Tensor::from(std::vector<std::uint16_t>{1, UINT16_MAX}, {2});
  tensors["u64"] = Tensor::from(std::vector<std::uint64_t>{1, UINT64_MAX}, {2});
  tensors["f8e4m3"] = Tensor::from(std::vector<Float8E4M3>{{0x38}, {0xff}}, {2});
  tensors["f8e5m2"] = Tensor::from(std::vector<Float8E5M2>{{0x7c}}, {1});
  tensors["complex64"] = Tensor::from(std::vector<std::complex<float>>{{1, -2}}, {1});
  tensors["empty"] = Tensor::from(std::vector<float>{}, {0, 5});
  return tensors;
}

}  // namespace lockstep::test
