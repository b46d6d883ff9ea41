// The machine code of gpu_bench's row kernels, for counting its instructions: no GPU is needed, but NVRTC.
// tools/gpu_instructions.py calls this program and disassembles what it writes.
//
//   row_kernels FOLDER [architecture]        default: sm_90; writes FOLDER/NAME.N.cubin, N counting an op's kernels
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "backends/gpu/backend.h"
#include "backends/gpu/cuda/nvrtc.h"
#include "backends/gpu/dialect.h"
#include "support/fake_driver.h"

namespace ls = lockstep;
namespace gpu = lockstep::gpu;

namespace {

// Compiles for a GPU that is not there, and keeps the code of the case that is being evaluated.
class WritingDriver : public ls::test::FakeDriver {
 public:
  WritingDriver(std::string folder, std::string architecture)
      : FakeDriver(device()), folder_(std::move(folder)), architecture_(std::move(architecture)) {
    info_.units = 132;
    info_.shared_bytes = 227 << 10;
    info_.copies_to_shared = true;
    info_.bf16_pairs = true;
  }
  static inline std::string name;            ///< of the case; empty while operands are made
  static inline std::atomic<int> count = 0;  ///< of its kernels, which compile side by side

  std::string source(const gpu::KernelText& kernel, const gpu::Arithmetic&) const override {
    return gpu::cuda_source(kernel);
  }
  std::vector<std::byte> compile(const std::string& source) const override {
    if (!name.empty()) {
      const std::vector<std::byte> code = gpu::nvrtc().compile(source, architecture_);
      const std::string path = folder_ + "/" + name + "." + std::to_string(count++);
      std::ofstream(path + ".cu") << source;
      std::ofstream(path + ".cubin", std::ios::binary)
          .write(reinterpret_cast<const char*>(code.data()), static_cast<std::streamsize>(code.size()));
    }
    return std::vector<std::byte>(1);
  }
  std::unique_ptr<gpu::Module> load(std::span<const std::byte>, const gpu::KernelText& kernel) override {
    const std::string text = kernel.functions + kernel.body;
    return FakeDriver::load(std::as_bytes(std::span(text)), kernel);
  }

 private:
  static std::shared_ptr<ls::test::FakeDevice> device() {
    auto device = std::make_shared<ls::test::FakeDevice>();
    device->memory_limit = std::size_t{8} << 30;
    return device;
  }
  std::string folder_;
  std::string architecture_;
};

void write(ls::Device device, const std::string& suffix, ls::DType dtype) {
  const auto tensor = [&](const ls::Shape& shape) {
    return ls::zeros(shape, {.dtype = dtype, .device = device}).eval();
  };
  const auto run = [&](const char* name, const ls::Shape& shape,
                       const std::function<ls::Tensor(const ls::Tensor& x)>& step) {
    const ls::Tensor x = tensor(shape);
    WritingDriver::name = name + suffix;
    WritingDriver::count = 0;
    step(x).eval();
    WritingDriver::name.clear();
  };
  // As in gpu_bench; fewer rows give the same texts.
  const ls::Shape shape{1024, 4096};
  const ls::Tensor r = tensor(shape);
  const ls::Tensor b = tensor({4096});
  const ls::Tensor w = tensor({4096});
  run("multiply", shape, [](const ls::Tensor& x) { return x * 2.0; });
  run("gelu_add_mul", shape, [&](const ls::Tensor& x) { return ls::gelu(x + b) * r; });
  run("layer_norm_chain", shape,
      [&](const ls::Tensor& x) { return ls::layer_norm(ls::gelu(x + b) + r, {4096}, w, b); });
  run("rms_norm", {64, 4096}, [&](const ls::Tensor& x) { return ls::rms_norm(x, {4096}, w, 1e-5); });
  run("rms_norm_1", {1, 4096}, [&](const ls::Tensor& x) { return ls::rms_norm(x, {4096}, w, 1e-5); });
  run("softmax", shape, [](const ls::Tensor& x) { return ls::softmax(x, -1); });
  run("softmax_short", {65536, 64}, [](const ls::Tensor& x) { return ls::softmax(x, -1); });
  run("sum_rows", shape, [](const ls::Tensor& x) { return ls::sum(x, {1}); });
  run("sum_columns", {1024, 16384}, [](const ls::Tensor& x) { return ls::sum(x, {0}); });
}

}  // namespace

int main(int count, char** arguments) {
  try {
    if (count < 2) throw std::runtime_error("usage: row_kernels FOLDER [architecture]");
    if (!gpu::nvrtc().is_usable()) throw std::runtime_error(gpu::nvrtc().problem());
    std::filesystem::create_directories(arguments[1]);
    constexpr ls::Device kDevice{ls::DeviceKind::cuda, 950};
    ls::register_backend(std::make_unique<gpu::GpuBackend>(
        kDevice, std::make_unique<WritingDriver>(arguments[1], count > 2 ? arguments[2] : "sm_90"), ""));
    write(kDevice, "", ls::DType::f32);
    write(kDevice, "_bf16", ls::DType::bf16);
    write(kDevice, "_f16", ls::DType::f16);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
