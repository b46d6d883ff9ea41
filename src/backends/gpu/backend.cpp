#include "backends/gpu/backend.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include <lockstep/error.h>

#include "backends/gpu/probe.h"
#include "core/assert.h"
#include "core/pool.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

namespace {

bool writes_to(const Kernel& kernel, int slot) {
  const auto stores = [slot](const Program& program) {
    return std::any_of(program.outputs.begin(), program.outputs.end(),
                       [slot](const Output& output) { return output.slot == slot; });
  };
  return std::visit(
      [&](const auto& k) {
        using Kind = std::decay_t<decltype(k)>;
        if constexpr (std::is_same_v<Kind, RowKernel>) {
          return stores(k.program);
        } else if constexpr (std::is_same_v<Kind, ContractionKernel>) {
          return stores(k.epilogue);
        } else {
          return k.out == slot;
        }
      },
      kernel);
}

bool writes(const KernelList& kernels, const Patch& patch) {
  const auto writes_slot = [&](const Kernel* kernel) { return writes_to(*kernel, patch.index); };
  return patch.kind == Patch::Kind::scratch || patch.kind == Patch::Kind::form ||
         (patch.kind == Patch::Kind::address && std::any_of(kernels.begin(), kernels.end(), writes_slot));
}

std::vector<int> words_only_read(const KernelList& kernels, const std::vector<Patch>& patches) {
  std::vector<int> words;
  for (const Patch& patch : patches) {
    if (patch.kind == Patch::Kind::address && !writes(kernels, patch)) words.push_back(patch.word);
  }
  return words;
}

bool is_early(const Launch& launch, int word) {
  return std::find(launch.early.begin(), launch.early.end(), word) != launch.early.end();
}

}  // namespace

/// A kernel's launches, compiled.
class GpuExecutable : public Executable {
 public:
  GpuExecutable(GpuBackend& backend, Rendered rendered, const KernelList& kernels)
      : backend_(backend), scratch_bytes_(rendered.scratch_bytes) {
    for (const OperandForm& form : rendered.forms) forms_.push_back({form});
    for (Launch& launch : rendered.launches) {
      Ready& ready = launches_.emplace_back();
      ready.module = launch.call ? std::shared_ptr<const Module>(backend_.driver_->load_call(*launch.call))
                                 : backend_.kernels_.get(launch.text, backend_.arithmetic_);
      ready.groups = launch.groups;
      ready.words = std::move(launch.words);
      ready.patches = std::move(launch.patches);
      ready.copies_from = launch.copies_from;
      ready.copies_to = launch.copies_to;
      ready.makes = launch.makes;
      if (launch.makes >= 0) forms_[static_cast<std::size_t>(launch.makes)].maker = {ready.module, ready.words};
      for (const Patch& patch : ready.patches) {
        if (patch.kind != Patch::Kind::scalar)
          ready.accesses.push_back({0, patch.word, writes(kernels, patch), is_early(launch, patch.word)});
      }
    }
  }

  void run(const Binding& binding) const override {
    const std::lock_guard lock(backend_.mutex_);
    Driver& driver = *backend_.driver_;
    const Temporary scratch(backend_, scratch_bytes_);
    Making making{*backend_.kept_, forms_.empty()};
    for (Form& form : forms_) find(form, binding, scratch.address);
    for (Ready& launch : launches_) {
      if (launch.copies_from >= 0 && binding.slots[static_cast<std::size_t>(launch.copies_from)] ==
                                         binding.slots[static_cast<std::size_t>(launch.copies_to)]) {
        continue;
      }
      if (launch.makes >= 0 && forms_[static_cast<std::size_t>(launch.makes)].is_made) continue;
      auto access = launch.accesses.begin();
      for (const Patch& patch : launch.patches) {
        std::uint64_t value = value_of(patch, binding, scratch.address);
        if (patch.kind != Patch::Kind::scalar) (access++)->address = memory_of(patch, value, scratch.address);
        value += patch.kind == Patch::Kind::faults ? 4 * binding.first_fault : static_cast<std::uint64_t>(patch.offset);
        if (patch.start >= 0) {
          value +=
              binding.parameters[static_cast<std::size_t>(patch.start)].bits * static_cast<std::uint64_t>(patch.stride);
        }
        std::memcpy(&launch.words[static_cast<std::size_t>(patch.word)], &value, sizeof value);
      }
      driver.launch(*launch.module, launch.groups, launch.words, launch.accesses);
    }
    making.is_done = true;
  }

