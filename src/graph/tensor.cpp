// Tensor's members: making, reading, and naming. Views are in shape_ops.cpp, printing in print.cpp.
#include <lockstep/tensor.h>

#include <cstring>

#include <fmt/format.h>

#include "backends/backend.h"
#include "core/hash.h"
#include "graph/live_tensors.h"
#include "graph/make.h"
#include "graph/tape.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

Tensor leaf(BufferRef buffer, const Shape& shape, DType dtype, Device device, CallSite site) {
  NodeRef node = make_node(Data{}, {}, shape, dtype, device, site);
  node->buffer = std::move(buffer);
  node->ready.store(true, std::memory_order_release);
  remember_stored({&node, 1});
  return Access::tensor(std::move(node));
}

void check(const Tensor& tensor, const char* op, CallSite site) {
  if (!tensor.defined()) check_defined(op, {{"input", tensor}}, site);  // what it shows is costly to put together
}

// One element converted as a C++ cast would.
template <typename From>
void convert(const std::byte* from, DType to, void* value) {
  From source;
  std::memcpy(&source, from, sizeof source);
  const auto put = [&](auto converted) { std::memcpy(value, &converted, sizeof converted); };
  const auto number = [&] {
    if constexpr (std::is_class_v<From>) {
      return to_f32(source);
    } else {
      return source;
    }
  }();
  switch (to) {
    case DType::boolean: put(static_cast<bool>(number)); break;
    case DType::u8: put(static_cast<std::uint8_t>(number)); break;
    case DType::i8: put(static_cast<std::int8_t>(number)); break;
    case DType::i16: put(static_cast<std::int16_t>(number)); break;
    case DType::i32: put(static_cast<std::int32_t>(number)); break;
    case DType::i64: put(static_cast<std::int64_t>(number)); break;
    case DType::u32: put(static_cast<std::uint32_t>(number)); break;
    case DType::f16: put(to_f16(static_cast<float>(number))); break;
    case DType::bf16: put(to_bf16(static_cast<float>(number))); break;
    case DType::f32: put(static_cast<float>(number)); break;
    case DType::f64: put(static_cast<double>(number)); break;
    case DType::u16: put(static_cast<std::uint16_t>(number)); break;
    case DType::u64: put(static_cast<std::uint64_t>(number)); break;
    default: break;  // read_item has refused
  }
}

}  // namespace

Tensor Tensor::from_bytes(const void* data, std::size_t bytes, const Shape& shape, DType dtype, Device device,
                          CallSite site) {
  check_shape("Tensor::from", shape, dtype, site);
  const std::size_t needed = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  if (bytes != needed) {
    fail<ShapeError>("Tensor::from",
                     fmt::format("{} values given, but shape {} holds {}", bytes / size_of(dtype), shape.to_string(),
                                 shape.numel()),
                     {}, "give one value per element", site);
  }
  Backend& backend = backend_of(device);
  BufferRef buffer = allocate_tensor(device, bytes);
  backend.upload(*buffer, data, bytes);
  return leaf(std::move(buffer), shape, dtype, device, site);
}

Tensor Tensor::from_blob(const void* data, const Shape& shape, DType dtype, std::function<void()> deleter,
                         Device device, CallSite site) {
  check_shape("Tensor::from_blob", shape, dtype, site);
  if (device.kind != DeviceKind::cpu && device.kind != DeviceKind::ref) {
    fail<DeviceError>("Tensor::from_blob", fmt::format("{} cannot use the host's memory", device.to_string()), {},
                      "make it on the CPU and move it, e.g. from_blob(...).to(device)", site);
  }
  backend_of(device);
  const std::size_t bytes = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  // Buffers of given data are only read; the cast is confined to this line.
  auto buffer = std::make_shared<Buffer>(device, const_cast<void*>(data), bytes, std::move(deleter));
  return leaf(std::move(buffer), shape, dtype, device, site);
}

const Shape& Tensor::shape() const {
  check(*this, "Tensor::shape", {});
  return handle_->node->shape;
}

std::int64_t Tensor::size(int dim, CallSite site) const { return shape()[check_dim("size", *this, dim, site)]; }

DType Tensor::dtype() const {
  check(*this, "Tensor::dtype", {});
  return handle_->node->dtype;
}

Device Tensor::device() const {
  check(*this, "Tensor::device", {});
  return handle_->node->device;
}

Tensor Tensor::named(std::string name) const {
  check(*this, "Tensor::named", {});
  auto handle = std::make_shared<Handle>(handle_->node, handle_->record);
  handle->name = std::move(name);
  remember_name(handle);
  return Access::from_handle(std::move(handle));
}

const std::string& Tensor::name() const {
  check(*this, "Tensor::name", {});
  return handle_->name;
}

void Tensor::read_bytes(void* destination, CallSite site) const {
  check(*this, "read", site);
  const DenseData data = dense_data(handle_->node);
  const std::size_t bytes = handle_->node->bytes();
  if (bytes == 0) return;
  backend_of(device()).download(destination, *data.buffer, bytes, data.offset);
}

void Tensor::check_dtype(DType wanted, CallSite site) const {
  check(*this, "to_vector", site);
  if (wanted == dtype()) return;
  fail<DTypeError>("to_vector", fmt::format("the tensor holds {}, not {}", name_of(dtype()), name_of(wanted)),
                   {{"input", *this}}, fmt::format("read {}, or cast first: .to(DType::{})", name_of(dtype()), name_of(wanted)),
                   site);
}

