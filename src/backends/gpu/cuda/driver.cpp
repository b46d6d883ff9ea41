// CUDA through the driver API (cuda/api.h), NVRTC, cuBLASLt and cuDNN, all opened at run time.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/cuda/blaslt.h"
#include "backends/gpu/cuda/cudnn.h"
#include "backends/gpu/cuda/driver.h"
#include "backends/gpu/cuda/nvrtc.h"
#include "backends/gpu/dialect.h"
#include "backends/gpu/hazards.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace cuda {
namespace {

class CudaModule : public Module {
 public:
  CudaModule(const Api& api, Handle context, Handle module, Handle function, unsigned threads, unsigned shared_bytes)
      : api_(api),
        context_(context),
        module_(module),
        function_(function),
        threads_(threads),
        shared_bytes_(shared_bytes) {}
  ~CudaModule() override {
    const Entered entered(api_, context_, std::nothrow);
    api_.module_unload(module_);
  }
  Handle function() const { return function_; }
  unsigned threads() const { return threads_; }
  unsigned shared_bytes() const { return shared_bytes_; }

 private:
  const Api& api_;
  Handle context_;
  Handle module_;
  Handle function_;
  unsigned threads_;
  unsigned shared_bytes_;  ///< to give at launches
};

/// What a library of NVIDIA's computes in place of a kernel.
class CudaCall : public Module {
 public:
  virtual void launch(std::span<const std::uint32_t> words, Handle stream) const = 0;
};

/// A product of cuBLASLt's, a convolution or attention of cuDNN's.
template <typename Library, typename Call> class CudaCallOf : public CudaCall {
 public:
  template <typename Of>
  CudaCallOf(const Api& api, Handle context, const Library& library, const Of& of)
      : api_(api), context_(context), call_(std::make_unique<Call>(library, of)) {}
  ~CudaCallOf() override {
    const Entered entered(api_, context_, std::nothrow);
    call_.reset();
  }
  void launch(std::span<const std::uint32_t> words, Handle stream) const override {
    std::array<Address, 16> wide{};
    LOCKSTEP_ASSERT(words.size_bytes() <= sizeof wide);
    std::memcpy(wide.data(), words.data(), words.size_bytes());
    call_->run(std::span(wide).first(words.size() / 2), stream);
  }

 private:
  const Api& api_;
  Handle context_;
  std::unique_ptr<Call> call_;
};

/// A graph of kernels, each after those whose memory it touches, or while the one of these ends.
class CudaRecording : public Recording {
 public:
  CudaRecording(const Api& api, Handle context) : api_(api), context_(context) {}
  ~CudaRecording() override {
    const Entered entered(api_, context_, std::nothrow);
    if (executable != nullptr) api_.graph_exec_destroy(executable);
    if (graph != nullptr) api_.graph_destroy(graph);
  }
  Handle graph = nullptr;
  Handle executable = nullptr;
  std::vector<Handle> nodes;

 private:
  const Api& api_;
  Handle context_;
};

/// An event in a context.
class CudaMark : public WorkMark {
 public:
  CudaMark(const Api& api, Handle context, Handle stream) : api_(api), context_(context) {
    api_.check(api_.event_create(&event_, kWithoutTimes), "cuEventCreate");
    const Status status = api_.event_record(event_, stream);
    if (status != 0) api_.event_destroy(event_);
    api_.check(status, "cuEventRecord");
  }
  ~CudaMark() override {
    const Entered entered(api_, context_, std::nothrow);
    api_.event_destroy(event_);  // when it is over
  }
  bool is_reached() const override {
    const Entered entered(api_, context_);
    const Status status = api_.event_query(event_);
    if (status == kNotReady) return false;
    api_.check(status, "cuEventQuery");
    return true;
  }
  Handle event() const { return event_; }

 private:
  const Api& api_;
  Handle context_;
  Handle event_ = nullptr;
};

/// Memory of the host that the device writes to by itself, kept for the next copy.
class PinnedMemory {
 public:
  PinnedMemory(const Api& api, Handle context) : api_(api), context_(context) {}
  ~PinnedMemory() {
    const Entered entered(api_, context_, std::nothrow);
    for (const auto& [size, memory] : free_) api_.host_free(memory);
  }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  /// `size` of it, at least.
  std::pair<std::size_t, void*> take(std::size_t size) {
    const std::lock_guard lock(mutex_);
    if (const auto known = free_.lower_bound(size); known != free_.end() && known->first <= 2 * size) {
      std::pair<std::size_t, void*> found = *known;
      free_.erase(known);
      return found;
    }
    void* memory = nullptr;
    api_.check(api_.host_allocate(&memory, size, 0), "cuMemHostAlloc");
    return {size, memory};
  }
  void give_back(std::pair<std::size_t, void*> memory) {
    const std::lock_guard lock(mutex_);
    free_.insert(memory);
    if (free_.size() <= kMostFree) return;
    api_.host_free(free_.begin()->second);
    free_.erase(free_.begin());
  }

