// What is asked of one process from outside, and all of a group then do together: requests to a server, lines of a
// terminal. Rank 0 gives orders, the others take them, and may wait for one as long as nobody asks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include <lockstep/dist.h>

namespace lockstep {
inline namespace v0 {
namespace dist {

class Orders {
 public:
  using Words = std::vector<std::int64_t>;

  /// On every rank. Rank 0 tells the others this often that there is nothing to do, and so hears of a rank that is
  /// gone.
  explicit Orders(Group group, std::chrono::milliseconds interval = std::chrono::seconds(1));
  ~Orders();
  Orders(const Orders&) = delete;
  Orders& operator=(const Orders&) = delete;

  const Group& group() const { return group_; }

  /// Rank 0, any thread, one at a time: gives the order, then does `work`, in which all ranks make the same calls of
  /// the group. Throws what work throws, and DistributedError.
  template <typename Work> auto carry_out(const Words& words, const Work& work) {
    const std::lock_guard lock(mutex_);
    try {
      exchange(&words);
      return work();
    } catch (const DistributedError&) {
      failure_ = std::current_exception();
      throw;
    }
  }
  /// Rank 0: there are no more; the others' take() gives nothing.
  void end();
  /// Rank 0: the DistributedError after which nothing can be done any more, null while there is none.
  std::exception_ptr failure() const;

  /// The other ranks: the next one, however long it takes, or nothing where there are no more.
  std::optional<Words> take();

  /// What this rank has got from the order. It is compared before the next one: where ranks differ, all throw
  /// DistributedError.
  void note(std::uint64_t result) { noted_ = static_cast<std::int64_t>(result); }

 private:
  static constexpr std::int64_t kNothing = 0;
  static constexpr std::int64_t kEnd = -1;

  void exchange(const Words* words);
  std::int64_t compare_notes(std::int64_t count);
  void keep_company();

  Group group_;
  std::chrono::milliseconds interval_;
  std::int64_t noted_ = 0;
  mutable std::mutex mutex_;  // of the group, while several threads give orders
  std::condition_variable ending_;
  bool has_ended_ = false;
  std::exception_ptr failure_;
  std::thread company_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