void Tensor::read_item(DType wanted, void* value, CallSite site) const {
  check(*this, "item", site);
  if (numel() != 1) {
    fail<ShapeError>("item", "only a tensor of one element is one value", {{"input", *this}},
                     "select an element, or read all with to_vector", site);
  }
  std::byte element[8];
  read_bytes(element, site);
  if (wanted == dtype()) {
    std::memcpy(value, element, size_of(wanted));
    return;
  }
  for (const DType type : {dtype(), wanted}) {
    const bool has_no_conversion = type == DType::complex64 || (type == wanted && (type == DType::f8e4m3 || type == DType::f8e5m2));
    if (has_no_conversion) {
      fail<DTypeError>("item", fmt::format("no conversion from {} to {}", name_of(dtype()), name_of(wanted)),
                       {{"input", *this}}, "read the tensor's own type", site);
    }
  }
  switch (dtype()) {
    case DType::boolean: return convert<bool>(element, wanted, value);
    case DType::u8: return convert<std::uint8_t>(element, wanted, value);
    case DType::i8: return convert<std::int8_t>(element, wanted, value);
    case DType::i16: return convert<std::int16_t>(element, wanted, value);
    case DType::i32: return convert<std::int32_t>(element, wanted, value);
    case DType::i64: return convert<std::int64_t>(element, wanted, value);
    case DType::u32: return convert<std::uint32_t>(element, wanted, value);
    case DType::f16: return convert<Float16>(element, wanted, value);
    case DType::bf16: return convert<BFloat16>(element, wanted, value);
    case DType::f32: return convert<float>(element, wanted, value);
    case DType::f64: return convert<double>(element, wanted, value);
    case DType::u16: return convert<std::uint16_t>(element, wanted, value);
    case DType::u64: return convert<std::uint64_t>(element, wanted, value);
    case DType::f8e4m3: return convert<Float8E4M3>(element, wanted, value);
    case DType::f8e5m2: return convert<Float8E5M2>(element, wanted, value);
    case DType::complex64: break;
  }
}

const Tensor& Tensor::eval(CallSite site) const {
  check(*this, "eval", site);
  compute(reading_of(handle_->node).base);
  return *this;
}

std::uint64_t Tensor::hash() const {
  check(*this, "hash", {});
  std::vector<std::byte> bytes(handle_->node->bytes());
  read_bytes(bytes.data());
  return hash_elements(dtype(), bytes);
}

Tensor Tensor::to(Device target, CallSite site) const {
  check(*this, "to", site);
  Backend& backend = backend_of(target);
  if (target == device()) return *this;
  const DenseData data = dense_data(handle_->node);
  const std::size_t bytes = handle_->node->bytes();
  BufferRef buffer = allocate_tensor(target, bytes);
  if (bytes > 0) {
    if (is_host(device())) {
      backend.upload(*buffer, data.buffer->data() + data.offset, bytes);
    } else {
      std::vector<std::byte> host(bytes);
      read_bytes(host.data(), site);
      backend.upload(*buffer, host.data(), bytes);
    }
  }
  Tensor moved = leaf(std::move(buffer), shape(), dtype(), target, site);
  if (is_tracing({this})) {
    moved = traced(moved, "to", {this}, [from = device(), site](const Tensor& g, const auto&, const Tensor&) {
      return std::vector<Tensor>{g.to(from, site)};
    });
  }
  return name().empty() ? moved : moved.named(name());
}

Tensor Tensor::to(DType target, CallSite site) const {
  check(*this, "to", site);
  return graph::cast(*this, target, site);
}

Tensor Tensor::bitcast(DType target, CallSite site) const {
  check(*this, "bitcast", site);
  if (target == dtype()) return *this;
  if (target == DType::boolean || dtype() == DType::boolean) {
    fail<DTypeError>("bitcast", fmt::format("{} elements are not {} elements", name_of(dtype()), name_of(target)),
                     {{"input", *this}}, "bool holds 0 and 1 only: cast with to(), or compare", site);
  }
  Shape target_shape = shape();
  const auto from = static_cast<std::int64_t>(size_of(dtype()));
  const auto to = static_cast<std::int64_t>(size_of(target));
  if (from != to) {
    const std::int64_t bytes = rank() == 0 ? -1 : shape().back() * from;
    if (bytes < 0 || bytes % to != 0) {
      fail<ShapeError>("bitcast", fmt::format("the last dimension does not hold whole {} elements", name_of(target)),
                       {{"input", *this}}, "change its size, or use a dtype of the same size", site);
    }
    target_shape[rank() - 1] = bytes / to;
  }
  DenseData data = dense_data(handle_->node);
  if (data.offset != 0) data = dense_data(node_of(stored(*this, site)));
  return leaf(std::move(data.buffer), target_shape, target, device(), site);
}

std::vector<std::string> plan(const std::vector<Tensor>& tensors) {
  std::vector<NodeRef> nodes;
  for (const Tensor& tensor : tensors) {
    check(tensor, "plan", {});
    nodes.push_back(node_of(tensor));
  }
  return planned_kernels(nodes);
}

}  // namespace v0
}  // namespace lockstep
