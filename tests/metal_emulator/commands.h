// Queues, command buffers and encoders. A command buffer is a list of things to do; nothing is done before somebody
// waits, and then in the order of the commits.
#pragma once

#include <array>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "dispatch.h"
#include "foundation.h"
#include "objc.h"
#include "resources.h"

namespace emulator {

struct MtlSize {
  unsigned long width, height, depth;
};
struct NsRange {
  unsigned long location, length;
};

class CommandBuffer;

class Queue : public objc::Object {
 public:
  bool is_kept() const override { return true; }
  static constexpr const char* kName = "MTLCommandQueue";
  explicit Queue(Object& device) : Object(objc::class_named(kName)), device_(&device) {}
  ~Queue() override;

  objc::id command_buffer();
  objc::id device() { return device_->handle(); }
  void add(CommandBuffer& commands);
  /// Runs what was committed, up to and with `last`.
  void run_until(const CommandBuffer& last);

 private:
  objc::Ref<Object> device_;
  std::deque<objc::Ref<CommandBuffer>> committed_;
};

class CommandBuffer : public objc::Object {
 public:
  static constexpr const char* kName = "MTLCommandBuffer";
  explicit CommandBuffer(Queue& queue) : Object(objc::class_named(kName)), queue_(&queue) {}
  ~CommandBuffer() override;

  objc::id compute_encoder();
  objc::id compute_encoder_of_type(unsigned long) { return compute_encoder(); }
  objc::id blit_encoder();
  void enqueue() {}
  void commit();
  void wait();
  bool is_kept() const override { return status_ == Status::not_enqueued || status_ == Status::committed; }
  unsigned long status() { return static_cast<unsigned long>(status_); }
  objc::id error() { return error_ ? error_->handle() : nullptr; }
  double start_time() { return status_ == Status::completed ? 1.0 : 0.0; }
  double end_time() { return status_ == Status::completed ? 1.5 : 0.0; }

  /// For encoders. A command says what went wrong, or nothing.
  void add(std::function<std::string()> command) { commands_.push_back(std::move(command)); }
  void end_encoding() { encoding_ = false; }
  void run();

 private:
  enum class Status : unsigned long { not_enqueued = 0, committed = 2, completed = 4, failed = 5 };
  void begin_encoding();

  objc::Ref<Queue> queue_;
  std::vector<std::function<std::string()>> commands_;
  bool encoding_ = false;
  Status status_ = Status::not_enqueued;
  objc::Ref<Error> error_;
};

/// What compute and blit encoders have in common.
class Encoder : public objc::Object {
 public:
  bool is_kept() const override { return !ended_; }
  static constexpr const char* kName = "MTLCommandEncoder";
  Encoder(const char* name, CommandBuffer& commands) : Object(objc::class_named(name)), commands_(&commands) {}
  ~Encoder() override;
  void end_encoding();

 protected:
  CommandBuffer& open();

 private:
  objc::Ref<CommandBuffer> commands_;
  bool ended_ = false;
};

class ComputeEncoder : public Encoder {
 public:
  static constexpr const char* kName = "MTLComputeCommandEncoder";
  explicit ComputeEncoder(CommandBuffer& commands) : Encoder(kName, commands) {}

  void set_pipeline(objc::id pipeline);
  void set_buffer(objc::id buffer, unsigned long offset, unsigned long index);
  void set_buffer_offset(unsigned long offset, unsigned long index);
  void set_bytes(const void* bytes, unsigned long length, unsigned long index);
  void set_threadgroup_bytes(unsigned long length, unsigned long index);
  void dispatch_threads(MtlSize threads, MtlSize threadgroup);
  void dispatch_threadgroups(MtlSize threadgroups, MtlSize threadgroup);
  void memory_barrier(unsigned long) { open(); }

 private:
  struct Binding {
    objc::Ref<Buffer> buffer;
    std::size_t offset = 0;
    std::vector<std::max_align_t> bytes;  // a copy, where there is no buffer
    std::size_t length = 0;
    bool unused = false;  // since it was bound
  };
  Binding& binding(unsigned long index);
  void check_offset(const Binding& bound) const;
  void dispatch(MtlSize threads, MtlSize threadgroup);

  objc::Ref<Pipeline> pipeline_;
  std::array<Binding, kBufferSlots> bindings_;
  std::array<std::size_t, kBufferSlots> threadgroup_bytes_{};
};

class BlitEncoder : public Encoder {
 public:
  static constexpr const char* kName = "MTLBlitCommandEncoder";
  explicit BlitEncoder(CommandBuffer& commands) : Encoder(kName, commands) {}

  void copy(objc::id from, unsigned long from_offset, objc::id to, unsigned long to_offset, unsigned long size);
  void fill(objc::id buffer, NsRange range, unsigned char value);
  void synchronize(objc::id buffer);
};

}  // namespace emulator
