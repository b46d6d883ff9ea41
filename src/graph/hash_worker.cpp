#include "graph/hash_worker.h"

#include <utility>

#include "core/hash.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

HashWorker::~HashWorker() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void HashWorker::add(DType dtype, BufferRef buffer, std::size_t bytes, std::function<void(std::uint64_t)> done) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({dtype, std::move(buffer), bytes, std::move(done)});
  }
  changed_.notify_all();
}

void HashWorker::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return jobs_.empty() && !is_busy_; });
}

void HashWorker::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return ends_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    is_busy_ = true;
    lock.unlock();
    job.done(hash_elements(job.dtype, {job.buffer->data(), job.bytes}));
    job.buffer = nullptr;
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