 private:
  static constexpr std::size_t kMostFree = 16;

  const Api& api_;
  Handle context_;
  std::mutex mutex_;
  std::multimap<std::size_t, void*> free_;
};

class CudaHostCopy : public HostCopy {
 public:
  CudaHostCopy(const Api& api, Handle context, Handle stream, std::shared_ptr<PinnedMemory> pinned, Address from,
               std::size_t bytes)
      : api_(api), context_(context), pinned_(std::move(pinned)), bytes_(bytes), memory_(pinned_->take(bytes)) {
    // Whatever fails, the device may be writing already: then the memory is lost.
    api_.check(api_.download(memory_.second, from, bytes, stream), "cuMemcpyDtoHAsync");
    mark_.emplace(api, context, stream);
  }
  ~CudaHostCopy() override {
    const Entered entered(api_, context_, std::nothrow);
    if (is_there_ || api_.event_wait(mark_->event()) == 0) pinned_->give_back(memory_);
  }
  std::span<const std::byte> bytes() override {
    const Entered entered(api_, context_);
    if (!is_there_) api_.check(api_.event_wait(mark_->event()), "cuEventSynchronize");
    is_there_ = true;
    return {static_cast<const std::byte*>(memory_.second), bytes_};
  }

 private:
  const Api& api_;
  Handle context_;
  std::shared_ptr<PinnedMemory> pinned_;
  std::size_t bytes_;
  std::pair<std::size_t, void*> memory_;
  std::optional<CudaMark> mark_;  ///< behind the copy
  bool is_there_ = false;
};

class CudaSideQueue : public SideQueue {
 public:
  CudaSideQueue(const Api& api, Handle context) : api_(api), context_(context) {
    api_.check(api_.stream_create(&stream_, 1), "cuStreamCreate");
  }
  ~CudaSideQueue() override {
    const Entered entered(api_, context_, std::nothrow);
    api_.stream_destroy(stream_);
  }
  void wait_for(const WorkMark& mark) override {
    const Entered entered(api_, context_);
    api_.check(api_.stream_wait_event(stream_, static_cast<const CudaMark&>(mark).event(), 0), "cuStreamWaitEvent");
  }
  std::unique_ptr<WorkMark> mark() override {
    const Entered entered(api_, context_);
    return std::make_unique<CudaMark>(api_, context_, stream_);
  }
  void* handle() const override { return stream_; }
  void enter() override { entered_.emplace(api_, context_); }
  void leave() override { entered_.reset(); }

