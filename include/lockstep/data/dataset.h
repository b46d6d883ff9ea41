// Data sets: numbered examples, fetched many at a time as one batch on the CPU.
//
// A data set is immutable and shared; fetch() may run on several threads at once. What is random about an example
// depends on the seed, the epoch and the example's index alone, so batches are the same for any number of threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/random.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace data {

/// Examples that belong together: example i is input[i] with target[i].
struct Batch {
  Tensor input;   ///< [n, ...]
  Tensor target;  ///< [n, ...]; undefined where the data set has none.
};

/// Which examples are wanted, and what their random parts depend on.
struct Request {
  std::span<const std::int64_t> indices;
  std::uint64_t seed = 0;
  std::uint64_t epoch = 0;
};

/// PyTorch: Dataset, of whole batches.
class LOCKSTEP_API Dataset {
 public:
  Dataset() = default;
  virtual ~Dataset();
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;

  virtual std::int64_t size() const = 0;
  /// The examples at `request.indices`, in that order, on the CPU. Thread-safe. Throws IndexError.
  virtual Batch fetch(const Request& request) const = 0;
};

using DatasetPtr = std::shared_ptr<const Dataset>;

/// The rows of two tensors. PyTorch: TensorDataset.
class LOCKSTEP_API TensorDataset : public Dataset {
 public:
  /// Example i is input[i] with target[i]; `target` may be undefined. Tensors of another device are copied to the CPU,
  /// others are not copied. ShapeError unless both have one number of rows.
  explicit TensorDataset(const Tensor& input, const Tensor& target = {}, CallSite site = {});
  ~TensorDataset() override;

  /// All examples, on the CPU.
  const Tensor& input() const;
  const Tensor& target() const;

  std::int64_t size() const override;
  Batch fetch(const Request& request) const override;

 private:
  struct Rows;
  std::shared_ptr<const Rows> input_;
  std::shared_ptr<const Rows> target_;
};

/// Some examples of another data set, in another order. PyTorch: Subset.
class LOCKSTEP_API Subset : public Dataset {
 public:
  /// IndexError unless every index is below the data set's size.
  Subset(DatasetPtr dataset, std::vector<std::int64_t> indices, CallSite site = {});

  const std::vector<std::int64_t>& indices() const { return indices_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(indices_.size()); }
  Batch fetch(const Request& request) const override;

 private:
  DatasetPtr dataset_;
  std::vector<std::int64_t> indices_;
};

/// `size` examples that a function makes, one call each: input and target without the dimension of the batch.
/// ShapeError or DTypeError where two examples of a batch differ.
LOCKSTEP_API DatasetPtr make_dataset(std::int64_t size, std::function<Batch(std::int64_t index)> example,
                                     CallSite site = {});

/// Every batch of `dataset`, changed by a function, which gets the batch and what was asked for.
LOCKSTEP_API DatasetPtr map(DatasetPtr dataset, std::function<Batch(Batch batch, const Request& request)> change,
                            CallSite site = {});

/// Cuts a data set into parts of these sizes, examples distributed at random by `generator` (absent: the calling
/// thread's). ValueError unless the sizes add up. PyTorch: random_split.
LOCKSTEP_API std::vector<std::shared_ptr<const Subset>> random_split(const DatasetPtr& dataset,
                                                                     const std::vector<std::int64_t>& sizes,
                                                                     Generator* generator = nullptr,
                                                                     CallSite site = {});

}  // namespace data
}  // namespace v0
}  // namespace lockstep
