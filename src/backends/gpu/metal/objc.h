// The Objective-C run time and Metal, opened at run time: messages as typed functions in one table. No Apple header is
// needed, and the same source runs on a Mac and, with the library of the tests, elsewhere.
//
// Every function is called through its exact prototype: on Apple silicon arguments of variadic calls travel
// differently. Methods that return structures of more than 16 bytes are avoided (they need another entry point on Intel
// Macs).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace metal {

struct Object;
struct SelectorName;
using Id = Object*;  ///< null answers every message with zero
using Selector = SelectorName*;
using UInteger = unsigned long;

struct Size {
  UInteger width, height, depth;
};
/// The functions that are called by name.
struct Runtime {
  void* send = nullptr;
  Selector (*selector)(const char*) = nullptr;
  Id (*get_class)(const char*) = nullptr;
  void* (*pool_push)() = nullptr;
  void (*pool_pop)(void*) = nullptr;
  Id (*all_devices)() = nullptr;
  bool replaced = false;  ///< by the library that LOCKSTEP_METAL_LIBRARY names
  std::string missing;    ///< why they cannot be called

  Runtime();

 private:
  std::vector<os::SharedLibrary> libraries_;
};

template <typename Signature> class Method;

/// A message: what it returns and takes, and its selector.
template <typename Result, typename... Arguments> class Method<Result(Arguments...)> {
 public:
  Method(const Runtime& runtime, const char* name)
      : send_(reinterpret_cast<Result (*)(Id, Selector, Arguments...)>(runtime.send)),
        selector_(runtime.selector == nullptr ? nullptr : runtime.selector(name)) {}
  Result operator()(Id to, Arguments... arguments) const { return send_(to, selector_, arguments...); }
  Selector selector() const { return selector_; }

 private:
  Result (*send_)(Id, Selector, Arguments...);
  Selector selector_;
};

/// Every message that is sent.
struct Api {
  Runtime runtime;
  // Any object.
  Method<Id()> alloc{runtime, "alloc"};
  Method<Id()> init{runtime, "init"};
  Method<Id()> retain{runtime, "retain"};
  Method<void()> release{runtime, "release"};
  Method<bool(Selector)> responds{runtime, "respondsToSelector:"};
  // Foundation.
  Method<Id(const char*)> string{runtime, "stringWithUTF8String:"};
  Method<const char*()> utf8{runtime, "UTF8String"};
  Method<Id()> error_text{runtime, "localizedDescription"};
  Method<UInteger()> count{runtime, "count"};
  Method<Id(UInteger)> object_at{runtime, "objectAtIndex:"};
  Method<Id()> process_info{runtime, "processInfo"};
  Method<Id()> system_version{runtime, "operatingSystemVersionString"};
  // Devices.
  Method<Id()> name{runtime, "name"};
  Method<bool()> unified_memory{runtime, "hasUnifiedMemory"};
  Method<UInteger()> threadgroup_bytes{runtime, "maxThreadgroupMemoryLength"};
  Method<UInteger()> buffer_bytes{runtime, "maxBufferLength"};
  Method<std::uint64_t()> working_set{runtime, "recommendedMaxWorkingSetSize"};
  Method<Id()> new_queue{runtime, "newCommandQueue"};
  Method<Id(UInteger, UInteger)> new_buffer{runtime, "newBufferWithLength:options:"};
  Method<Id(Id, Id, Id*)> new_library{runtime, "newLibraryWithSource:options:error:"};
  Method<Id(Id, Id*)> new_pipeline{runtime, "newComputePipelineStateWithFunction:error:"};
  // Compilation.
  Method<void(bool)> set_fast_math{runtime, "setFastMathEnabled:"};
  Method<void(long)> set_math_mode{runtime, "setMathMode:"};
  Method<void(long)> set_math_functions{runtime, "setMathFloatingPointFunctions:"};
  Method<void(UInteger)> set_language{runtime, "setLanguageVersion:"};
  Method<Id(Id)> new_function{runtime, "newFunctionWithName:"};
  Method<UInteger()> most_threads{runtime, "maxTotalThreadsPerThreadgroup"};
  // Buffers and commands.
  Method<void*()> contents{runtime, "contents"};
  Method<Id()> command_buffer{runtime, "commandBuffer"};
  Method<Id()> compute_encoder{runtime, "computeCommandEncoder"};
  Method<Id()> blit_encoder{runtime, "blitCommandEncoder"};
  Method<void(Id)> set_pipeline{runtime, "setComputePipelineState:"};
  Method<void(Id, UInteger, UInteger)> set_buffer{runtime, "setBuffer:offset:atIndex:"};
  Method<void(const void*, UInteger, UInteger)> set_bytes{runtime, "setBytes:length:atIndex:"};
  Method<void(Size, Size)> dispatch{runtime, "dispatchThreadgroups:threadsPerThreadgroup:"};
  Method<void(Id, UInteger, Id, UInteger, UInteger)> copy{
      runtime, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:"};
  Method<void()> end_encoding{runtime, "endEncoding"};
  Method<void()> commit{runtime, "commit"};
  Method<void()> wait{runtime, "waitUntilCompleted"};
  Method<UInteger()> status{runtime, "status"};
  Method<Id()> error{runtime, "error"};
  Method<double()> start_time{runtime, "GPUStartTime"};
  Method<double()> end_time{runtime, "GPUEndTime"};
};

/// Opened at the first call, never closed.
const Api& api();

/// An object that this code owns: what alloc, new... and Copy... return, or what was retained.
struct Release {
  void operator()(Id object) const { api().release(object); }
};
using Owned = std::unique_ptr<Object, Release>;
/// Of an object that belongs to the pool.
inline Owned retained(Id object) {
  return Owned(api().retain(object));
}

/// Objects that calls return without giving them away live as long as this: in every function that talks to Metal.
class Pool {
 public:
  Pool() : token_(api().runtime.pool_push()) {}
  ~Pool() { api().runtime.pool_pop(token_); }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

 private:
  void* token_;
};

/// A string's characters; empty of null.
std::string text_of(Id string);
/// An error in its own words.
std::string error_of(Id error);

}  // namespace metal
}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
