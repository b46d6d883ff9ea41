// The CUDA driver on threads whose context other libraries switch: first on functions that behave as libcuda's do where
// contexts are concerned, then on a device, where there is one.
#include "backends/gpu/cuda/driver.h"

#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/error.h>

#include "core/os.h"

namespace lockstep {
namespace {

using namespace gpu;
using cuda::Handle;
using cuda::Status;

constexpr Status kInvalidContext = 201;
Handle handle(std::uintptr_t number) {
  return reinterpret_cast<Handle>(number);
}
const Handle kOurs = handle(0x10);    // the device's primary context
const Handle kTheirs = handle(0x20);  // another library's
const Handle kThing = handle(0x30);   // whatever is made in a context

thread_local Handle current = nullptr;
int refused = 0;    // calls in a wrong context
int calls = 0;      // calls that need ours
int switches = 0;   // calls of cuCtxSetCurrent
bool lost = false;  // no context can be entered
Status in_context() {
  ++calls;
  if (current == kOurs) return 0;
  ++refused;
  return kInvalidContext;
}

// libcuda, as far as contexts go: everything that works in one fails in another.
cuda::Api fake_cuda() {
  cuda::Api api;
  api.init = [](unsigned) { return 0; };
  api.driver_version = [](int* version) { return *version = 12040, 0; };
  api.device_count = [](int* count) { return *count = 1, 0; };
  api.device_get = [](cuda::DeviceNumber* device, int index) { return *device = index, 0; };
  api.device_name = [](char* name, int, cuda::DeviceNumber) { return std::strcpy(name, "Fake"), 0; };
  api.device_attribute = [](int* value, int, cuda::DeviceNumber) { return *value = 9, 0; };
  api.device_memory = [](std::size_t* bytes, cuda::DeviceNumber) { return *bytes = std::size_t{1} << 30, 0; };
  api.context_retain = [](Handle* context, cuda::DeviceNumber) { return *context = kOurs, 0; };
  api.context_get = [](Handle* context) { return *context = current, 0; };
  api.context_set = [](Handle context) -> Status {
    ++switches;
    if (lost) return kInvalidContext;
    current = context;
    return 0;
  };
  api.allocate = [](cuda::Address* address, std::size_t bytes) {
    *address = reinterpret_cast<cuda::Address>(std::calloc(bytes, 1));
    return in_context();
  };
  api.free = [](cuda::Address address) { return std::free(reinterpret_cast<void*>(address)), in_context(); };
  api.upload = [](cuda::Address to, const void* from, std::size_t bytes, Handle) {
    return std::memcpy(reinterpret_cast<void*>(to), from, bytes), in_context();
  };
  api.download = [](void* to, cuda::Address from, std::size_t bytes, Handle) {
    return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), in_context();
  };
  api.copy = [](cuda::Address to, cuda::Address from, std::size_t bytes, Handle) {
    return std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes), in_context();
  };
  api.stream_create = [](Handle* stream, unsigned) { return *stream = kThing, in_context(); };
  api.stream_wait = [](Handle) { return in_context(); };
  api.module_load = [](Handle* module, const void*) { return *module = kThing, in_context(); };
  api.module_unload = [](Handle) { return in_context(); };
  api.module_function = [](Handle* function, Handle, const char*) { return *function = kThing, in_context(); };
  api.function_set = [](Handle, int, int) { return in_context(); };
  api.launch = [](Handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, Handle, void**,
                  void**) { return in_context(); };
  api.graph_create = [](Handle* graph, unsigned) { return *graph = kThing, in_context(); };
  api.graph_destroy = [](Handle) { return in_context(); };
  api.graph_add_kernel = [](Handle* node, Handle, const Handle*, std::size_t, const cuda::KernelNode*) {
    return *node = kThing, in_context();
  };
  api.graph_instantiate = [](Handle* executable, Handle, unsigned long long) {
    return *executable = kThing, in_context();
  };
  api.graph_set_kernel = [](Handle, Handle, const cuda::KernelNode*) { return in_context(); };
  api.graph_launch = [](Handle, Handle) { return in_context(); };
  api.graph_exec_destroy = [](Handle) { return in_context(); };
  api.error_name = [](Status, const char** name) { return *name = "CUDA_ERROR_INVALID_CONTEXT", 0; };
  api.error_text = [](Status, const char** text) { return *text = "invalid device context", 0; };
  return api;
}

