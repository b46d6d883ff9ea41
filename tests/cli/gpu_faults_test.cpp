// Machines whose GPU software is missing, old or broken: `lockstep info` says what is wrong and what to install, and
// the CPU works. The broken parts are files that the loader of shared libraries finds first.
#include <gtest/gtest.h>

#include <cstdlib>

#include "cli/run_command.h"
#include "core/os.h"

namespace lockstep::test {
namespace {

// A shared library of the given C functions, made by the compiler that made this test, if it is there.
bool make_library(const std::string& path, const std::string& source) {
  const TemporaryFolder folder;
  const std::string file = folder.write("library.c", source);
  return std::system(("cc -shared -fPIC -o " + quoted(path) + " " + quoted(file) + " 2>/dev/null").c_str()) == 0;
}

// What info says of a kind of device that cannot be used: reason, a space, fix. Empty where it can be.
std::string missing(const CommandResult& info, const std::string& kind) {
  EXPECT_EQ(info.exit_code, 0) << info.errors;
  const nlohmann::json line = info.json().at(0);
  for (const auto& device : line.at("unavailable")) {
    if (device.at("device") == kind) {
      return device.at("reason").get<std::string>() + " " + device.at("fix").get<std::string>();
    }
  }
  return "";
}

void expect_contains(const std::string& text, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(text.find(part), std::string::npos) << part << "\nis not in\n" << text;
}

class GpuFaults : public ::testing::Test {
 protected:
  CommandResult info(std::vector<std::string> environment = {}) const {
    environment.push_back("LD_LIBRARY_PATH=" + folder_.path("."));
    const CommandResult check = run_command({"check", "--device", "cpu", "--op", "neg", "--most", "10"}, environment);
    EXPECT_EQ(check.exit_code, 0) << "the CPU works\n" << check.errors;
    return run_command({"info", "--json"}, environment);
  }
  void SetUp() override {
    if (!make_library(folder_.path("empty.so"), "")) GTEST_SKIP() << "there is no C compiler";
  }
  void library(const std::string& name, const std::string& source) const {
    ASSERT_TRUE(make_library(folder_.path(name), source));
  }
  const TemporaryFolder folder_;
};

// Every function that the CUDA driver needs, of which those named say something else than 0.
std::string cuda_functions(const std::string& others) {
  std::string text = others;
  for (const char* name : {"cuInit",
                           "cuDriverGetVersion",
                           "cuDeviceGetCount",
                           "cuDeviceGet",
                           "cuDeviceGetName",
                           "cuDeviceGetAttribute",
                           "cuDeviceTotalMem_v2",
                           "cuDevicePrimaryCtxRetain",
                           "cuCtxGetCurrent",
                           "cuCtxSetCurrent",
                           "cuMemAlloc_v2",
                           "cuMemFree_v2",
                           "cuMemcpyHtoDAsync_v2",
                           "cuMemcpyDtoHAsync_v2",
                           "cuMemcpyDtoDAsync_v2",
                           "cuStreamCreate",
                           "cuStreamSynchronize",
                           "cuModuleLoadData",
                           "cuModuleUnload",
                           "cuModuleGetFunction",
                           "cuFuncSetAttribute",
                           "cuLaunchKernel"}) {
    if (others.find(std::string(name) + "(") == std::string::npos)
      text += "int " + std::string(name) + "() { return 0; }\n";
  }
  return text +
         "int cuGetErrorName(int e, const char** t) { *t = e == 100 ? \"CUDA_ERROR_NO_DEVICE\" : \"CUDA_ERROR_X\"; "
         "return 0; }\n"
         "int cuGetErrorString(int e, const char** t) { *t = \"no CUDA-capable device is detected\"; return 0; }\n";
}
constexpr const char* kOneDevice = "int cuDeviceGetCount(int* n) { *n = 1; return 0; }\n";

TEST_F(GpuFaults, NoCudaDriver) {
  folder_.write("libcuda.so.1", "");  // what the loader finds first cannot be opened
  folder_.write("libcuda.so", "");
  expect_contains(missing(info(), "cuda"), {"libcuda.so", "needs an NVIDIA GPU, its driver"});
}

TEST_F(GpuFaults, CudaDriverThatIsTooOld) {
  library("libcuda.so.1", "int cuInit(unsigned f) { return 0; }\n");
  expect_contains(missing(info(), "cuda"), {"libcuda.so.1 is too old: it lacks cu"});
}

TEST_F(GpuFaults, CudaDriverWithoutADevice) {
  library("libcuda.so.1", cuda_functions("int cuInit(unsigned f) { return 100; }\n"));
  expect_contains(missing(info(), "cuda"), {"cuInit: CUDA_ERROR_NO_DEVICE (no CUDA-capable device is detected)"});
}

TEST_F(GpuFaults, NoNvrtc) {
  library("libcuda.so.1", cuda_functions(kOneDevice));
  for (const char* name : {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}) folder_.write(name, "");
  if (os::is_directory("/usr/local/cuda/lib64")) GTEST_SKIP() << "NVRTC is found in /usr/local/cuda";
  expect_contains(missing(info(), "cuda"), {"NVRTC", "cannot be opened", "apt install libnvrtc"});
}

TEST_F(GpuFaults, NvrtcThatIsTooOld) {
  library("libcuda.so.1", cuda_functions(kOneDevice));
  library("libnvrtc.so.13", "int nvrtcVersion(int* a, int* b) { return 0; }\n");
  expect_contains(missing(info(), "cuda"), {"libnvrtc is too old: CUDA 11.2", "install NVRTC"});
}

// A device that is there and fails at once is listed with its error.
TEST_F(GpuFaults, CudaDeviceThatCannotBeOpened) {
  library("libcuda.so.1",
          cuda_functions(std::string(kOneDevice) + "int cuDevicePrimaryCtxRetain(void** c, int d) { return 2; }\n"));
  library("libnvrtc.so.13", [] {
    std::string text = "const char* nvrtcGetErrorString(int e) { return \"?\"; }\n";
    for (const char* name : {"nvrtcVersion", "nvrtcCreateProgram", "nvrtcCompileProgram", "nvrtcGetCUBINSize",
                             "nvrtcGetCUBIN", "nvrtcGetProgramLogSize", "nvrtcGetProgramLog", "nvrtcDestroyProgram"}) {
      text += "int " + std::string(name) + "() { return 0; }\n";
    }
    return text;
  }());
  const CommandResult result = info();
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_EQ(missing(result, "cuda"), "");
  expect_contains(result.output, {"device cuda:0 cannot be used: cuda: cuDevicePrimaryCtxRetain failed"});
  const CommandResult check =
      run_command({"check", "--device", "cuda:0", "--op", "neg"}, {"LD_LIBRARY_PATH=" + folder_.path(".")});
  EXPECT_NE(check.exit_code, 0);
  expect_contains(check.errors, {"cuDevicePrimaryCtxRetain failed"});
}

TEST_F(GpuFaults, NoVulkanLoader) {
  folder_.write("libvulkan.so.1", "");
  folder_.write("libvulkan.so", "");
  expect_contains(missing(info(), "vulkan"), {"libvulkan.so", "apt install libvulkan1"});
}

TEST_F(GpuFaults, VulkanLoaderWithoutADriver) {
  const std::string why = missing(info({"VK_DRIVER_FILES=/nothing.json", "VK_ICD_FILENAMES=/nothing.json"}), "vulkan");
  expect_contains(why, {"Vulkan", "needs a Vulkan 1.2 driver"});
}

TEST_F(GpuFaults, LibraryThatIsNoVulkanLoader) {
  library("libvulkan.so.1", "void* vkGetInstanceProcAddr(void* i, const char* n) { return 0; }\n");
  expect_contains(missing(info(), "vulkan"), {"the Vulkan loader has no vkCreateInstance"});
}

}  // namespace
}  // namespace lockstep::test
