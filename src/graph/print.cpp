// Tensors as text, in PyTorch's way: rounded to four digits, summarised beyond a thousand elements.
#include <algorithm>
#include <cmath>
#include <ostream>
#include <vector>

#include <fmt/format.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::int64_t kSummarise = 1000;  // elements
constexpr std::int64_t kEdge = 3;          // kept at both ends of a summarised dimension

// The positions shown along a dimension; -1 stands for "...".
std::vector<std::int64_t> shown_positions(std::int64_t size, bool summarise) {
  std::vector<std::int64_t> positions;
  for (std::int64_t i = 0; i < size; ++i) {
    if (summarise && size > 2 * kEdge && i >= kEdge && i < size - kEdge) {
      if (i == kEdge) positions.push_back(-1);
      continue;
    }
    positions.push_back(i);
  }
  return positions;
}

class Printer {
 public:
  explicit Printer(const Tensor& tensor)
      : shape_(tensor.shape()), dtype_(tensor.dtype()), summarise_(shape_.numel() > kSummarise) {
    // f64 holds every value of the smaller types; i64 keeps its own digits.
    if (is_storage_only(dtype_)) {
      read_storage(tensor);
    } else if (is_float(dtype_)) {
      floats_ = tensor.to(DType::f64).to_vector<double>();
    } else {
      integers_ = tensor.to(DType::i64).to_vector<std::int64_t>();
    }
    choose_format();
  }

  std::string run() {
    write(0, 0);
    return std::move(text_);
  }

 private:
  // Their values, of types that no cast takes. The parts of complex numbers stand one after the other.
  void read_storage(const Tensor& tensor) {
    const auto put = [](const auto& values, auto& to, auto convert) {
      for (const auto& value : values) to.push_back(convert(value));
    };
    const auto number = [](auto value) { return static_cast<double>(to_f32(value)); };
    switch (dtype_) {
      case DType::u16: put(tensor.to_vector<std::uint16_t>(), integers_, [](auto v) { return std::int64_t{v}; }); break;
      case DType::u64:
        put(tensor.to_vector<std::uint64_t>(), integers_, [](auto v) { return static_cast<std::int64_t>(v); });
        break;
      case DType::f8e4m3: put(tensor.to_vector<Float8E4M3>(), floats_, number); break;
      case DType::f8e5m2: put(tensor.to_vector<Float8E5M2>(), floats_, number); break;
      default:
        for (const std::complex<float> value : tensor.to_vector<std::complex<float>>()) {
          floats_.push_back(static_cast<double>(value.real()));
          floats_.push_back(static_cast<double>(value.imag()));
        }
    }
  }

  // Fixed notation while all values look well in it, else scientific; whole numbers as "2.".
  void choose_format() {
    double largest = 0;
    double smallest = INFINITY;
    for (const double value : floats_) {
      if (!std::isfinite(value)) continue;
      whole_ = whole_ && std::trunc(value) == value;
      const double magnitude = std::fabs(value);
      largest = std::max(largest, magnitude);
      if (magnitude > 0) smallest = std::min(smallest, magnitude);
    }
    scientific_ = largest >= 1e8 || (!whole_ && (largest >= 1e5 || smallest < 1e-4 || largest / smallest > 1e3));
    visit(0, 0, [&](std::int64_t i) { width_ = std::max(width_, format(i).size()); });
  }

  std::string format(std::int64_t i) const {
    const auto index = static_cast<std::size_t>(i);
    if (dtype_ == DType::boolean) return integers_[index] != 0 ? "True" : "False";
    if (dtype_ == DType::u64) return fmt::format("{}", static_cast<std::uint64_t>(integers_[index]));
    if (floats_.empty()) return fmt::format("{}", integers_[index]);
    if (dtype_ == DType::complex64) {
      const std::string imaginary = format_float(floats_[2 * index + 1]);
      return format_float(floats_[2 * index]) + (imaginary.front() == '-' ? "" : "+") + imaginary + "j";
    }
    return format_float(floats_[index]);
  }

  std::string format_float(double value) const {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    if (scientific_) return fmt::format("{:.4e}", value);
    return whole_ ? fmt::format("{:.0f}.", value) : fmt::format("{:.4f}", value);
  }

  template <typename Use>
  void visit(int dim, std::int64_t offset, Use use) const {
    if (dim == shape_.rank()) return use(offset);
    const std::int64_t inner = shape_.slice(dim + 1, shape_.rank()).numel();
    for (const std::int64_t i : shown_positions(shape_[dim], summarise_)) {
      if (i >= 0) visit(dim + 1, offset + i * inner, use);
    }
  }

  void write(int dim, std::int64_t offset) {
    if (dim == shape_.rank()) {
      text_ += fmt::format("{:>{}}", format(offset), width_);
      return;
    }
    const std::int64_t inner = shape_.slice(dim + 1, shape_.rank()).numel();
    const bool last = dim + 1 == shape_.rank();
    text_ += '[';
    bool first = true;
    for (const std::int64_t i : shown_positions(shape_[dim], summarise_)) {
      if (!first) {
        text_ += last ? ", " : ",";
        if (!last) {
          text_.append(static_cast<std::size_t>(shape_.rank() - dim - 1), '\n');
          text_.append(static_cast<std::size_t>(dim + 8), ' ');  // under "tensor(["
        }
      }
      first = false;
      if (i < 0) {
        text_ += "...";
      } else {
        write(dim + 1, offset + i * inner);
      }
    }
    text_ += ']';
  }

  Shape shape_;
  DType dtype_;
  bool summarise_;
  bool whole_ = true;
  bool scientific_ = false;
  std::size_t width_ = 0;
  std::vector<double> floats_;
  std::vector<std::int64_t> integers_;
  std::string text_;
};

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) return "tensor(undefined)";
  const std::string values = numel() == 0 ? "[]" : Printer(*this).run();
  const std::string size = numel() == 0 && rank() != 1 ? fmt::format(", shape={}", shape().to_string()) : "";
  return fmt::format("tensor({}{}, dtype={}, device={})", values, size, name_of(dtype()), device().to_string());
}

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) { return stream << tensor.to_string(); }

}  // namespace v0
}  // namespace lockstep