class CudaContext : public ::testing::Test {
 protected:
  CudaContext() { current = nullptr, refused = calls = switches = 0, lost = false; }
  ~CudaContext() override { current = nullptr, lost = false; }

  const cuda::Api api_ = fake_cuda();
};

// Every call of a driver, each on a thread whose context is `theirs`. (What needs no context is not here.)
void use_everything(Driver& driver, Handle theirs) {
  const auto elsewhere = [&] { current = theirs; };
  const auto came_back = [&](const char* call) {
    EXPECT_EQ(current, theirs == nullptr ? kOurs : theirs) << call;
    elsewhere();
  };
  elsewhere();
  const std::uint64_t memory = driver.allocate(64);
  came_back("allocate");
  std::uint32_t words[16] = {1, 2, 3};
  driver.upload(memory, words, sizeof words);
  came_back("upload");
  driver.copy(memory + 32, memory, 32);
  came_back("copy");
  driver.download(words, memory, sizeof words);
  came_back("download");
  EXPECT_EQ(words[8], 1U);
  KernelText text;
  text.shared = {{ComputeType::f32, "shared", 1 << 15}};  // more than is static
  std::unique_ptr<Module> module = driver.load({}, text);
  came_back("load");
  driver.launch(*module, 1, words, {});
  came_back("launch");
  const Command command{.module = module.get(), .groups = 1, .words = words, .accesses = {}};
  std::unique_ptr<Recording> recording = driver.record({&command, 1});
  came_back("record");
  ASSERT_NE(recording, nullptr);
  driver.replay(*recording);
  came_back("replay");
  driver.change(*recording, 0, command);
  came_back("change");
  driver.wait();
  came_back("wait");
  recording.reset();
  came_back("the end of a recording");
  module.reset();
  came_back("the end of a module");
  driver.release(memory);
  came_back("release");
}

TEST_F(CudaContext, IsOursInEveryCallThoughAnotherLibrarySwitchesIt) {
  current = kTheirs;
  const std::unique_ptr<Driver> driver = cuda::make_driver(api_, "0.0", 0);
  EXPECT_EQ(current, kTheirs);
  use_everything(*driver, kTheirs);
  use_everything(*driver, nullptr);
  EXPECT_EQ(refused, 0);
  EXPECT_GT(calls, 30);
}

TEST_F(CudaContext, IsNotSetAgainWhereNobodySwitchesIt) {
  const std::unique_ptr<Driver> driver = cuda::make_driver(api_, "0.0", 0);
  EXPECT_EQ(current, kOurs);
  use_everything(*driver, kOurs);
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(switches, 1);
}

TEST_F(CudaContext, IsOursOnOtherThreads) {
  const std::unique_ptr<Driver> driver = cuda::make_driver(api_, "0.0", 0);
  std::thread([&] {
    EXPECT_EQ(current, nullptr);
    use_everything(*driver, nullptr);
  }).join();
  EXPECT_EQ(refused, 0);
}

