#include "commands.h"

#include <algorithm>

#include <fmt/format.h>

#include "settings.h"

namespace emulator {
namespace {

constexpr const char* kCommandErrors = "MTLCommandBufferErrorDomain";
constexpr long kInternal = 1, kTimeout = 2;
std::size_t submissions = 0;  // under the run time's lock

}  // namespace

Queue::~Queue() {
  if (!committed_.empty()) misuse("a command queue is released while nobody has waited for its command buffers");
}

objc::id Queue::command_buffer() {
  return objc::autoreleased(new CommandBuffer(*this));
}

void Queue::add(CommandBuffer& commands) {
  committed_.emplace_back(&commands);
}

void Queue::run_until(const CommandBuffer& last) {
  for (bool found = false; !found && !committed_.empty();) {
    const objc::Ref<CommandBuffer> next = std::move(committed_.front());
    committed_.pop_front();
    next->run();
    found = next.get() == &last;
  }
}

CommandBuffer::~CommandBuffer() {
  if (encoding_) misuse("a command buffer is released before endEncoding");
}

void CommandBuffer::begin_encoding() {
  if (status_ != Status::not_enqueued) misuse("an encoder for a command buffer that is committed");
  if (encoding_) misuse("a second encoder while one is open");
  encoding_ = true;
}

objc::id CommandBuffer::compute_encoder() {
  begin_encoding();
  return objc::autoreleased(new ComputeEncoder(*this));
}

objc::id CommandBuffer::blit_encoder() {
  begin_encoding();
  return objc::autoreleased(new BlitEncoder(*this));
}

void CommandBuffer::commit() {
  if (encoding_) misuse("commit before endEncoding");
  if (status_ != Status::not_enqueued) misuse("commit twice");
  status_ = Status::committed;
  queue_->add(*this);
}

void CommandBuffer::wait() {
  if (status_ == Status::not_enqueued) misuse("waitUntilCompleted before commit: it would wait for ever");
  if (status_ == Status::committed) queue_->run_until(*this);
}

void CommandBuffer::run() {
  std::string failure;
  long code = kInternal;
  if (++submissions == settings::failing_submission()) {
    failure = "Caused GPU Timeout Error (00000002:kIOGPUCommandBufferCallbackErrorTimeout)";
    code = kTimeout;
  }
  for (std::size_t i = 0; i < commands_.size() && failure.empty(); ++i) failure = commands_[i]();
  commands_.clear();
  status_ = failure.empty() ? Status::completed : Status::failed;
  if (failure.empty()) return;
  auto* error = new Error(kCommandErrors, code, failure);
  error_ = objc::Ref<Error>(error);
  error->release();
}

Encoder::~Encoder() {
  if (!ended_) misuse(fmt::format("a {} is released before endEncoding", type().name));
}

void Encoder::end_encoding() {
  open().end_encoding();
  ended_ = true;
}

CommandBuffer& Encoder::open() {
  if (ended_) misuse(fmt::format("a {} is used after endEncoding", type().name));
  return *commands_;
}

void ComputeEncoder::set_pipeline(objc::id pipeline) {
  open();
  pipeline_ = objc::Ref<Pipeline>(&objc::get<Pipeline>(pipeline));
}

ComputeEncoder::Binding& ComputeEncoder::binding(unsigned long index) {
  open();
  if (index >= kBufferSlots) misuse(fmt::format("argument index {} is above 30", index));
  return bindings_[index];
}

void ComputeEncoder::check_offset(const Binding& bound) const {
  if (bound.buffer && bound.offset >= bound.buffer->size()) {
    misuse(fmt::format("offset {} is past the end of a buffer of {} bytes", bound.offset, bound.buffer->size()));
  }
}

void ComputeEncoder::set_buffer(objc::id buffer, unsigned long offset, unsigned long index) {
  Binding& bound = binding(index) = {};
  bound.buffer = objc::Ref<Buffer>(objc::get_or_null<Buffer>(buffer));
  bound.offset = offset;
  bound.unused = static_cast<bool>(bound.buffer);
  check_offset(bound);
}

void ComputeEncoder::set_buffer_offset(unsigned long offset, unsigned long index) {
  Binding& bound = binding(index);
  if (!bound.buffer) misuse(fmt::format("setBufferOffset: without a buffer at index {}", index));
  bound.offset = offset;
  bound.unused = true;
  check_offset(bound);
}

void ComputeEncoder::set_bytes(const void* bytes, unsigned long length, unsigned long index) {
  if (length == 0 || length > 4096) misuse(fmt::format("setBytes of {} bytes; it takes 1 to 4096", length));
  Binding& bound = binding(index) = {};
  bound.bytes.resize((length + sizeof(std::max_align_t) - 1) / sizeof(std::max_align_t));
  std::memcpy(bound.bytes.data(), bytes, length);
  bound.length = length;
  bound.unused = true;
}

void ComputeEncoder::set_threadgroup_bytes(unsigned long length, unsigned long index) {
  open();
  if (index >= kBufferSlots) misuse(fmt::format("threadgroup memory index {} is above 30", index));
  if (length % 16 != 0) misuse(fmt::format("threadgroup memory of {} bytes, no multiple of 16", length));
  threadgroup_bytes_[index] = length;
}

void ComputeEncoder::dispatch_threads(MtlSize threads, MtlSize threadgroup) {
  dispatch(threads, threadgroup);
}

void ComputeEncoder::dispatch_threadgroups(MtlSize groups, MtlSize threadgroup) {
  dispatch({groups.width * threadgroup.width, groups.height * threadgroup.height, groups.depth * threadgroup.depth},
           threadgroup);
}

void ComputeEncoder::dispatch(MtlSize threads, MtlSize threadgroup) {
  CommandBuffer& commands = open();
  if (!pipeline_) misuse("a dispatch without a pipeline");
  const Kernel& kernel = pipeline_->kernel();
  const auto sentence = [&](const std::string& rest) {
    misuse(fmt::format("kernel '{}': {}", kernel.info.name, rest));
  };
  for (const MtlSize& size : {threads, threadgroup}) {
    if (size.width == 0 || size.height == 0 || size.depth == 0) sentence("a dispatch of no threads");
    if (size.width >> 32 != 0 || size.height >> 32 != 0 || size.depth >> 32 != 0) {
      sentence("a grid of 2^32 or more threads is cut off without an error");
    }
  }
  const unsigned long own = threadgroup.width * threadgroup.height * threadgroup.depth;
  if (own > pipeline_->max_threads()) {
    sentence(fmt::format("{} threads per threadgroup; this pipeline runs at most {}", own, pipeline_->max_threads()));
  }

  Dispatch run;
  run.program = pipeline_->program();
  run.kernel = &kernel;
  const auto narrow = [](MtlSize s) {
    return Size3{static_cast<unsigned>(s.width), static_cast<unsigned>(s.height), static_cast<unsigned>(s.depth)};
  };
  run.threads = narrow(threads);
  run.threads_per_threadgroup = narrow(threadgroup);
  std::vector<objc::Ref<Buffer>> used;
  std::vector<std::pair<std::size_t, std::vector<std::max_align_t>>> constants;
  std::size_t threadgroup_memory = kernel.variable_bytes;
  for (const Parameter& parameter : kernel.info.parameters) {
    if (parameter.kind == Parameter::Kind::number) continue;
    const auto index = static_cast<std::size_t>(parameter.index);
    if (parameter.kind == Parameter::Kind::threadgroup) {
      run.threadgroup_bytes[index] = threadgroup_bytes_[index];
      threadgroup_memory += threadgroup_bytes_[index];
      if (threadgroup_bytes_[index] == 0) sentence(fmt::format("no length for '{}'", parameter.declaration));
      continue;
    }
    Binding& bound = bindings_[index];
    bound.unused = false;
    if (bound.buffer) {
      run.buffers[index] = bound.buffer->data() + bound.offset;
      const auto same = std::find(run.buffers.begin(), run.buffers.end(), run.buffers[index]) - run.buffers.begin();
      const bool is_read = parameter.constant && std::ranges::any_of(kernel.info.parameters, [&](const Parameter& other) {
        return other.kind == Parameter::Kind::buffer && other.index == same && other.constant;
      });
      if (same != parameter.index && !is_read) {
        sentence(fmt::format("the same memory is bound at indices {} and {}; arguments must not overlap",
                             std::min<long>(same, parameter.index), std::max<long>(same, parameter.index)));
      }
      used.push_back(bound.buffer);
    } else if (bound.length != 0) {
      constants.emplace_back(index, bound.bytes);
    } else {
      sentence(fmt::format("nothing is bound at index {} for '{}'", index, parameter.declaration));
    }
    const std::size_t bytes = bound.buffer ? bound.buffer->size() - bound.offset : bound.length;
    if (bytes < parameter.bytes) {
      sentence(fmt::format("{} bytes are bound at index {} for '{}', which has {}", bytes, index, parameter.declaration,
                           parameter.bytes));
    }
  }
  for (std::size_t i = 0; i < bindings_.size(); ++i) {
    if (bindings_[i].unused) sentence(fmt::format("it has no parameter for what is bound at index {}", i));
  }
  if (threadgroup_memory > kThreadgroupBytes) {
    sentence(fmt::format("{} bytes of threadgroup memory; there are {}", threadgroup_memory, kThreadgroupBytes));
  }
  commands.add([run, used, constants]() mutable {
    for (auto& [index, bytes] : constants) run.buffers[index] = bytes.data();
    std::string failure = emulator::run(run);
    for (const objc::Ref<Buffer>& buffer : used) {
      if (failure.empty()) failure = buffer->overrun(run.kernel->info.name);
    }
    return failure;
  });
}

void BlitEncoder::copy(objc::id from, unsigned long from_offset, objc::id to, unsigned long to_offset,
                       unsigned long size) {
  const objc::Ref<Buffer> source(&objc::get<Buffer>(from)), target(&objc::get<Buffer>(to));
  if (size == 0 || from_offset + size > source->size() || to_offset + size > target->size()) {
    misuse(fmt::format("a copy of {} bytes from {} of {} to {} of {}", size, from_offset, source->size(), to_offset,
                       target->size()));
  }
  if (from_offset % 4 != 0 || to_offset % 4 != 0 || size % 4 != 0) {
    misuse(fmt::format("a copy of {} bytes from {} to {}: macOS copies multiples of 4", size, from_offset, to_offset));
  }
  if (source.get() == target.get() && from_offset < to_offset + size && to_offset < from_offset + size) {
    misuse("a copy between parts of a buffer that overlap");
  }
  open().add([=] {
    std::memcpy(target->data() + to_offset, source->data() + from_offset, size);
    return std::string();
  });
}

void BlitEncoder::fill(objc::id buffer, NsRange range, unsigned char value) {
  const objc::Ref<Buffer> target(&objc::get<Buffer>(buffer));
  if (range.length == 0 || range.location + range.length > target->size()) {
    misuse(fmt::format("a fill of {} bytes at {} of {}", range.length, range.location, target->size()));
  }
  if (range.location % 4 != 0 || range.length % 4 != 0) {
    misuse(fmt::format("a fill of {} bytes at {}: macOS fills multiples of 4", range.length, range.location));
  }
  open().add([=] {
    std::memset(target->data() + range.location, value, range.length);
    return std::string();
  });
}

void BlitEncoder::synchronize(objc::id buffer) {
  open();
  objc::get<Buffer>(buffer);
}

namespace {

struct Commands {
  Commands() {
    objc::Methods<Queue>()
        .on<&Queue::command_buffer>("commandBuffer")
        .on<&Queue::command_buffer>("commandBufferWithUnretainedReferences")
        .on<&Queue::device>("device");
    objc::Methods<CommandBuffer>()
        .on<&CommandBuffer::compute_encoder>("computeCommandEncoder")
        .on<&CommandBuffer::compute_encoder_of_type>("computeCommandEncoderWithDispatchType:")
        .on<&CommandBuffer::blit_encoder>("blitCommandEncoder")
        .on<&CommandBuffer::enqueue>("enqueue")
        .on<&CommandBuffer::commit>("commit")
        .on<&CommandBuffer::wait>("waitUntilCompleted")
        .on<&CommandBuffer::status>("status")
        .on<&CommandBuffer::error>("error")
        .on<&CommandBuffer::start_time>("GPUStartTime")
        .on<&CommandBuffer::end_time>("GPUEndTime");
    objc::Methods<ComputeEncoder>()
        .on<&ComputeEncoder::set_pipeline>("setComputePipelineState:")
        .on<&ComputeEncoder::set_buffer>("setBuffer:offset:atIndex:")
        .on<&ComputeEncoder::set_buffer_offset>("setBufferOffset:atIndex:")
        .on<&ComputeEncoder::set_bytes>("setBytes:length:atIndex:")
        .on<&ComputeEncoder::set_threadgroup_bytes>("setThreadgroupMemoryLength:atIndex:")
        .on<&ComputeEncoder::dispatch_threads>("dispatchThreads:threadsPerThreadgroup:")
        .on<&ComputeEncoder::dispatch_threadgroups>("dispatchThreadgroups:threadsPerThreadgroup:")
        .on<&ComputeEncoder::memory_barrier>("memoryBarrierWithScope:")
        .on<&ComputeEncoder::end_encoding>("endEncoding");
    objc::Methods<BlitEncoder>()
        .on<&BlitEncoder::copy>("copyFromBuffer:sourceOffset:toBuffer:destinationOffset:size:")
        .on<&BlitEncoder::fill>("fillBuffer:range:value:")
        .on<&BlitEncoder::synchronize>("synchronizeResource:")
        .on<&BlitEncoder::end_encoding>("endEncoding");
  }
};
const Commands registered;

}  // namespace
}  // namespace emulator
