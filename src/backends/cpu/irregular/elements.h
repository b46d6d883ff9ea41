// How irregular kernels read and write tensors: the elements of a view, in row-major order, as a dense array. The dims
// come in two groups, `outer` and `along`, and an access is to a range of the along dims for one outer index.
//
// Dims are merged and views walked as for row programs (row/access.h); where memory holds what is asked for, a pointer
// to it is given instead.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/backend.h"
#include "backends/cpu/row/access.h"
#include "backends/cpu/row/tables.h"
#include "kernels/kernel.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {

/// What an element is read as: its value in the compute type, or its bits in the word type.
enum class Form : std::uint8_t { value, word };
constexpr ComputeType type_of(DType dtype, Form form) {
  return form == Form::value ? compute_type(dtype) : word_type(dtype);
}

class Reader {
 public:
  /// The first `outer_dims` dims of the view are the outer ones.
  Reader(const Input& input, int outer_dims, Form form, Isa isa);

  /// Elements [begin, begin + count) of the along dims, in `buffer` or where they are.
  const void* read(const std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count,
                   void* buffer) const;
  const void* read(const Binding& binding, std::int64_t outer, std::int64_t begin, std::int64_t count,
                   void* buffer) const {
    return read(binding.slots[static_cast<std::size_t>(access_.slot)], outer, begin, count, buffer);
  }
  /// The elements where they are, or null.
  const void* stored(const std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count) const;
  const void* stored(const Binding& binding, std::int64_t outer, std::int64_t begin, std::int64_t count) const {
    return stored(binding.slots[static_cast<std::size_t>(access_.slot)], outer, begin, count);
  }
  /// The same as read, always in `buffer`.
  void fetch(const std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count, void* buffer) const;
  void fetch(const Binding& binding, std::int64_t outer, std::int64_t begin, std::int64_t count, void* buffer) const {
    fetch(binding.slots[static_cast<std::size_t>(access_.slot)], outer, begin, count, buffer);
  }

  std::size_t size() const { return loader_.size; }  ///< of a value, in bytes
  bool is_as_stored() const { return loader_.as_stored; }
  const Access& access() const { return access_; }

 private:
  Access access_;
  Loader loader_;
};

class Writer {
 public:
  /// To offset + sum strides[d] * i[d], in elements. The first `outer_dims` of `dims` are the outer ones.
  Writer(DType dtype, const Shape& dims, const Shape& strides, std::int64_t offset, int outer_dims, Form form, Isa isa);

  void write(std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count, const void* values) const;
  /// Where the elements go, if values may be computed right there; else null.
  void* place(std::byte* data, std::int64_t outer, std::int64_t begin, std::int64_t count) const;

  const Access& access() const { return access_; }

 private:
  Access access_;
  Storer storer_;
  bool as_stored_;
};

/// The view with its dims in the order `dims`, of which it may leave out some (at index 0).
View with_dims(const View& view, const Shape& dims);

inline std::byte* slot_of(const Binding& binding, int slot) {
  return binding.slots[static_cast<std::size_t>(slot)];
}

/// Calls function(T()) for a compute type.
template <typename Function> void with_type(ComputeType type, Function function) {
  switch (type) {
    case ComputeType::f32: return function(float());
    case ComputeType::f64: return function(double());
    case ComputeType::i32: return function(std::int32_t());
    case ComputeType::i64: return function(std::int64_t());
  }
}

}  // namespace irregular
}  // namespace v0
}  // namespace lockstep
