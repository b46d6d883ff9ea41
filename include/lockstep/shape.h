// Sizes of a tensor's dimensions. A Shape is a small value without heap memory.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

/// Largest rank of a tensor.
inline constexpr int kMaxRank = 8;

/// A list of up to 12 sizes (tensors use up to kMaxRank; kernels need a few more). Also used for strides and
/// dimension lists. Throws ShapeError when it would grow past its capacity.
class LOCKSTEP_API Shape {
 public:
  static constexpr int kCapacity = 12;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
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

}  // namespace v0
}  // namespace lockstep
