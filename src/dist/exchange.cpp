#include "dist/exchange.h"

#include <algorithm>
#include <utility>

#include <lockstep/dist.h>

#include "backends/backend.h"
#include "graph/dense_data.h"
#include "graph/live_tensors.h"
#include "graph/stored_tensor.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

std::size_t bytes_in(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(shape.numel()) * size_of(dtype);
}

// The only dtype that not all bits are a value of.
void check_values(DType dtype, std::span<const std::byte> bytes) {
  const bool is_valid =
      dtype != DType::boolean || std::ranges::all_of(bytes, [](std::byte b) { return std::to_integer<int>(b) <= 1; });
  if (!is_valid) throw DistributedError("dist: a rank sent truth values that are neither 0 nor 1", -1);
}

}  // namespace

Exchange::Exchange(const Engine& engine, std::string call, const Tensor& like, std::vector<Given> given,
                   std::vector<Wanted> wanted, Waits waits)
    : call_(std::move(call)),
      device_(like.device()),
      dtype_(like.dtype()),
      is_direct_(!is_host(device_) && dtype_ != DType::boolean && engine.reaches(device_)),
      wanted_(std::move(wanted)) {
  const bool in_place = is_direct_ || is_host(device_);
  host_given_.reserve(given.size());
  host_wanted_.reserve(wanted_.size());
  const graph::Node* read = nullptr;
  std::span<const std::byte> bytes;
  for (const Given& one : given) {
    const graph::NodeRef& node = graph::Access::node(one.tensor);
    // What all are given is read once.
    if (read != node.get()) {
      read = node.get();
      const std::size_t size = bytes_in(one.tensor.shape(), dtype_);
      if (in_place) {
        const graph::DenseData data =
            is_direct_ && waits == Waits::no ? graph::started_data(node) : graph::dense_data(node);
        held_.push_back(data.buffer);
        bytes = {size == 0 ? nullptr : data.buffer->data() + data.offset, size};
      } else {
        host_given_.emplace_back(size);
        one.tensor.read_bytes(host_given_.back().data());
        bytes = host_given_.back();
      }
    }
    outgoing_.push_back({one.to, bytes});
  }
  for (const Wanted& one : wanted_) {
    const std::size_t size = bytes_in(one.shape, dtype_);
    if (in_place) {
      buffers_.push_back(graph::allocate_tensor(device_, size));
      incoming_.push_back({one.from, {size == 0 ? nullptr : buffers_.back()->data(), size}});
    } else {
      incoming_.push_back({one.from, host_wanted_.emplace_back(size)});
    }
  }
  // After the kernels that compute what is given, and after those that used the memory of what comes before.
  if (is_direct_) before_ = dynamic_cast<HasSideQueues&>(backend_of(device_)).mark();
}

Exchange::~Exchange() {
  try {
    wait_on_device();
  } catch (const Error&) {
    // The device failed, and with it all that will be asked of it.
  }
}

// Before the memory of what was given, or comes, is another value's.
void Exchange::wait_on_device() {
  if (const auto done = std::exchange(done_, nullptr)) {
    dynamic_cast<HasSideQueues&>(backend_of(device_)).wait_for(*done);
  }
}

void Exchange::move(Engine& engine) {
  if (is_direct_) {
    done_ = engine.exchange_on({device_, before_}, call_, outgoing_, incoming_);
  } else {
    engine.exchange(call_, outgoing_, incoming_);
  }
}

std::vector<Tensor> Exchange::take() {
  wait_on_device();
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    const Shape& shape = wanted_[i].shape;
    if (!is_direct_) check_values(dtype_, incoming_[i].bytes);
    result.push_back(buffers_.empty()
                         ? Tensor::from_bytes(host_wanted_[i].data(), host_wanted_[i].size(), shape, dtype_, device_)
                         : graph::stored_tensor(std::move(buffers_[i]), shape, dtype_, device_));
  }
  held_.clear();
  host_given_.clear();
  return result;
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
