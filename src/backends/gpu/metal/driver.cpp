// Metal. Memory is buffers, found by addresses that the driver makes up: shared with the processor where they share
// memory, private to the GPU elsewhere. Commands are recorded into command buffers of one queue, in which Metal keeps
// the order of what depends on each other; nobody waits before results are read.
//
// A command buffer that takes seconds may be killed by the system. So each gets about kSeconds of work: a kernel's grid
// is dispatched in slices, whose size follows from how long earlier ones took.
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/dialect.h"
#include "backends/gpu/driver.h"
#include "backends/gpu/metal/objc.h"
#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {
namespace {

using namespace metal;

constexpr UInteger kShared = 0;
constexpr UInteger kPrivate = 2 << 4;
constexpr UInteger kLanguage = (2 << 16) | 3;  ///< Metal Shading Language 2.3
constexpr UInteger kFailed = 5;                ///< status of a command buffer
constexpr std::size_t kMostSetBytes = 4096;
constexpr std::size_t kTransferBytes = 16 << 20;
constexpr double kSeconds = 0.05;
constexpr std::size_t kInFlight = 8;  ///< command buffers

std::size_t rounded(std::size_t bytes) {
  return (bytes + 3) / 4 * 4;
}

/// How many workgroups of a kernel take about kSeconds.
struct Pace {
  std::uint32_t groups = 1024;
};

class MetalModule : public Module {
 public:
  MetalModule(Owned pipeline, int threads, std::vector<int> addresses)
      : pipeline_(std::move(pipeline)), threads_(threads), addresses_(std::move(addresses)) {}
  Id pipeline() const { return pipeline_.get(); }
  UInteger threads() const { return static_cast<UInteger>(threads_); }
  /// The first words of addresses, in the order of their buffers.
  const std::vector<int>& addresses() const { return addresses_; }
  const std::shared_ptr<Pace>& pace() const { return pace_; }

 private:
  Owned pipeline_;
  int threads_;
  std::vector<int> addresses_;
  std::shared_ptr<Pace> pace_ = std::make_shared<Pace>();
};

class MetalDriver : public Driver {
 public:
  explicit MetalDriver(int index) {
    const Pool pool;
    const Owned devices(api().runtime.all_devices());
    device_ = retained(api().object_at(devices.get(), static_cast<UInteger>(index)));
    queue_.reset(api().new_queue(device_.get()));
    if (queue_ == nullptr) throw BackendError("metal: the device makes no command queue");
    unified_ = api().unified_memory(device_.get());
    const Id system = api().process_info(api().runtime.get_class("NSProcessInfo"));
    info_.name = text_of(api().name(device_.get()));
    info_.api = fmt::format("Metal, language 2.3, macOS {}", text_of(api().system_version(system)));
    info_.features = fmt::format("f16 i64, {} memory", unified_ ? "shared" : "private");
    info_.memory_bytes = api().working_set(device_.get());
    info_.software = api().runtime.replaced;
    info_.doubles = false;
    info_.groups = 1 << 20;
    info_.shared_bytes = api().threadgroup_bytes(device_.get());
    most_buffer_bytes_ = api().buffer_bytes(device_.get());
  }

  ~MetalDriver() override {
    const Pool pool;
    try {
      wait();
    } catch (const BackendError&) {
      // Nobody is left to be told.
    }
    blocks_.clear();
  }
  MetalDriver(const MetalDriver&) = delete;
  MetalDriver& operator=(const MetalDriver&) = delete;

  const DriverInfo& info() const override { return info_; }

  std::uint64_t allocate(std::size_t bytes) override {
    const Pool pool;
    // Metal gives out more than there is, and fails later.
    if (bytes > most_buffer_bytes_ || allocated_ + bytes > info_.memory_bytes) return 0;
    Owned buffer(api().new_buffer(device_.get(), bytes, unified_ ? kShared : kPrivate));
    if (buffer == nullptr) return 0;
    const std::uint64_t address = next_address_;
    constexpr std::uint64_t kPage = 1 << 16;
    next_address_ += (bytes / kPage + 2) * kPage;  // a page that is nobody's lies between
    auto* const host = unified_ ? static_cast<std::byte*>(api().contents(buffer.get())) : nullptr;
    blocks_.emplace(address, Block{std::move(buffer), bytes, host});
    allocated_ += bytes;
    return address;
  }
  void release(std::uint64_t address) override {
    const Pool pool;
    finish_all();
    const auto found = blocks_.find(address);
    allocated_ -= found->second.bytes;
    blocks_.erase(found);
  }

