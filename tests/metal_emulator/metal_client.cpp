#include "metal_emulator/metal_client.h"

#include <cstdlib>
#include <stdexcept>

#include <dlfcn.h>

namespace emulator_test {
namespace {

template <class F> F* function(const char* name) {
  return reinterpret_cast<F*>(symbol(name));
}

}  // namespace

void* symbol(const char* name) {
  static void* const library = dlopen(LOCKSTEP_FAKE_METAL, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(dlerror());
  void* found = dlsym(library, name);
  if (found == nullptr) throw std::runtime_error(dlerror());
  return found;
}

const void* selector(const char* name) {
  return function<const void*(const char*)>("sel_registerName")(name);
}

id class_named(const char* name) {
  return function<id(const char*)>("objc_getClass")(name);
}

id string(const char* text) {
  return send(class_named("NSString"), "stringWithUTF8String:", text);
}

std::string text_of(id string) {
  const char* text = send<const char*>(string, "UTF8String");
  return text == nullptr ? "" : text;
}

long live_objects() {
  return function<long()>("fakemetal_live_objects")();
}

Pool::Pool() : pool_(function<void*()>("objc_autoreleasePoolPush")()) {}
Pool::~Pool() {
  function<void(void*)>("objc_autoreleasePoolPop")(pool_);
}

Setting::Setting(const char* name, const std::string& value) : name_(name), was_set_(std::getenv(name) != nullptr) {
  if (was_set_) before_ = std::getenv(name);
  setenv(name, value.c_str(), 1);
}
Setting::~Setting() {
  if (was_set_) {
    setenv(name_, before_.c_str(), 1);
  } else {
    unsetenv(name_);
  }
}

Metal::Metal() : device_(function<id()>("MTLCreateSystemDefaultDevice")()), queue_(send(device_, "newCommandQueue")) {}

Owned Metal::library(const std::string& text, std::string* error) const {
  const Pool pool;
  const std::string whole = "#include <metal_stdlib>\nusing namespace metal;\n#pragma METAL fp contract(off)\n" + text;
  const Owned options(send(class_named("MTLCompileOptions"), "new"));
  send<void>(options, "setMathMode:", 0L);
  send<void>(options, "setLanguageVersion:", 2ul << 16 | 4ul);
  id failure = nullptr;
  Owned library(send(device_, "newLibraryWithSource:options:error:", string(whole.c_str()), id(options), &failure));
  if (failure != nullptr && error != nullptr) *error = text_of(send(failure, "localizedDescription"));
  return library;
}

Owned Metal::pipeline(const std::string& text) const {
  const Pool pool;
  std::string error;
  const Owned library = this->library(text, &error);
  if (library == nullptr) throw_error(error);
  const Owned function(send(library, "newFunctionWithName:", string("k")));
  id failure = nullptr;
  Owned pipeline(send(device_, "newComputePipelineStateWithFunction:error:", id(function), &failure));
  if (failure != nullptr) throw_error(text_of(send(failure, "localizedDescription")));
  return pipeline;
}

Owned Metal::buffer(std::size_t bytes) const {
  return Owned(send(device_, "newBufferWithLength:options:", static_cast<unsigned long>(bytes), 0ul));
}

std::string Metal::run(const std::string& text, const std::vector<id>& buffers, unsigned long groups,
                       unsigned long threads) const {
  const Pool pool;
  const Owned kernel = pipeline(text);
  const id commands = send(queue_, "commandBuffer");
  const id encoder = send(commands, "computeCommandEncoder");
  send<void>(encoder, "setComputePipelineState:", id(kernel));
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    send<void>(encoder, "setBuffer:offset:atIndex:", buffers[i], 0ul, static_cast<unsigned long>(i));
  }
  send<void>(encoder, "dispatchThreadgroups:threadsPerThreadgroup:", Size{groups, 1, 1}, Size{threads, 1, 1});
  send<void>(encoder, "endEncoding");
  send<void>(commands, "commit");
  send<void>(commands, "waitUntilCompleted");
  const id error = send(commands, "error");
  return error == nullptr ? "" : text_of(send(error, "localizedDescription"));
}

void Metal::throw_error(const std::string& error) {
  throw std::runtime_error(error);
}

std::string kernel_filling(const char* type, const std::string& body) {
  return std::string("kernel void k(device ") + type +
         "* out [[buffer(0)]], uint i [[thread_index_in_threadgroup]]) {\n" + body + "\n}\n";
}

}  // namespace emulator_test