 private:
  struct Ready {
    std::shared_ptr<const Module> module;
    std::uint32_t groups;
    std::vector<std::uint32_t> words;  ///< those of the last run
    std::vector<Access> accesses;
    std::vector<Patch> patches;
    int copies_from, copies_to;
    int makes;
  };
  /// An operand's form, and where it is in this run.
  struct Form {
    OperandForm form;
    KeptForms::Maker maker = {};
    std::uint64_t last_contents = 0;  ///< of the operand in the last run
    std::uint64_t address = 0;
    bool is_made = false;
  };

  /// What a failed run should have made is not there.
  struct Making {
    KeptForms& kept;
    bool is_done;
    ~Making() {
      if (!is_done) kept.drop_all();
    }
  };

  // Kept from the second run with the same contents on.
  void find(Form& form, const Binding& binding, std::uint64_t scratch) const {
    form.address = scratch + form.form.offset;
    form.is_made = false;
    Buffer* const buffer = binding.given.empty() ? nullptr : binding.given[static_cast<std::size_t>(form.form.slot)];
    if (!form.form.keeps || buffer == nullptr) return;
    const std::uint64_t contents = buffer->contents();
    if (std::exchange(form.last_contents, contents) != contents) return;
    if (const std::uint64_t kept = backend_.kept_->find(contents, form.maker); kept != 0) {
      form.address = kept;
      form.is_made = true;
    } else if (const std::uint64_t room = backend_.kept_->keep(*buffer, form.maker, form.form.bytes); room != 0) {
      form.address = room;
    }
  }

  /// Memory for the time of one call: later work comes after this one's.
  struct Temporary {
    Temporary(GpuBackend& backend, std::size_t size)
        : memory(backend.memory_), bytes(size), address(size == 0 ? 0 : backend.take(size)) {}
    ~Temporary() {
      if (address != 0) memory.release(address, bytes);
    }
    Temporary(const Temporary&) = delete;
    Temporary& operator=(const Temporary&) = delete;
    Memory& memory;
    std::size_t bytes;
    std::uint64_t address;
  };

  std::uint64_t value_of(const Patch& patch, const Binding& binding, std::uint64_t scratch) const {
    const auto index = static_cast<std::size_t>(patch.index);
    switch (patch.kind) {
      case Patch::Kind::address: return reinterpret_cast<std::uint64_t>(binding.slots[index]);
      case Patch::Kind::scalar: return binding.parameters[index].bits;
      case Patch::Kind::faults: return reinterpret_cast<std::uint64_t>(binding.faults.data());
      case Patch::Kind::scratch: return scratch;
      case Patch::Kind::form: return forms_[index].address;
    }
    return 0;
  }

  // As it was allocated: what a later kernel makes of the same scratch memory may lie elsewhere in it.
  std::uint64_t memory_of(const Patch& patch, std::uint64_t value, std::uint64_t scratch) const {
    const bool is_scratch = patch.kind == Patch::Kind::form && value >= scratch && value < scratch + scratch_bytes_;
    return is_scratch ? scratch : value;
  }

  GpuBackend& backend_;
  mutable std::vector<Ready> launches_;  ///< guarded by the backend's mutex, as the forms are
  mutable std::vector<Form> forms_;
  std::size_t scratch_bytes_;
};

/// Memory of a backend, which it goes back to.
class GpuBuffer : public Buffer {
 public:
  GpuBuffer(GpuBackend& backend, std::uint64_t address, std::size_t bytes)
      : Buffer(backend.device(), reinterpret_cast<void*>(address), bytes, nullptr), backend_(backend) {}
  ~GpuBuffer() {
    const std::lock_guard lock(backend_.mutex_);
    try {
      backend_.memory_.release(reinterpret_cast<std::uint64_t>(data()), bytes());
    } catch (const BackendError&) {
      // Releasing cannot fail. What is wrong with the device, every later call will say.
    }
  }

 private:
  GpuBackend& backend_;
};

