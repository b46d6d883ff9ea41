// The step of dist_bench with the sums of NCCL instead of ours: what the fixed order costs. For GPUs of CUDA; weights
// depend on the number of GPUs and on their links.
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>

#include <lockstep/lockstep.h>
#include <lockstep/parallel.h>

#include "backends/backend.h"
#include "backends/side_work.h"
#include "core/os.h"
#include "dist/nccl_calls.h"
#include "graph/dense_data.h"
#include "graph/leaf_watch.h"
#include "graph/make.h"
#include "parallel/buckets.h"

namespace lockstep::bench {

class LibrarySums {
 public:
  LibrarySums(const dist::Group& group, Device device, std::vector<nn::Parameter> parameters, std::int64_t bucket_bytes)
      : size_(group.size()),
        device_(device),
        parameters_(std::move(parameters)),
        library_(std::vector<std::string>{"libnccl.so.2"}) {
    const dist::nccl::Calls& calls = dist::nccl::calls();
    if (!calls.missing.empty()) throw std::runtime_error(calls.missing);
    all_reduce_ = reinterpret_cast<AllReduce>(library_.function("ncclAllReduce"));
    queue_ = dynamic_cast<HasSideQueues&>(backend_of(device)).side_queue();
    dist::nccl::UniqueId id;
    if (group.rank() == 0) check(calls.unique_id(&id));
    const std::vector<std::uint8_t> own(id.bytes.begin(), id.bytes.end());
    const Tensor told = group.broadcast(Tensor::from(own, {std::int64_t{128}}, Device{}), 0);
    const std::vector<std::uint8_t> all = told.to_vector<std::uint8_t>();
    std::memcpy(id.bytes.data(), all.data(), all.size());
    queue_->enter();
    dist::nccl::Config config;
    config.blocking = 1;
    check(calls.init(&communicator_, size_, id, group.rank(), &config));
    queue_->leave();
    std::vector<Tensor> values;
    for (const nn::Parameter& parameter : parameters_) values.push_back(detach(parameter));
    kinds_ = dist::flat_kinds(values, std::vector<bool>(values.size(), true));
    buckets_ = dist::buckets_of(kinds_, bucket_bytes);
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (const std::size_t p : members(b)) bucket_of_[&parameters_[p].grad()] = b;
    }
  }

  /// The rank's own mean loss. Whoever calls it steps the optimiser.
  double step(const Tensor& loss) {
    std::vector<std::size_t> missing;
    for (std::size_t b = 0; b < buckets_.size(); ++b) missing.push_back(buckets_[b].end - buckets_[b].first);
    std::vector<Tensor> sums(buckets_.size());
    std::size_t begun = 0;
    const graph::LeafWatch watch = [&](const Tensor* sink) {
      --missing[bucket_of_.at(sink)];
      for (; begun < buckets_.size() && missing[begun] == 0; ++begun) sums[begun] = begin(begun);
    };
    {
      const graph::WatchedLeaves watched(watch);
      backward(loss * (1.0 / size_));
    }
    const NoGrad no_grad;
    for (; begun < buckets_.size(); ++begun) sums[begun] = begin(begun);
    dynamic_cast<HasSideQueues&>(backend_of(device_)).wait_for(*queue_->mark());
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      const std::vector<std::size_t> list = members(b);
      for (std::size_t m = 0; m < list.size(); ++m) parameters_[list[m]].set_grad(buckets_[b].layout.part(sums[b], m));
    }
    return loss.item<double>();
  }

 private:
  using AllReduce = int (*)(const void*, void*, std::size_t, int type, int op, dist::nccl::Communicator, void* stream);
  static void check(int status) {
    if (status != dist::nccl::kSuccess) throw std::runtime_error(dist::nccl::calls().error_text(status));
  }

  std::vector<std::size_t> members(std::size_t b) const {
    const dist::Bucket& bucket = buckets_[b];
    const std::vector<std::size_t>& all = kinds_[bucket.kind].members;
    return {all.begin() + static_cast<std::ptrdiff_t>(bucket.first),
            all.begin() + static_cast<std::ptrdiff_t>(bucket.end)};
  }

  Tensor begin(std::size_t b) {
    const NoGrad no_grad;
    std::vector<Tensor> parts;
    for (const std::size_t p : members(b)) parts.push_back(detach(parameters_[p].grad()));
    const Tensor flat = buckets_[b].layout.pack(parts, optim::Layout::Gaps::zero);
    if (flat.dtype() != DType::f32) throw std::runtime_error("only f32 parameters");
    const graph::DenseData data = graph::started_data(graph::node_of(flat));
    const auto mark = dynamic_cast<HasSideQueues&>(backend_of(flat.device())).mark();
    constexpr int kFloat32 = 7;
    constexpr int kSum = 0;
    queue_->enter();
    queue_->wait_for(*mark);
    std::byte* const at = data.buffer->data() + data.offset;
    check(all_reduce_(at, at, static_cast<std::size_t>(flat.numel()), kFloat32, kSum, communicator_, queue_->handle()));
    queue_->leave();
    return flat;
  }

  int size_;
  Device device_;
  std::vector<nn::Parameter> parameters_;
  os::SharedLibrary library_;
  AllReduce all_reduce_ = nullptr;
  std::unique_ptr<SideQueue> queue_;
  dist::nccl::Communicator communicator_ = nullptr;  // as long as the process
  std::vector<dist::FlatKind> kinds_;
  std::vector<dist::Bucket> buckets_;
  std::map<const Tensor*, std::size_t> bucket_of_;
};

}  // namespace lockstep::bench
