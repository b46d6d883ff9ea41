// What moves bytes between ranks. One call is enough for every collective: all that a rank gives and all that it gets
// are under way at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace lockstep {
inline namespace v0 {
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

class Engine {
 public:
  virtual ~Engine() = default;
  /// Gives and gets, at most one message for each pair of ranks, none for oneself. `call` is the same text on both
  /// sides, else it throws; as it does if a rank is gone or has not answered within the deadline: DistributedError.
  virtual void exchange(const std::string& call, std::span<const Outgoing> outgoing,
                        std::span<const Incoming> incoming) = 0;
};

/// Connects this process with all others of its group, over TCP. Throws DistributedError.
std::unique_ptr<Engine> connect_tcp(const Launch& launch, std::chrono::milliseconds deadline);

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