GpuBackend::GpuBackend(Device device, std::unique_ptr<Driver> driver, std::string cache_directory)
    : device_(device),
      driver_(std::make_unique<ReplayingDriver>(std::move(driver))),
      memory_(*driver_),
      kernels_(*driver_, std::move(cache_directory)) {
  arithmetic_ = probe(*driver_, memory_, kernels_);
  kept_ = std::make_shared<KeptForms>(memory_, mutex_, driver_->info().memory_bytes / 16);
}

std::size_t GpuBackend::memory_bytes() const {
  return driver_->info().memory_bytes;
}

BufferRef GpuBackend::allocate(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t address = take(bytes);
  return make_pooled<GpuBuffer>(*this, address, bytes);
}

std::uint64_t GpuBackend::take(std::size_t bytes) {
  try {
    return memory_.allocate(bytes);
  } catch (const OutOfMemoryError&) {
    if (!kept_->drop_all()) throw;
  }
  return memory_.allocate(bytes);
}

void GpuBackend::upload(Buffer& to, const void* from, std::size_t bytes) {
  LOCKSTEP_ASSERT(bytes <= to.bytes());
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  driver_->upload(reinterpret_cast<std::uint64_t>(to.data()), from, bytes);
}

void GpuBackend::download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) {
  LOCKSTEP_ASSERT(offset + bytes <= from.bytes());
  if (bytes == 0) return;
  const std::lock_guard lock(mutex_);
  driver_->download(to, reinterpret_cast<std::uint64_t>(from.data()) + offset, bytes);
}

std::unique_ptr<Executable> GpuBackend::compile(const Kernel& kernel) {
  const KernelList lists[] = {{&kernel}};
  return std::move(compile_all(lists)[0]);
}

std::vector<std::unique_ptr<Executable>> GpuBackend::compile_all(std::span<const KernelList> lists) {
  std::vector<Rendered> all;
  for (const KernelList& kernels : lists) all.push_back(rendered(kernels, driver_->info().threads));
  std::vector<const KernelText*> texts;
  for (const Rendered& one : all) {
    for (const Launch& launch : one.launches) {
      if (!launch.call) texts.push_back(&launch.text);
    }
  }
  {
    const std::lock_guard lock(mutex_);
    kernels_.prepare(texts, arithmetic_);
  }
  std::vector<std::unique_ptr<Executable>> executables;
  for (std::size_t k = 0; k < lists.size(); ++k) executables.push_back(executable(std::move(all[k]), lists[k]));
  return executables;
}

Rendered GpuBackend::rendered(const KernelList& kernels, int threads) const {
  const Kernel& kernel = *kernels.front();
  // Positions that fit no device are no matter of what the kernel supports.
  if (const auto* sort = std::get_if<SortKernel>(&kernel)) {
    refuse_beyond_memory(driver_->info(),
                         sizeof(std::int64_t) * static_cast<std::size_t>(sort->rows.numel() * sort->n));
  }
  if (is_fast(kernel) && !missing_for_fast().empty()) {
    throw BackendError(fmt::format("{}: {}", device_.to_string(), missing_for_fast()));
  }
  Rendered result = kernels.size() > 1 ? render_together(kernels, limits(threads)) : render(kernel, limits(threads));
  for (Launch& launch : result.launches) launch.text.only_read = words_only_read(kernels, launch.patches);
  return result;
}

RenderLimits GpuBackend::limits(int threads) const {
  return {.threads = threads,
          .groups = driver_->info().groups,
          .units = driver_->info().units,
          .shared_bytes = driver_->info().shared_bytes,
          .copies_to_shared = driver_->info().copies_to_shared,
          .integer_tiles = driver_->info().integer_tiles,
          .byte_products = driver_->info().byte_products,
          .byte_fragments = driver_->info().byte_fragments,
          .bf16_pairs = driver_->info().bf16_pairs,
          .arithmetic = arithmetic_};
}

bool GpuBackend::has_pair(const ContractionKernel& kernel) const {
  return is_packed_pair(kernel, limits(driver_->info().threads));
}

bool GpuBackend::runs_together(const KernelList& products) const {
  return gpu::runs_together(products, limits(driver_->info().threads));
}

