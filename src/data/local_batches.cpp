#include <lockstep/data/local_batches.h>

#include <utility>

namespace lockstep {
inline namespace v0 {
namespace data {

LocalBatches::Iterator LocalBatches::begin(CallSite site) {
  return Iterator(loader_, shards_.count, loader_.begin(shards_, site));
}

LocalBatches::Iterator::Iterator(const DataLoader& loader, std::int64_t count, DataLoader::Iterator items)
    : loader_(&loader), count_(count), items_(std::move(items)) {
  collect();
}

LocalBatches::Iterator& LocalBatches::Iterator::operator++() {
  ++items_;
  collect();
  return *this;
}

void LocalBatches::Iterator::collect() {
  current_ = {};
  if (items_ == std::default_sentinel) return;
  current_.shards.push_back(*items_);
  while (static_cast<std::int64_t>(current_.shards.size()) < count_) current_.shards.push_back(*++items_);
  current_.examples = loader_->examples(loader_->position() - 1);
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
