// DLPack: tensors of other libraries without a copy, and ours for them. The structs are the C ABI of the DLPack
// specification, version 1.0 (https://dmlc.github.io/dlpack/latest/c_api.html), under names of our own; a pointer to
// one of them is a pointer to the structure of the same layout in dlpack.h, and may be cast.
#pragma once

#include <cstdint>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace dlpack {

/// DLDeviceType; only host memory is taken.
enum DeviceType : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kMetal = 8, kVulkan = 7, kCudaManaged = 13 };
/// DLDataTypeCode.
enum TypeCode : std::uint8_t {
  kInt = 0,
  kUInt = 1,
  kFloat = 2,
  kOpaqueHandle = 3,
  kBfloat = 4,
  kComplex = 5,
  kBool = 6
};

/// DLDevice.
struct Device {
  std::int32_t device_type;
  std::int32_t device_id;
};
/// DLDataType.
struct DataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};
/// DLTensor.
struct TensorInfo {
  void* data;
  Device device;
  std::int32_t ndim;
  DataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  ///< In elements; null: dense, row-major.
  std::uint64_t byte_offset;
};
/// DLManagedTensor, of the ABI before 1.0.
struct ManagedTensor {
  TensorInfo tensor;
  void* manager_ctx;
  void (*deleter)(ManagedTensor* self);
};

inline constexpr std::uint64_t kReadOnly = 1;  // DLPACK_FLAG_BITMASK_READ_ONLY
inline constexpr std::uint64_t kIsCopied = 2;  // DLPACK_FLAG_BITMASK_IS_COPIED

/// DLPackVersion.
struct Version {
  std::uint32_t major;
  std::uint32_t minor;
};
/// DLManagedTensorVersioned.
struct ManagedTensorVersioned {
  Version version;
  void* manager_ctx;
  void (*deleter)(ManagedTensorVersioned* self);
  std::uint64_t flags;
  TensorInfo tensor;
};

}  // namespace dlpack

/// Takes over `managed`, whose deleter is called once, when nothing needs its memory any more, on any thread; the
/// memory must stay unchanged until then. Dense elements (also permuted, flipped or broadcast ones) are not copied: the
/// result is a view. If this throws, `managed` is still the caller's. Throws DeviceError for memory that the host
/// cannot read, DTypeError for types that tensors lack and for lanes > 1, ShapeError for more dimensions than tensors
/// have or a negative size, ValueError for null and for another major version. PyTorch: from_dlpack.
LOCKSTEP_API Tensor from_dlpack(dlpack::ManagedTensor* managed, CallSite site = {});
LOCKSTEP_API Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed, CallSite site = {});

/// The tensor's elements, dense and row-major, for another library; computes. They stay until the result's deleter is
/// called. Tensors are values: the memory is marked as read-only. Throws DeviceError unless the tensor is on the CPU,
/// DTypeError for 8-bit floats, which DLPack 1.0 lacks. PyTorch: to_dlpack.
LOCKSTEP_API dlpack::ManagedTensorVersioned* to_dlpack(const Tensor& tensor, CallSite site = {});
/// The same for consumers of DLPack before 1.0, who cannot see that the memory is read-only and must not write to it.
LOCKSTEP_API dlpack::ManagedTensor* to_dlpack_unversioned(const Tensor& tensor, CallSite site = {});

}  // namespace v0
}  // namespace lockstep
