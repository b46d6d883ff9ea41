#include <lockstep/data/dataset.h>

#include <numeric>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "data/host_rows.h"
#include "data/random.h"

namespace lockstep {
inline namespace v0 {
namespace data {
namespace {

void check_dataset(const DatasetPtr& dataset) {
  if (!dataset) fail<ValueError>("there is no data set", {}, "pass one");
}

class FunctionDataset : public Dataset {
 public:
  FunctionDataset(std::int64_t size, std::function<Batch(std::int64_t)> example)
      : size_(size), example_(std::move(example)) {}

  std::int64_t size() const override { return size_; }

  Batch fetch(const Request& request) const override {
    std::optional<Rows> input;
    std::optional<Rows> target;
    for (const std::int64_t index : request.indices) {
      if (index < 0 || index >= size_) {
        throw IndexError(fmt::format("Dataset::fetch: example {} of a data set of {}", index, size_));
      }
      const Batch made = example_(index);
      if (!made.input.defined()) throw ValueError(fmt::format("make_dataset: example {} has no input", index));
      if (!input) {
        input.emplace(made.input);
        if (made.target.defined()) target.emplace(made.target);
      }
      if (made.target.defined() != target.has_value()) {
        throw ValueError(fmt::format("make_dataset: some examples have a target, and some, like {}, differ", index));
      }
      input->add("input", index, made.input);
      if (target) target->add("target", index, made.target);
    }
    if (!input) return {};
    return {input->stacked(), target ? target->stacked() : Tensor()};
  }

 private:
  // Tensors of one shape and dtype, one after the other.
  class Rows {
   public:
    explicit Rows(const Tensor& first) : shape_(first.shape()), dtype_(first.dtype()) {}

    void add(const char* what, std::int64_t index, const Tensor& row) {
      const auto refuse = [&] {
        return fmt::format("make_dataset: the {} of example {} is {} {}, of the batch's first {} {}", what, index,
                           name_of(row.dtype()), row.shape().to_string(), name_of(dtype_), shape_.to_string());
      };
      if (row.shape() != shape_) throw ShapeError(refuse());
      if (row.dtype() != dtype_) throw DTypeError(refuse());
      const HostRows host(row);
      bytes_.insert(bytes_.end(), host.bytes().begin(), host.bytes().end());
      ++count_;
    }
    Tensor stacked() const {
      Shape shape = shape_;
      shape.insert(0, count_);
      return Tensor::from_bytes(bytes_.data(), bytes_.size(), shape, dtype_, Device{});
    }

   private:
    Shape shape_;
    DType dtype_;
    std::int64_t count_ = 0;
    std::vector<std::byte> bytes_;
  };

  std::int64_t size_;
  std::function<Batch(std::int64_t)> example_;
};

class MappedDataset : public Dataset {
 public:
  MappedDataset(DatasetPtr dataset, std::function<Batch(Batch, const Request&)> change)
      : dataset_(std::move(dataset)), change_(std::move(change)) {}

  std::int64_t size() const override { return dataset_->size(); }
  Batch fetch(const Request& request) const override { return change_(dataset_->fetch(request), request); }

 private:
  DatasetPtr dataset_;
  std::function<Batch(Batch, const Request&)> change_;
};

}  // namespace

Dataset::~Dataset() = default;

struct TensorDataset::Rows : HostRows {
  using HostRows::HostRows;
};

TensorDataset::TensorDataset(const Tensor& input, const Tensor& target, CallSite site) {
  const CallScope call("TensorDataset", site);
  check_defined({{"input", input}});
  const std::vector<Shown> shown = {{"input", input}, {"target", target.defined() ? target : input}};
  if (input.rank() == 0 || (target.defined() && (target.rank() == 0 || target.size(0) != input.size(0)))) {
    fail<ShapeError>("input and target need a first dimension of one size: the examples", shown);
  }
  input_ = std::make_shared<const Rows>(input);
  if (target.defined()) target_ = std::make_shared<const Rows>(target);
}

TensorDataset::~TensorDataset() = default;

const Tensor& TensorDataset::input() const {
  return input_->tensor();
}

const Tensor& TensorDataset::target() const {
  static const Tensor& none = *new Tensor;
  return target_ ? target_->tensor() : none;
}

std::int64_t TensorDataset::size() const {
  return input_->tensor().size(0);
}

Batch TensorDataset::fetch(const Request& request) const {
  return {input_->gather(request.indices), target_ ? target_->gather(request.indices) : Tensor()};
}

Subset::Subset(DatasetPtr dataset, std::vector<std::int64_t> indices, CallSite site)
    : dataset_(std::move(dataset)), indices_(std::move(indices)) {
  const CallScope call("Subset", site);
  check_dataset(dataset_);
  for (const std::int64_t index : indices_) {
    if (index < 0 || index >= dataset_->size()) {
      fail<IndexError>(fmt::format("example {} of a data set of {}", index, dataset_->size()));
    }
  }
}

Batch Subset::fetch(const Request& request) const {
  std::vector<std::int64_t> chosen;
  chosen.reserve(request.indices.size());
  for (const std::int64_t index : request.indices) {
    if (index < 0 || index >= size()) {
      throw IndexError(fmt::format("Dataset::fetch: example {} of a data set of {}", index, size()));
    }
    chosen.push_back(indices_[static_cast<std::size_t>(index)]);
  }
  return dataset_->fetch({chosen, request.seed, request.epoch});
}

DatasetPtr make_dataset(std::int64_t size, std::function<Batch(std::int64_t)> example, CallSite site) {
  const CallScope call("make_dataset", site);
  if (size < 0 || !example) {
    fail<ValueError>(fmt::format("{} examples of {} function", size, example ? "a" : "no"), {},
                     "pass a size of 0 or more and a function");
  }
  return std::make_shared<FunctionDataset>(size, std::move(example));
}

DatasetPtr map(DatasetPtr dataset, std::function<Batch(Batch, const Request&)> change, CallSite site) {
  const CallScope call("map", site);
  check_dataset(dataset);
  if (!change) fail<ValueError>("there is no function", {}, "pass one");
  return std::make_shared<MappedDataset>(std::move(dataset), std::move(change));
}

std::vector<std::shared_ptr<const Subset>> random_split(const DatasetPtr& dataset,
                                                        const std::vector<std::int64_t>& sizes, Generator* generator,
                                                        CallSite site) {
  const CallScope call("random_split", site);
  check_dataset(dataset);
  std::int64_t left = dataset->size();
  bool fits = true;
  for (const std::int64_t size : sizes) {
    fits = fits && size >= 0 && size <= left;
    if (fits) left -= size;
  }
  if (!fits || left != 0) {
    fail<ValueError>(
        fmt::format("parts of [{}] do not add up to the {} examples", fmt::join(sizes, ", "), dataset->size()), {},
        "pass sizes whose sum is the data set's size");
  }
  Generator& from = generator == nullptr ? default_generator() : *generator;
  const std::vector<std::int64_t> order =
      permutation(dataset->size(), RandomStream(from.seed(), Purpose::split, 0, from.next_draw()));
  std::vector<std::shared_ptr<const Subset>> parts;
  auto begin = order.begin();
  for (const std::int64_t size : sizes) {
    parts.push_back(std::make_shared<const Subset>(dataset, std::vector<std::int64_t>(begin, begin + size)));
    begin += size;
  }
  return parts;
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
