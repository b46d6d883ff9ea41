#include "program.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include <dlfcn.h>
#include <fmt/format.h>

#include "memory.h"
#include "toolchain.h"

namespace emulator {
namespace {

std::atomic<std::size_t> texts, compiled_texts, checked_texts;

template <class Function> Function symbol(void* library, const std::string& name) {
  void* found = dlsym(library, name.c_str());
  if (found == nullptr) throw std::runtime_error(fmt::format("a compiled kernel without {}", name));
  return reinterpret_cast<Function>(found);
}

Kernel load(void* library, const KernelInfo& info, std::size_t number, bool synchronises) {
  Kernel kernel;
  kernel.info = info;
  if (synchronises) {
    kernel.thread = symbol<ThreadFunction>(library, fmt::format("emulator_thread_{}", number));
  } else {
    kernel.group = symbol<GroupFunction>(library, fmt::format("emulator_group_{}", number));
  }
  std::vector<unsigned long> bytes(info.parameters.size() + 1);  // and the emulator's own
  symbol<void (*)(unsigned long*)>(library, fmt::format("emulator_bytes_{}", number))(bytes.data());
  for (std::size_t i = 0; i < info.parameters.size(); ++i) kernel.info.parameters[i].bytes = bytes[i];
  const Variable *begin = nullptr, *end = nullptr;
  symbol<void (*)(const Variable**, const Variable**)>(library, fmt::format("emulator_variables_{}", number))(&begin,
                                                                                                              &end);
  kernel.variables.assign(begin, end);
  std::sort(kernel.variables.begin(), kernel.variables.end(),
            [](const Variable& x, const Variable& y) { return x.offset < y.offset; });
  for (const Variable& variable : kernel.variables) {
    kernel.variable_bytes = round_up(kernel.variable_bytes, variable.alignment) + variable.bytes;
  }
  return kernel;
}

}  // namespace

std::shared_ptr<const Program> Program::compile(const std::string& text, int version) {
  ++texts;
  const Rewritten rewritten = rewrite(text, version);
  if (!rewritten.error.empty()) throw std::runtime_error(rewritten.error);
  bool made = false;
  if (settings::check_address_spaces()) {
    toolchain::check_address_spaces(rewritten.check, made);
    checked_texts += made ? 1 : 0;
  }
  const std::string path = toolchain::shared_library(rewritten.run, rewritten.contracts, made);
  compiled_texts += made ? 1 : 0;

  // Never closed: pipelines, and messages that name kernels, may outlive the library object.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  *symbol<const Runtime**>(library, "emulator_runtime") = Threadgroup::runtime();
  auto program = std::make_shared<Program>();
  for (std::size_t i = 0; i < rewritten.kernels.size(); ++i) {
    program->kernels_.push_back(load(library, rewritten.kernels[i], i, rewritten.synchronises));
  }
  return program;
}

const Kernel* Program::find(const std::string& name) const {
  for (const Kernel& kernel : kernels_) {
    if (kernel.info.name == name) return &kernel;
  }
  return nullptr;
}

CompileCounts compile_counts() {
  return {texts, compiled_texts, checked_texts};
}

}  // namespace emulator
