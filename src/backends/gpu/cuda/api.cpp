#include "backends/gpu/cuda/api.h"

#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {
namespace {

std::vector<std::string> names() {
  return {"libcuda.so.1", "libcuda.so"};
}

/// Fills in an Api.
struct Loader {
  os::SharedLibrary library{names()};
  Api api;

  Loader() {
    if (!library.is_open()) {
      api.missing = library.error();
      return;
    }
    find("cuInit", api.init);
    find("cuDriverGetVersion", api.driver_version);
    find("cuDeviceGetCount", api.device_count);
    find("cuDeviceGet", api.device_get);
    find("cuDeviceGetName", api.device_name);
    find("cuDeviceGetAttribute", api.device_attribute);
    find("cuDeviceTotalMem_v2", api.device_memory);
    find("cuDevicePrimaryCtxRetain", api.context_retain);
    find("cuCtxGetCurrent", api.context_get);
    find("cuCtxSetCurrent", api.context_set);
    find("cuMemAlloc_v2", api.allocate);
    find("cuMemFree_v2", api.free);
    find("cuMemcpyHtoDAsync_v2", api.upload);
    find("cuMemcpyDtoHAsync_v2", api.download);
    find("cuMemcpyDtoDAsync_v2", api.copy);
    find("cuStreamCreate", api.stream_create);
    find("cuStreamSynchronize", api.stream_wait);
    find("cuModuleLoadData", api.module_load);
    find("cuModuleUnload", api.module_unload);
    find("cuModuleGetFunction", api.module_function);
    find("cuFuncSetAttribute", api.function_set);
    find("cuLaunchKernel", api.launch);
    find("cuGetErrorName", api.error_name);
    find("cuGetErrorString", api.error_text);
    if (!api.missing.empty()) return;
    find_optional("cuGraphCreate", api.graph_create);
    find_optional("cuGraphDestroy", api.graph_destroy);
    find_optional("cuGraphAddKernelNode", api.graph_add_kernel);
    find_optional("cuGraphInstantiateWithFlags", api.graph_instantiate);
    find_optional("cuGraphExecKernelNodeSetParams", api.graph_set_kernel);
    find_optional("cuGraphLaunch", api.graph_launch);
    find_optional("cuGraphExecDestroy", api.graph_exec_destroy);
    api.graph_add_edges =
        reinterpret_cast<decltype(api.graph_add_edges)>(library.function("cuGraphAddDependencies_v2"));
    find_side("cuStreamDestroy_v2", api.stream_destroy);
    find_side("cuStreamWaitEvent", api.stream_wait_event);
    find_side("cuEventCreate", api.event_create);
    find_side("cuEventRecord", api.event_record);
    find_side("cuEventQuery", api.event_query);
    find_side("cuEventDestroy_v2", api.event_destroy);
    find_side("cuMemcpyPeerAsync", api.copy_peer);
    find_side("cuDeviceCanAccessPeer", api.can_access_peer);
    find_side("cuCtxEnablePeerAccess", api.enable_peer);
    find_copies("cuMemHostAlloc", api.host_allocate);
    find_copies("cuMemFreeHost", api.host_free);
    find_copies("cuEventSynchronize", api.event_wait);
    const Status status = api.init(0);
    if (status != 0) api.missing = "cuInit: " + api.text_of(status);
  }

  template <typename Function> void find_optional(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.function(name));
    api.has_graphs = api.has_graphs && function != nullptr;
  }
  template <typename Function> void find_side(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.function(name));
    api.has_side_work = api.has_side_work && function != nullptr;
  }
  template <typename Function> void find_copies(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.function(name));
    api.has_host_copies = api.has_host_copies && function != nullptr;
  }
  template <typename Function> void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.function(name));
    if (function == nullptr) api.missing = fmt::format("libcuda.so.1 is too old: it lacks {}", name);
  }
};

}  // namespace

std::string Api::text_of(Status status) const {
  const char* name = nullptr;
  const char* text = nullptr;
  error_name(status, &name);
  error_text(status, &text);
  return fmt::format("{} ({})", name == nullptr ? "unknown error" : name, text == nullptr ? "?" : text);
}

void Api::check(Status status, const char* call) const {
  if (status != 0) throw BackendError(fmt::format("cuda: {} failed: {}", call, text_of(status)));
}

// Never destroyed: buffers with static storage may be released after static objects are gone.
const Api& api() {
  static const Loader* const instance = new Loader;
  return instance->api;
}

}  // namespace cuda
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
