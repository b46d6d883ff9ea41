// Sizes of a tensor's dimensions, and lists of dimensions. Both are small values without heap memory, and one integer
// stands for a list of one.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <span>
#include <string>
#include <type_traits>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// Largest rank of a tensor.
inline constexpr int kMaxRank = 8;

/// An integer that is no bool: what stands for a list of one.
template <typename T>
concept Integer = std::integral<T> && !std::same_as<std::remove_cv_t<T>, bool>;

/// A list of up to 12 sizes (tensors use up to kMaxRank; kernels need a few more). Also used for strides and for
/// amounts per dimension, of which one often means all. Throws ShapeError when it would grow past its capacity.
class LOCKSTEP_API Shape {
 public:
  static constexpr int kCapacity = 12;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  template <Integer Size> Shape(Size size) : Shape({static_cast<std::int64_t>(size)}) {}
  explicit Shape(std::span<const std::int64_t> sizes);
  /// `rank` copies of `value`.
  static Shape filled(int rank, std::int64_t value);

  int rank() const { return rank_; }
  bool empty() const { return rank_ == 0; }
  std::int64_t operator[](int index) const { return sizes_[static_cast<std::size_t>(index)]; }
  std::int64_t& operator[](int index) { return sizes_[static_cast<std::size_t>(index)]; }
  std::int64_t back() const { return (*this)[rank_ - 1]; }

  const std::int64_t* begin() const { return sizes_.data(); }
  const std::int64_t* end() const { return sizes_.data() + rank_; }
  std::int64_t* begin() { return sizes_.data(); }
  std::int64_t* end() { return sizes_.data() + rank_; }

  void push_back(std::int64_t size);
  void insert(int position, std::int64_t size);
  void erase(int position);
  /// Dimensions [first, last).
  Shape slice(int first, int last) const;

  /// Number of elements: the product of the sizes, 1 for rank 0. Throws ShapeError when it exceeds 2^63 - 1
  /// or when a size is negative.
  std::int64_t numel() const;
  /// "[2, 3]".
  std::string to_string() const;

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i) {
      if (a[i] != b[i]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, kCapacity> sizes_{};
  int rank_ = 0;
};

/// A list of dimensions, as in sum(x, {0, -1}): negative ones count from the end. Not a Shape: its numbers are names of
/// dimensions, not sizes. Throws ShapeError for more than Shape::kCapacity.
class LOCKSTEP_API Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<std::int64_t> dims) : list_(dims) {}
  template <Integer Dim> Dims(Dim dim) : list_(dim) {}
  explicit Dims(std::span<const std::int64_t> dims) : list_(dims) {}
  /// The numbers of a Shape, which were computed as dimensions.
  explicit Dims(const Shape& dims) : list_(dims) {}

  int size() const { return list_.rank(); }
  bool empty() const { return list_.empty(); }
  std::int64_t operator[](int index) const { return list_[index]; }
  const std::int64_t* begin() const { return list_.begin(); }
  const std::int64_t* end() const { return list_.end(); }
  void push_back(std::int64_t dim) { list_.push_back(dim); }
  /// "[0, -1]".
  std::string to_string() const { return list_.to_string(); }

  friend bool operator==(const Dims& a, const Dims& b) { return a.list_ == b.list_; }

 private:
  Shape list_;
};

/// As to_string.
LOCKSTEP_API std::ostream& operator<<(std::ostream& stream, const Shape& shape);
LOCKSTEP_API std::ostream& operator<<(std::ostream& stream, const Dims& dims);

}  // namespace v0
}  // namespace lockstep
