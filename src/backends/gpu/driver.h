// What an API has to provide: memory, transfers, compilation and launches, in order on one queue. No tensors, no ops,
// no numerics. Everything around it (caches, pools, patches of parameters, threads) is shared: gpu/backend.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/error.h>

#include "backends/gpu/source.h"
#include "backends/side_work.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

struct DriverInfo {
  std::string name;      ///< of the device
  std::string api;       ///< e.g. "CUDA 13.0, sm_90, driver 580.159"
  std::string features;  ///< found or missing, in words
  std::string identity;  ///< of everything that a compiled kernel depends on beside its source: for the disk cache;
                         ///< empty where the system keeps compiled kernels itself
  std::uint64_t memory_bytes = 0;
  bool software = false;                ///< a processor in disguise
  bool doubles = true;                  ///< its language has f64
  std::uint32_t groups = 65535;         ///< at most, in one launch
  int threads = 256;                    ///< in a workgroup
  int units = 16;                       ///< that run workgroups independently: multiprocessors, compute units
  std::size_t shared_bytes = 32 << 10;  ///< of a workgroup, at most
  bool copies_to_shared = false;        ///< can be filled without registers (cp.async)
  bool loads_side_by_side = false;      ///< `load` compiles further, and may be called by several threads at once
  bool integer_tiles = false;           ///< of digits from there are multiplied asynchronously (wgmma, sm_90a)
  bool byte_products = false;           ///< 32 threads multiply bytes by tensor cores (mma, sm_80)
  bool byte_fragments = false;          ///< the same without copies_to_shared (mma, sm_75)
  bool quick_forms = false;             ///< its language has Arithmetic's quick_floats and ..._halves, right or not
  bool near_teams = false;              ///< and near_teams: 32 threads run together
  bool has_halves = false;  ///< its language has a type of 16 bits: Arithmetic's native_halves, right or not
  bool bf16_pairs = false;  ///< RenderLimits::bf16_pairs
  bool has_byte_dots = false;           ///< its language has DOT4 (dp4a, OpSDot)
  bool quick_byte_dots = false;         ///< and the device says that it is quick
  bool byte_matrices = false;           ///< its language has cooperative matrices of bytes (KernelText::byte_matrices)
};

/// A compiled kernel, ready to be launched.
class Module {
 public:
  virtual ~Module() = default;
};

/// A kernel of which the device runs fewer threads together than the text was written for.
class TooManyThreads : public BackendError {
 public:
  TooManyThreads(const std::string& what, int most_threads) : BackendError(what), most(most_threads) {}
  int most;
};

/// Memory that a launch reaches through an address among its parameter words. Work that only touches other memory, or
/// reads what the launch only reads, need not wait for it.
struct Access {
  std::uint64_t address = 0;  ///< as `allocate` gave it; what stands in the words may lie inside that memory
  int word = 0;               ///< the first of the two parameter words that hold it, the low half first
  bool writes = false;        ///< words that report faults don't count: they are set to one value only
  bool early = false;         ///< read before the launches before are known to be over: AFTER_EARLIER

  friend bool operator==(const Access&, const Access&) = default;
};

/// One launch of a list.
struct Command {
  const Module* module = nullptr;
  std::uint32_t groups = 0;
  std::span<const std::uint32_t> words;
  std::span<const Access> accesses;
  bool overlaps = false;  ///< may begin while earlier ones run: none of the list writes what it reads early
};

/// Launches that were prepared to be repeated with one call.
class Recording {
 public:
  virtual ~Recording() = default;
};

/// One device behind one API. Called by one thread at a time, but where it says otherwise. Every function throws
/// BackendError with the API's words.
class Driver {
 public:
  virtual ~Driver() = default;
  virtual const DriverInfo& info() const = 0;

  /// A device address, 0 when memory is exhausted.
  virtual std::uint64_t allocate(std::size_t bytes) = 0;
  /// Waits for work that may use the memory.
  virtual void release(std::uint64_t address) = 0;

