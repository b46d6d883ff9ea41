// Where tensors are made when nobody says where, and waiting for a device.
#pragma once

#include <lockstep/device.h>

namespace lockstep {
inline namespace v0 {

/// Where tensors of this thread are made unless a device is given: that of the innermost DefaultDevice scope, else the
/// CPU. TensorOptions and Tensor::from take it. What is made from tensors lies where they lie; files, data sets and
/// pictures are read into the CPU's memory.
LOCKSTEP_API Device default_device();

/// Tensors of this thread are made on `device` while it lives: initial values of modules, too. Throws DeviceError if
/// there is no such device.  PyTorch: with torch.device("cuda"):
class LOCKSTEP_API DefaultDevice {
 public:
  explicit DefaultDevice(Device device);
  explicit DefaultDevice(std::string_view device) : DefaultDevice(Device::parse(device)) {}
  ~DefaultDevice();
  DefaultDevice(const DefaultDevice&) = delete;
  DefaultDevice& operator=(const DefaultDevice&) = delete;

 private:
  Device before_;
};

/// Computes what is pending on `device` and returns when it is done; what depends on no data (constants, random
/// numbers) is still made where it is needed. Measuring time needs this; reading values does not. Errors of single
/// values (bad indices) stay with them.  PyTorch: cuda.synchronize.
LOCKSTEP_API void synchronize(Device device = default_device());

}  // namespace v0
}  // namespace lockstep
