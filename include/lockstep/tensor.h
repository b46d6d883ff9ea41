// The tensor handle. Lazy inside, eager outside: an op checks its operands at the call and returns at once;
// values are computed when they are read, or earlier when much work is pending. Nothing a user can observe
// depends on when.
//
// Tensors are immutable values: copying one copies a reference. Handles may be used from several threads.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include <lockstep/default_device.h>
#include <lockstep/device.h>
#include <lockstep/dtype.h>
#include <lockstep/encoding.h>
#include <lockstep/error.h>
#include <lockstep/shape.h>

namespace lockstep {
inline namespace v0 {

namespace graph {
struct Handle;
struct Access;
}  // namespace graph

struct Index;
class Operand;
class TensorPart;
struct ValuesIndices;
struct Unique;
struct Tolerance;
struct GradientOptions;
enum class ReduceMode : std::uint8_t;

/// What a new tensor is made of, and where: zeros({2}, {.dtype = DType::i64}).
struct TensorOptions {
  DType dtype = DType::f32;
  Device device = default_device();
};

/// What may stand for TensorOptions in ops that make tensors: zeros({2}, DType::i64), ones(3, device). (A template
/// takes it, so that {} is no DType.)
template <typename T>
concept OneOption = std::same_as<T, DType> || std::same_as<T, Device>;
inline TensorOptions tensor_options(DType dtype) {
  return {.dtype = dtype};
}
inline TensorOptions tensor_options(Device device) {
  return {.device = device};
}

/// A half-open range with a step for Tensor::slice; absent ends mean "from the start" / "to the end" as in Python.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt;
  std::optional<std::int64_t> stop = std::nullopt;
  std::int64_t step = 1;
};

namespace detail {

/// An integer with the place of the call, for sizes that are written without braces: x.view(2, -1).
struct SizeHere {
  template <Integer Size>
  SizeHere(Size size, CallSite call_site = {}) : value(static_cast<std::int64_t>(size)), site(call_site) {}
  std::int64_t value;
  CallSite site;
};
template <typename List, typename... Rest> List list_of(const SizeHere& a, const SizeHere& b, const Rest&... rest) {
  return List{a.value, b.value, SizeHere(rest).value...};
}

}  // namespace detail

/// An array of one dtype on one device, as a handle on a value that never changes: what "changes" a tensor gives the
/// handle a new value. Undefined until it is assigned. Ops are functions (lockstep/ops.h); the commonest ones are
/// methods, too.
class LOCKSTEP_API Tensor {
 public:
  /// An undefined tensor; every use but defined() and assignment throws ValueError.
  Tensor() = default;
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  /// x.view(-1)[0] = 5 would change a value that nobody holds: a view is a value of its own.
  Tensor& operator=(const Tensor&) && = delete;  // write x[...] = value, with a tensor x that is not const

  /// A number without dimensions, on the default device: f32 of what is written with a point, i64 of integers, bool of
  /// bool. In arithmetic write the number itself, which takes the type of the tensor beside it.  PyTorch: tensor(3.0).
  template <typename Number>
    requires(std::is_arithmetic_v<Number>)
  Tensor(Number number, CallSite site = {}) {
    if constexpr (std::is_same_v<Number, bool>) {
      *this = of_bool(number, site);
    } else if constexpr (std::is_integral_v<Number>) {
      *this = of_integer(static_cast<std::int64_t>(number), site);
    } else {
      *this = of_float(static_cast<double>(number), site);
    }
  }

