// Tensor's members: making, reading, and naming. Views are in ops/shape.cpp, printing in print.cpp.
#include <lockstep/tensor.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include <lockstep/ops/encoding.h>

#include "backends/backend.h"
#include "backends/side_work.h"
#include "core/elements.h"
#include "core/hash.h"
#include "graph/dense_data.h"
#include "graph/live_tensors.h"
#include "graph/make.h"
#include "graph/stored_hash.h"
#include "graph/stored_tensor.h"
#include "graph/tape.h"
#include "graph/trace.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

Tensor leaf(BufferRef buffer, const Shape& shape, DType dtype, Device device, Encoding encoding = Encoding::dense) {
  NodeRef node = make_node(Data{}, {}, shape, dtype, device);
  node->encoding = encoding;
  node->buffer = std::move(buffer);
  node->ready.store(true, std::memory_order_release);
  remember_stored({&node, 1});
  return Access::tensor(std::move(node));
}

void check(const Tensor& tensor) {
  if (!tensor.defined()) check_defined({{"input", tensor}});  // what it shows is costly to put together
}

// The same where no place is known: these are called everywhere.
void check(const Tensor& tensor, const char* op) {
  if (tensor.defined()) return;
  const CallScope call(op, CallSite("", 0));
  check_defined({{"input", tensor}});
}

void check_memory(const void* data, std::size_t bytes) {
  if (data != nullptr || bytes == 0) return;
  fail<ValueError>(fmt::format("the address of the {} bytes is null", bytes), {}, "give the address of the elements");
}

[[noreturn]] void fail_on_host_memory(std::size_t bytes, const Operands& shown) {
  fail<OutOfMemoryError>(fmt::format("the host has no {} bytes to read the tensor into", bytes), shown,
                         "read it in parts, e.g. narrow(0, 0, n)");
}

// Of the host, to read a tensor into.
std::vector<std::byte> host_bytes(std::size_t bytes, const Operands& shown = {}) {
  try {
    return std::vector<std::byte>(bytes);
  } catch (const std::exception&) {  // bad_alloc or length_error
    fail_on_host_memory(bytes, shown);
  }
}

BufferRef uploaded(const void* data, std::size_t bytes, Device device) {
  check_memory(data, bytes);
  Backend& backend = backend_of(device);
  const TraceSpan copying("upload", device, bytes);
  BufferRef buffer = allocate_tensor(device, bytes);
  backend.upload(*buffer, data, bytes);
  return buffer;
}

BufferRef borrowed(const void* data, std::size_t bytes, std::function<void()> deleter, Device device) {
  if (device.kind != DeviceKind::cpu && device.kind != DeviceKind::ref) {
    fail<DeviceError>(fmt::format("{} cannot use the host's memory", device.to_string()), {},
                      "make it on the CPU and move it, e.g. from_blob(...).to(device)");
  }
  backend_of(device);
  check_memory(data, bytes);
  // Buffers of given data are only read; the cast is confined to this line.
  return std::make_shared<Buffer>(device, const_cast<void*>(data), bytes, std::move(deleter));
}

// Bytes of `data` on another device.
BufferRef copied(const DenseData& data, std::size_t bytes, Device from, Device to) {
  if (bytes == 0) return allocate_tensor(to, 0);
  if (is_host(from)) return uploaded(data.buffer->data() + data.offset, bytes, to);
  if (auto* const target = dynamic_cast<CopiesToPeers*>(&backend_of(to)); target != nullptr && from.kind == to.kind) {
    const TraceSpan copying("copy between devices", to, bytes);
    BufferRef buffer = allocate_tensor(to, bytes);
    if (target->copy_from_peer(*buffer, *data.buffer, bytes, data.offset)) return buffer;
  }
  std::vector<std::byte> host = host_bytes(bytes);
  const TraceSpan copying("download", from, bytes);
  backend_of(from).download(host.data(), *data.buffer, bytes, data.offset);
  return uploaded(host.data(), bytes, to);
}

// Where they lie, or in pieces: a value may be as large as the memory that is left.
std::uint64_t hash_of(const DenseData& data, std::size_t bytes, DType dtype, Device device) {
  if (bytes > 0 && is_host(device)) return hash_elements(dtype, {data.buffer->data() + data.offset, bytes});
  std::vector<std::byte> piece = host_bytes(std::min(bytes, std::size_t{1} << 24));
  ElementHasher hasher(dtype);
  const TraceSpan copying("download", device, bytes);
  for (std::size_t at = 0; at < bytes; at += piece.size()) {
    const std::size_t count = std::min(piece.size(), bytes - at);
    backend_of(device).download(piece.data(), *data.buffer, count, data.offset + at);
    hasher.update({piece.data(), count});
  }
  return hasher.digest();
}

