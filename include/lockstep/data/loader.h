// Batches of a data set, epoch after epoch:
//
//   ls::data::DataLoader loader(dataset, {.batch_size = 64, .shuffle = true, .workers = 2});
//   while (loader.epoch() < 10) {
//     for (const ls::data::Batch& batch : loader) { ... }
//   }
//
// The order of an epoch depends on the seed and the epoch's number alone; batches are the same, in the same order, for
// any number of workers. A loader that takes the state of another continues with the very next batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>

#include <lockstep/data/dataset.h>
#include <lockstep/device.h>
#include <lockstep/export.h>
#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace data {

/// Parts of every batch. Like a seed, their number belongs to a run: each part is fetched by itself, so that what is
/// random about it depends neither on the other parts nor on who fetches them. The first n % of parts of a batch of n
/// examples have one example more than the others.
struct ShardRange {
  std::int64_t of = 1;     ///< parts of a batch
  std::int64_t first = 0;  ///< of those that are wanted
  std::int64_t count = 1;
};

struct DataLoaderOptions {
  std::int64_t batch_size = 1;
  bool shuffle = false;
  std::optional<std::uint64_t> seed = std::nullopt;  ///< Absent: drawn once from `generator`.
  Generator* generator = nullptr;                    ///< Null: the calling thread's. Not kept.
  bool drop_last = false;                            ///< Leave out a last batch that is not full.
  int workers = 0;   ///< Threads that prepare batches ahead; 0: each is made by the caller when it is asked for.
  int prefetch = 2;  ///< Batches that each worker may be ahead.
  Device device = {};
};

/// PyTorch: DataLoader. Not thread-safe.
class LOCKSTEP_API DataLoader {
 public:
  class Iterator;

  /// Throws ValueError if there would be no batch (an empty data set, or drop_last with fewer examples than a batch) or
  /// an option is out of range, DeviceError if there is no such device.
  explicit DataLoader(DatasetPtr dataset, DataLoaderOptions options = {}, CallSite site = {});
  ~DataLoader();
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;

  const Dataset& dataset() const;
  /// Batches of a whole epoch. PyTorch: len(loader).
  std::int64_t batches() const;
  /// Examples of a batch: the last one may have fewer.
  std::int64_t examples(std::int64_t batch) const;
  std::uint64_t seed() const;
  /// The current epoch, from 0, and how many of its batches have been handed out. The epoch ends when a loop runs past
  /// its last batch.
  std::uint64_t epoch() const;
  std::int64_t position() const;
  /// Goes to the start of an epoch. ValueError inside a loop over the loader.
  void set_epoch(std::uint64_t epoch, CallSite site = {});

  /// The rest of the current epoch: all of it, unless a loop was left early or a state was loaded. One loop at a time:
  /// ValueError otherwise. What preparing a batch throws is thrown here when that batch is due; the loader then stands
  /// before it. Leaving the loop early stops the workers; what they prepared ahead is made again.
  Iterator begin(CallSite site = {});
  /// The same, and of each batch the wanted shards, one after the other; one that has no examples is a batch of undefined
  /// tensors. ValueError for a range that is empty or not inside.
  Iterator begin(const ShardRange& shards, CallSite site = {});
  std::default_sentinel_t end() const { return std::default_sentinel; }

  /// Seed, epoch and position, and what they are about: the number of examples, batch size, shuffle and drop_last.
  nn::StateDict state_dict() const;
  /// Continues where another loader stood. ValueError if a name is missing or unknown, the state is of a loader with
  /// another data set size, batch size, shuffle or drop_last, or inside a loop over the loader.
  void load_state_dict(const nn::StateDict& state, CallSite site = {});

 private:
  struct State;
  struct Pass;
  std::unique_ptr<State> state_;
};

/// An input iterator over batches. The loader must outlive it.
class LOCKSTEP_API DataLoader::Iterator {
 public:
  using value_type = Batch;
  using difference_type = std::ptrdiff_t;
  using reference = const Batch&;
  using pointer = const Batch*;
  using iterator_category = std::input_iterator_tag;

  ~Iterator();
  Iterator(Iterator&&) noexcept;
  Iterator& operator=(Iterator&&) noexcept;

  const Batch& operator*() const;
  const Batch* operator->() const { return &**this; }
  Iterator& operator++();
  void operator++(int) { ++*this; }
  friend bool operator==(const Iterator& iterator, std::default_sentinel_t) { return iterator.at_end(); }

 private:
  friend class DataLoader;
  explicit Iterator(std::unique_ptr<Pass> pass);
  bool at_end() const;

  std::unique_ptr<Pass> pass_;
};

}  // namespace data
}  // namespace v0
}  // namespace lockstep
