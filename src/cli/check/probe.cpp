#include "cli/check/probe.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops/encoding.h>

#include "core/elements.h"

namespace lockstep {
inline namespace v0 {
namespace cli {
namespace {

// SplitMix64: small, fast, and the same everywhere.
class Generator64 {
 public:
  explicit Generator64(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x632be59bd9b4e019u) {}
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

 private:
  std::uint64_t state_;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kSpecial[] = {std::numeric_limits<double>::quiet_NaN(),
                               kInfinity,
                               -kInfinity,
                               0.0,
                               -0.0,
                               0x1p-149,
                               -0x1p-149,
                               0x1p-130,
                               -0x1p-126,
                               0x1p-126,
                               3.4028234663852886e38,
                               -3.4028234663852886e38,
                               0x1p-14,
                               -0x1p-15,
                               0x1p-24,
                               65504.0,
                               -65504.0,
                               1.0,
                               -1.0,
                               0x1.fffffep0,
                               88.8,
                               -103.9};

// A float. Halves and small integers are often equal to each other, as ties need.
double float_value(std::uint64_t word, bool special) {
  const std::uint64_t kind = word & 63;
  const std::uint64_t rest = word >> 8;
  if (special && kind < 3) return kSpecial[rest % std::size(kSpecial)];
  if (kind < 5) return (rest & 1) != 0 ? 0.0 : -0.0;
  if (kind < 20) return static_cast<double>(static_cast<std::int64_t>(rest % 17) - 8) * 0.5;
  const double mantissa = 1.0 + static_cast<double>(rest >> 4 & 0xffffff) * 0x1p-24;
  const double magnitude = std::ldexp(mantissa, static_cast<int>(rest >> 32 & 7) - 5);
  return (rest & 1) != 0 ? magnitude : -magnitude;
}

std::int64_t integer_value(std::uint64_t word, DType dtype, bool special) {
  const std::uint64_t kind = word & 63;
  const std::uint64_t rest = word >> 8;
  if (special && kind < 4) {
    const std::size_t bits = 8 * size_of(dtype);
    const std::uint64_t lowest = std::uint64_t{1} << (bits - 1);
    const std::uint64_t extremes[] = {lowest, lowest - 1, ~std::uint64_t{0}, 0};
    return static_cast<std::int64_t>(extremes[rest & 3]);
  }
  return static_cast<std::int64_t>(rest % 41) - 20;
}

template <typename T> void put(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

// Of a float.
void put_value(std::byte* to, DType dtype, double value) {
  visit_element(dtype, [&]<typename T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, Float16>) {
      put(to, to_f16(static_cast<float>(value)));
    } else if constexpr (std::is_same_v<T, BFloat16>) {
      put(to, to_bf16(static_cast<float>(value)));
    } else {
      static_assert(!is_float(dtype_of<T>()) || std::is_floating_point_v<T>);
      if constexpr (std::is_floating_point_v<T>) put(to, static_cast<T>(value));
    }
  });
}

// A block, or an element, whose values are like those of floats.
void put_block(std::byte* to, Encoding encoding, Generator64& random, bool special) {
  if (!is_blocks(encoding)) {
    return put_value(to, held_dtype(encoding, DType::f32), float_value(random.next(), special));
  }
  const EncodingInfo& info = info_of(encoding);
  for (std::size_t i = 0; i < info.bytes; ++i) to[i] = static_cast<std::byte>(random.next());
  for (std::size_t i = 0; i < info.halves; ++i) {
    put(to + info.first_half + 2 * i, to_f16(static_cast<float>(float_value(random.next(), special))));
  }
  if (is_floats(encoding)) put(to, static_cast<float>(float_value(random.next(), special)));
}

// The shape in memory from which a layout makes `shape`.
Shape base_shape(const Shape& shape, Layout layout) {
  Shape base = shape;
  const int last = shape.rank() - 1;
  switch (layout) {
    case Layout::dense: break;
    case Layout::transposed:
      if (shape.rank() < 2) return shape.rank() == 0 ? Shape{3} : Shape{shape[0], 2};
      for (int d = 0; d <= last; ++d) base[d] = shape[last - d];
      break;
    case Layout::sliced:
      if (shape.rank() == 0) return {3};
      base[last] = 2 * shape[last] + 1;
      if (last > 0) base[0] += 2;
      break;
    case Layout::expanded:
      if (shape.rank() > 0 && shape[0] > 0) base[0] = 1;
      break;
    case Layout::flipped: break;
  }
  return base;
}

Tensor arranged(const Tensor& base, const Shape& shape, Layout layout) {
  const int rank = shape.rank();
  switch (layout) {
    case Layout::dense: break;
    case Layout::transposed: {
      if (rank == 0) return base.select(0, 1);
      if (rank == 1) return base.select(1, 1);
      Dims dims;
      for (int d = rank - 1; d >= 0; --d) dims.push_back(d);
      return base.permute(dims);
    }
    case Layout::sliced: {
      if (rank == 0) return base.select(0, 1);
      const Tensor odd = base.slice(rank - 1, {.start = 1, .step = 2});
      return rank == 1 ? odd : odd.narrow(0, 1, shape[0]);
    }
    case Layout::expanded: return rank == 0 ? base : base.expand(shape);
    case Layout::flipped: {
      if (rank == 0) return base;
      Dims dims;
      for (int d = 0; d < rank; ++d) dims.push_back(d);
      return base.flip(dims);
    }
  }
  return base;
}

}  // namespace

const char* name_of(Layout layout) {
  constexpr const char* kNames[] = {"dense", "transposed", "sliced", "expanded", "flipped"};
  return kNames[static_cast<std::size_t>(layout)];
}

const char* name_of(Values values) {
  return values == Values::special ? "special" : "ordinary";
}

std::string to_string(const Point& point) {
  return fmt::format("{} {} {} #{}{}", point.shape.to_string(), name_of(point.layout), name_of(point.values),
                     point.variant,
                     point.numerics == Numerics::exact ? std::string() : std::string(" ") + name_of(point.numerics));
}

std::vector<double> generic_values(std::size_t count, std::uint64_t seed, double low, double high) {
  constexpr double kMargin = 0.01;
  Generator64 random(seed);
  std::vector<double> values;
  while (values.size() < count) {
    const double value = low + (high - low) * static_cast<double>(random.next() >> 11) * 0x1p-53;
    if (std::fabs(2 * value - std::round(2 * value)) > kMargin) values.push_back(value);
  }
  return values;
}

int Probe::dim() const {
  if (rank() < 2) return 0;
  return variant() == 0 ? rank() - 1 : (variant() - 1) % (rank() - 1);
}

Tensor Probe::leaf(const Shape& base, bool is_positive) {
  if (slope_->shared) {
    for (const Leaf& before : leaves_) {
      if (before.tensor.shape() == base && before.is_positive == is_positive) return before.tensor;
    }
  }
  struct Interval {
    double low, high;
  };
  constexpr Interval kIntervals[kDomains] = {{-2, 2}, {0.1, 3}, {0.05, 0.95}, {1.1, 3}};
  const Interval interval = kIntervals[static_cast<std::size_t>(is_positive ? Domain::positive : slope_->domain)];
  const auto count = static_cast<std::size_t>(base.numel());
  const std::uint64_t seed = 1 + 2 * leaves_.size();
  std::vector<double> values = generic_values(count, seed, interval.low, interval.high);
  Leaf made{.direction = generic_values(count, seed + 1, -1, 1), .is_positive = is_positive};
  for (std::size_t i = 0; i < count; ++i) values[i] += slope_->step * made.direction[i];
  made.tensor = Tensor::from(values, base, device_);
  if (slope_->tracked) made.tensor = requires_grad(made.tensor);
  leaves_.push_back(std::move(made));
  return leaves_.back().tensor;
}

Tensor Probe::make(const Shape& shape, DType dtype, Range range, std::int64_t below) {
  const Shape base = base_shape(shape, point_.layout);
  if (slope_ && range != Range::index && is_float(dtype)) {
    return operands_.emplace_back(arranged(leaf(base, range == Range::positive), shape, point_.layout));
  }
  const auto count = static_cast<std::size_t>(base.numel());
  const std::size_t size = size_of(dtype);
  std::vector<std::byte> bytes(count * size);
  Generator64 random(operands_.size() * 1000003 + count * 31 + static_cast<std::size_t>(dtype));
  const bool special = point_.values == Values::special && range == Range::any;
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const to = bytes.data() + i * size;
    const std::uint64_t word = random.next();
    if (range == Range::index) {
      put(to, static_cast<std::int64_t>((word >> 8) % static_cast<std::uint64_t>(std::max<std::int64_t>(below, 1))));
    } else if (is_float(dtype)) {
      const double value = float_value(word, special);
      put_value(to, dtype, range == Range::positive ? std::min(std::fabs(value) + 0.0625, 3.75) : value);
    } else if (dtype == DType::boolean) {
      put(to, static_cast<std::uint8_t>(word >> 63));
    } else if (is_storage_only(dtype)) {
      std::memcpy(to, &word, size);
    } else {
      std::int64_t value = integer_value(word, dtype, special);
      if (range == Range::positive) value = std::abs(value) % 4 + 1;
      std::memcpy(to, &value, size);
    }
  }
  const Tensor memory = Tensor::from_bytes(bytes.data(), bytes.size(), base, dtype, device_);
  Tensor operand = arranged(memory, shape, point_.layout);
  if (choice_) operand = choice_(operands_.size(), operand);
  operands_.push_back(operand);
  return operand;
}

Tensor Probe::blocks(const Shape& shape, Encoding encoding) {
  const EncodingInfo& info = info_of(encoding);
  const std::int64_t count = shape.numel() / info.elements;
  std::vector<std::byte> bytes(encoded_bytes(encoding, info.dtype, shape.numel()));
  Generator64 random(operands_.size() * 1000003 + bytes.size() * 31 + static_cast<std::size_t>(encoding));
  for (std::int64_t i = 0; i < count; ++i) {
    put_block(bytes.data() + static_cast<std::size_t>(i) * info.bytes, encoding, random,
              point_.values == Values::special);
    // What such an encoding promises is true of one scale.
    if (encoding == Encoding::e4m3_rows || encoding == Encoding::e4m3_squares)
      std::copy_n(bytes.data(), sizeof(float), bytes.data() + static_cast<std::size_t>(i) * info.bytes);
  }
  operands_.push_back(Tensor::from_bytes(bytes.data(), bytes.size(), {count, static_cast<std::int64_t>(info.bytes)},
                                         DType::u8, device_));
  return Tensor::from_blocks(bytes.data(), bytes.size(), shape, encoding, device_);
}

Tensor Probe::packed(Shape shape, Encoding encoding) {
  const EncodingInfo& info = info_of(encoding);
  if (!slope_ && dtype_ != info.dtype) fail<DTypeError>(fmt::format("{} holds {}", info.name, name_of(info.dtype)));
  std::int64_t& last = shape[shape.rank() - 1];
  last = (last + info.elements - 1) / info.elements * info.elements;
  return blocks(shape, encoding);
}

Tensor Probe::x(const Shape& shape, DType dtype) {
  if (packing_ != Packing::none && dtype == info_of(encoding_).dtype && shape.rank() > 0 &&
      shape.back() % info_of(encoding_).elements == 0) {
    const Tensor packed = blocks(shape, encoding_);
    return packing_ == Packing::packed ? packed : dequantize(packed);
  }
  return make(shape, dtype, Range::any, 0);
}
Tensor Probe::positive(const Shape& shape) {
  return make(shape, dtype_, Range::positive, 0);
}
Tensor Probe::index(const Shape& shape, std::int64_t below) {
  return make(shape, DType::i64, Range::index, below);
}

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
