// Hashes of values beside the kernels that come after them: a thread of its own, which waits where there is nothing to
// do.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include <lockstep/dtype.h>

#include "core/buffer.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

class HashWorker {
 public:
  HashWorker() : thread_([this] { work(); }) {}
  ~HashWorker();
  HashWorker(const HashWorker&) = delete;
  HashWorker& operator=(const HashWorker&) = delete;

  /// Hashes memory of the host, held until then, and calls done(hash) in the worker's thread.
  void add(DType dtype, BufferRef buffer, std::size_t bytes, std::function<void(std::uint64_t)> done);
  /// Until all that was added is hashed: what holds memory no longer may be written again.
  void wait();

 private:
  struct Job {
    DType dtype;
    BufferRef buffer;
    std::size_t bytes;
    std::function<void(std::uint64_t)> done;
  };
  void work();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;
  bool is_busy_ = false;
  bool ends_ = false;
  std::thread thread_;  ///< last: it uses the others
};

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