// Those of a packed value, where it is whole ones that lie behind one another.
std::optional<DenseData> whole_blocks(const NodeRef& node) {
  const Reading reading = reading_of(node);
  const Node& base = *reading.base;
  const std::int64_t block = info_of(base.encoding).elements;
  const std::int64_t first = reading.view.offset;
  if (!reading.view.is_contiguous() || first % block != 0 || node->shape.numel() % block != 0) return {};
  return DenseData{base.buffer, encoded_bytes(base.encoding, base.dtype, first)};
}

// A packed tensor on another device: the blocks that it looks at where it shows the whole of each, else all blocks and
// the view of them.
Tensor copied_blocks(const NodeRef& node, Device to) {
  const Reading reading = reading_of(node);
  const Node& base = *reading.base;
  if (const std::optional<DenseData> data = whole_blocks(node)) {
    return leaf(copied(*data, node->bytes(), base.device, to), node->shape, node->dtype, to, node->encoding);
  }
  const Tensor all = leaf(copied({base.buffer, 0}, base.bytes(), base.device, to), base.shape, base.dtype, to,
                          base.encoding);
  return view_tensor(node_of(all), reading.view, node->dtype);
}

// Bytes that a tensor of blocks has.
std::size_t check_blocks(const Shape& shape, Encoding encoding) {
  if (encoding == Encoding::dense) fail<ValueError>("dense elements have no blocks", {}, "give them to Tensor::from");
  const EncodingInfo& info = info_of(encoding);
  check_shape(shape, info.dtype);
  if (shape.rank() == 0 || shape.back() % info.elements != 0) {
    fail<ShapeError>(fmt::format("the last size of shape {} is no multiple of {}, which a block of {} holds",
                                 shape.to_string(), info.elements, info.name));
  }
  return encoded_bytes(encoding, info.dtype, shape.numel());
}

// What encodings promise of scales.
void check_scales(const void* data, const Shape& shape, Encoding encoding) {
  if ((encoding != Encoding::e4m3_rows && encoding != Encoding::e4m3_squares) || shape.numel() == 0) return;
  const EncodingInfo& info = info_of(encoding);
  const auto* const blocks = static_cast<const std::byte*>(data);
  const std::int64_t across = shape.back() / info.elements;
  const std::int64_t rows = shape.rank() < 2 ? 1 : shape[shape.rank() - 2];
  const auto scale = [&](std::int64_t row, std::int64_t block) {
    return blocks + static_cast<std::size_t>(row * across + block) * info.bytes;
  };
  for (std::int64_t row = 0; row < shape.numel() / shape.back(); ++row) {
    for (std::int64_t block = 0; block < across; ++block) {
      const std::byte* const like =
          encoding == Encoding::e4m3_rows ? scale(row, 0) : scale(row - row % rows % info.elements, block);
      if (std::memcmp(scale(row, block), like, sizeof(float)) == 0) continue;
      fail<ValueError>(fmt::format("the scale of block {} of row {} is not that of its {}", block, row,
                                   encoding == Encoding::e4m3_rows ? "row" : "128 rows"),
                       {}, "Encoding::e4m3, which promises nothing of scales");
    }
  }
}

template <typename T, typename... Ts> constexpr bool is_one_of = (std::is_same_v<T, Ts> || ...);

// What an element is read as by other types, and what it can be made from: no number is made a complex one or an 8-bit
// float.
template <typename T> constexpr bool kIsRead = !is_one_of<T, std::complex<float>>;
template <typename T> constexpr bool kIsMade = kIsRead<T> && !is_one_of<T, Float8E4M3, Float8E5M2>;

// One element converted as a C++ cast would.
template <typename To, typename From> To converted_to(From source) {
  if constexpr (std::is_class_v<From>) {
    return converted_to<To>(to_f32(source));
  } else if constexpr (std::is_same_v<To, Float16>) {
    return to_f16(static_cast<float>(source));
  } else if constexpr (std::is_same_v<To, BFloat16>) {
    return to_bf16(static_cast<float>(source));
  } else {
    return static_cast<To>(source);
  }
}

// `value` is the element at `source` as another type. Returns whether there is such a conversion.
bool convert_element(const std::byte* source, DType from, DType to, void* value) {
  return visit_element(from, [&]<typename From>(std::type_identity<From>) {
    return visit_element(to, [&]<typename To>(std::type_identity<To>) {
      if constexpr (kIsRead<From> && kIsMade<To>) {
        From element;
        std::memcpy(&element, source, sizeof element);
        const To result = converted_to<To>(element);
        std::memcpy(value, &result, sizeof result);
        return true;
      } else {
        return false;
      }
    });
  });
}

}  // namespace