 private:
  const Api& api_;
  Handle context_;
  Handle stream_ = nullptr;
  std::optional<Entered> entered_;
};

class CudaDriver : public Driver {
 public:
  CudaDriver(const Api& api, const std::string& compiler, int index) : api_(api) {
    DeviceNumber device = 0;
    api_.check(api_.device_get(&device, index), "cuDeviceGet");
    device_ = device;
    api_.check(api_.context_retain(&context_, device), "cuDevicePrimaryCtxRetain");
    const Entered entered = enter();
    api_.check(api_.stream_create(&stream_, 1), "cuStreamCreate");  // 1: no implicit order with the default stream
    std::array<char, 256> name{};
    api_.check(api_.device_name(name.data(), static_cast<int>(name.size()), device), "cuDeviceGetName");
    int major = 0;
    int minor = 0;
    int version = 0;
    api_.check(api_.device_attribute(&major, kMajor, device), "cuDeviceGetAttribute");
    api_.check(api_.device_attribute(&minor, kMinor, device), "cuDeviceGetAttribute");
    api_.check(api_.driver_version(&version), "cuDriverGetVersion");
    std::size_t memory = 0;
    api_.check(api_.device_memory(&memory, device), "cuDeviceTotalMem");
    // Hopper's own instructions belong to a target of their own, which NVRTC 12 knows.
    const bool hopper = major == 9 && minor == 0 && std::atoi(compiler.c_str()) >= 12;
    architecture_ = fmt::format("sm_{}{}{}", major, minor, hopper ? "a" : "");
    info_.name = name.data();
    info_.api = fmt::format("CUDA {}.{}, {}, NVRTC {}", version / 1000, version % 1000 / 10, architecture_, compiler);
    info_.features = "f16 f64 i64";
    info_.identity = fmt::format("cuda {} nvrtc {} {}", architecture_, compiler, Nvrtc::flags());
    info_.memory_bytes = memory;
    info_.groups = 0x7fffffff;
    int units = 0;
    int shared_bytes = 0;
    api_.check(api_.device_attribute(&units, kUnits, device), "cuDeviceGetAttribute");
    api_.check(api_.device_attribute(&shared_bytes, kSharedBytes, device), "cuDeviceGetAttribute");
    info_.units = units;
    info_.shared_bytes = static_cast<std::size_t>(shared_bytes);
    info_.copies_to_shared = major >= 8;
    info_.integer_tiles = hopper;
    info_.bf16_pairs = hopper;
    info_.byte_products = major >= 8;
    info_.byte_fragments = major * 10 + minor >= 75;
    info_.has_byte_dots = info_.quick_byte_dots = major * 10 + minor >= 61;
    overlaps_kernels_ = major >= 9 && api_.graph_add_edges != nullptr;
  }

  const DriverInfo& info() const override { return info_; }

  std::uint64_t allocate(std::size_t bytes) override {
    const Entered entered = enter();
    Address address = 0;
    const Status status = api_.allocate(&address, bytes);
    if (status == kOutOfMemory) return 0;
    api_.check(status, "cuMemAlloc");
    return address;
  }
  void release(std::uint64_t address) override {
    const Entered entered = enter();
    api_.check(api_.free(address), "cuMemFree");  // waits for the device
  }

  void upload(std::uint64_t to, const void* from, std::size_t bytes) override {
    const Entered entered = enter();
    api_.check(api_.upload(to, from, bytes, stream_), "cuMemcpyHtoDAsync");
    // Memory that is not pinned is copied before the call returns, but that is not promised for every size.
    if (bytes > kStagedBytes) wait();
  }
  void download(void* to, std::uint64_t from, std::size_t bytes) override {
    const Entered entered = enter();
    api_.check(api_.download(to, from, bytes, stream_), "cuMemcpyDtoHAsync");
    wait();
  }
  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    const Entered entered = enter();
    api_.check(api_.copy(to, from, bytes, stream_), "cuMemcpyDtoDAsync");
  }

  std::string source(const KernelText& kernel, const Arithmetic&) const override { return cuda_source(kernel); }
  std::vector<std::byte> compile(const std::string& source) const override {
    return nvrtc().compile(source, architecture_);
  }
  std::unique_ptr<Module> load(std::span<const std::byte> binary, const KernelText& kernel) override {
    const Entered entered = enter();
    Handle module = nullptr;
    Handle function = nullptr;
    api_.check(api_.module_load(&module, binary.data()), "cuModuleLoadData");
    Status status = api_.module_function(&function, module, kEntry);
    const std::size_t shared = shared_bytes_of(kernel);
    const bool dynamic = shared > kStaticSharedBytes;
    if (status == 0 && dynamic) status = api_.function_set(function, kFunctionSharedBytes, static_cast<int>(shared));
    if (status != 0) api_.module_unload(module);
    api_.check(status, "cuModuleGetFunction");
    return std::make_unique<CudaModule>(api_, context_, module, function, static_cast<unsigned>(kernel.threads),
                                        dynamic ? static_cast<unsigned>(shared) : 0);
  }

