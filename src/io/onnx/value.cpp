#include "io/onnx/value.h"

#include <algorithm>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {
namespace {

template <typename T, typename To> std::vector<To> elements_as(const Tensor& tensor) {
  const std::vector<T> elements = tensor.to_vector<T>();
  return std::vector<To>(elements.begin(), elements.end());
}

template <typename To, typename From> Tensor tensor_of(const std::vector<From>& elements, const Shape& shape) {
  std::vector<To> converted(elements.size());
  std::transform(elements.begin(), elements.end(), converted.begin(),
                 [](From element) { return static_cast<To>(element); });
  return Tensor::from(converted, shape, Device{});
}

}  // namespace

bool fits_host(DType dtype, const Shape& shape) {
  if (is_storage_only(dtype)) return false;
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size == 0) return true;
    if (size > kMaxHostElements / elements) return false;
    elements *= size;
  }
  return true;
}

HostArray read_to_host(const Tensor& tensor) {
  HostArray array{.dtype = tensor.dtype(), .shape = tensor.shape()};
  switch (tensor.dtype()) {
    case DType::boolean: array.integers = elements_as<bool, std::int64_t>(tensor); break;
    case DType::u8: array.integers = elements_as<std::uint8_t, std::int64_t>(tensor); break;
    case DType::i8: array.integers = elements_as<std::int8_t, std::int64_t>(tensor); break;
    case DType::i16: array.integers = elements_as<std::int16_t, std::int64_t>(tensor); break;
    case DType::i32: array.integers = elements_as<std::int32_t, std::int64_t>(tensor); break;
    case DType::i64: array.integers = tensor.to_vector<std::int64_t>(); break;
    case DType::u32: array.integers = elements_as<std::uint32_t, std::int64_t>(tensor); break;
    case DType::f16:
    case DType::bf16: array.numbers = elements_as<float, double>(tensor.to(DType::f32)); break;
    case DType::f32: array.numbers = elements_as<float, double>(tensor); break;
    case DType::f64: array.numbers = tensor.to_vector<double>(); break;
    case DType::u16:
    case DType::u64:
    case DType::f8e4m3:
    case DType::f8e5m2:
    case DType::complex64: LOCKSTEP_ASSERT(!is_storage_only(tensor.dtype())); break;
  }
  return array;
}

Tensor to_tensor(const HostArray& array, Device device) {
  const auto made = [&]() -> Tensor {
    switch (array.dtype) {
      case DType::boolean: return tensor_of<bool>(array.integers, array.shape);
      case DType::u8: return tensor_of<std::uint8_t>(array.integers, array.shape);
      case DType::i8: return tensor_of<std::int8_t>(array.integers, array.shape);
      case DType::i16: return tensor_of<std::int16_t>(array.integers, array.shape);
      case DType::i32: return tensor_of<std::int32_t>(array.integers, array.shape);
      case DType::i64: return Tensor::from(array.integers, array.shape, Device{});
      case DType::u32: return tensor_of<std::uint32_t>(array.integers, array.shape);
      case DType::f16:
      case DType::bf16: return tensor_of<float>(array.numbers, array.shape).to(array.dtype);
      case DType::f32: return tensor_of<float>(array.numbers, array.shape);
      case DType::f64: return Tensor::from(array.numbers, array.shape, Device{});
      case DType::u16:
      case DType::u64:
      case DType::f8e4m3:
      case DType::f8e5m2:
      case DType::complex64: break;
    }
    LOCKSTEP_ASSERT(!is_storage_only(array.dtype));
    return {};
  };
  const Tensor tensor = made();
  return device == Device{} ? tensor : tensor.to(device);
}

Value settled(const Value& value) {
  if (!value.is_tensor() || value.host() != nullptr || value.narrow() != Narrow::none) return value;
  const Tensor& tensor = value.tensor();
  return fits_host(tensor.dtype(), tensor.shape()) ? Value(tensor, read_to_host(tensor)) : value;
}

std::uint64_t bytes_of(const Value& value) {
  if (!value.is_tensor()) return 0;
  return static_cast<std::uint64_t>(value.shape().numel()) * size_of(value.dtype());
}

const Tensor& Value::tensor(Device device) const {
  if (!tensor_.defined()) {
    LOCKSTEP_ASSERT(host_ != nullptr);
    tensor_ = to_tensor(*host_, device);
  } else if (tensor_.device() != device) {
    tensor_ = tensor_.to(device);
  }
  return tensor_;
}

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
