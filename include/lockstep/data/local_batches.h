// An epoch of a loader as one rank of a group sees it: of every batch the shards that are its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <vector>

#include <lockstep/data/loader.h>

namespace lockstep {
inline namespace v0 {
namespace data {

/// What a rank has of a batch.
struct LocalBatch {
  std::vector<Batch> shards;  ///< the wanted ones; of undefined tensors where a shard has no examples
  std::int64_t examples = 0;  ///< of the whole batch
};

/// A loop over it is one over the loader, which must outlive it: for (const LocalBatch& batch : LocalBatches(loader)).
class LOCKSTEP_API LocalBatches {
 public:
  /// The batch at which the loop is.
  class Iterator {
   public:
    using value_type = LocalBatch;
    using difference_type = std::ptrdiff_t;

    const LocalBatch& operator*() const { return current_; }
    const LocalBatch* operator->() const { return &current_; }
    LOCKSTEP_API Iterator& operator++();
    void operator++(int) { ++*this; }
    friend bool operator==(const Iterator& iterator, std::default_sentinel_t end) { return iterator.items_ == end; }

   private:
    friend class LocalBatches;
    Iterator(const DataLoader& loader, std::int64_t count, DataLoader::Iterator items);
    void collect();

    const DataLoader* loader_;
    std::int64_t count_;
    DataLoader::Iterator items_;
    LocalBatch current_;
  };

  explicit LocalBatches(DataLoader& loader, const ShardRange& shards = {}) : loader_(loader), shards_(shards) {}

  /// As DataLoader::begin.
  Iterator begin(CallSite site = {});
  std::default_sentinel_t end() const { return std::default_sentinel; }

 private:
  DataLoader& loader_;
  ShardRange shards_;
};

}  // namespace data
}  // namespace v0
}  // namespace lockstep
