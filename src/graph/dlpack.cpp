// DLPack in and out. A foreign tensor is a buffer from its lowest to its highest element, read through a view.
#include <lockstep/dlpack.h>

#include <optional>

#include <fmt/format.h>

#include "graph/dense_data.h"
#include "graph/make.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

constexpr std::uint32_t kMajor = 1;
constexpr std::uint32_t kMinor = 0;

std::optional<dlpack::TypeCode> code_of(DType dtype) {
  using namespace dlpack;
  constexpr std::nullopt_t none = std::nullopt;
  switch (dtype) {
#define LOCKSTEP_DTYPE(name, text, element, bytes, kind, use, word, compute, kernel, digits, largest, subnormals, \
                       stored, torch, torch_storage, safetensors, numpy, gguf, code)                             \
  case DType::name: return code;
#include <lockstep/dtypes.def>
#undef LOCKSTEP_DTYPE
  }
  return none;
}

DType dtype_of(const dlpack::DataType& type) {
  for (int i = 0; type.lanes == 1 && i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (code_of(dtype) == static_cast<dlpack::TypeCode>(type.code) && 8 * size_of(dtype) == type.bits) return dtype;
  }
  fail<DTypeError>(
      fmt::format("no tensor has elements of type code {}, {} bits, {} lanes", type.code, type.bits, type.lanes), {},
      "convert it where it comes from, e.g. to float32");
}

void check_device(const dlpack::Device& device) {
  if (device.device_type == dlpack::kCpu || device.device_type == dlpack::kCudaHost) return;
  fail<DeviceError>(fmt::format("the memory is on a device of type {}, which the CPU cannot read", device.device_type),
                    {}, "move it to the CPU where it comes from, e.g. tensor.cpu()");
}

// The view over a buffer that begins at the lowest element, and where that is.
struct Layout {
  View view;
  std::int64_t elements = 0;  ///< from the lowest to the highest, both included
};

Layout layout_of(const dlpack::TensorInfo& info, const Shape& shape, DType dtype) {
  Layout layout{View::contiguous(shape), shape.numel()};
  if (info.strides == nullptr || shape.numel() == 0) return layout;
  std::int64_t low = 0;
  std::int64_t high = 0;
  bool overflow = false;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;  // its stride is never taken
    std::int64_t reach = 0;
    overflow = overflow || __builtin_mul_overflow(shape[d] - 1, info.strides[d], &reach);
    std::int64_t& end = info.strides[d] < 0 ? low : high;
    overflow = overflow || __builtin_add_overflow(end, reach, &end);
    layout.view.strides[d] = info.strides[d];
  }
  std::int64_t bytes = 0;
  overflow = overflow || __builtin_sub_overflow(high, low, &layout.elements) ||
             __builtin_add_overflow(layout.elements, 1, &layout.elements) ||
             __builtin_mul_overflow(layout.elements, static_cast<std::int64_t>(size_of(dtype)), &bytes);
  if (overflow) fail<ShapeError>("the strides reach over more than 2^63 - 1 bytes");
  layout.view.offset = -low;
  return layout;
}

template <typename Managed> Tensor import(Managed* managed) {
  const dlpack::TensorInfo& info = managed->tensor;
  check_device(info.device);
  const DType dtype = dtype_of(info.dtype);
  if (info.ndim < 0 || info.ndim > kMaxRank || (info.ndim > 0 && info.shape == nullptr)) {
    fail<ShapeError>(fmt::format("{} dimensions; tensors have 0 to {}", info.ndim, kMaxRank));
  }
  Shape shape;
  for (int d = 0; d < info.ndim; ++d) shape.push_back(info.shape[d]);
  check_shape(shape, dtype);
  if (info.data == nullptr && shape.numel() > 0) fail<ValueError>("the data pointer is null");
  const Layout layout = layout_of(info, shape, dtype);

  // Taken over only when nothing can fail any more.
  const auto taken = std::make_shared<bool>(false);
  const auto give_back = [managed, taken] {
    if (*taken && managed->deleter != nullptr) managed->deleter(managed);
  };
  const std::byte* data = nullptr;
  if (shape.numel() > 0) {
    data = static_cast<const std::byte*>(info.data) + info.byte_offset -
           layout.view.offset * static_cast<std::int64_t>(size_of(dtype));
  }
  Tensor tensor;
  if (layout.view.is_contiguous() && layout.view.offset == 0) {
    tensor = Tensor::from_blob(data, shape, dtype, give_back, {});
  } else {
    const Tensor base = Tensor::from_blob(data, {layout.elements}, dtype, give_back, {});
    tensor = view_tensor(node_of(base), layout.view, dtype);
  }
  *taken = true;
  return tensor;
}

