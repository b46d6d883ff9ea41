// What the graph knows of a device: memory, and executables made from kernels.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.h"
#include "core/device.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {

/// The buffers (by slot) and parameters of one run of a kernel. Buffers start at a multiple of their element's size.
struct Binding {
  std::span<std::byte* const> slots;
  std::span<const Scalar> parameters;
  /// Words in the device's memory, like the slots, zero before the run; faults_of(kernel) of them are the kernel's.
  /// Several threads may set one: report_fault, on devices whose memory is this process's.
  std::span<std::uint32_t> faults = {};
  std::size_t first_fault = 0;  ///< of the kernel's words in `faults`
  /// By slot: the buffer of a value that was there before this run and is there after it, others null. May be empty.
  std::span<Buffer* const> given = {};
};
/// How many elements further on the region of an update lies in this run.
inline std::int64_t start_of(const UpdateKernel& kernel, const Binding& binding) {
  return kernel.start < 0 ? 0
                          : static_cast<std::int64_t>(binding.parameters[static_cast<std::size_t>(kernel.start)].bits);
}
inline void report_fault(const Binding& binding, std::size_t number) {
  std::atomic_ref(binding.faults[binding.first_fault + number]).store(1, std::memory_order_relaxed);
}

/// A kernel made ready for a device. Immutable; runs from one thread at a time per device.
class Executable {
 public:
  virtual ~Executable() = default;
  virtual void run(const Binding& binding) const = 0;
  /// Whether the next run looks at the elements of this given value in a slot. Else it has what it needs of them, and
  /// the slot may hold any address.
  virtual bool reads(std::size_t /*slot*/, Buffer& /*given*/) const { return true; }
};

/// Kernels of one executable, in order. They share numbers of slots and parameters.
using KernelList = std::vector<const Kernel*>;

class Backend {
 public:
  virtual ~Backend() = default;
  virtual Device device() const = 0;
  /// Uninitialised memory. Throws OutOfMemoryError.
  virtual BufferRef allocate(std::size_t bytes) = 0;
  /// All memory that the device has, in use or not: no value can have more bytes. The largest number where unknown.
  virtual std::size_t memory_bytes() const { return ~std::size_t{0}; }
  virtual void upload(Buffer& to, const void* from, std::size_t bytes) = 0;
  /// Bytes [offset, offset + bytes) of a buffer, after all work that writes to it.
  virtual void download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset = 0) = 0;
  virtual std::unique_ptr<Executable> compile(const Kernel& kernel) = 0;
  /// An executable for each list, of one kernel or of some that run together: all lists of a plan, which a device's
  /// compiler may take side by side.
  virtual std::vector<std::unique_ptr<Executable>> compile_all(std::span<const KernelList> lists) {
    std::vector<std::unique_ptr<Executable>> result;
    for (const KernelList& list : lists) result.push_back(compile(*list.front()));
    return result;
  }
  /// Begins what was run so far, where a device collects work. Waits for nothing.
  virtual void start() {}
  /// Waits for what was run so far, where run() does not.
  virtual void finish() {}
  /// Lines for `lockstep info`.
  virtual std::string description() const = 0;
  /// Why products in fast numerics (docs/numerics.md section 13) cannot be computed here; empty where they can.
  virtual std::string missing_for_fast() const { return "only CUDA devices have fast numerics"; }
  /// The same for convolutions.
  virtual std::string missing_for_fast_convolutions() const { return missing_for_fast(); }
  /// Whether AttentionKernels in fast numerics can be run.
  virtual bool has_fast_attention() const { return false; }
  /// Whether tensors of a dtype can live on the device.
  virtual bool holds(DType) const { return true; }
  /// How many bytes of values to be stored may be pending before they are computed. More lets more ops share kernels.
  virtual std::size_t window_bytes() const { return std::size_t{256} << 20; }
  /// Whether RecurrenceKernels can be run.
  virtual bool has_recurrence() const { return false; }
  /// Whether AttentionKernels without gradients can be run in exact numerics; others compute the composition.
  virtual bool has_exact_attention() const { return false; }
  /// Whether AttentionKernels in blocked numerics can be run; others compute the composition, which has the same bits.
  virtual bool has_blocked_attention() const { return false; }
  /// Whether exact AttentionKernels can be run of one row with a mask, and of rows that see the keys up to their own.
  virtual bool has_masked_attention() const { return false; }
  /// Whether a contraction with two right operands (ContractionKernel::paired) can be run, and pays.
  virtual bool has_pair(const ContractionKernel& /*kernel*/) const { return false; }
  /// Whether products of one left operand, of which later ones may read results of earlier ones, can be one executable
  /// (compile_all), and whether that pays.
  virtual bool runs_together(const KernelList& /*products*/) const { return false; }
  /// missing_for_fast, for products with weights of 8-bit floats (has_fast_form).
  virtual std::string missing_for_fast_floats() const { return missing_for_fast(); }
};

/// A kind of device that this machine has none of, or none that can be used.
struct MissingDevices {
  DeviceKind kind = DeviceKind::cuda;
  std::string reason;
  std::string fix;
};
std::vector<MissingDevices> missing_devices();
/// Whether a device is a processor in disguise: listed, but never chosen by itself.
bool is_software(Device device);

/// The backend behind a device. Throws DeviceError with the reason and the fix where there is none.
Backend& backend_of(Device device);

/// Makes `backend` the one of its device, which need not exist otherwise, until the process ends. For tests.
void register_backend(std::unique_ptr<Backend> backend);

}  // namespace v0
}  // namespace lockstep