  std::string missing_for_products() const override { return missing_blaslt(); }
  std::string missing_for_float_products() const override {
    return info_.integer_tiles || !missing_blaslt().empty()
               ? missing_scaled_floats()
               : "products of 8-bit floats with scales for 128 neighbours take a Hopper GPU";
  }
  std::string missing_for_convolutions() const override {
    return missing_blaslt().empty() ? missing_cudnn() : missing_blaslt();
  }
  // Of Hopper, where it was tried.
  bool has_attention() const override {
    return info_.integer_tiles && missing_for_convolutions().empty() && Cudnn::has_attention();
  }
  std::string libraries() const override {
    if (!missing_blaslt().empty()) return missing_blaslt();
    return fmt::format("{}; {}", blaslt_version(), missing_cudnn().empty() ? cudnn_version() : missing_cudnn());
  }
  std::unique_ptr<Module> load_call(const LibraryCall& call) override {
    const Entered entered = enter();
    if (const auto* const product = std::get_if<LibraryProduct>(&call)) {
      if (blaslt_ == nullptr) blaslt_ = std::make_unique<BlasLt>();
      return std::make_unique<CudaCallOf<BlasLt, BlasLt::Product>>(api_, context_, *blaslt_, *product);
    }
    if (cudnn_ == nullptr) cudnn_ = std::make_unique<Cudnn>();
    if (const auto* const attention = std::get_if<LibraryAttention>(&call)) {
      return std::make_unique<CudaCallOf<Cudnn, Cudnn::Attention>>(api_, context_, *cudnn_, *attention);
    }
    return std::make_unique<CudaCallOf<Cudnn, Cudnn::Convolution>>(api_, context_, *cudnn_,
                                                                   std::get<LibraryConvolution>(call));
  }

  void launch(const Module& program, std::uint32_t groups, std::span<const std::uint32_t> words,
              std::span<const Access>) override {
    const Entered entered = enter();
    if (const auto* const call = dynamic_cast<const CudaCall*>(&program)) return call->launch(words, stream_);
    const auto& kernel = static_cast<const CudaModule&>(program);
    std::uint32_t none = 0;
    void* parameters[] = {words.empty() ? static_cast<void*>(&none)
                                        : const_cast<void*>(static_cast<const void*>(words.data()))};
    api_.check(api_.launch(kernel.function(), groups, 1, 1, kernel.threads(), 1, 1, kernel.shared_bytes(), stream_,
                           parameters, nullptr),
               "cuLaunchKernel");
  }
  std::unique_ptr<Recording> record(std::span<const Command> commands) override {
    const auto is_call = [](const Command& command) {
      return dynamic_cast<const CudaCall*>(command.module) != nullptr;
    };
    if (!api_.has_graphs || std::any_of(commands.begin(), commands.end(), is_call)) return nullptr;
    const Entered entered = enter();
    auto recording = std::make_unique<CudaRecording>(api_, context_);
    api_.check(api_.graph_create(&recording->graph, 0), "cuGraphCreate");
    const std::vector<std::vector<std::size_t>> needed = needed_by(commands);
    for (std::size_t i = 0; i < commands.size(); ++i) {
      // A kernel that waits by itself waits for one, the last; it is launched when all others are over.
      const bool overlaps = overlaps_kernels_ && commands[i].overlaps && !needed[i].empty();
      std::vector<Handle> before;
      for (const std::size_t earlier : needed[i]) before.push_back(recording->nodes[earlier]);
      const std::span<const Handle> over = std::span<const Handle>(before).subspan(overlaps ? 1 : 0);
      Handle added = nullptr;
      with_node(commands[i], [&](const KernelNode& node) {
        api_.check(api_.graph_add_kernel(&added, recording->graph, over.data(), over.size(), &node),
                   "cuGraphAddKernelNode");
      });
      if (overlaps) {
        api_.check(api_.graph_add_edges(recording->graph, before.data(), &added, &kOverlapping, 1),
                   "cuGraphAddDependencies");
      }
      recording->nodes.push_back(added);
    }
    api_.check(api_.graph_instantiate(&recording->executable, recording->graph, 0), "cuGraphInstantiate");
    return recording;
  }
  void replay(Recording& recording) override {
    const Entered entered = enter();
    api_.check(api_.graph_launch(static_cast<CudaRecording&>(recording).executable, stream_), "cuGraphLaunch");
  }
  bool can_change() const override { return true; }
  void change(Recording& recording, std::size_t launch, const Command& command) override {
    const Entered entered = enter();
    auto& recorded = static_cast<CudaRecording&>(recording);
    with_node(command, [&](const KernelNode& node) {
      api_.check(api_.graph_set_kernel(recorded.executable, recorded.nodes[launch], &node),
                 "cuGraphExecKernelNodeSetParams");
    });
  }

  void wait() override {
    const Entered entered = enter();
    api_.check(api_.stream_wait(stream_), "cuStreamSynchronize");
  }

