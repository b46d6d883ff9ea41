// What goes wrong with a GPU: the error is clear, the process and the other devices go on.
#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "backends/gpu/backend.h"
#include "support/fake_driver.h"
#include "support/files.h"

namespace lockstep {
namespace {

using test::FakeDevice;
using test::FakeDriver;
using test::message_of;
using test::TemporaryFolder;

// A backend of its own device, which tensors can be on.
struct Fake {
  explicit Fake(int index, const std::string& cache = "") : device{DeviceKind::cuda, index} {
    auto made = std::make_unique<gpu::GpuBackend>(device, std::make_unique<FakeDriver>(state), cache);
    backend = made.get();
    register_backend(std::move(made));
  }
  std::shared_ptr<FakeDevice> state = std::make_shared<FakeDevice>();
  Device device;
  gpu::GpuBackend* backend = nullptr;
};

void expect_that_the_cpu_works() {
  EXPECT_EQ(sum(ones({10}) * 3.0).item<float>(), 30.0F);
}

TEST(GpuFaults, ALostDeviceSaysSoAtEveryCallAndTheRestGoesOn) {
  const Fake fake(910);
  const Tensor x = ones({4}, {.device = fake.device}).eval();
  const Tensor before = (x * 2.0).eval();
  fake.state->lost = true;
  for (int i = 0; i < 2; ++i) {
    EXPECT_NE(message_of<BackendError>([&] { (x + 1.0).eval(); }).find("the device was lost"), std::string::npos);
    EXPECT_NE(message_of<BackendError>([&] { before.to(Device{}); }).find("the device was lost"), std::string::npos);
  }
  EXPECT_THROW(ones({1 << 20}, {.device = fake.device}).eval(), BackendError);
  expect_that_the_cpu_works();
  { const Tensor released = before * 1.0; }  // giving memory back to a lost device is no error
}

TEST(GpuFaults, AKernelThatDoesNotCompileIsNamedAndItsSourceKept) {
  const TemporaryFolder folder;
  const Fake fake(911, folder.path("."));
  const Tensor x = ones({4}, {.device = fake.device}).eval();
  fake.state->compiles = false;
  const std::string said = message_of<BackendError>([&] { exp(x * 2.0 + 1.0).eval(); });
  EXPECT_NE(said.find("cuda:911: fake: a kernel does not compile: line 1"), std::string::npos) << said;
  EXPECT_NE(said.find("in the kernel row[1x4] mul add exp"), std::string::npos) << said;
  const std::size_t at = said.find("the source is in " + folder.path("./failed-"));
  ASSERT_NE(at, std::string::npos) << said;
  const std::string path = said.substr(at + 17, said.find('\n', at) - at - 17);
  EXPECT_NE(test::read_whole_file(path).find("STORE"), std::string::npos);
  expect_that_the_cpu_works();
  fake.state->compiles = true;
  EXPECT_NO_THROW(exp(x * 2.0 + 1.0).eval()) << "nothing of the failure stays";
}

TEST(GpuFaults, KernelsComeFromTheDisk) {
  const TemporaryFolder folder;
  const auto device = std::make_shared<FakeDevice>();
  { const gpu::GpuBackend first({DeviceKind::cuda, 912}, std::make_unique<FakeDriver>(device), folder.path("")); }
  EXPECT_EQ(device->compiled, 1) << "the probe's";
  { const gpu::GpuBackend second({DeviceKind::cuda, 912}, std::make_unique<FakeDriver>(device), folder.path("")); }
  EXPECT_EQ(device->compiled, 1);
  EXPECT_EQ(device->loaded, 2);
}

TEST(GpuFaults, CorruptCacheEntriesAreCompiledAgain) {
  const TemporaryFolder folder;
  const auto device = std::make_shared<FakeDevice>();
  const auto open = [&] {
    const gpu::GpuBackend backend({DeviceKind::cuda, 913}, std::make_unique<FakeDriver>(device), folder.path(""));
  };
  open();
  ASSERT_EQ(folder.names().size(), 1u);
  const std::string path = folder.path(folder.names()[0]);
  const std::string good = test::read_whole_file(path);
  std::vector<std::string> damaged = {"", "x", good.substr(0, 31), good.substr(0, good.size() - 1), good + "x"};
  for (const std::size_t at : {std::size_t{0}, std::size_t{9}, std::size_t{17}, std::size_t{25}, good.size() - 1}) {
    damaged.push_back(good);
    damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ 1);
  }
  for (const std::string& bytes : damaged) {
    folder.write(folder.names()[0], bytes);
    const int before = device->compiled;
    EXPECT_NO_THROW(open());
    EXPECT_EQ(device->compiled, before + 1) << bytes.size() << " bytes";
    EXPECT_EQ(test::read_whole_file(path), good) << "written again";
  }
}

TEST(GpuFaults, ACacheThatCannotBeUsedCostsTimeOnly) {
  const TemporaryFolder folder;
  const std::string file = folder.write("file", "no folder");
  for (const std::string& directory : {folder.path("vanished/kernels"), file}) {
    const auto device = std::make_shared<FakeDevice>();
    for (int i = 1; i <= 2; ++i) {
      EXPECT_NO_THROW(gpu::GpuBackend({DeviceKind::cuda, 914}, std::make_unique<FakeDriver>(device), directory));
      EXPECT_EQ(device->compiled, i);
    }
  }
}

}  // namespace
}  // namespace lockstep
