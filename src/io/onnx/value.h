// What flows along the edges of an ONNX graph: tensors, and what has to be known on the host to run one (sizes, axes,
// conditions), sequences of values, and nothing at all (an input that is left out, an empty optional).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/tensor.h>

#include "io/onnx/narrow.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

/// Largest number of elements that is kept on the host.
inline constexpr std::int64_t kMaxHostElements = 1024;

/// A small array that is known without waiting for a device. Integers and bools lie in `integers` (bool as 0 and 1),
/// floats in `numbers`, exactly; the other list is empty.
struct HostArray {
  DType dtype = DType::i64;
  Shape shape;
  std::vector<std::int64_t> integers;
  std::vector<double> numbers;

  std::size_t size() const { return integers.size() + numbers.size(); }
};

/// Elements of a dtype that a HostArray holds: bool, the integers and floats that compute.
bool fits_host(DType dtype, const Shape& shape);
/// The elements of a tensor of such a dtype. Waits for the device.
HostArray read_to_host(const Tensor& tensor);
Tensor to_tensor(const HostArray& array, Device device);

/// A value is cheap to copy. An optional is its element, or absent.
class Value {
 public:
  /// Absent.
  Value() = default;
  Value(Tensor tensor, Narrow narrow = Narrow::none) : tensor_(std::move(tensor)), narrow_(narrow) {}
  /// Known on the host; becomes a tensor where one is asked for.
  Value(HostArray array) : host_(std::make_shared<const HostArray>(std::move(array))) {}
  /// A constant: both, without a copy between them at run time.
  Value(Tensor tensor, HostArray array)
      : tensor_(std::move(tensor)), host_(std::make_shared<const HostArray>(std::move(array))) {}
  Value(std::vector<Value> sequence) : sequence_(std::make_shared<const std::vector<Value>>(std::move(sequence))) {}

  bool absent() const { return !is_tensor() && !is_sequence(); }
  bool is_tensor() const { return tensor_.defined() || host_ != nullptr; }
  bool is_sequence() const { return sequence_ != nullptr; }
  /// Null if the elements are not known on the host.
  const HostArray* host() const { return host_.get(); }

  // Of a tensor, without making one.
  const Shape& shape() const { return host_ ? host_->shape : tensor_.shape(); }
  DType dtype() const { return host_ ? host_->dtype : tensor_.dtype(); }
  /// Of which type of less than a byte its elements are; such values are not known on the host.
  Narrow narrow() const { return narrow_; }

  /// The tensor; one that was known on the host only is made on `device` by the first call. Not for several threads.
  const Tensor& tensor(Device device) const;
  /// The tensor as it is; undefined for one that is known on the host only.
  const Tensor& tensor() const { return tensor_; }
  const std::vector<Value>& sequence() const { return *sequence_; }

 private:
  mutable Tensor tensor_;
  Narrow narrow_ = Narrow::none;
  std::shared_ptr<const HostArray> host_;
  std::shared_ptr<const std::vector<Value>> sequence_;
};

/// A tensor's value known on the host, too, if it is small. Waits for the device. Other values as they are.
Value settled(const Value& value);

/// Of a tensor's elements; 0 for other values.
std::uint64_t bytes_of(const Value& value);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
