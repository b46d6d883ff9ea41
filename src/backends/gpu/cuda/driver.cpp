// CUDA through the driver API and NVRTC, both opened at run time: no toolkit is needed to build, and none of its
// headers are used. The few functions and constants are declared here.
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/cuda/nvrtc.h"
#include "backends/gpu/dialect.h"
#include "backends/gpu/driver.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Status = int;
using DeviceNumber = int;
using Address = std::uint64_t;
struct Opaque;
using Handle = Opaque*;

constexpr Status kOutOfMemory = 2;
constexpr int kMajor = 75;  // attributes of devices: compute capability
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

/// The driver's functions, by their names in libcuda.
struct Api {
  os::SharedLibrary library;
  Status (*init)(unsigned) = nullptr;
  Status (*driver_version)(int*) = nullptr;
  Status (*device_count)(int*) = nullptr;
  Status (*device_get)(DeviceNumber*, int) = nullptr;
  Status (*device_name)(char*, int, DeviceNumber) = nullptr;
  Status (*device_attribute)(int*, int, DeviceNumber) = nullptr;
  Status (*device_memory)(std::size_t*, DeviceNumber) = nullptr;
  Status (*context_retain)(Handle*, DeviceNumber) = nullptr;
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
  bool has_graphs = true;
  Status (*error_name)(Status, const char**) = nullptr;
  Status (*error_text)(Status, const char**) = nullptr;
  std::string missing;  ///< why the library cannot be used

  Api() : library(kNames) {
    if (!library.is_open()) {
      missing = library.error();
      return;
    }
    find("cuInit", init);
    find("cuDriverGetVersion", driver_version);
    find("cuDeviceGetCount", device_count);
    find("cuDeviceGet", device_get);
    find("cuDeviceGetName", device_name);
    find("cuDeviceGetAttribute", device_attribute);
    find("cuDeviceTotalMem_v2", device_memory);
    find("cuDevicePrimaryCtxRetain", context_retain);
    find("cuCtxSetCurrent", context_set);
    find("cuMemAlloc_v2", allocate);
    find("cuMemFree_v2", free);
    find("cuMemcpyHtoDAsync_v2", upload);
    find("cuMemcpyDtoHAsync_v2", download);
    find("cuMemcpyDtoDAsync_v2", copy);
    find("cuStreamCreate", stream_create);
    find("cuStreamSynchronize", stream_wait);
    find("cuModuleLoadData", module_load);
    find("cuModuleUnload", module_unload);
    find("cuModuleGetFunction", module_function);
    find("cuFuncSetAttribute", function_set);
    find("cuLaunchKernel", launch);
    find("cuGetErrorName", error_name);
    find("cuGetErrorString", error_text);
    if (!missing.empty()) return;
    find_optional("cuGraphCreate", graph_create);
    find_optional("cuGraphDestroy", graph_destroy);
    find_optional("cuGraphAddKernelNode", graph_add_kernel);
    find_optional("cuGraphInstantiateWithFlags", graph_instantiate);
    find_optional("cuGraphExecKernelNodeSetParams", graph_set_kernel);
    find_optional("cuGraphLaunch", graph_launch);
    find_optional("cuGraphExecDestroy", graph_exec_destroy);
    const Status status = init(0);
    if (status != 0) missing = "cuInit: " + text_of(status);
  }

  std::string text_of(Status status) const {
    const char* name = nullptr;
    const char* text = nullptr;
    error_name(status, &name);
    error_text(status, &text);
    return fmt::format("{} ({})", name == nullptr ? "unknown error" : name, text == nullptr ? "?" : text);
  }

 private:
  inline static const std::string kNames[] = {"libcuda.so.1", "libcuda.so"};

  template <typename Function> void find_optional(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.function(name));
    has_graphs = has_graphs && function != nullptr;
  }
  template <typename Function> void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.function(name));
    if (function == nullptr) missing = fmt::format("libcuda.so.1 is too old: it lacks {}", name);
  }
};

// Never destroyed: buffers with static storage may be released after static objects are gone.
const Api& api() {
  static const Api* const instance = new Api;
  return *instance;
}

class CudaModule : public Module {
 public:
  CudaModule(Handle module, Handle function, unsigned threads, unsigned shared_bytes)
      : module_(module), function_(function), threads_(threads), shared_bytes_(shared_bytes) {}
  ~CudaModule() override { api().module_unload(module_); }
  Handle function() const { return function_; }
  unsigned threads() const { return threads_; }
  unsigned shared_bytes() const { return shared_bytes_; }