std::unique_ptr<Executable> GpuBackend::executable(Rendered launches, const KernelList& kernels) {
  int threads = driver_->info().threads;
  for (;;) {
    try {
      const std::lock_guard lock(mutex_);
      return std::make_unique<GpuExecutable>(*this, std::move(launches), kernels);
    } catch (const TooManyThreads& error) {
      // Written once more, for as many as the device runs of this kernel: results do not depend on it.
      const auto most = static_cast<unsigned>(std::min(error.most, threads - 1));
      threads = static_cast<int>(std::bit_floor(most));
      if (threads < kLeastThreads) throw in_kernel(error, *kernels.front());
    } catch (const BackendError& error) {
      throw in_kernel(error, *kernels.front());
    }
    launches = rendered(kernels, threads);
  }
}

BackendError GpuBackend::in_kernel(const BackendError& error, const Kernel& kernel) const {
  return BackendError(fmt::format("{}: {}\n  in the kernel {}", device_.to_string(), error.what(), to_string(kernel)));
}

void GpuBackend::start() {
  const std::lock_guard lock(mutex_);
  driver_->start();
}

void GpuBackend::finish() {
  const std::lock_guard lock(mutex_);
  driver_->wait();
}

std::unique_ptr<WorkMark> GpuBackend::mark() {
  const std::lock_guard lock(mutex_);
  return driver_->mark();
}

void GpuBackend::wait_for(const WorkMark& mark) {
  const std::lock_guard lock(mutex_);
  driver_->wait_for(mark);
}

std::unique_ptr<SideQueue> GpuBackend::side_queue() {
  const std::lock_guard lock(mutex_);
  return driver_->side_queue();
}

std::unique_ptr<HostCopy> GpuBackend::begin_download(const Buffer& from, std::size_t bytes, std::size_t offset) {
  LOCKSTEP_ASSERT(offset + bytes <= from.bytes());
  const std::lock_guard lock(mutex_);
  return driver_->begin_download(reinterpret_cast<std::uint64_t>(from.data()) + offset, bytes);
}

bool GpuBackend::copy_from_peer(Buffer& to, const Buffer& from, std::size_t bytes, std::size_t offset) {
  LOCKSTEP_ASSERT(bytes <= to.bytes() && offset + bytes <= from.bytes());
  auto* const other = dynamic_cast<GpuBackend*>(&backend_of(from.device()));
  if (other == nullptr || other == this || other->device_.kind != device_.kind) return false;
  const std::scoped_lock lock(mutex_, other->mutex_);
  return driver_->copy_from(*other->driver_, reinterpret_cast<std::uint64_t>(to.data()),
                            reinterpret_cast<std::uint64_t>(from.data()) + offset, bytes);
}

bool GpuBackend::reads_directly(int other) {
  const std::lock_guard lock(mutex_);
  return driver_->reads_directly(other);
}

std::size_t GpuBackend::window_bytes() const {
  const DriverInfo& info = driver_->info();
  const std::size_t least = Backend::window_bytes();
  return info.software ? least : std::max<std::size_t>(least, info.memory_bytes / 16);
}

std::string GpuBackend::description() const {
  const DriverInfo& info = driver_->info();
  const std::string fast = driver_->libraries();
  return fmt::format("{}: {}{}, {:.1f} GB\n  {}\n  {}; {}{}", device_.to_string(), info.name,
                     info.software ? " (software)" : "", static_cast<double>(info.memory_bytes) / 1e9, info.api,
                     info.features, to_string(arithmetic_), fast.empty() ? "" : "\n  fast numerics: " + fast);
}

void GpuBackend::reset_peak_memory() {
  const std::lock_guard lock(mutex_);
  memory_.reset_peak();
}

MemoryStatistics GpuBackend::memory_statistics() const {
  const std::lock_guard lock(mutex_);
  return memory_.statistics();
}

std::uint64_t GpuBackend::replays() const {
  const std::lock_guard lock(mutex_);
  return driver_->replays();
}

std::size_t GpuBackend::kept_bytes() const {
  const std::lock_guard lock(mutex_);
  return kept_->bytes();
}

std::size_t GpuBackend::compiled_kernels() const {
  const std::lock_guard lock(mutex_);
  return kernels_.compiled();
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
