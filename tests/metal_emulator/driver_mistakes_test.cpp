// Mistakes of a driver: each is planted here, and either ends in a sentence and an abort, or in what Metal itself
// reports.
#include <cstdlib>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "metal_emulator/metal_client.h"

namespace emulator_test {
namespace {

using testing::HasSubstr;

const char* const kCopy =
    "struct Parameters { uint words[4]; };\n"
    "kernel void k(device uint* out [[buffer(0)]], constant Parameters& p [[buffer(1)]],\n"
    "              uint i [[thread_position_in_grid]]) { out[i] = p.words[i & 3u] + i; }\n";

class DriverMistakes : public testing::Test {
 protected:
  DriverMistakes() : pipeline_(metal_.pipeline(kCopy)), buffer_(metal_.buffer(256)) {}

  /// A command buffer with an open compute encoder, in which all is as it should be.
  void begin() {
    commands_ = send(metal_.queue(), "commandBuffer");
    encoder_ = send(commands_, "computeCommandEncoder");
    send<void>(encoder_, "setComputePipelineState:", id(pipeline_));
    bind_buffer();
    bind_words(16);
  }
  void bind_buffer(unsigned long offset = 0, unsigned long index = 0) {
    send<void>(encoder_, "setBuffer:offset:atIndex:", id(buffer_), offset, index);
  }
  void bind_words(unsigned long bytes, unsigned long index = 1) {
    static const std::uint32_t words[2048] = {10, 20, 30, 40};
    send<void>(encoder_, "setBytes:length:atIndex:", static_cast<const void*>(words), bytes, index);
  }
  void dispatch(Size threads = {64, 1, 1}, Size threadgroup = {32, 1, 1}) {
    send<void>(encoder_, "dispatchThreads:threadsPerThreadgroup:", threads, threadgroup);
  }
  void end() { send<void>(encoder_, "endEncoding"); }
  void commit() { send<void>(commands_, "commit"); }
  void wait() { send<void>(commands_, "waitUntilCompleted"); }
  unsigned long status() { return send<unsigned long>(commands_, "status"); }

