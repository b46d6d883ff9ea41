#include "resources.h"

#include <algorithm>
#include <stdexcept>

#include <fmt/format.h>

#include "dispatch.h"
#include "settings.h"

namespace emulator {
namespace {

std::size_t allocated = 0;  // under the run time's lock
std::size_t buffers_made = 0;

constexpr const char* kLibraryErrors = "MTLLibraryErrorDomain";
constexpr long kCompileFailure = 3;

}  // namespace

Buffer* Buffer::make(unsigned long length, unsigned long options) {
  // Bits 0 to 3 are the CPU's cache mode, 4 to 7 the storage, 8 and 9 the hazard tracking.
  const unsigned long storage = options >> 4 & 15;
  if (length == 0) misuse("a buffer of no bytes");
  if (storage != 0 && storage != 2) {
    misuse(fmt::format("storage mode {}: Apple's GPUs have shared (0) and private (2) buffers", storage));
  }
  if ((options >> 8 & 3) == 1) misuse("a buffer whose hazards are not tracked");
  if (allocated + length > settings::memory_bytes()) return nullptr;
  auto* buffer = new Buffer(length, static_cast<Storage>(storage));
  if (buffer->data() != nullptr) return buffer;
  buffer->release();
  return nullptr;
}

Buffer::Buffer(unsigned long length, Storage storage)
    : Object(objc::class_named(kName)), memory_(length, fmt::format("buffer #{}", ++buffers_made)), storage_(storage) {
  allocated += length;
}

Buffer::~Buffer() {
  allocated -= memory_.size();
  if (memory_.data() != nullptr && memory_.overrun()) misuse(overrun("none"));
}

std::string Buffer::overrun(const std::string& kernel) const {
  if (!memory_.overrun()) return "";
  return fmt::format("kernel '{}' wrote past the end of {}, which has {} bytes", kernel, memory_.name(),
                     memory_.size());
}

void* Buffer::contents() {
  if (storage_ == Storage::private_memory) misuse("contents of a private buffer: only the GPU can see it");
  return memory_.data();
}

std::size_t Buffer::allocated_bytes() {
  return allocated;
}

objc::id Library::make(objc::id source, objc::id options, objc::id* error) {
  auto* wanted = objc::get_or_null<CompileOptions>(options);
  if (wanted == nullptr || wanted->math_mode() != 0) {
    misuse(
        "a library compiled with fast math, the default: its results differ between devices; "
        "setMathMode: 0, or setFastMathEnabled: NO before macOS 15");
  }
  const unsigned long major = wanted->language_version() >> 16, minor = wanted->language_version() & 0xffff;
  if (major < 2 || major > 3 || minor > 4) {
    misuse(fmt::format("a library compiled for Metal {}.{}: set a language version from 2.0 to 3.2", major, minor));
  }
  try {
    return objc::owned(
        new Library(Program::compile(objc::get<String>(source).text(), static_cast<int>(major * 100 + minor * 10))));
  } catch (const std::runtime_error& failure) {
    Error::give(error, kLibraryErrors, kCompileFailure, fmt::format("Compilation failed: \n\n{}", failure.what()));
    return nullptr;
  }
}

objc::id Library::function(objc::id name) {
  const Kernel* kernel = program_->find(objc::get<String>(name).text());
  return kernel == nullptr ? nullptr : objc::owned(new Function(program_, *kernel));
}

objc::id Library::function_names() {
  std::vector<objc::Ref<Object>> names;
  for (const Kernel& kernel : program_->kernels()) {
    objc::Ref<Object> name(new String(kernel.info.name));
    name->release();  // the list owns it
    names.push_back(std::move(name));
  }
  return objc::autoreleased(new Array(std::move(names)));
}

objc::id Pipeline::make(objc::id function, objc::id* error) {
  const Function& wanted = objc::get<Function>(function);
  const Kernel& kernel = wanted.kernel();
  if (kernel.variable_bytes > kThreadgroupBytes) {
    Error::give(error, "AGXMetal", kCompileFailure,
                fmt::format("Threadgroup memory size ({}) exceeds the maximum threadgroup memory allowed ({})",
                            kernel.variable_bytes, kThreadgroupBytes));
    return nullptr;
  }
  return objc::owned(new Pipeline(wanted));
}

unsigned long Pipeline::max_threads() {
  return std::min<unsigned long>(settings::threads(), static_cast<unsigned long>(kernel_.info.max_threads));
}

namespace {

struct Resources {
  Resources() {
    objc::Methods<Buffer>()
        .on<&Buffer::contents>("contents")
        .on<&Buffer::length>("length")
        .on<&Buffer::storage>("storageMode");
    objc::Methods<CompileOptions> options;
    options.made_by_alloc()
        .on<&CompileOptions::set_fast_math>("setFastMathEnabled:")
        .on<&CompileOptions::fast_math>("fastMathEnabled")
        .on<&CompileOptions::set_language_version>("setLanguageVersion:")
        .on<&CompileOptions::language_version>("languageVersion")
        .on<&CompileOptions::set_preserve_invariance>("setPreserveInvariance:")
        .on<&CompileOptions::preserve_invariance>("preserveInvariance");
    if (settings::system_version() >= 15) {
      options.on<&CompileOptions::set_math_mode>("setMathMode:")
          .on<&CompileOptions::math_mode>("mathMode")
          .on<&CompileOptions::set_math_functions>("setMathFloatingPointFunctions:")
          .on<&CompileOptions::math_functions>("mathFloatingPointFunctions");
    }
    objc::Methods<Function>().on<&Function::name>("name");
    objc::Methods<Library>()
        .on<&Library::function>("newFunctionWithName:")
        .on<&Library::function_names>("functionNames");
    objc::Methods<Pipeline>()
        .on<&Pipeline::max_threads>("maxTotalThreadsPerThreadgroup")
        .on<&Pipeline::execution_width>("threadExecutionWidth")
        .on<&Pipeline::threadgroup_bytes>("staticThreadgroupMemoryLength");
  }
};
const Resources resources;

}  // namespace
}  // namespace emulator
