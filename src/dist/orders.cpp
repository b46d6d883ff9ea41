#include "dist/orders.h"

#include <utility>

#include <fmt/format.h>

#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace dist {

Orders::Orders(Group group, std::chrono::milliseconds interval) : group_(std::move(group)), interval_(interval) {
  if (group_.rank() == 0 && group_.size() > 1) company_ = std::thread([this] { keep_company(); });
}

Orders::~Orders() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
  }
  ending_.notify_all();
  if (company_.joinable()) company_.join();
}

// Rank 0 says what follows: kNothing, kEnd, or an order, by the number of its words and one more. Every rank says what
// it noted. Returns what rank 0 said.
std::int64_t Orders::compare_notes(std::int64_t count) {
  const std::vector<Tensor> all = group_.all_gather(Tensor::from(std::vector{count, noted_}, {2}, Device{}));
  const std::vector<std::int64_t> first = all.front().to_vector<std::int64_t>();
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank].to_vector<std::int64_t>()[1] == first[1]) continue;
    throw DistributedError(
        fmt::format("dist: rank {} has got another result than rank 0\n  fix: have all ranks the same files and "
                    "options? If so, a memory, processor or device of one of them gave a wrong bit",
                    rank),
        static_cast<int>(rank));
  }
  return first[0];
}

void Orders::exchange(const Words* words) {
  if (group_.size() == 1) return;
  if (failure_ != nullptr) std::rethrow_exception(failure_);
  compare_notes(words == nullptr ? kNothing : static_cast<std::int64_t>(words->size()) + 1);
  if (words == nullptr) return;
  group_.broadcast(Tensor::from(*words, {static_cast<std::int64_t>(words->size())}, Device{}), 0);
}

void Orders::keep_company() {
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, interval_, [&] { return has_ended_ || failure_ != nullptr; })) {
    try {
      exchange(nullptr);
    } catch (const DistributedError&) {
      failure_ = std::current_exception();
    }
  }
}

void Orders::end() {
  const std::lock_guard lock(mutex_);
  if (group_.size() > 1 && failure_ == nullptr) compare_notes(kEnd);
  has_ended_ = true;
  ending_.notify_all();
}

std::exception_ptr Orders::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

std::optional<Orders::Words> Orders::take() {
  std::int64_t count = kNothing;
  while (count == kNothing) count = compare_notes(0);
  if (count == kEnd) return std::nullopt;
  return group_.broadcast(zeros({count - 1}, {.dtype = DType::i64, .device = Device{}}), 0).to_vector<std::int64_t>();
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
