#include <lockstep/shape.h>

#include <algorithm>
#include <ostream>

#include <lockstep/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {
inline namespace v0 {
namespace {

[[noreturn]] void throw_full() {
  throw ShapeError(fmt::format("a shape holds at most {} dimensions", Shape::kCapacity));
}

}  // namespace

Shape::Shape(std::initializer_list<std::int64_t> sizes)
    : Shape(std::span<const std::int64_t>(sizes.begin(), sizes.size())) {}

Shape::Shape(std::span<const std::int64_t> sizes) {
  if (sizes.size() > kCapacity) throw_full();
  rank_ = static_cast<int>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), begin());
}

Shape Shape::filled(int rank, std::int64_t value) {
  if (rank > kCapacity) throw_full();
  Shape shape;
  shape.rank_ = rank;
  std::fill(shape.begin(), shape.end(), value);
  return shape;
}

void Shape::push_back(std::int64_t size) { insert(rank_, size); }

void Shape::insert(int position, std::int64_t size) {
  if (rank_ == kCapacity) throw_full();
  for (int i = rank_; i > position; --i) (*this)[i] = (*this)[i - 1];
  ++rank_;
  (*this)[position] = size;
}

void Shape::erase(int position) {
  for (int i = position; i + 1 < rank_; ++i) (*this)[i] = (*this)[i + 1];
  --rank_;
}

Shape Shape::slice(int first, int last) const {
  Shape part;
  for (int i = first; i < last; ++i) part.push_back((*this)[i]);
  return part;
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  bool empty = false;
  bool overflow = false;
  for (const std::int64_t size : *this) {
    if (size < 0) throw ShapeError(fmt::format("shape {} has a negative size", to_string()));
    empty = empty || size == 0;
    overflow = overflow || __builtin_mul_overflow(product, size, &product);
  }
  if (empty) return 0;  // an empty tensor has no elements however large its other sizes are
  if (overflow) throw ShapeError(fmt::format("shape {} has more than 2^63 - 1 elements", to_string()));
  return product;
}

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(begin(), end(), ", ")); }

std::ostream& operator<<(std::ostream& stream, const Shape& shape) { return stream << shape.to_string(); }
std::ostream& operator<<(std::ostream& stream, const Dims& dims) { return stream << dims.to_string(); }

}  // namespace v0
}  // namespace lockstep