  std::unique_ptr<WorkMark> mark() override {
    if (!api_.has_side_work) return nullptr;
    const Entered entered = enter();
    return std::make_unique<CudaMark>(api_, context_, stream_);
  }
  void wait_for(const WorkMark& mark) override {
    const Entered entered = enter();
    api_.check(api_.stream_wait_event(stream_, static_cast<const CudaMark&>(mark).event(), 0), "cuStreamWaitEvent");
  }
  std::unique_ptr<SideQueue> side_queue() override {
    if (!api_.has_side_work) return nullptr;
    const Entered entered = enter();
    return std::make_unique<CudaSideQueue>(api_, context_);
  }
  std::unique_ptr<HostCopy> begin_download(std::uint64_t from, std::size_t bytes) override {
    if (!api_.has_side_work || !api_.has_host_copies) return nullptr;
    const Entered entered = enter();
    if (pinned_ == nullptr) pinned_ = std::make_shared<PinnedMemory>(api_, context_);
    return std::make_unique<CudaHostCopy>(api_, context_, stream_, pinned_, from, bytes);
  }
  bool copy_from(Driver& other, std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    auto* const source = dynamic_cast<CudaDriver*>(&other);
    if (source == nullptr || !api_.has_side_work) return false;
    if (reads_directly(source->device_)) allow_reading(*source);
    const std::unique_ptr<WorkMark> computed = source->mark();
    const Entered entered = enter();
    api_.check(api_.stream_wait_event(stream_, static_cast<const CudaMark&>(*computed).event(), 0),
               "cuStreamWaitEvent");
    api_.check(api_.copy_peer(to, context_, from, source->context_, bytes, stream_), "cuMemcpyPeerAsync");
    // The source's memory may be given to others by what its stream does next.
    const CudaMark copied(api_, context_, stream_);
    const Entered at_source(api_, source->context_);
    api_.check(api_.stream_wait_event(source->stream_, copied.event(), 0), "cuStreamWaitEvent");
    return true;
  }
  bool reads_directly(int other) override {
    int can = 0;
    return api_.has_side_work && api_.can_access_peer(&can, device_, other) == 0 && can != 0;
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

  // Without it cuMemcpyPeerAsync takes a way through the host.
  void allow_reading(const CudaDriver& other) {
    if (!readable_.insert(other.device_).second) return;
    const Entered entered = enter();
    const Status status = api_.enable_peer(other.context_, 0);
    if (status != kPeerAlreadyEnabled) api_.check(status, "cuCtxEnablePeerAccess");
  }

  Entered enter() const { return {api_, context_}; }

  const Api& api_;
  Handle context_ = nullptr;
  Handle stream_ = nullptr;
  DeviceNumber device_ = 0;
  std::set<DeviceNumber> readable_;  ///< whose memory copies may read directly
  std::string architecture_;
  bool overlaps_kernels_ = false;  ///< which wait by themselves
  DriverInfo info_;
  std::shared_ptr<PinnedMemory> pinned_;
  std::unique_ptr<BlasLt> blaslt_;  ///< from the first product on
  std::unique_ptr<Cudnn> cudnn_;    ///< from the first convolution on
};

}  // namespace

std::unique_ptr<Driver> make_driver(const Api& api, const std::string& compiler, int index) {
  return std::make_unique<CudaDriver>(api, compiler, index);
}

}  // namespace cuda

Found find_cuda() {
  const cuda::Api& api = cuda::api();
  Found found;
  int count = 0;
  if (api.missing.empty() && api.device_count(&count) == 0 && count > 0) {
    if (!nvrtc().is_usable()) {
      found.reason = nvrtc().problem();
      found.fix = "install NVRTC of your CUDA version, e.g. apt install libnvrtc12, or the CUDA toolkit";
      return found;
    }
    for (int i = 0; i < count; ++i) {
      std::array<char, 256> name{};
      cuda::DeviceNumber device = 0;
      if (api.device_get(&device, i) == 0) api.device_name(name.data(), static_cast<int>(name.size()), device);
      found.devices.push_back({name.data(), false});
    }
    return found;
  }
  found.reason = api.missing.empty() ? "no NVIDIA GPU is present" : api.missing;
  found.fix = "needs an NVIDIA GPU, its driver (libcuda.so.1) and NVRTC (libnvrtc.so)";
  return found;
}

std::unique_ptr<Driver> open_cuda(int index) {
  if (!nvrtc().is_usable()) throw BackendError("cuda: " + nvrtc().problem());
  return cuda::make_driver(cuda::api(), nvrtc().version(), index);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
