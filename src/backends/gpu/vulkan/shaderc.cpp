#include "backends/gpu/vulkan/shaderc.h"

#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

struct Opaque;
using Handle = Opaque*;

constexpr const char* kOwnName = "liblockstep_shaderc.so";

// Where our own build of it may be: beside the library, or in the lib directory beside the programs'; and, for a static
// library, which cannot know where it lies, where CMake puts it.
std::vector<std::string> own_places() {
  std::vector<std::string> all;
  for (const char* place : {"/", "/../lib/", "/../../lib/"}) all.push_back(os::own_directory() + place);
#ifdef LOCKSTEP_SHADERC_PLACES
  for (const char* place : {LOCKSTEP_SHADERC_PLACES}) all.push_back(std::string(place) + "/");
#endif
  return all;
}

// Debian 12's libshaderc1 alone cannot be opened: it lacks what its static version has.
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const std::string& place : own_places()) {
    std::error_code unknown;
    if (std::filesystem::exists(place + kOwnName, unknown)) all.push_back(place + kOwnName);
  }
  for (const char* name : {"libshaderc.so.1", "libshaderc_shared.so.1", "libshaderc_shared.so"}) all.emplace_back(name);
  return all;
}
// Numbers of shaderc.h.
constexpr int kComputeShader = 2;
constexpr int kTargetVulkan = 0;
constexpr std::uint32_t kVulkan12 = (1u << 22) | (2u << 12);
constexpr int kSuccess = 0;

struct Api {
  const std::vector<std::string> tried = names();
  os::SharedLibrary library{tried};
  Handle (*compiler)() = nullptr;
  Handle (*options)() = nullptr;
  void (*set_target)(Handle, int, std::uint32_t) = nullptr;
  Handle (*compile)(Handle, const char*, std::size_t, int, const char*, const char*, Handle) = nullptr;
  int (*status)(Handle) = nullptr;
  std::size_t (*length)(Handle) = nullptr;
  const char* (*bytes)(Handle) = nullptr;
  const char* (*messages)(Handle) = nullptr;
  void (*release)(Handle) = nullptr;
  void (*version)(unsigned*, unsigned*) = nullptr;
  bool complete = true;

  Api() {
    find("shaderc_compiler_initialize", compiler);
    find("shaderc_compile_options_initialize", options);
    find("shaderc_compile_options_set_target_env", set_target);
    find("shaderc_compile_into_spv", compile);
    find("shaderc_result_get_compilation_status", status);
    find("shaderc_result_get_length", length);
    find("shaderc_result_get_bytes", bytes);
    find("shaderc_result_get_error_message", messages);
    find("shaderc_result_release", release);
    find("shaderc_get_spv_version", version);
  }
  template <typename Function> void find(const char* name, Function& function) {
    void* found = library.function((std::string("lockstep_") + name).c_str());
    if (found == nullptr) found = library.function(name);
    function = reinterpret_cast<Function>(found);
    complete = complete && function != nullptr;
  }
};

const Api& shaderc_api() {
  static const Api* const instance = new Api;
  return *instance;
}

}  // namespace

std::string shaderc_advice(const std::string& first_tried, const std::string& error, const std::string& directory) {
  const std::string keep = fmt::format("build Lockstep where libshaderc-dev is installed, and keep the {} that this makes "
                                       "beside the library, or in {}",
                                       kOwnName, directory);
  if (first_tried.find(kOwnName) != std::string::npos) return fmt::format("{} does not load here: {}", first_tried, keep);
  if (error.find("No such file") != std::string::npos) return "apt install libshaderc1, or " + keep;
  return "the system's libshaderc is installed, but does not load (Debian 12's lacks symbols): " + keep;
}

Shaderc::Shaderc() {
  if (!shaderc_api().library.is_open()) {
    problem_ = "shaderc, the compiler of shaders, cannot be opened: " + shaderc_api().library.error();
    fix_ = shaderc_advice(shaderc_api().tried.front(), shaderc_api().library.error(), os::own_directory());
  } else if (!shaderc_api().complete) {
    problem_ = "libshaderc is too old: 2021 or later is needed";
    fix_ = "install a newer libshaderc, or build Lockstep where libshaderc-dev is installed";
  }
}

std::string Shaderc::version() const {
  unsigned version = 0;
  unsigned revision = 0;
  shaderc_api().version(&version, &revision);
  return fmt::format("{:x}.{}", version, revision);
}

std::vector<std::uint32_t> Shaderc::compile(const std::string& source) const {
  if (!is_usable()) throw BackendError("vulkan: " + problem_);
  // Compilers and options are made once: they are safe to share among threads.
  static const Handle compiler = shaderc_api().compiler();
  static const Handle options = [] {
    const Handle made = shaderc_api().options();
    shaderc_api().set_target(made, kTargetVulkan, kVulkan12);
    return made;
  }();
  const Handle result =
      shaderc_api().compile(compiler, source.data(), source.size(), kComputeShader, "kernel.comp", "main", options);
  if (shaderc_api().status(result) != kSuccess) {
    const std::string messages = shaderc_api().messages(result);
    shaderc_api().release(result);
    throw BackendError("vulkan: a kernel does not compile:\n" + messages);
  }
  std::vector<std::uint32_t> words(shaderc_api().length(result) / 4);
  std::memcpy(words.data(), shaderc_api().bytes(result), 4 * words.size());
  shaderc_api().release(result);
  return words;
}

bool Shaderc::knows(const char* extension) const {
  try {
    compile(fmt::format("#version 460\n#extension {} : require\nlayout(local_size_x = 1) in;\nvoid main() {{}}\n",
                        extension));
    return true;
  } catch (const BackendError&) {
    return false;
  }
}

const Shaderc& shaderc() {
  static const Shaderc* const instance = new Shaderc;
  return *instance;
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