  Pool pool_;
  Metal metal_;
  Owned pipeline_, buffer_;
  id commands_ = nullptr, encoder_ = nullptr;
};

TEST_F(DriverMistakes, NothingHappensBeforeTheWait) {
  std::uint32_t* data = contents<std::uint32_t>(buffer_);
  data[3] = 5;
  begin();
  dispatch();
  end();
  EXPECT_EQ(status(), 0ul);
  commit();
  EXPECT_EQ(data[3], 5u) << "a driver that reads without waiting reads this";
  EXPECT_EQ(status(), 2ul);
  wait();
  EXPECT_EQ(data[3], 43u);
  EXPECT_EQ(status(), 4ul);
}

TEST_F(DriverMistakes, WaitingRunsWhatWasCommittedBefore) {
  begin();
  dispatch();
  end();
  commit();
  commands_ = send(metal_.queue(), "commandBuffer");
  const id blit = send(commands_, "blitCommandEncoder");
  send<void>(blit, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", id(buffer_), 12ul, id(buffer_), 0ul,
             4ul);
  send<void>(blit, "fillBuffer:range:value:", id(buffer_), Range{4, 8}, static_cast<unsigned char>(1));
  send<void>(blit, "endEncoding");
  commit();
  wait();
  EXPECT_EQ(contents<std::uint32_t>(buffer_)[0], 43u);
  EXPECT_EQ(contents<std::uint32_t>(buffer_)[2], 0x01010101u);
}

TEST_F(DriverMistakes, EncodersAndCommits) {
  begin();
  dispatch();
  EXPECT_DEATH(commit(), "fake Metal: commit before endEncoding");
  EXPECT_DEATH(send(commands_, "blitCommandEncoder"), "a second encoder while one is open");
  EXPECT_DEATH(wait(), "waitUntilCompleted before commit");
  end();
  EXPECT_DEATH(dispatch(), "MTLComputeCommandEncoder is used after endEncoding");
  EXPECT_DEATH(end(), "MTLComputeCommandEncoder is used after endEncoding");
  EXPECT_DEATH(wait(), "waitUntilCompleted before commit");
  commit();
  EXPECT_DEATH(commit(), "commit twice");
  EXPECT_DEATH(send(commands_, "computeCommandEncoder"), "an encoder for a command buffer that is committed");
  wait();
}

TEST_F(DriverMistakes, Bindings) {
  begin();
  EXPECT_DEATH(bind_buffer(0, 31), "argument index 31 is above 30");
  EXPECT_DEATH(bind_buffer(256, 0), "offset 256 is past the end of a buffer of 256 bytes");
  EXPECT_DEATH(bind_words(4097), "setBytes of 4097 bytes");
  EXPECT_DEATH(bind_words(0), "setBytes of 0 bytes");
  EXPECT_DEATH(
      {
        bind_words(12);
        dispatch();
      },
      "12 bytes are bound at index 1 for 'constant Parameters & p', which has 16");
  EXPECT_DEATH(
      {
        bind_words(16, 5);
        dispatch();
      },
      "kernel 'k': it has no parameter for what is bound at index 5");
  EXPECT_DEATH(
      {
        send<void>(encoder_, "setBuffer:offset:atIndex:", id(nullptr), 0ul, 0ul);
        dispatch();
      },
      "nothing is bound at index 0 for 'device uint \\* out'");
  end();
}

TEST_F(DriverMistakes, OnePieceOfMemoryUnderTwoIndices) {
  const Owned pipeline = metal_.pipeline(
      "kernel void k(device uint* a [[buffer(0)]], device uint* b [[buffer(1)]],\n"
      "              uint i [[thread_position_in_grid]]) { b[i] = a[i]; }\n");
  begin();
  send<void>(encoder_, "setComputePipelineState:", id(pipeline));
  bind_buffer(128, 1);
  dispatch({32, 1, 1});
  bind_buffer(0, 1);
  EXPECT_DEATH(dispatch({32, 1, 1}), "the same memory is bound at indices 0 and 1; arguments must not overlap");
  end();
}

TEST_F(DriverMistakes, MemoryThatIsOnlyReadMayHaveTwoIndices) {
  const Owned pipeline = metal_.pipeline(
      "kernel void k(const device uint* a [[buffer(0)]], const device uint* b [[buffer(1)]],\n"
      "              device uint* c [[buffer(2)]], uint i [[thread_position_in_grid]]) { c[i] = a[i] + b[i]; }\n");
  begin();
  send<void>(encoder_, "setComputePipelineState:", id(pipeline));
  bind_buffer(0, 0);
  bind_buffer(0, 1);
  bind_buffer(128, 2);
  dispatch({32, 1, 1});
  bind_buffer(0, 2);
  EXPECT_DEATH(dispatch({32, 1, 1}), "the same memory is bound at indices 0 and 2; arguments must not overlap");
  end();
}

TEST_F(DriverMistakes, Dispatches) {
  begin();
  EXPECT_DEATH(dispatch({0, 1, 1}), "a dispatch of no threads");
  EXPECT_DEATH(dispatch({64, 1, 1}, {32, 0, 1}), "a dispatch of no threads");
  EXPECT_DEATH(dispatch({4096, 1, 1}, {1025, 1, 1}), "1025 threads per threadgroup; this pipeline runs at most 1024");
  EXPECT_DEATH(dispatch({1ul << 32, 1, 1}), "a grid of 2.32 or more threads");
  end();
  const id without = send(send(metal_.queue(), "commandBuffer"), "computeCommandEncoder");
  EXPECT_DEATH(send<void>(without, "dispatchThreads:threadsPerThreadgroup:", Size{1, 1, 1}, Size{1, 1, 1}),
               "a dispatch without a pipeline");
  send<void>(without, "endEncoding");
}

TEST_F(DriverMistakes, CopiesAndFills) {
  const id blit = send(send(metal_.queue(), "commandBuffer"), "blitCommandEncoder");
  const auto copy = [&](unsigned long from, unsigned long to, unsigned long size) {
    send<void>(blit, "copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:", id(buffer_), from, id(buffer_), to,
               size);
  };
  EXPECT_DEATH(copy(0, 192, 128), "a copy of 128 bytes from 0 of 256 to 192 of 256");
  EXPECT_DEATH(copy(0, 128, 6), "macOS copies multiples of 4");
  EXPECT_DEATH(copy(0, 64, 128), "parts of a buffer that overlap");
  EXPECT_DEATH(send<void>(blit, "fillBuffer:range:value:", id(buffer_), Range{252, 8}, static_cast<unsigned char>(0)),
               "a fill of 8 bytes at 252 of 256");
  send<void>(blit, "endEncoding");
}

TEST_F(DriverMistakes, Objects) {
  EXPECT_DEATH(send(metal_.queue(), "comandBuffer"), "unrecognised selector -.MTLCommandQueue comandBuffer.");
  EXPECT_DEATH(send(class_named("MTLCompileOptions"), "options"),
               "unrecognised selector \\+.MTLCompileOptions options.");
  EXPECT_DEATH(send(metal_.device(), "newComputePipelineStateWithFunction:error:", id(buffer_), nullptr),
               "a MTLBuffer where a MTLFunction belongs");
  const id released = Owned(metal_.buffer(16));
  EXPECT_DEATH(send<void*>(released, "contents"), "message to a released MTLBuffer");
  EXPECT_DEATH(send<void>(released, "release"), "message to a released MTLBuffer");
  EXPECT_EQ(send<unsigned long>(id(nullptr), "length"), 0ul);  // nil answers everything
  EXPECT_EQ(class_named("MTLTexture"), nullptr);
  EXPECT_EQ(send<bool>(metal_.device(), "respondsToSelector:", selector("newCommandQueue")), true);
  EXPECT_EQ(send<bool>(metal_.device(), "respondsToSelector:", selector("newHeap")), false);
}

TEST_F(DriverMistakes, AnAutoreleaseWithoutAPool) {
  EXPECT_DEATH(std::thread([] { string("nobody will release this"); }).join(),
               "a NSString is autoreleased with no pool in place: it leaks");
}

TEST_F(DriverMistakes, ALeakIsCounted) {
  const long before = live_objects();
  const id leaked = send(metal_.device(), "newBufferWithLength:options:", 16ul, 0ul);
  EXPECT_EQ(live_objects(), before + 1);
  EXPECT_DEATH(
      {
        setenv("LOCKSTEP_METAL_LEAKS", "abort", 1);
        std::exit(0);
      },
      "never released: .*MTLBuffer");
  // A process may end with the memory that it has; but not with a string of which it forgot to let go.
  EXPECT_EXIT(
      {
        setenv("LOCKSTEP_METAL_LEAKS", "transient", 1);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
  EXPECT_DEATH(
      {
        setenv("LOCKSTEP_METAL_LEAKS", "transient", 1);
        const Pool pool;
        send(string("kept"), "retain");
        std::exit(0);
      },
      "never released: .*NSString");
  send<void>(leaked, "release");
  EXPECT_EQ(live_objects(), before);
}

TEST_F(DriverMistakes, ABufferThatACommandUsesLivesUntilItRan) {
  begin();
  dispatch();
  end();
  commit();
  buffer_ = Owned();
  wait();
  EXPECT_EQ(status(), 4ul);
}

TEST_F(DriverMistakes, Buffers) {
  const Owned hidden(send(metal_.device(), "newBufferWithLength:options:", 16ul, 2ul << 4));
  EXPECT_DEATH(send<void*>(hidden, "contents"), "contents of a private buffer");
  EXPECT_DEATH(send(metal_.device(), "newBufferWithLength:options:", 16ul, 1ul << 4), "storage mode 1");
  EXPECT_DEATH(send(metal_.device(), "newBufferWithLength:options:", 0ul, 0ul), "a buffer of no bytes");
  const Setting memory("LOCKSTEP_METAL_MEMORY", "65536");
  EXPECT_EQ(id(metal_.buffer(65536)), nullptr);
  EXPECT_NE(id(metal_.buffer(4096)), nullptr);
  const Owned fresh = metal_.buffer(64);
  EXPECT_EQ(contents<std::uint32_t>(fresh)[0], 0xffffffffu) << "memory is not zero by itself";
}

TEST_F(DriverMistakes, FastMathLeftOn) {
  const Owned options(send(class_named("MTLCompileOptions"), "new"));
  const auto library = [&] {
    send(metal_.device(), "newLibraryWithSource:options:error:", string("kernel void k() {}"), id(options), nullptr);
  };
  EXPECT_EQ(send<long>(options, "mathMode"), 1L) << "the default is relaxed";
  EXPECT_DEATH(library(), "compiled with fast math");
  send<void>(options, "setMathMode:", 0L);
  EXPECT_DEATH(library(), "set a language version");
}

TEST_F(DriverMistakes, WhatMetalReportsItself) {
  std::string error;
  const Owned none = metal_.library("kernel void k() {\n  nothing();\n}", &error);
  EXPECT_EQ(id(none), nullptr);
  EXPECT_THAT(error, HasSubstr("program_source:5:3: error: use of undeclared identifier 'nothing'"));
  const Owned library = metal_.library("kernel void k() {}");
  EXPECT_EQ(send(library, "newFunctionWithName:", string("other")), nullptr);
  EXPECT_EQ(text_of(send(send(library, "functionNames"), "objectAtIndex:", 0ul)), "k");
}

TEST_F(DriverMistakes, AKernelsMistakeIsTheCommandBuffersError) {
  const Owned kernel = metal_.pipeline(
      "kernel void k(uint i [[thread_index_in_threadgroup]]) {\n"
      "  if (i == 0u) return;\n  threadgroup_barrier(mem_flags::mem_threadgroup);\n}\n");
  commands_ = send(metal_.queue(), "commandBuffer");
  encoder_ = send(commands_, "computeCommandEncoder");
  send<void>(encoder_, "setComputePipelineState:", id(kernel));
  dispatch();
  end();
  commit();
  wait();
  EXPECT_EQ(status(), 5ul);
  const id error = send(commands_, "error");
  EXPECT_EQ(text_of(send(error, "domain")), "MTLCommandBufferErrorDomain");
  EXPECT_THAT(text_of(send(error, "localizedDescription")), HasSubstr("kernel 'k', threadgroup (0, 0, 0): "));
}

}  // namespace
}  // namespace emulator_test