template <typename Managed> void check_not_null(const Managed* managed) {
  if (managed == nullptr) fail<ValueError>("the managed tensor is null");
}

// What an exported tensor needs until its deleter runs.
template <typename Managed> struct Exported {
  Managed managed{};
  BufferRef buffer;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

template <typename Managed> std::unique_ptr<Exported<Managed>> export_tensor(const Tensor& tensor) {
  check_defined({{"input", tensor}});
  if (tensor.device().kind != DeviceKind::cpu && tensor.device().kind != DeviceKind::ref) {
    fail<DeviceError>("only memory of the CPU is exported", {{"input", tensor}}, "move it, e.g. tensor.to(Device{})");
  }
  const std::optional<dlpack::TypeCode> code = code_of(tensor.dtype());
  if (!code) {
    fail<DTypeError>(fmt::format("DLPack 1.0 has no {}", name_of(tensor.dtype())), {{"input", tensor}},
                     "export the bytes, read with read_bytes");
  }
  const DenseData data = dense_data(node_of(tensor));
  auto exported = std::make_unique<Exported<Managed>>();
  exported->buffer = data.buffer;
  exported->shape.assign(tensor.shape().begin(), tensor.shape().end());
  exported->strides.resize(exported->shape.size());
  std::int64_t stride = 1;
  for (std::size_t d = exported->shape.size(); d-- > 0; stride *= exported->shape[d]) exported->strides[d] = stride;
  dlpack::TensorInfo& info = exported->managed.tensor;
  info.data = tensor.numel() == 0 ? nullptr : data.buffer->data() + data.offset;
  info.device = {dlpack::kCpu, 0};
  info.ndim = tensor.rank();
  info.dtype = {*code, static_cast<std::uint8_t>(8 * size_of(tensor.dtype())), 1};
  info.shape = exported->shape.data();
  info.strides = exported->strides.data();
  exported->managed.manager_ctx = exported.get();
  exported->managed.deleter = [](Managed* self) {
    const std::unique_ptr<Exported<Managed>> owner(static_cast<Exported<Managed>*>(self->manager_ctx));
  };
  return exported;
}

}  // namespace

Tensor from_dlpack(dlpack::ManagedTensor* managed, CallSite site) {
  const CallScope call("from_dlpack", site);
  check_not_null(managed);
  return import(managed);
}

Tensor from_dlpack(dlpack::ManagedTensorVersioned* managed, CallSite site) {
  const CallScope call("from_dlpack", site);
  check_not_null(managed);
  // The layout behind the version differs between major versions.
  if (managed->version.major != kMajor) {
    fail<ValueError>(
        fmt::format("version {}.{} of DLPack is not {}.x", managed->version.major, managed->version.minor, kMajor));
  }
  return import(managed);
}

dlpack::ManagedTensorVersioned* to_dlpack(const Tensor& tensor, CallSite site) {
  const CallScope call("to_dlpack", site);
  auto exported = export_tensor<dlpack::ManagedTensorVersioned>(tensor);
  exported->managed.version = {kMajor, kMinor};
  exported->managed.flags = dlpack::kReadOnly;
  return &exported.release()->managed;
}

dlpack::ManagedTensor* to_dlpack_unversioned(const Tensor& tensor, CallSite site) {
  const CallScope call("to_dlpack_unversioned", site);
  return &export_tensor<dlpack::ManagedTensor>(tensor).release()->managed;
}

}  // namespace v0
}  // namespace lockstep