  void upload(std::uint64_t to, const void* from, std::size_t bytes) override {
    const Pool pool;
    const auto* source = static_cast<const std::byte*>(from);
    const Place place = place_of(to);
    if (unified_ && bytes > kTransferBytes) wait();
    if (unified_ && is_idle()) {
      std::memcpy(place.block->host + place.offset, source, bytes);
      return;
    }
    for (std::size_t done = 0; done < bytes; done += kTransferBytes) {
      const std::size_t count = std::min(bytes - done, kTransferBytes);
      const Owned staging(api().new_buffer(device_.get(), rounded(count), kShared));
      if (staging == nullptr) throw BackendError("metal: no memory for transfers");
      std::memcpy(api().contents(staging.get()), source + done, count);
      api().copy(blit(), staging.get(), 0, place.block->buffer.get(), place.offset + done, rounded(count));
      if (bytes > kTransferBytes) wait();  // bounds the memory that transfers take
    }
  }
  void download(void* to, std::uint64_t from, std::size_t bytes) override {
    const Pool pool;
    auto* target = static_cast<std::byte*>(to);
    const Place place = place_of(from);
    if (unified_) {
      wait();
      std::memcpy(target, place.block->host + place.offset, bytes);
      return;
    }
    for (std::size_t done = 0; done < bytes; done += kTransferBytes) {
      const std::size_t count = std::min(bytes - done, kTransferBytes);
      const std::size_t first = (place.offset + done) / 4 * 4;  // copies are of whole words
      const std::size_t skipped = place.offset + done - first;
      const Owned staging(api().new_buffer(device_.get(), rounded(skipped + count), kShared));
      if (staging == nullptr) throw BackendError("metal: no memory for transfers");
      api().copy(blit(), place.block->buffer.get(), first, staging.get(), 0, rounded(skipped + count));
      wait();
      std::memcpy(target + done, static_cast<const std::byte*>(api().contents(staging.get())) + skipped, count);
    }
  }
  void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) override {
    const Pool pool;
    const Place source = place_of(from);
    const Place target = place_of(to);
    api().copy(blit(), source.block->buffer.get(), source.offset, target.block->buffer.get(), target.offset,
               rounded(bytes));
  }

  std::string source(const KernelText& kernel, const Arithmetic& arithmetic) const override {
    return metal_source(kernel, arithmetic);
  }
  // Metal compiles texts when they are loaded, and keeps what comes of it.
  std::vector<std::byte> compile(const std::string& source) const override {
    const auto* bytes = reinterpret_cast<const std::byte*>(source.data());
    return {bytes, bytes + source.size()};
  }
  std::unique_ptr<Module> load(std::span<const std::byte> binary, const KernelText& kernel) override {
    const Pool pool;
    const std::string source(reinterpret_cast<const char*>(binary.data()), binary.size());
    const Id strings = api().runtime.get_class("NSString");
    const Owned options(api().init(api().alloc(api().runtime.get_class("MTLCompileOptions"))));
    api().set_language(options.get(), kLanguage);
    // Asked of the object: the class does not say.
    if (api().responds(options.get(), api().set_math_mode.selector())) {
      api().set_math_mode(options.get(), 0);       // safe
      api().set_math_functions(options.get(), 1);  // precise
    } else {
      api().set_fast_math(options.get(), false);
    }
    Id error = nullptr;
    const Owned library(api().new_library(device_.get(), api().string(strings, source.c_str()), options.get(), &error));
    if (library == nullptr) throw BackendError("metal: the text of a kernel does not compile: " + error_of(error));
    const Owned function(api().new_function(library.get(), api().string(strings, kEntry)));
    if (function == nullptr) throw BackendError(fmt::format("metal: the library has no function {}", kEntry));
    Owned pipeline(api().new_pipeline(device_.get(), function.get(), &error));
    if (pipeline == nullptr) throw BackendError("metal: no pipeline for a kernel: " + error_of(error));
    const UInteger most = api().most_threads(pipeline.get());
    if (most < static_cast<UInteger>(kernel.threads)) {
      throw TooManyThreads(
          fmt::format(
              "metal: a kernel needs workgroups of {} threads, and {} runs at most {} of it together\n"
              "  fix: compute this on another device, e.g. x.to(Device::parse(\"cpu\")); all give the same bits",
              kernel.threads, info_.name, most),
          static_cast<int>(most));
    }
    return std::make_unique<MetalModule>(std::move(pipeline), kernel.threads, kernel.addresses);
  }

