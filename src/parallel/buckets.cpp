#include "parallel/buckets.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

// So many exchanges may be under way before their results are added: the device has something to do meanwhile.
constexpr std::size_t kUnderWay = 2;

}  // namespace

std::vector<Bucket> buckets_of(const std::vector<FlatKind>& kinds, std::int64_t bytes) {
  std::vector<Bucket> buckets;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const FlatKind& kind = kinds[k];
    const auto size = static_cast<std::int64_t>(size_of(kind.dtype));
    for (std::size_t end = kind.members.size(); end > 0;) {
      std::size_t first = end - 1;
      const std::int64_t past = end == kind.members.size() ? kind.layout.size() : kind.layout.offset(end);
      while (first > 0 && (bytes == 0 || (past - kind.layout.offset(first - 1)) * size <= bytes)) --first;
      std::vector<Shape> shapes;
      for (std::size_t m = first; m < end; ++m) shapes.push_back(kind.layout.part_shape(m));
      buckets.push_back({.kind = k,
                         .first = first,
                         .end = end,
                         .begin = kind.layout.offset(first),
                         .layout = optim::Layout(std::move(shapes)),
                         .tree = {}});
      end = first;
    }
  }
  std::ranges::stable_sort(buckets, std::greater<>(),
                           [&](const Bucket& bucket) { return kinds[bucket.kind].members[bucket.end - 1]; });
  return buckets;
}

BucketExchange::BucketExchange(const Group& group, int shards, const std::vector<FlatKind>& kinds,
                               std::vector<Bucket>& buckets, std::vector<Slices> slices, bool keeps_trees,
                               const std::vector<nn::Parameter>& parameters)
    : group_(group),
      shards_(shards),
      kinds_(kinds),
      buckets_(buckets),
      slices_(std::move(slices)),
      keeps_trees_(keeps_trees),
      parameters_(parameters) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t m = buckets_[b].first; m < buckets_[b].end; ++m) {
      bucket_of_[&parameters_[kinds_[buckets_[b].kind].members[m]].grad()] = b;
    }
  }
}

graph::LeafWatch BucketExchange::watch(std::int64_t shard, const Additions& expected) {
  missing_ = expected;
  incomplete_.assign(buckets_.size(), 0);
  for (const auto& [sink, bucket] : bucket_of_) {
    if (!expected.contains(sink)) missing_[sink] = -1;  // not known: at the end
    ++incomplete_[bucket];
  }
  return [this, shard](const Tensor* sink) {
    const auto found = bucket_of_.find(sink);
    if (found == bucket_of_.end()) return;
    check<ValueError>(found->second >= begun_,
                      "a gradient was added to after it had been given to the other ranks: parts of the model are "
                      "differentiated by themselves, and not in every shard alike",
                      {}, "set ParallelOptions::bucket_bytes to 0");
    if (--missing_[sink] != 0) return;
    --incomplete_[found->second];
    while (begun_ < buckets_.size() && incomplete_[begun_] == 0) begin(shard);
  };
}

void BucketExchange::add(Bucket& bucket, std::int64_t shard) const {
  std::vector<Tensor> parts;
  for (std::size_t m = bucket.first; m < bucket.end; ++m) {
    const nn::Parameter& parameter = parameters_[kinds_[bucket.kind].members[m]];
    const Tensor& gradient = parameter.grad();
    parts.push_back(gradient.defined() ? detach(gradient) : zeros_like(detach(parameter)));
  }
  bucket.tree.add({{shard, 1}, bucket.layout.pack(parts, optim::Layout::Gaps::zero)});
}

void BucketExchange::slices_of(const Bucket& bucket, Cuts& first, Cuts& end) const {
  const Slices& slices = slices_[bucket.kind];
  if (slices.are_gathered) {
    const Cuts cuts = equal_cuts(bucket.layout.size(), group_.size());
    first.assign(cuts.begin(), cuts.end() - 1);
    end.assign(cuts.begin() + 1, cuts.end());
    return;
  }
  first.clear();
  end.clear();
  const auto inside = [&](std::int64_t element) {
    return std::clamp<std::int64_t>(element - bucket.begin, 0, bucket.layout.size());
  };
  for (std::size_t rank = 0; rank < slices.first.size(); ++rank) {
    first.push_back(inside(slices.first[rank]));
    end.push_back(std::max(inside(slices.end[rank]), first.back()));
  }
}

void BucketExchange::begin(std::int64_t shard) {
  const NoGrad no_grad;
  Bucket& bucket = buckets_[begun_++];
  if (shard >= 0) add(bucket, shard);
  Cuts first;
  Cuts end;
  slices_of(bucket, first, end);
  sums_.push_back(start_sum_of_shards(group_, shards_, bucket.tree, first, end));
  if (group_.size() > 1) {
    for (std::size_t m = bucket.first; m < bucket.end; ++m) {
      nn::Parameter parameter = parameters_[kinds_[bucket.kind].members[m]];
      if (shard >= 0 && parameter.requires_grad()) parameter.zero_grad();
    }
    if (!keeps_trees_) bucket.tree = {};
  }
  if (begun_ - summed_ > kUnderWay) sum_up(summed_);
}

void BucketExchange::sum_up(std::size_t b) {
  const Tensor sum = std::exchange(sums_[b], nullptr)();
  ++summed_;
  const Bucket& bucket = buckets_[b];
  if (slices_[bucket.kind].are_gathered) {
    results_.push_back(start_gathered(group_, sum, equal_cuts(bucket.layout.size(), group_.size())));
  } else {
    results_.push_back([sum] { return sum; });
  }
}

void BucketExchange::begin_all(std::int64_t shard) {
  while (begun_ < buckets_.size()) begin(shard);
}

std::vector<Tensor> BucketExchange::take() {
  while (summed_ < buckets_.size()) sum_up(summed_);
  std::vector<Tensor> parts;
  for (Later& result : results_) parts.push_back(std::exchange(result, nullptr)());
  std::vector<Tensor> sums;
  for (std::size_t k = 0; k < kinds_.size(); ++k) sums.push_back(joined(k, parts));
  return sums;
}

// Buckets of a kind come in descending order; between them may lie what aligns them.
Tensor BucketExchange::joined(std::size_t kind, const std::vector<Tensor>& parts) const {
  const auto rank = static_cast<std::size_t>(group_.rank());
  const Slices& slices = slices_[kind];
  const bool is_whole = slices.are_gathered || group_.size() == 1;
  const std::int64_t begin = is_whole ? 0 : slices.first[rank];
  const std::int64_t end = is_whole ? kinds_[kind].layout.size() : slices.end[rank];
  std::vector<Tensor> pieces;
  std::int64_t at = begin;
  const auto fill_to = [&](std::int64_t element) {
    if (element <= at) return;
    pieces.push_back(zeros({element - at}, {.dtype = kinds_[kind].dtype, .device = kinds_[kind].device}));
    at = element;
  };
  for (std::size_t b = buckets_.size(); b-- > 0;) {
    if (buckets_[b].kind != kind || parts[b].numel() == 0) continue;
    fill_to(std::clamp(buckets_[b].begin, begin, end));
    pieces.push_back(parts[b]);
    at += parts[b].numel();
  }
  fill_to(end);
  if (pieces.empty()) return zeros({0}, {.dtype = kinds_[kind].dtype, .device = kinds_[kind].device});
  return pieces.size() == 1 ? pieces.front() : cat(pieces, 0);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