// Two devices, whose copies and events are noted.
std::vector<std::string> noted;
TEST_F(CudaContext, ACopyBetweenDevicesComesAfterTheSourcesWorkAndBeforeWhatTheSourceDoesNext) {
  noted.clear();
  cuda::Api api = api_;
  static std::uintptr_t last = 0;
  last = 0x100;
  api.stream_create = [](Handle* stream, unsigned) { return *stream = handle(last += 0x10), 0; };
  api.context_retain = [](Handle* context, cuda::DeviceNumber device) {
    return *context = handle(device == 0 ? 0x10 : 0x11), 0;
  };
  api.event_create = [](Handle* event, unsigned) { return *event = handle(last += 0x10), 0; };
  api.event_destroy = [](Handle) { return 0; };
  api.event_record = [](Handle event, Handle stream) {
    noted.push_back("record " + std::to_string(reinterpret_cast<std::uintptr_t>(event)) + " on " +
                    std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
    return 0;
  };
  api.stream_wait_event = [](Handle stream, Handle event, unsigned) {
    noted.push_back(std::to_string(reinterpret_cast<std::uintptr_t>(stream)) + " waits for " +
                    std::to_string(reinterpret_cast<std::uintptr_t>(event)));
    return 0;
  };
  api.copy_peer = [](cuda::Address to, Handle, cuda::Address from, Handle, std::size_t bytes, Handle stream) {
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    noted.push_back("copy on " + std::to_string(reinterpret_cast<std::uintptr_t>(stream)));
    return 0;
  };
  api.can_access_peer = [](int* can, cuda::DeviceNumber, cuda::DeviceNumber) { return *can = 1, 0; };
  api.enable_peer = [](Handle, unsigned) { return noted.emplace_back("enable"), 0; };
  const std::unique_ptr<Driver> source = cuda::make_driver(api, "13.0", 0);  // stream 0x110 = 272
  const std::unique_ptr<Driver> target = cuda::make_driver(api, "13.0", 1);  // stream 0x120 = 288
  EXPECT_TRUE(target->reads_directly(0));
  std::uint32_t from[4] = {1, 2, 3, 4};
  std::uint32_t to[4] = {};
  for (int copy = 0; copy < 2; ++copy) {
    EXPECT_TRUE(target->copy_from(*source, reinterpret_cast<std::uint64_t>(to), reinterpret_cast<std::uint64_t>(from),
                                  sizeof to));
  }
  EXPECT_EQ(to[3], 4U);
  const std::vector<std::string> expected{"enable",
                                          "record 304 on 272",
                                          "288 waits for 304",
                                          "copy on 288",
                                          "record 320 on 288",
                                          "272 waits for 320",
                                          "record 336 on 272",
                                          "288 waits for 336",
                                          "copy on 288",
                                          "record 352 on 288",
                                          "272 waits for 352"};
  EXPECT_EQ(noted, expected);
}

TEST_F(CudaContext, ThatCannotBeEnteredIsAnErrorAndNoDestructorThrows) {
  const std::unique_ptr<Driver> driver = cuda::make_driver(api_, "0.0", 0);
  std::unique_ptr<Module> module = driver->load({}, {});
  current = kTheirs;
  lost = true;
  EXPECT_THROW(driver->wait(), BackendError);
  module.reset();
  EXPECT_EQ(current, kTheirs);
}

// On a device: the thread's context is taken away, and another one is put in its place.
// Where NVRTC is older than the target that has them, kernels do without.
TEST_F(CudaContext, IntegerTilesAreHoppersOwn) {
  static int major = 9;
  static int minor = 0;
  cuda::Api api = fake_cuda();
  api.device_attribute = [](int* value, int which, cuda::DeviceNumber) {
    return *value = which == cuda::kMajor ? major : which == cuda::kMinor ? minor : 100, 0;
  };
  const auto has_tiles = [&](int of_major, int of_minor, const char* compiler) {
    major = of_major;
    minor = of_minor;
    return cuda::make_driver(api, compiler, 0)->info().integer_tiles;
  };
  EXPECT_TRUE(has_tiles(9, 0, "12.4"));
  EXPECT_TRUE(has_tiles(9, 0, "13.0"));
  EXPECT_FALSE(has_tiles(9, 0, "11.8"));
  EXPECT_FALSE(has_tiles(8, 9, "13.0"));
  EXPECT_FALSE(has_tiles(10, 0, "13.0"));
  EXPECT_NE(cuda::make_driver(api, "13.0", 0)->info().identity.find("sm_100 "), std::string::npos);
  major = 9;
  EXPECT_NE(cuda::make_driver(api, "13.0", 0)->info().identity.find("sm_90a "), std::string::npos);
}

// From Hopper on, where the driver can, kernels of a graph begin while the one before them ends.
TEST_F(CudaContext, KernelsOfAGraphOverlap) {
  static int waits = 0;
  static int overlaps = 0;
  waits = overlaps = 0;
  cuda::Api api = fake_cuda();
  api.graph_add_kernel = [](Handle* node, Handle, const Handle*, std::size_t count, const cuda::KernelNode*) {
    waits += static_cast<int>(count);
    return *node = kThing, 0;
  };
  api.graph_add_edges = [](Handle, const Handle*, const Handle*, const cuda::GraphEdge* edge, std::size_t) {
    overlaps += edge->from_port == 1 && edge->type == 1 ? 1 : 0;
    return 0;
  };
  const auto record = [&](const cuda::Api& of) {
    const std::unique_ptr<Driver> driver = cuda::make_driver(of, "13.0", 0);
    const std::unique_ptr<Module> module = driver->load({}, {});
    const Access same[] = {{.address = 64, .writes = true}};
    const Command alone{.module = module.get(), .groups = 1, .words = {}, .accesses = same};
    Command with = alone;
    with.overlaps = true;
    const Command commands[] = {alone, with, alone, with};
    driver->record(commands);
  };
  record(api);
  EXPECT_EQ(waits, 1);
  EXPECT_EQ(overlaps, 2);
  api.graph_add_edges = nullptr;
  record(api);
  EXPECT_EQ(waits, 4);
  EXPECT_EQ(overlaps, 2);
}

// One that needs several kernels begins while the last of them ends; it is launched when the others are over.
TEST_F(CudaContext, AKernelOfAGraphOverlapsTheLastOfThoseThatItNeeds) {
  static std::vector<std::size_t> waits;
  static int overlaps = 0;
  waits.clear();
  overlaps = 0;
  cuda::Api api = fake_cuda();
  api.graph_add_kernel = [](Handle* node, Handle, const Handle*, std::size_t count, const cuda::KernelNode*) {
    waits.push_back(count);
    *node = handle(0x100 + waits.size());
    return 0;
  };
  api.graph_add_edges = [](Handle, const Handle* from, const Handle* to, const cuda::GraphEdge*, std::size_t count) {
    EXPECT_EQ(*from, handle(0x102));
    EXPECT_EQ(*to, handle(0x103));
    EXPECT_EQ(count, 1U);
    ++overlaps;
    return 0;
  };
  const std::unique_ptr<Driver> driver = cuda::make_driver(api, "13.0", 0);
  const std::unique_ptr<Module> module = driver->load({}, {});
  const Access first[] = {{.address = 64, .writes = true}};
  const Access second[] = {{.address = 128, .writes = true}};
  const Access both[] = {{.address = 64}, {.address = 128}};
  Command commands[] = {{.module = module.get(), .groups = 1, .words = {}, .accesses = first},
                        {.module = module.get(), .groups = 1, .words = {}, .accesses = second},
                        {.module = module.get(), .groups = 1, .words = {}, .accesses = both}};
  for (Command& command : commands) command.overlaps = true;
  driver->record(commands);
  EXPECT_EQ(waits, (std::vector<std::size_t>{0, 0, 1}));
  EXPECT_EQ(overlaps, 1);
}

TEST_F(CudaContext, ACopyToTheHostWaitsForItselfAlone) {
  static int waits = 0;
  waits = 0;
  cuda::Api api = fake_cuda();
  api.host_allocate = [](void** memory, std::size_t bytes, unsigned) { return *memory = std::malloc(bytes), 0; };
  api.host_free = [](void* memory) { return std::free(memory), 0; };
  api.event_create = [](Handle* event, unsigned) { return *event = kThing, 0; };
  api.event_record = [](Handle, Handle) { return 0; };
  api.event_destroy = [](Handle) { return 0; };
  api.event_wait = [](Handle) { return ++waits, in_context(); };
  api.stream_wait = [](Handle) -> Status { return kInvalidContext; };
  const std::unique_ptr<Driver> driver = cuda::make_driver(api, "13.0", 0);
  const std::uint32_t words[4] = {1, 2, 3, 4};
  const std::uint64_t memory = driver->allocate(64);
  driver->upload(memory, words, sizeof words);
  const std::unique_ptr<HostCopy> all = driver->begin_download(memory, 16);
  driver->begin_download(memory + 8, 8);
  EXPECT_EQ(waits, 1) << "memory that the device may write to is not given to others";
  const std::unique_ptr<HostCopy> some = driver->begin_download(memory + 8, 8);
  std::uint32_t read[4] = {};
  std::memcpy(read, all->bytes().data(), sizeof read);
  EXPECT_EQ(read[3], 4U);
  std::memcpy(read, some->bytes().data(), 8);
  EXPECT_EQ(read[0], 3U);
  some->bytes();
  EXPECT_EQ(waits, 3);
  driver->release(memory);
  EXPECT_EQ(refused, 0);
}

TEST(CudaDevice, WorksThoughTheContextIsSwitched) {
  const Found found = find_cuda();
  if (found.devices.empty()) GTEST_SKIP() << found.reason;
  const std::unique_ptr<Driver> driver = open_cuda(0);
  const cuda::Api& api = cuda::api();
  const std::string names[] = {"libcuda.so.1", "libcuda.so"};
  const os::SharedLibrary library(names);
  const auto create = reinterpret_cast<Status (*)(Handle*, unsigned, int)>(library.function("cuCtxCreate_v2"));
  const auto destroy = reinterpret_cast<Status (*)(Handle)>(library.function("cuCtxDestroy_v2"));
  ASSERT_TRUE(create != nullptr && destroy != nullptr);
  Handle theirs = nullptr;
  ASSERT_EQ(create(&theirs, 0, 0), 0);
  KernelText text;
  text.words = 4;
  text.addresses = {0, 2};
  text.body =
      "  MEMORY from = MEMORY_AT(0, 0);\n  MEMORY to = MEMORY_AT(1, 2);\n"
      "  STORE_U32(to, int(THREAD), LOAD_U32(from, int(THREAD)) + 1u);\n";
  const std::vector<std::byte> binary = driver->compile(driver->source(text, {}));
  for (const Handle other : {theirs, static_cast<Handle>(nullptr)}) {
    const auto elsewhere = [&] { ASSERT_EQ(api.context_set(other), 0); };
    elsewhere();
    std::unique_ptr<Module> module = driver->load(binary, text);
    elsewhere();
    const std::uint64_t memory = driver->allocate(2048);
    std::vector<std::uint32_t> values(256);
    std::iota(values.begin(), values.end(), 7U);
    elsewhere();
    driver->upload(memory, values.data(), 1024);
    const std::uint64_t to = memory + 1024;
    const std::uint32_t words[] = {static_cast<std::uint32_t>(memory), static_cast<std::uint32_t>(memory >> 32),
                                   static_cast<std::uint32_t>(to), static_cast<std::uint32_t>(to >> 32)};
    elsewhere();
    driver->launch(*module, 1, words, {});
    std::vector<std::uint32_t> results(256);
    elsewhere();
    driver->download(results.data(), to, 1024);
    for (std::uint32_t& value : values) ++value;
    EXPECT_EQ(results, values);
    if (other != nullptr) {
      Handle now = nullptr;
      ASSERT_EQ(api.context_get(&now), 0);
      EXPECT_EQ(now, other) << "their context is current again";
    }
    elsewhere();
    module.reset();
    elsewhere();
    driver->release(memory);
  }
  EXPECT_EQ(destroy(theirs), 0);
}

}  // namespace
}  // namespace lockstep
