// What moves bytes between ranks. One call is enough for every collective: all that a rank gives and all that it gets
// are under way at once. dist/engines.h chooses among the engines.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <lockstep/device.h>

namespace lockstep {
inline namespace v0 {

class WorkMark;

namespace dist {

struct Launch;

struct Outgoing {
  int to;
  std::span<const std::byte> bytes;
};
struct Incoming {
  int from;
  std::span<std::byte> bytes;
};

/// Memory of a device that is none of this process: spans are addresses there.
struct DeviceMemory {
  Device device;
  std::shared_ptr<const WorkMark> after;  ///< the work of the device that comes before the exchange
};

class Engine {
 public:
  virtual ~Engine() = default;
  /// For people: "TCP", "MPI (Open MPI v4.1.4)".
  virtual std::string name() const = 0;
  /// Gives and gets, at most one message for each pair of ranks, none for oneself. `call` is the same text on both
  /// sides, else it throws; as it does if a rank is gone or has not answered within the deadline: DistributedError.
  /// One thread at a time. When it returns, all has come and all that was given may change.
  virtual void exchange(const std::string& call, std::span<const Outgoing> outgoing,
                        std::span<const Incoming> incoming) = 0;
  /// Whether exchange_on() works with this device's memory.
  virtual bool reaches(Device /*device*/) const { return false; }
  /// A rank that has closed its connection while nothing is under way, where the engine can tell.
  virtual std::optional<int> lost_rank() { return std::nullopt; }
  /// Closes all connections: the others hear that this rank is gone. What is under way on devices ends, with any bits.
  virtual void close() {}
  /// The same with spans in a device's memory, after the work that comes before. Returns when the ranks agree and it is
  /// in the device's hands; all has come, and what was given may change, where the mark is reached.
  virtual std::shared_ptr<const WorkMark> exchange_on(const DeviceMemory& memory, const std::string& call,
                                                      std::span<const Outgoing> outgoing,
                                                      std::span<const Incoming> incoming);
  /// Whether something is in a device's hands still. By any thread. DistributedError where a rank is gone meanwhile, or
  /// the deadline is over since the work before was done; whoever asked keeps it, and closes the engine.
  virtual bool is_under_way() { return false; }
};

/// Connects this process with all others of its group, over TCP. Throws DistributedError.
std::unique_ptr<Engine> connect_tcp(const Launch& launch, std::chrono::milliseconds deadline);
/// By MPI, of the implementation that has started this process. Throws DistributedError.
std::unique_ptr<Engine> connect_mpi(const Launch& launch, std::chrono::milliseconds deadline);
/// By NCCL where tensors are on GPUs of CUDA, which begins with the first of them; other tensors, and what ranks have
/// to agree on before, go by `base`.
std::unique_ptr<Engine> nccl_over(std::unique_ptr<Engine> base, const Launch& launch,
                                  std::chrono::milliseconds deadline);

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
