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

#include <lockstep/device.h>
#include <lockstep/dtype.h>
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

struct TensorOptions {
  DType dtype = DType::f32;
  Device device = {};
};

/// A half-open range with a step for Tensor::slice; absent ends mean "from the start" / "to the end" as in Python.
struct Slice {
  std::optional<std::int64_t> start = std::nullopt;
  std::optional<std::int64_t> stop = std::nullopt;
  std::int64_t step = 1;
};

class LOCKSTEP_API Tensor {
 public:
  /// An undefined tensor; every use but defined() and assignment throws ValueError.
  Tensor() = default;

  /// Copies `values` in row-major order. Throws ShapeError if their number is not shape.numel().
  template <Element T>
  static Tensor from(const std::vector<T>& values, const Shape& shape, Device device = {}, CallSite site = {}) {
    if constexpr (std::is_same_v<T, bool>) {
      std::vector<std::uint8_t> bytes(values.begin(), values.end());
      return from_bytes(bytes.data(), bytes.size(), shape, DType::boolean, device, site);
    } else {
      return from_bytes(values.data(), values.size() * sizeof(T), shape, dtype_of<T>(), device, site);
    }
  }
  /// Copies `bytes` bytes of row-major elements. Throws ValueError if `data` is null and there are any.
  static Tensor from_bytes(const void* data, std::size_t bytes, const Shape& shape, DType dtype, Device device = {},
                           CallSite site = {});
  /// Uses memory of the caller without a copy (CPU devices). It must stay unchanged until `deleter` runs, which
  /// happens on any thread when nothing refers to it any more. Unaligned data are taken. Throws ValueError if `data` is
  /// null and the shape has elements.
  static Tensor from_blob(const void* data, const Shape& shape, DType dtype, std::function<void()> deleter = {},
                          Device device = {}, CallSite site = {});

  bool defined() const { return handle_ != nullptr; }
  const Shape& shape() const;
  int rank() const { return shape().rank(); }
  /// Size of a dimension; negative counts from the end. Throws IndexError.
  std::int64_t size(int dim, CallSite site = {}) const;
  std::int64_t numel() const { return shape().numel(); }
  DType dtype() const;
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
  /// Values, rounded and summarised as PyTorch does, with dtype and device. Computes.
  std::string to_string() const;

  Tensor to(Device device, CallSite site = {}) const;
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
  Tensor permute(const Shape& dims, CallSite site = {}) const;
  Tensor transpose(int a, int b, CallSite site = {}) const;
  /// Dimensions `from` at the positions `to`, the others in their order. PyTorch: movedim.
  Tensor movedim(const Shape& from, const Shape& to, CallSite site = {}) const;
  /// Without dimension `dim` if its size is 1, else unchanged.
  Tensor squeeze(int dim, CallSite site = {}) const;
  /// Without those of `dims` that have size 1; none listed: without any dimension of size 1. PyTorch: squeeze.
  Tensor squeeze(const Shape& dims = {}, CallSite site = {}) const;
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
  Tensor flip(const Shape& dims, CallSite site = {}) const;
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

  Tensor& operator+=(const Operand& other);
  Tensor& operator-=(const Operand& other);
  Tensor& operator*=(const Operand& other);
  Tensor& operator/=(const Operand& other);

 private:
  friend struct graph::Access;
  void read_item(DType dtype, void* value, CallSite site) const;
  void check_dtype(DType dtype, CallSite site) const;
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

/// For Tensor::index: a new dimension of size 1; and every dimension that no other entry names.
struct None {};
struct Ellipsis {};
inline constexpr None kNone{};
inline constexpr Ellipsis kEllipsis{};

/// One entry of Tensor::index: x.index({0, Slice{1, 4}, kEllipsis, kNone}).
struct Index {
  template <typename Integer>
    requires(std::is_integral_v<Integer> && !std::is_same_v<Integer, bool>)
  Index(Integer position) : entry(static_cast<std::int64_t>(position)) {}
  Index(Slice range) : entry(range) {}
  Index(None none) : entry(none) {}
  Index(Ellipsis ellipsis) : entry(ellipsis) {}
  Index(const Tensor& elements) : entry(elements) {}

  std::variant<std::int64_t, Slice, None, Ellipsis, Tensor> entry;
};

/// An operand of an op: a tensor or a scalar, with the place of the call (so that errors can name it even for
/// operators). Implicit on purpose. Scalars travel as double and are converted once to the op's type.
/// Refers to the tensor, so it is an argument and nothing else: it is not copied, and what is to last is a Tensor.
class LOCKSTEP_API Operand {
 public:
  Operand(const Tensor& tensor, CallSite call_site = {}) : tensor_(&tensor), site_(call_site) {}
  /// Whatever holds a tensor, e.g. nn::Parameter.
  template <typename Holder>
    requires(std::is_convertible_v<const Holder&, const Tensor&> && !std::is_base_of_v<Tensor, Holder>)
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

}  // namespace v0
}  // namespace lockstep