  /// Copies `values` in row-major order. Throws ShapeError if their number is not shape.numel().
  template <Element T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = default_device(),
                     CallSite site = {}) {
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<std::uint8_t> bytes(values.begin(), values.end());
      return from_bytes(bytes.data(), bytes.size(), shape, DType::boolean, device, site);
    } else {
      return from_bytes(values.data(), values.size() * sizeof(T), shape, dtype_of<T>(), device, site);
    }
  }
  /// Copies `bytes` bytes of row-major elements. Throws ValueError if `data` is null and there are any.
  static Tensor from_bytes(const void* data, std::size_t bytes, const Shape& shape, DType dtype,
                           Device device = default_device(), CallSite site = {});
  /// Uses memory of the caller without a copy (CPU devices). It must stay unchanged until `deleter` runs, which
  /// happens on any thread when nothing refers to it any more. Unaligned data are taken. Throws ValueError if `data` is
  /// null and the shape has elements.
  static Tensor from_blob(const void* data, const Shape& shape, DType dtype, std::function<void()> deleter = {},
                          Device device = {}, CallSite site = {});
  /// Copies weights that are packed in blocks (lockstep/encodings.def), row-major: a tensor of their values' dtype,
  /// which products read as their right operand, and embedding and gathers as their table, without unpacking it.
  /// Whatever else needs elements throws DTypeError and names dequantize (lockstep/ops/encoding.h). Views are packed
  /// too; there are none with fill values. ShapeError unless the last size is a multiple of the block's and `bytes` are
  /// those of all blocks.
  static Tensor from_blocks(const void* data, std::size_t bytes, const Shape& shape, Encoding encoding,
                            Device device = default_device(), CallSite site = {});
  /// The same without a copy, as from_blob above.
  static Tensor from_blob(const void* data, const Shape& shape, Encoding encoding, std::function<void()> deleter = {},
                          Device device = {}, CallSite site = {});

  bool defined() const { return handle_ != nullptr; }
  const Shape& shape() const;
  int rank() const { return shape().rank(); }
  /// Size of a dimension; negative counts from the end. Throws IndexError.
  std::int64_t size(int dim, CallSite site = {}) const;
  std::int64_t numel() const { return shape().numel(); }
  DType dtype() const;
  /// Encoding::dense, or how the elements are packed; dtype() is then that of their values.
  Encoding encoding() const;
  Device device() const;

  /// The same tensor under a name that error messages use.
  Tensor named(std::string name) const;
  const std::string& name() const;

  /// The only element, converted to T as a C++ cast would. Computes. Throws ShapeError unless numel() is 1.
  template <Element T>
  T item(CallSite site = {}) const {
    T value{};
    read_item(dtype_of<T>(), &value, site);
    return value;
  }
  /// The only element as a number. ValueError for an integer that a double does not hold exactly: read
  /// item<std::int64_t>().
  double item(CallSite site = {}) const;
  /// All elements in row-major order. Computes. Throws DTypeError unless T is this tensor's element type;
  /// OutOfMemoryError where the host cannot hold them.
  template <Element T>
  std::vector<T> to_vector(CallSite site = {}) const {
    check_dtype(dtype_of<T>(), site);
    if constexpr (std::is_same_v<T, bool>) {
      auto bytes = host_vector<std::uint8_t>(site);
      read_bytes(bytes.data(), site);
      return std::vector<bool>(bytes.begin(), bytes.end());
    } else {
      auto values = host_vector<T>(site);
      read_bytes(values.data(), site);
      return values;
    }
  }
  /// Writes numel() * size_of(dtype()) bytes, row-major. Computes.
  void read_bytes(void* destination, CallSite site = {}) const;
  /// Computes the value now (and everything else that is pending on the device).
  const Tensor& eval(CallSite site = {}) const;
  /// XXH3-64 of the little-endian row-major bits; every NaN counts as the one quiet NaN of its type.
  std::uint64_t hash() const;
  /// Values, rounded and summarised as PyTorch does, with dtype, encoding and device. Computes.
  std::string to_string() const;

  Tensor to(Device device, CallSite site = {}) const;
  /// On the device of that name, e.g. "cpu" or "cuda:0" (Device::parse).
  template <std::convertible_to<std::string_view> Name> Tensor to(const Name& device, CallSite site = {}) const {
    return to(Device::parse(device), site);
  }
  Tensor to(Device device, DType dtype, CallSite site = {}) const;
  /// Casts; every value is rounded once. Float to integer saturates, NaN becomes 0.
  Tensor to(DType dtype, CallSite site = {}) const;

  // Views: no data moves. Where the result cannot be a view of this tensor's elements they are copied first.
  // lockstep/ops/shape.h has more of them.
  /// One size may be -1. PyTorch: reshape.
  Tensor reshape(const Shape& shape, CallSite site = {}) const;
  /// reshape that never copies: ShapeError where the elements are not laid out so. PyTorch: view.
  Tensor view(const Shape& shape, CallSite site = {}) const;
  Tensor flatten(int first_dim = 0, int last_dim = -1, CallSite site = {}) const;
  /// Dimension `dim` as several; one of `sizes` may be -1. PyTorch: unflatten.
  Tensor unflatten(int dim, const Shape& sizes, CallSite site = {}) const;
  /// PyTorch: permute.
  Tensor permute(const Dims& dims, CallSite site = {}) const;
  Tensor transpose(int a, int b, CallSite site = {}) const;
  /// Dimensions `from` at the positions `to`, the others in their order. PyTorch: movedim.
  Tensor movedim(const Dims& from, const Dims& to, CallSite site = {}) const;
  /// Without dimension `dim` if its size is 1, else unchanged.
  Tensor squeeze(int dim, CallSite site = {}) const;
  /// Without those of `dims` that have size 1; none listed: without any dimension of size 1. PyTorch: squeeze.
  Tensor squeeze(const Dims& dims = {}, CallSite site = {}) const;
  Tensor unsqueeze(int dim, CallSite site = {}) const;
  /// Broadcasts size-1 dimensions (and new leading ones). PyTorch: expand; -1 keeps a size.
  Tensor expand(const Shape& shape, CallSite site = {}) const;
  /// One dimension of Python slicing; the step may be negative (flip).
  Tensor slice(int dim, Slice range, CallSite site = {}) const;
  /// PyTorch: narrow.
  Tensor narrow(int dim, std::int64_t start, std::int64_t length, CallSite site = {}) const;
  /// Removes a dimension at one index. PyTorch: select.
  Tensor select(int dim, std::int64_t index, CallSite site = {}) const;
  /// Python's x[...]: one entry per dimension (kNone adds one, kEllipsis stands for all that are not named). Integers and
  /// slices make a view. Tensors of integers or bool pick elements as in ops/indexing.h's index(), after the others.
  /// IndexError for an integer outside its dimension and for too many entries.
  Tensor index(const std::vector<Index>& indices, CallSite site = {}) const;
  Tensor flip(const Dims& dims, CallSite site = {}) const;
  /// Windows of `size` elements, `step` apart, along `dim`; the elements of a window become the last dimension.
  /// ShapeError if none fits. PyTorch: Tensor.unfold.
  Tensor unfold(int dim, std::int64_t size, std::int64_t step, CallSite site = {}) const;
  /// The elements [.., i, .., i + offset, ..] of dimensions a and b, as the last dimension. PyTorch: diagonal.
  Tensor diagonal(std::int64_t offset = 0, int a = 0, int b = 1, CallSite site = {}) const;

  /// Pieces of `size` along `dim` (the last may be smaller). PyTorch: split.
  std::vector<Tensor> split(std::int64_t size, int dim = 0, CallSite site = {}) const;
  /// Pieces of these sizes, which add up to the dimension's. PyTorch: split, split_with_sizes.
  std::vector<Tensor> split(const std::vector<std::int64_t>& sizes, int dim = 0, CallSite site = {}) const;
  /// At most `chunks` pieces of one size (the last may be smaller). PyTorch: chunk.
  std::vector<Tensor> chunk(std::int64_t chunks, int dim = 0, CallSite site = {}) const;
  /// Exactly `sections` pieces whose sizes differ by at most 1, larger ones first. PyTorch: tensor_split.
  std::vector<Tensor> tensor_split(std::int64_t sections, int dim = 0, CallSite site = {}) const;
  /// Pieces that end before these positions (Python's slices), and the rest. PyTorch: tensor_split.
  std::vector<Tensor> tensor_split(const std::vector<std::int64_t>& positions, int dim = 0, CallSite site = {}) const;
  /// The slices of size 1 along `dim`, without it. PyTorch: unbind.
  std::vector<Tensor> unbind(int dim = 0, CallSite site = {}) const;

  /// Copies of the whole side by side, `counts[d]` along each dimension; extra leading counts add dimensions.
  /// PyTorch: repeat.
  Tensor repeat(const Shape& counts, CallSite site = {}) const;
  /// The same bytes as elements of another dtype; where its size differs, the last dimension grows or shrinks.
  /// Computes. ShapeError if that dimension does not divide, DTypeError for bool with other types.
  /// PyTorch: view(dtype).
  Tensor bitcast(DType dtype, CallSite site = {}) const;

  // Changes of this handle: it gets a new value, and other handles of the old value keep that. A leaf that is changed
  // under NoGrad stays a leaf, with its gradient; otherwise the new value has the history of what it is computed from.
  Tensor& operator+=(const Operand& other) &;
  Tensor& operator-=(const Operand& other) &;
  Tensor& operator*=(const Operand& other) &;
  Tensor& operator/=(const Operand& other) &;
  Tensor& operator+=(const Operand& other) && = delete;  // write x[...] += value, with a tensor x that is not const
  Tensor& operator-=(const Operand& other) && = delete;  // write x[...] -= value, with a tensor x that is not const
  Tensor& operator*=(const Operand& other) && = delete;  // write x[...] *= value, with a tensor x that is not const
  Tensor& operator/=(const Operand& other) && = delete;  // write x[...] /= value, with a tensor x that is not const

  /// x[i], x[Slice{1, 4}], x[mask], x[{0, kEllipsis}]: as index(). Also to assign to: x[{0, 1}] = 5 and x[mask] *= 2
  /// give this handle a value in which that part differs (lockstep/tensor_part.h).
  Tensor operator[](const Index& entry) const&;
  Tensor operator[](std::initializer_list<Index> entries) const&;
  TensorPart operator[](const Index& entry) &;
  TensorPart operator[](std::initializer_list<Index> entries) &;

  /// x.view(2, -1) is x.view({2, -1}), and so on.
  template <Integer... Rest> Tensor view(detail::SizeHere a, detail::SizeHere b, Rest... rest) const {
    return view(detail::list_of<Shape>(a, b, rest...), a.site);
  }
  template <Integer... Rest> Tensor reshape(detail::SizeHere a, detail::SizeHere b, Rest... rest) const {
    return reshape(detail::list_of<Shape>(a, b, rest...), a.site);
  }
  template <Integer... Rest> Tensor expand(detail::SizeHere a, detail::SizeHere b, Rest... rest) const {
    return expand(detail::list_of<Shape>(a, b, rest...), a.site);
  }
  template <Integer... Rest> Tensor repeat(detail::SizeHere a, detail::SizeHere b, Rest... rest) const {
    return repeat(detail::list_of<Shape>(a, b, rest...), a.site);
  }
  template <Integer... Rest> Tensor permute(detail::SizeHere a, detail::SizeHere b, Rest... rest) const {
    return permute(detail::list_of<Dims>(a, b, rest...), a.site);
  }

  // The free functions as methods, x.relu() for relu(x). Their documentation is that of the functions in lockstep/ops.