 private:
  Handle module_;
  Handle function_;
  unsigned threads_;
  unsigned shared_bytes_;  ///< to give at launches
};

/// A graph of kernels, each after the one before it.
class CudaRecording : public Recording {
 public:
  ~CudaRecording() override {
    if (executable != nullptr) api().graph_exec_destroy(executable);
    if (graph != nullptr) api().graph_destroy(graph);
  }
  Handle graph = nullptr;
  Handle executable = nullptr;
  std::vector<Handle> nodes;
};

class CudaDriver : public Driver {
 public:
  explicit CudaDriver(int index) {
    DeviceNumber device = 0;
    check(api().device_get(&device, index), "cuDeviceGet");
    check(api().context_retain(&context_, device), "cuDevicePrimaryCtxRetain");
    enter();
    check(api().stream_create(&stream_, 1), "cuStreamCreate");  // 1: no implicit order with the default stream
    std::array<char, 256> name{};
    check(api().device_name(name.data(), static_cast<int>(name.size()), device), "cuDeviceGetName");
    int major = 0;
    int minor = 0;
    int version = 0;
    check(api().device_attribute(&major, kMajor, device), "cuDeviceGetAttribute");
    check(api().device_attribute(&minor, kMinor, device), "cuDeviceGetAttribute");
    check(api().driver_version(&version), "cuDriverGetVersion");
    std::size_t memory = 0;
    check(api().device_memory(&memory, device), "cuDeviceTotalMem");
    const Nvrtc& compiler = nvrtc();
    if (!compiler.is_usable()) throw BackendError("cuda: " + compiler.problem());
    architecture_ = fmt::format("sm_{}{}", major, minor);
    info_.name = name.data();
    info_.api =
        fmt::format("CUDA {}.{}, {}, NVRTC {}", version / 1000, version % 1000 / 10, architecture_, compiler.version());
    info_.features = "f16 f64 i64";
    info_.identity = fmt::format("cuda {} nvrtc {} {}", architecture_, compiler.version(), Nvrtc::flags());
    info_.memory_bytes = memory;
    info_.groups = 0x7fffffff;
    int units = 0;
    int shared_bytes = 0;
    check(api().device_attribute(&units, kUnits, device), "cuDeviceGetAttribute");
    check(api().device_attribute(&shared_bytes, kSharedBytes, device), "cuDeviceGetAttribute");
    info_.units = units;
    info_.shared_bytes = static_cast<std::size_t>(shared_bytes);
    info_.copies_to_shared = major >= 8;
  }

  const DriverInfo& info() const override { return info_; }

  std::uint64_t allocate(std::size_t bytes) override {
    enter();
    Address address = 0;
    const Status status = api().allocate(&address, bytes);
    if (status == kOutOfMemory) return 0;
    check(status, "cuMemAlloc");
    return address;
  }
  void release(std::uint64_t address) override {
    enter();
    check(api().free(address), "cuMemFree");  // waits for the device
  }