  // In the order of the calls, also among launches. Sizes are rounded up to four bytes by the allocator.
  virtual void upload(std::uint64_t to, const void* from, std::size_t bytes) = 0;
  virtual void download(void* to, std::uint64_t from, std::size_t bytes) = 0;
  virtual void copy(std::uint64_t to, std::uint64_t from, std::size_t bytes) = 0;

  // These two by several threads at once.
  /// The kernel in the device's language.
  virtual std::string source(const KernelText& kernel, const Arithmetic& arithmetic) const = 0;
  /// Compiles; what comes back may be kept on disk.
  virtual std::vector<std::byte> compile(const std::string& source) const = 0;
  /// Throws TooManyThreads where the device says so after it has compiled.
  virtual std::unique_ptr<Module> load(std::span<const std::byte> binary, const KernelText& kernel) = 0;
  /// What the disk cache is to have in place of `binary`, of which `module` was just loaded: with what spares the
  /// device compiling it again.
  virtual std::vector<std::byte> to_keep(std::vector<std::byte> binary, const Module&) const { return binary; }
  /// Why `load_call` cannot be used for products, for those of 8-bit floats, and for convolutions; empty where it can.
  virtual std::string missing_for_products() const { return "only CUDA devices have fast numerics"; }
  virtual std::string missing_for_float_products() const { return missing_for_products(); }
  virtual std::string missing_for_convolutions() const { return missing_for_products(); }
  /// Whether it can for attention.
  virtual bool has_attention() const { return false; }
  /// With which libraries, or that they are missing, in words; empty on other devices.
  virtual std::string libraries() const { return ""; }
  /// What the vendor's library computes, to be launched as a kernel of one group.
  virtual std::unique_ptr<Module> load_call(const LibraryCall&) { throw BackendError(missing_for_products()); }
  /// `accesses`: all addresses in `words`. An address may stand there more than once.
  virtual void launch(const Module& program, std::uint32_t groups, std::span<const std::uint32_t> words,
                      std::span<const Access> accesses) = 0;

  // Launches that are repeated, for APIs that have something for that. The modules live as long as the recording.
  /// Null where the API has nothing, or nothing for these.
  virtual std::unique_ptr<Recording> record(std::span<const Command>) { return nullptr; }
  virtual void replay(Recording&) {}
  /// Whether `change` works: gives a recorded launch other words, for all replays to come.
  virtual bool can_change() const { return false; }
  virtual void change(Recording&, std::size_t /*launch*/, const Command&) {}

  /// Starts what was launched, where launches are collected.
  virtual void start() {}
  /// Starts what was launched, and waits for all of it.
  virtual void wait() = 0;

  // Work beside the queue, for APIs that have something for that: null, false.
  virtual std::unique_ptr<WorkMark> mark() { return nullptr; }
  virtual void wait_for(const WorkMark& /*mark*/) {}
  virtual std::unique_ptr<SideQueue> side_queue() { return nullptr; }
  /// In the order of the calls, but that whoever asks for the bytes waits for nothing behind. Null: use `download`.
  virtual std::unique_ptr<HostCopy> begin_download(std::uint64_t /*from*/, std::size_t /*bytes*/) { return nullptr; }
  /// From another device of this API, after all that is in its queue, which goes on after the copy.
  virtual bool copy_from(Driver& /*other*/, std::uint64_t /*to*/, std::uint64_t /*from*/, std::size_t /*bytes*/) {
    return false;
  }
  /// Whether this device reads the memory of another one of this API directly.
  virtual bool reads_directly(int /*other*/) { return false; }
  /// The driver that does the work, where this one stands in front of it.
  virtual Driver& inner() { return *this; }
};

/// The devices of an API that can be opened, or why there are none.
struct Found {
  struct Item {
    std::string name;
    bool software = false;
  };
  std::vector<Item> devices;
  std::string reason;  ///< why there are none
  std::string fix;     ///< what to install
};

Found find_cuda();
std::unique_ptr<Driver> open_cuda(int index);
Found find_vulkan();
std::unique_ptr<Driver> open_vulkan(int index);
Found find_metal();
std::unique_ptr<Driver> open_metal(int index);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