#define LOCKSTEP_PARAMETERS(...) __VA_ARGS__ __VA_OPT__(, )
#define LOCKSTEP_OR(...) = __VA_ARGS__
#define LOCKSTEP_METHOD(result, name, parameters, arguments) \
  result name(LOCKSTEP_PARAMETERS parameters CallSite site = {}) const;
#include <lockstep/tensor_methods.def>
#undef LOCKSTEP_METHOD
#undef LOCKSTEP_OR
#undef LOCKSTEP_PARAMETERS

  /// A copy in memory of its own, with the history of the original.  PyTorch: clone.
  Tensor clone(CallSite site = {}) const;
  /// The dimensions in the opposite order.  PyTorch: T (of matrices, as t()).
  Tensor T(CallSite site = {}) const;
  /// A matrix transposed; vectors and scalars as they are. ShapeError above two dimensions.  PyTorch: t.
  Tensor t(CallSite site = {}) const;
  /// The last two dimensions exchanged.  PyTorch: mT.
  Tensor mT(CallSite site = {}) const;
  Tensor cpu(CallSite site = {}) const;
  Tensor cuda(int index = 0, CallSite site = {}) const;
  const Shape& size() const {
    return shape();
  }
  int dim() const {
    return rank();
  }
  Tensor view_as(const Tensor& other, CallSite site = {}) const;
  Tensor reshape_as(const Tensor& other, CallSite site = {}) const;
  Tensor expand_as(const Tensor& other, CallSite site = {}) const;
  Tensor type_as(const Tensor& other, CallSite site = {}) const;

  // Gradients (lockstep/autograd.h).
  void backward(CallSite site = {}) const;
  void backward(const Tensor& seed, CallSite site = {}) const;
  void backward(const GradientOptions& options, CallSite site = {}) const;
  Tensor detach(CallSite site = {}) const;
  /// What backward() has added up at this leaf; undefined before.
  Tensor grad(CallSite site = {}) const;
  void zero_grad(CallSite site = {}) const;
  /// Whether gradients flow back from here.  PyTorch: requires_grad.
  bool requires_grad() const;
  /// Makes this handle a leaf whose gradient is wanted (or, with false, one that needs none).  PyTorch: requires_grad_.
  Tensor& requires_grad_(bool on = true, CallSite site = {});
  bool is_leaf() const;

  // What cannot work as in Python; compilers show these lines.
  explicit operator bool() const = delete;  // write equal(a, b), all(a == b).item<bool>() or x.item<bool>()
  template <typename Number>
    requires(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>)
  explicit operator Number() const = delete;  // write x.item<float>() or x.item()
  void begin() const = delete;  // write for (const Tensor& row : x.unbind())
  void end() const = delete;

 private:
  friend struct graph::Access;
  void read_item(DType dtype, void* value, CallSite site) const;
  void check_dtype(DType dtype, CallSite site) const;
  static Tensor of_float(double number, CallSite site);
  static Tensor of_integer(std::int64_t number, CallSite site);
  static Tensor of_bool(bool number, CallSite site);
  template <typename T> std::vector<T> host_vector(CallSite site) const {
    try {
      return std::vector<T>(static_cast<std::size_t>(numel()));
    } catch (const std::bad_alloc&) {
      fail_on_host(site);
    } catch (const std::length_error&) {
      fail_on_host(site);
    }
  }
  [[noreturn]] void fail_on_host(CallSite site) const;

  std::shared_ptr<graph::Handle> handle_;
};

