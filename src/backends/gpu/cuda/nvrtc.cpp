#include "backends/gpu/cuda/nvrtc.h"

#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using Status = int;
struct Opaque;
using Handle = Opaque*;

std::vector<std::string> names() {
  return {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so", "/usr/local/cuda/lib64/libnvrtc.so"};
}
constexpr std::array kFlags = {"--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true", "--std=c++17"};

struct Api {
  os::SharedLibrary library{names()};
  Status (*version)(int*, int*) = nullptr;
  Status (*create)(Handle*, const char*, const char*, int, const char* const*, const char* const*) = nullptr;
  Status (*compile)(Handle, int, const char* const*) = nullptr;
  Status (*code_size)(Handle, std::size_t*) = nullptr;
  Status (*code)(Handle, char*) = nullptr;
  Status (*log_size)(Handle, std::size_t*) = nullptr;
  Status (*log)(Handle, char*) = nullptr;
  Status (*destroy)(Handle*) = nullptr;
  const char* (*error_text)(Status) = nullptr;
  bool complete = true;

  Api() {
    find("nvrtcVersion", version);
    find("nvrtcCreateProgram", create);
    find("nvrtcCompileProgram", compile);
    find("nvrtcGetCUBINSize", code_size);
    find("nvrtcGetCUBIN", code);
    find("nvrtcGetProgramLogSize", log_size);
    find("nvrtcGetProgramLog", log);
    find("nvrtcDestroyProgram", destroy);
    find("nvrtcGetErrorString", error_text);
  }
  template <typename Function> void find(const char* name, Function& function) {
    function = reinterpret_cast<Function>(library.function(name));
    complete = complete && function != nullptr;
  }
};

const Api& api() {
  static const Api* const instance = new Api;
  return *instance;
}

}  // namespace

Nvrtc::Nvrtc() {
  if (!api().library.is_open()) {
    problem_ = "NVRTC, NVIDIA's run-time compiler, cannot be opened: " + api().library.error();
  } else if (!api().complete) {
    problem_ = "libnvrtc is too old: CUDA 11.2 or later is needed";
  }
}

std::string Nvrtc::version() const {
  int major = 0;
  int minor = 0;
  api().version(&major, &minor);
  return fmt::format("{}.{}", major, minor);
}

std::string Nvrtc::flags() {
  return fmt::format("{}", fmt::join(kFlags, " "));
}

std::vector<std::byte> Nvrtc::compile(const std::string& source, const std::string& architecture) const {
  if (!is_usable()) throw BackendError("cuda: " + problem_);
  Handle program = nullptr;
  Status status = api().create(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  if (status != 0) throw BackendError(fmt::format("cuda: nvrtcCreateProgram failed: {}", api().error_text(status)));
  const std::string target = "--gpu-architecture=" + architecture;
  std::vector<const char*> options(kFlags.begin(), kFlags.end());
  options.push_back(target.c_str());
  status = api().compile(program, static_cast<int>(options.size()), options.data());
  std::string log;
  std::vector<std::byte> code;
  std::size_t size = 0;
  if (status != 0) {
    api().log_size(program, &size);
    log.resize(size);
    api().log(program, log.data());
  } else {
    api().code_size(program, &size);
    code.resize(size);
    status = api().code(program, reinterpret_cast<char*>(code.data()));
  }
  api().destroy(&program);
  if (status != 0)
    throw BackendError(fmt::format("cuda: a kernel does not compile: {}\n{}", api().error_text(status), log));
  return code;
}

const Nvrtc& nvrtc() {
  static const Nvrtc* const instance = new Nvrtc;
  return *instance;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