Tensor graph::stored_tensor(BufferRef buffer, const Shape& shape, DType dtype, Device device) {
  return v0::leaf(std::move(buffer), shape, dtype, device);
}

Tensor graph::packed_as_f32(const Tensor& tensor) {
  Encoding encoding = Encoding::dense;
#define ENCODING(...)
#define NARROW(name, held, ...) \
  if (tensor.dtype() == DType::held) encoding = Encoding::name;
#include <lockstep/encodings.def>
#undef ENCODING
  if (encoding == Encoding::dense) return tensor;
  const Reading reading = read(tensor.eval());
  const Node& base = *reading.base;
  const Tensor all = v0::leaf(base.buffer, base.shape, DType::f32, base.device, encoding);
  if (reading.view.shape == base.shape && reading.view.is_contiguous() && reading.view.offset == 0) return all;
  return view_tensor(node_of(all), reading.view, DType::f32);
}

Tensor Tensor::from_bytes(const void* data, std::size_t bytes, const Shape& shape, DType dtype, Device device,
                          CallSite site) {
  const CallScope call("Tensor::from", site);
  check_shape(shape, dtype);
  const std::size_t needed = static_cast<std::size_t>(shape.numel()) * size_of(dtype);
  if (bytes != needed) {
    fail<ShapeError>(
        fmt::format("{} values given, but shape {} holds {}", bytes / size_of(dtype), shape.to_string(), shape.numel()),
        {}, "give one value per element");
  }
  return leaf(uploaded(data, bytes, device), shape, dtype, device);
}

Tensor Tensor::from_blocks(const void* data, std::size_t bytes, const Shape& shape, Encoding encoding, Device device,
                           CallSite site) {
  const CallScope call("Tensor::from_blocks", site);
  const std::size_t needed = check_blocks(shape, encoding);
  if (bytes != needed) {
    fail<ShapeError>(fmt::format("{} bytes given, but shape {} in blocks of {} has {}", bytes, shape.to_string(),
                                 name_of(encoding), needed));
  }
  check_scales(data, shape, encoding);
  return leaf(uploaded(data, bytes, device), shape, info_of(encoding).dtype, device, encoding);
}

Tensor Tensor::from_blob(const void* data, const Shape& shape, DType dtype, std::function<void()> deleter,
                         Device device, CallSite site) {
  const CallScope call("Tensor::from_blob", site);
  check_shape(shape, dtype);
  const std::size_t bytes = encoded_bytes(Encoding::dense, dtype, shape.numel());
  return leaf(borrowed(data, bytes, std::move(deleter), device), shape, dtype, device);
}

Tensor Tensor::from_blob(const void* data, const Shape& shape, Encoding encoding, std::function<void()> deleter,
                         Device device, CallSite site) {
  const CallScope call("Tensor::from_blob", site);
  const std::size_t bytes = check_blocks(shape, encoding);
  if (data != nullptr) check_scales(data, shape, encoding);
  return leaf(borrowed(data, bytes, std::move(deleter), device), shape, info_of(encoding).dtype, device, encoding);
}

const Shape& Tensor::shape() const {
  check(*this, "Tensor::shape");
  return handle_->node->shape;
}

std::int64_t Tensor::size(int dim, CallSite site) const {
  const CallScope call("size", site);
  return shape()[check_dim(*this, dim)];
}

DType Tensor::dtype() const {
  check(*this, "Tensor::dtype");
  return handle_->node->dtype;
}

Encoding Tensor::encoding() const {
  check(*this, "Tensor::encoding");
  return handle_->node->encoding;
}

Device Tensor::device() const {
  check(*this, "Tensor::device");
  return handle_->node->device;
}

Tensor Tensor::named(std::string name) const {
  check(*this, "Tensor::named");
  auto handle = std::make_shared<Handle>(handle_->node, handle_->record);
  handle->name = std::move(name);
  remember_name(handle);
  return Access::from_handle(std::move(handle));
}

const std::string& Tensor::name() const {
  check(*this, "Tensor::name");
  return handle_->name;
}

void Tensor::read_bytes(void* destination, CallSite site) const {
  const CallScope call("read_bytes", site);
  check(*this);
  const DenseData data = dense_data(handle_->node);
  const std::size_t bytes = handle_->node->bytes();
  if (bytes == 0) return;
  const TraceSpan copying("download", device(), bytes);
  backend_of(device()).download(destination, *data.buffer, bytes, data.offset);
}