/// For Tensor::index: a new dimension of size 1.
struct None {};
/// All dimensions that no other entry names.
struct Ellipsis {};
/// x[{0, kNone}], as None in Python.
inline constexpr None kNone{};
/// x[{kEllipsis, 0}], as ... in Python.
inline constexpr Ellipsis kEllipsis{};

namespace detail {
template <typename T>
concept IndexOnly = std::same_as<T, Slice> || std::same_as<T, None> || std::same_as<T, Ellipsis>;
}  // namespace detail
/// A comma in [] throws away what stands before it; compilers show this line.
template <typename A, typename B>
  requires(detail::IndexOnly<A> || detail::IndexOnly<B>)
void operator,(const A&, const B&) = delete;  // write x[{a, b}]

/// One entry of Tensor::index: x.index({0, Slice{1, 4}, kEllipsis, kNone}).
struct Index {
  template <Integer Position>
  Index(Position position, CallSite call_site = {}) : entry(static_cast<std::int64_t>(position)), site(call_site) {}
  Index(Slice range, CallSite call_site = {}) : entry(range), site(call_site) {}
  Index(None none, CallSite call_site = {}) : entry(none), site(call_site) {}
  Index(Ellipsis ellipsis, CallSite call_site = {}) : entry(ellipsis), site(call_site) {}
  Index(const Tensor& elements, CallSite call_site = {}) : entry(elements), site(call_site) {}