  void upload(std::uint64_t to, const void* from, std::size_t bytes) override {
    enter();
    check(api().upload(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
    // Memory that is not pinned is copied before the call returns, but that is not promised for every size.
    if (bytes > kStagedBytes) wait();
  }
  void download(void* to, std::uint64_t from, std::size_t bytes) override {
    enter();
    check(api().download(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
    wait();
  }
  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    enter();
    check(api().copy(to, from, bytes, stream_), "cuMemcpyDtoDAsync");
  }

  std::string source(const KernelText& kernel, const Arithmetic&) const override { return cuda_source(kernel); }
  std::vector<std::byte> compile(const std::string& source) const override {
    return nvrtc().compile(source, architecture_);
  }
  std::unique_ptr<Module> load(std::span<const std::byte> binary, const KernelText& kernel) override {
    enter();
    Handle module = nullptr;
    Handle function = nullptr;
    check(api().module_load(&module, binary.data()), "cuModuleLoadData");
    Status status = api().module_function(&function, module, kEntry);
    const std::size_t shared = shared_bytes_of(kernel);
    const bool dynamic = shared > kStaticSharedBytes;
    if (status == 0 && dynamic) status = api().function_set(function, kFunctionSharedBytes, static_cast<int>(shared));
    if (status != 0) api().module_unload(module);
    check(status, "cuModuleGetFunction");
    return std::make_unique<CudaModule>(module, function, static_cast<unsigned>(kernel.threads),
                                        dynamic ? static_cast<unsigned>(shared) : 0);
  }

  void launch(const Module& program, std::uint32_t groups, std::span<const std::uint32_t> words,
              std::span<const Access>) override {
    enter();
    const auto& kernel = static_cast<const CudaModule&>(program);
    std::uint32_t none = 0;
    void* parameters[] = {words.empty() ? static_cast<void*>(&none)
                                        : const_cast<void*>(static_cast<const void*>(words.data()))};
    check(api().launch(kernel.function(), groups, 1, 1, kernel.threads(), 1, 1, kernel.shared_bytes(), stream_,
                       parameters, nullptr),
          "cuLaunchKernel");
  }
  std::unique_ptr<Recording> record(std::span<const Command> commands) override {
    if (!api().has_graphs) return nullptr;
    enter();
    auto recording = std::make_unique<CudaRecording>();
    check(api().graph_create(&recording->graph, 0), "cuGraphCreate");
    Handle last = nullptr;
    for (const Command& command : commands) {
      with_node(command, [&](const KernelNode& node) {
        Handle added = nullptr;
        check(api().graph_add_kernel(&added, recording->graph, &last, last == nullptr ? 0 : 1, &node),
              "cuGraphAddKernelNode");
        last = added;
      });
      recording->nodes.push_back(last);
    }
    check(api().graph_instantiate(&recording->executable, recording->graph, 0), "cuGraphInstantiate");
    return recording;
  }
  void replay(Recording& recording) override {
    enter();
    check(api().graph_launch(static_cast<CudaRecording&>(recording).executable, stream_), "cuGraphLaunch");
  }
  bool can_change() const override { return true; }
  void change(Recording& recording, std::size_t launch, const Command& command) override {
    enter();
    auto& recorded = static_cast<CudaRecording&>(recording);
    with_node(command, [&](const KernelNode& node) {
      check(api().graph_set_kernel(recorded.executable, recorded.nodes[launch], &node),
            "cuGraphExecKernelNodeSetParams");
    });
  }

  void wait() override {
    enter();
    check(api().stream_wait(stream_), "cuStreamSynchronize");
  }

 private:
  static constexpr std::size_t kStagedBytes = 64 << 10;

  // The words are copied by the call that takes the node.
  template <typename Use> static void with_node(const Command& command, Use use) {
    const auto& kernel = static_cast<const CudaModule&>(*command.module);
    std::uint32_t none = 0;
    void* parameters[] = {command.words.empty() ? static_cast<void*>(&none)
                                                : const_cast<void*>(static_cast<const void*>(command.words.data()))};
    use(KernelNode{kernel.function(), command.groups, 1, 1, kernel.threads(), 1, 1, kernel.shared_bytes(), parameters,
                   nullptr});
  }

  static void check(Status status, const char* call) {
    if (status != 0) throw BackendError(fmt::format("cuda: {} failed: {}", call, api().text_of(status)));
  }
  // Contexts belong to threads.
  void enter() const {
    static thread_local Handle entered = nullptr;
    if (entered == context_) return;
    check(api().context_set(context_), "cuCtxSetCurrent");
    entered = context_;
  }

  Handle context_ = nullptr;
  Handle stream_ = nullptr;
  std::string architecture_;
  DriverInfo info_;
};

}  // namespace

Found find_cuda() {
  Found found;
  int count = 0;
  if (api().missing.empty() && api().device_count(&count) == 0 && count > 0) {
    if (!nvrtc().is_usable()) {
      found.reason = nvrtc().problem();
      found.fix = "install NVRTC of your CUDA version, e.g. apt install libnvrtc12, or the CUDA toolkit";
      return found;
    }
    for (int i = 0; i < count; ++i) {
      std::array<char, 256> name{};
      DeviceNumber device = 0;
      if (api().device_get(&device, i) == 0) api().device_name(name.data(), static_cast<int>(name.size()), device);
      found.devices.push_back({name.data(), false});
    }
    return found;
  }
  found.reason = api().missing.empty() ? "no NVIDIA GPU is present" : api().missing;
  found.fix = "needs an NVIDIA GPU, its driver (libcuda.so.1) and NVRTC (libnvrtc.so)";
  return found;
}

std::unique_ptr<Driver> open_cuda(int index) {
  return std::make_unique<CudaDriver>(index);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