  void launch(const Module& module, std::uint32_t groups, std::span<const std::uint32_t> words,
              std::span<const Access> accesses) override {
    const Pool pool;
    check_aliases(accesses);
    const auto& kernel = static_cast<const MetalModule&>(module);
    for (std::uint32_t first = 0; first < groups;) {
      const std::uint32_t slice = std::min(groups - first, kernel.pace()->groups);
      dispatch(kernel, words, first, slice, groups);
      first += slice;
    }
  }
  void wait() override {
    const Pool pool;
    finish_all();
    check();
  }

 private:
  struct Block {
    Owned buffer;
    std::size_t bytes = 0;
    std::byte* host = nullptr;  ///< where the processor sees it
  };
  struct Place {
    const Block* block;
    std::size_t offset;
  };
  enum class Encoding { none, compute, blit };

  /// A command buffer that was committed.
  struct Submitted {
    Owned commands;
    std::shared_ptr<Pace> pace;  ///< where all is of one kernel
    std::uint32_t groups;
  };

  Place place_of(std::uint64_t address) const {
    auto found = blocks_.upper_bound(address);
    LOCKSTEP_ASSERT(found != blocks_.begin());
    --found;
    const std::size_t offset = address - found->first;
    LOCKSTEP_ASSERT(offset < found->second.bytes);
    return {&found->second, offset};
  }