void Tensor::check_dtype(DType wanted, CallSite site) const {
  const CallScope call("to_vector", site);
  check(*this);
  if (wanted == dtype()) return;
  fail<DTypeError>(fmt::format("the tensor holds {}, not {}", name_of(dtype()), name_of(wanted)), {{"input", *this}},
                   fmt::format("read {}, or cast first: .to(DType::{})", name_of(dtype()), name_of(wanted)));
}

void Tensor::fail_on_host(CallSite site) const {
  const CallScope call("to_vector", site);
  fail_on_host_memory(handle_->node->bytes(), {{"input", *this}});
}

void Tensor::read_item(DType wanted, void* value, CallSite site) const {
  const CallScope call("item", site);
  check(*this);
  if (numel() != 1) {
    fail<ShapeError>("only a tensor of one element is one value", {{"input", *this}},
                     "select an element, or read all with to_vector");
  }
  std::byte element[8];
  read_bytes(element);
  if (wanted == dtype()) {
    std::memcpy(value, element, size_of(wanted));
    return;
  }
  if (!convert_element(element, dtype(), wanted, value)) {
    fail<DTypeError>(fmt::format("no conversion from {} to {}", name_of(dtype()), name_of(wanted)),
                     {{"input", *this}}, "read the tensor's own type");
  }
}

const Tensor& Tensor::eval(CallSite site) const {
  const CallScope call("eval", site);
  check(*this);
  compute(reading_of(handle_->node).base);
  return *this;
}

std::uint64_t Tensor::hash() const {
  check(*this, "hash");
  return hash_of(dense_data(handle_->node), handle_->node->bytes(), dtype(), device());
}

std::uint64_t graph::stored_hash(const Tensor& tensor) {
  const NodeRef& node = node_of(tensor);
  if (node->encoding == Encoding::dense) return tensor.hash();
  const std::optional<DenseData> blocks = whole_blocks(node);
  return blocks ? hash_of(*blocks, node->bytes(), DType::u8, node->device) : dequantize(tensor).hash();
}

Tensor Tensor::to(Device target, CallSite site) const {
  const CallScope call("to", site);
  check(*this);
  backend_of(target);
  if (target == device()) return *this;
  const NodeRef& node = handle_->node;
  Tensor moved = encoding() != Encoding::dense
                     ? copied_blocks(node, target)
                     : leaf(copied(dense_data(node), node->bytes(), device(), target), shape(), dtype(), target);
  if (is_tracing({this})) {
    moved = traced(moved, {this}, [from = device()](const Tensor& g, const auto&, const Tensor&) {
      return std::vector<Tensor>{g.to(from)};
    });
  }
  return name().empty() ? moved : moved.named(name());
}

Tensor Tensor::to(DType target, CallSite site) const {
  const CallScope call("to", site);
  check(*this);
  return graph::cast(*this, target);
}

Tensor Tensor::bitcast(DType target, CallSite site) const {
  const CallScope call("bitcast", site);
  check(*this);
  if (target == dtype()) return *this;
  if (target == DType::boolean || dtype() == DType::boolean) {
    fail<DTypeError>(fmt::format("{} elements are not {} elements", name_of(dtype()), name_of(target)),
                     {{"input", *this}}, "bool holds 0 and 1 only: cast with to(), or compare");
  }
  Shape target_shape = shape();
  const auto from = static_cast<std::int64_t>(size_of(dtype()));
  const auto to = static_cast<std::int64_t>(size_of(target));
  if (from != to) {
    const std::int64_t bytes = rank() == 0 ? -1 : shape().back() * from;
    if (bytes < 0 || bytes % to != 0) {
      fail<ShapeError>(fmt::format("the last dimension does not hold whole {} elements", name_of(target)),
                       {{"input", *this}}, "change its size, or use a dtype of the same size");
    }
    target_shape[rank() - 1] = bytes / to;
  }
  DenseData data = dense_data(handle_->node);
  if (data.offset != 0) data = dense_data(node_of(stored(*this)));
  return leaf(std::move(data.buffer), target_shape, target, device());
}

std::vector<std::string> plan(const std::vector<Tensor>& tensors) {
  std::vector<NodeRef> nodes;
  for (const Tensor& tensor : tensors) {
    check(tensor, "plan");
    nodes.push_back(node_of(tensor));
  }
  return planned_kernels(nodes);
}

}  // namespace v0
}  // namespace lockstep
