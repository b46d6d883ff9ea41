// The device, how one gets it, and what is said when the process ends.
#include <cstdio>

#include <fmt/format.h>

#include "commands.h"
#include "dispatch.h"
#include "foundation.h"
#include "program.h"
#include "resources.h"
#include "settings.h"

namespace emulator {
namespace {

/// Feature sets of an M1: Apple7, Mac2, Common3, Metal3.
bool supported_family(long family) {
  return (family >= 1001 && family <= 1007) || family == 2002 || (family >= 3001 && family <= 3003) || family == 5001;
}

class Device : public objc::Object {
 public:
  bool is_kept() const override { return true; }
  static constexpr const char* kName = "MTLDevice";
  explicit Device(std::size_t number) : Object(objc::class_named(kName)), number_(number) {}

  objc::id name() { return string(number_ == 0 ? "fake Metal" : fmt::format("fake Metal {}", number_)); }
  unsigned long registry_id() { return 0x1000 + number_; }
  bool unified() { return settings::unified_memory(); }
  bool no() { return false; }
  unsigned long threadgroup_memory() { return kThreadgroupBytes; }
  unsigned long max_buffer() { return settings::memory_bytes() / 2; }
  unsigned long working_set() { return settings::memory_bytes() / 4 * 3; }
  unsigned long allocated() { return Buffer::allocated_bytes(); }
  MtlSize max_threads() { return {kMaxThreads, kMaxThreads, kMaxThreads}; }
  bool supports(long family) { return supported_family(family); }
  objc::id queue() { return objc::owned(new Queue(*this)); }
  objc::id queue_of(unsigned long) { return queue(); }
  objc::id buffer(unsigned long length, unsigned long options) {
    if (length > max_buffer()) return nullptr;
    Buffer* made = Buffer::make(length, options);
    return made == nullptr ? nullptr : objc::owned(made);
  }
  objc::id buffer_with(const void* bytes, unsigned long length, unsigned long options) {
    const objc::id made = buffer(length, options);
    if (made != nullptr) std::memcpy(objc::get<Buffer>(made).data(), bytes, length);
    return made;
  }
  objc::id library(objc::id source, objc::id options, objc::id* error) { return Library::make(source, options, error); }
  objc::id pipeline(objc::id function, objc::id* error) { return Pipeline::make(function, error); }

 private:
  std::size_t number_;
};

struct Devices {
  Devices() {
    objc::Methods<Device>()
        .on<&Device::name>("name")
        .on<&Device::registry_id>("registryID")
        .on<&Device::unified>("hasUnifiedMemory")
        .on<&Device::no>("isLowPower")
        .on<&Device::no>("isHeadless")
        .on<&Device::no>("isRemovable")
        .on<&Device::threadgroup_memory>("maxThreadgroupMemoryLength")
        .on<&Device::max_buffer>("maxBufferLength")
        .on<&Device::working_set>("recommendedMaxWorkingSetSize")
        .on<&Device::allocated>("currentAllocatedSize")
        .on<&Device::max_threads>("maxThreadsPerThreadgroup")
        .on<&Device::supports>("supportsFamily:")
        .on<&Device::queue>("newCommandQueue")
        .on<&Device::queue_of>("newCommandQueueWithMaxCommandBufferCount:")
        .on<&Device::buffer>("newBufferWithLength:options:")
        .on<&Device::buffer_with>("newBufferWithBytes:length:options:")
        .on<&Device::library>("newLibraryWithSource:options:error:")
        .on<&Device::pipeline>("newComputePipelineStateWithFunction:error:");
  }
  ~Devices() {
    if (settings::report()) {
      const CompileCounts compiles = compile_counts();
      const DispatchCounts runs = dispatch_counts();
      std::fprintf(stderr,
                   "fake Metal: %zu texts, %zu compiled, %zu checked; %zu dispatches of %zu threads; alive: %s\n",
                   compiles.texts, compiles.compiled, compiles.checked, runs.dispatches, runs.threads,
                   objc::live_objects() == 0 ? "nothing" : objc::live_object_list().c_str());
    }
    const settings::Leaks fatal = settings::fatal_leaks();
    const std::string left = objc::live_object_list(fatal == settings::Leaks::transient);
    if (fatal != settings::Leaks::ignored && !left.empty()) misuse("never released: " + left);
  }
};
const Devices devices;

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED objc::id MTLCreateSystemDefaultDevice() {
  const std::lock_guard guard(objc::lock());
  return settings::devices() == 0 ? nullptr : objc::owned(new Device(0));
}

/// Owned by the caller, as its name says.
EXPORTED objc::id MTLCopyAllDevices() {
  const std::lock_guard guard(objc::lock());
  std::vector<objc::Ref<objc::Object>> all;
  for (std::size_t i = 0; i < settings::devices(); ++i) {
    objc::Ref<objc::Object> device(new Device(i));
    device->release();  // the list owns it
    all.push_back(std::move(device));
  }
  return objc::owned(new Array(std::move(all)));
}

}  // namespace
}  // namespace emulator