  // Metal's compiler takes it that arguments do not overlap.
  static void check_aliases(std::span<const Access> accesses) {
    for (std::size_t i = 0; i < accesses.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        LOCKSTEP_ASSERT(accesses[i].address != accesses[j].address || !(accesses[i].writes || accesses[j].writes));
      }
    }
  }

  void dispatch(const MetalModule& kernel, std::span<const std::uint32_t> words, std::uint32_t first,
                std::uint32_t slice, std::uint32_t groups) {
    const Id encoder = encode(Encoding::compute);
    std::vector<std::uint32_t> parameters(words.begin(), words.end());
    if (parameters.empty()) parameters.push_back(0);
    parameters.push_back(first);
    parameters.push_back(groups);
    const std::size_t bytes = 4 * parameters.size();
    api().set_pipeline(encoder, kernel.pipeline());
    if (bytes <= kMostSetBytes) {
      api().set_bytes(encoder, parameters.data(), bytes, 0);
    } else {
      const Owned buffer(api().new_buffer(device_.get(), bytes, kShared));
      if (buffer == nullptr) throw BackendError("metal: no memory for a kernel's parameters");
      std::memcpy(api().contents(buffer.get()), parameters.data(), bytes);
      api().set_buffer(encoder, buffer.get(), 0, 0);
    }
    for (std::size_t n = 0; n < kernel.addresses().size(); ++n) {
      const auto word = static_cast<std::size_t>(kernel.addresses()[n]);
      const Place place = place_of((std::uint64_t{words[word + 1]} << 32) | words[word]);
      api().set_buffer(encoder, place.block->buffer.get(), place.offset, n + 1);
    }
    api().dispatch(encoder, {slice, 1, 1}, {kernel.threads(), 1, 1});
    only_ = work_ == 0 ? kernel.pace() : only_ == kernel.pace() ? only_ : nullptr;
    groups_ += slice;
    work_ += static_cast<double>(slice) / kernel.pace()->groups;
    if (work_ >= 1) submit();
  }

  // The encoder of the command buffer that is being recorded, of the given kind.
  Id encode(Encoding kind) {
    check();
    if (commands_ == nullptr) {
      commands_ = retained(api().command_buffer(queue_.get()));
      if (commands_ == nullptr) throw BackendError("metal: the queue makes no command buffer");
    }
    if (encoding_ != kind) {
      end_encoding();
      encoder_ = retained(kind == Encoding::compute ? api().compute_encoder(commands_.get())
                                                    : api().blit_encoder(commands_.get()));
      if (encoder_ == nullptr) throw BackendError("metal: the command buffer makes no encoder");
      encoding_ = kind;
    }
    return encoder_.get();
  }
  Id blit() { return encode(Encoding::blit); }

  void end_encoding() {
    if (encoder_ != nullptr) api().end_encoding(encoder_.get());
    encoder_ = nullptr;
    encoding_ = Encoding::none;
  }

  bool is_idle() const { return commands_ == nullptr && in_flight_.empty(); }

  void submit() {
    if (commands_ == nullptr) return;
    end_encoding();
    api().commit(commands_.get());
    in_flight_.push_back({std::move(commands_), std::move(only_), groups_});
    only_ = nullptr;
    groups_ = 0;
    work_ = 0;
    if (in_flight_.size() > kInFlight) finish_oldest();
  }

  // Waits. What went wrong is kept: it makes all that is computed from then on worthless.
  void finish_oldest() {
    const Submitted work = std::move(in_flight_.front());
    in_flight_.pop_front();
    api().wait(work.commands.get());
    const Id error = api().error(work.commands.get());
    if (failure_.empty() && (api().status(work.commands.get()) == kFailed || error != nullptr)) {
      failure_ = fmt::format("metal: {} failed: {}", info_.name, error_of(error));
    }
    const double seconds = api().end_time(work.commands.get()) - api().start_time(work.commands.get());
    if (work.pace == nullptr || !(seconds > 0) || work.groups == 0) return;
    const double fitting = kSeconds / seconds * work.groups;
    constexpr double kLeast = 64;
    constexpr double kMost = 1 << 20;
    // Halved or doubled at most: a measurement may be of something else.
    const double now = work.pace->groups;
    work.pace->groups = static_cast<std::uint32_t>(
        std::clamp(std::clamp(fitting, now / 2, work.groups >= now ? now * 2 : now), kLeast, kMost));
  }
  void finish_all() {
    submit();
    while (!in_flight_.empty()) finish_oldest();
  }
  void check() const {
    if (!failure_.empty()) throw BackendError(failure_);
  }

  Owned device_;
  Owned queue_;
  bool unified_ = true;
  DriverInfo info_;
  std::size_t most_buffer_bytes_ = 0;
  std::size_t allocated_ = 0;
  std::uint64_t next_address_ = std::uint64_t{1} << 32;
  std::map<std::uint64_t, Block> blocks_;

  Owned commands_;  ///< being recorded
  Owned encoder_;
  Encoding encoding_ = Encoding::none;
  std::shared_ptr<Pace> only_;  ///< the kernel in it, if all is of one
  std::uint32_t groups_ = 0;
  double work_ = 0;  ///< in it, 1 being enough
  std::deque<Submitted> in_flight_;
  std::string failure_;
};

}  // namespace

Found find_metal() {
  Found found;
  found.reason = api().runtime.missing;
  found.fix = "needs a Mac with macOS 11 or newer; other GPUs are used through CUDA or Vulkan";
  if (!found.reason.empty()) return found;
  const Pool pool;
  const Owned devices(api().runtime.all_devices());
  for (UInteger i = 0; i < api().count(devices.get()); ++i) {
    found.devices.push_back({text_of(api().name(api().object_at(devices.get(), i))), api().runtime.replaced});
  }
  if (found.devices.empty()) found.reason = "macOS lists no Metal device";
  return found;
}

std::unique_ptr<Driver> open_metal(int index) {
  return std::make_unique<MetalDriver>(index);
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
