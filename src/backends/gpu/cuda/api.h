// libcuda, the CUDA driver API, opened at run time: no toolkit is needed to build, and none of its headers are used.
// The few functions and constants are declared here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <string>

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {

using Status = int;
using DeviceNumber = int;
using Address = std::uint64_t;
struct Opaque;
using Handle = Opaque*;

constexpr Status kOutOfMemory = 2;
constexpr Status kNotReady = 600;
constexpr Status kPeerAlreadyEnabled = 704;
constexpr unsigned kWithoutTimes = 2;  // of events
constexpr int kMajor = 75;             // attributes of devices: compute capability
constexpr int kMinor = 76;
constexpr int kUnits = 16;               // multiprocessors
constexpr int kSharedBytes = 97;         // of a workgroup, if asked for
constexpr int kFunctionSharedBytes = 8;  // attribute of functions: shared memory given at the launch

/// A kernel in a graph, as libcuda has it (CUDA_KERNEL_NODE_PARAMS_v1).
struct KernelNode {
  Handle function;
  unsigned groups_x, groups_y, groups_z;
  unsigned threads_x, threads_y, threads_z;
  unsigned shared_bytes;
  void** parameters;
  void** extra;
};

/// How a node of a graph waits for another one (CUgraphEdgeData).
struct GraphEdge {
  std::uint8_t from_port = 0, to_port = 0, type = 0;
  std::uint8_t reserved[5] = {};
};
/// A kernel that begins while the other one runs, and waits by itself (programmatic dependent launch).
constexpr GraphEdge kOverlapping = {1, 0, 1};

/// The driver's functions. Tests have some of their own.
struct Api {
  Status (*init)(unsigned) = nullptr;
  Status (*driver_version)(int*) = nullptr;
  Status (*device_count)(int*) = nullptr;
  Status (*device_get)(DeviceNumber*, int) = nullptr;
  Status (*device_name)(char*, int, DeviceNumber) = nullptr;
  Status (*device_attribute)(int*, int, DeviceNumber) = nullptr;
  Status (*device_memory)(std::size_t*, DeviceNumber) = nullptr;
  Status (*context_retain)(Handle*, DeviceNumber) = nullptr;
  Status (*context_get)(Handle*) = nullptr;
  Status (*context_set)(Handle) = nullptr;
  Status (*allocate)(Address*, std::size_t) = nullptr;
  Status (*free)(Address) = nullptr;
  Status (*upload)(Address, const void*, std::size_t, Handle) = nullptr;
  Status (*download)(void*, Address, std::size_t, Handle) = nullptr;
  Status (*copy)(Address, Address, std::size_t, Handle) = nullptr;
  Status (*stream_create)(Handle*, unsigned) = nullptr;
  Status (*stream_wait)(Handle) = nullptr;
  Status (*module_load)(Handle*, const void*) = nullptr;
  Status (*module_unload)(Handle) = nullptr;
  Status (*module_function)(Handle*, Handle, const char*) = nullptr;
  Status (*function_set)(Handle, int, int) = nullptr;
  Status (*launch)(Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**,
                   void**) = nullptr;
  // Graphs, since CUDA 11.4; null where the driver lacks them.
  Status (*graph_create)(Handle*, unsigned) = nullptr;
  Status (*graph_destroy)(Handle) = nullptr;
  Status (*graph_add_kernel)(Handle*, Handle, const Handle*, std::size_t, const KernelNode*) = nullptr;
  Status (*graph_instantiate)(Handle*, Handle, unsigned long long) = nullptr;
  Status (*graph_set_kernel)(Handle, Handle, const KernelNode*) = nullptr;
  Status (*graph_launch)(Handle, Handle) = nullptr;
  Status (*graph_exec_destroy)(Handle) = nullptr;
  // Since CUDA 12.3; null where the driver lacks it.
  Status (*graph_add_edges)(Handle, const Handle*, const Handle*, const GraphEdge*, std::size_t) = nullptr;
  // Work beside the stream, and other devices; null where the driver lacks them.
  Status (*stream_destroy)(Handle) = nullptr;
  Status (*stream_wait_event)(Handle, Handle, unsigned) = nullptr;
  Status (*event_create)(Handle*, unsigned) = nullptr;
  Status (*event_record)(Handle, Handle) = nullptr;
  Status (*event_query)(Handle) = nullptr;
  Status (*event_destroy)(Handle) = nullptr;
  Status (*copy_peer)(Address, Handle, Address, Handle, std::size_t, Handle) = nullptr;
  Status (*can_access_peer)(int*, DeviceNumber, DeviceNumber) = nullptr;
  Status (*enable_peer)(Handle, unsigned) = nullptr;
  // Copies that the host does not wait for; null where the driver lacks them.
  Status (*host_allocate)(void**, std::size_t, unsigned) = nullptr;
  Status (*host_free)(void*) = nullptr;
  Status (*event_wait)(Handle) = nullptr;
  Status (*error_name)(Status, const char**) = nullptr;
  Status (*error_text)(Status, const char**) = nullptr;
  bool has_graphs = true;
  bool has_side_work = true;
  bool has_host_copies = true;
  std::string missing;  ///< why the library cannot be used

  std::string text_of(Status status) const;
  /// Throws BackendError that names `call` unless it succeeded.
  void check(Status status, const char* call) const;
};

/// This process's libcuda.
const Api& api();

/// A context that is its thread's current one while this lives. Contexts belong to threads, and other libraries on the
/// thread switch them as they like, so that every call that needs one begins with this: it asks, and sets where it has
/// to. What was current before becomes so again; where nothing was, `context` stays.
class Entered {
 public:
  /// Throws BackendError where the context cannot be entered.
  Entered(const Api& api, Handle context) : Entered(api, context, std::nothrow) {
    api_.check(status_, "cuCtxSetCurrent");
  }
  /// For destructors: what a context held is gone with it.
  Entered(const Api& api, Handle context, std::nothrow_t) noexcept : api_(api) {
    Handle current = nullptr;
    status_ = api_.context_get(&current);
    if (status_ != 0 || current == context) return;
    status_ = api_.context_set(context);
    if (status_ == 0) before_ = current;
  }
  ~Entered() {
    if (before_ != nullptr) api_.context_set(before_);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;

 private:
  const Api& api_;
  Handle before_ = nullptr;  ///< to be made current again
  Status status_ = 0;
};

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