  std::variant<std::int64_t, Slice, None, Ellipsis, Tensor> entry;
  CallSite site;
};

/// An operand of an op: a tensor or a scalar, with the place of the call (so that errors can name it even for
/// operators). Implicit on purpose. Scalars travel as double and are converted once to the op's type.
/// Refers to the tensor, so it is an argument and nothing else: it is not copied, and what is to last is a Tensor.
class LOCKSTEP_API Operand {
 public:
  Operand(const Tensor& tensor, CallSite call_site = {}) : tensor_(&tensor), site_(call_site) {}
  /// Whatever holds a tensor, e.g. nn::Parameter.
  template <typename Holder>
    requires(std::is_class_v<Holder> && std::is_convertible_v<const Holder&, const Tensor&> &&
             !std::is_base_of_v<Tensor, Holder>)
  Operand(const Holder& holder, CallSite call_site = {})
      : tensor_(&static_cast<const Tensor&>(holder)), site_(call_site) {}
  template <typename Scalar>
    requires(std::is_arithmetic_v<Scalar>)
  Operand(Scalar scalar, CallSite call_site = {})
      : scalar_(static_cast<double>(scalar)), integral_(std::is_integral_v<Scalar>), site_(call_site) {}

  Operand(const Operand&) = delete;
  Operand& operator=(const Operand&) = delete;

  bool is_scalar() const { return tensor_ == nullptr; }
  const Tensor& tensor() const { return *tensor_; }
  double scalar() const { return scalar_; }
  /// Whether the scalar was written as an integer.
  bool integral() const { return integral_; }
  CallSite site() const { return site_; }

 private:
  const Tensor* tensor_ = nullptr;
  double scalar_ = 0;
  bool integral_ = false;
  CallSite site_;
};

inline CallScope::CallScope(const char* op, const Operand& operand) : CallScope(op, operand.site()) {}

LOCKSTEP_API std::ostream& operator<<(std::ostream& stream, const Tensor& tensor);
LOCKSTEP_API std::ostream& operator<<(std::ostream& stream, DType dtype);
LOCKSTEP_API std::ostream& operator<<(std::ostream& stream, const Device& device);

}  // namespace v0
}  // namespace lockstep

#include <lockstep/tensor_part.h>
