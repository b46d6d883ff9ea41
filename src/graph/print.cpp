// Tensors as text, in PyTorch's way: rounded to four digits with one width and notation for all elements, wrapped at 80
// columns, summarised beyond a thousand elements, dtype and device only where they are not the usual ones.
#include <algorithm>
#include <cmath>
#include <complex>
#include <ostream>
#include <vector>

#include <fmt/format.h>

#include "core/elements.h"
#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace {

using ElementKind = detail::DTypeKind;

constexpr std::int64_t kSummarize = 1000;  // elements
constexpr std::int64_t kEdge = 3;          // kept at both ends of a summarized dimension
constexpr std::size_t kLine = 80;          // columns
constexpr std::string_view kPrefix = "tensor(";

// Both ends of every long dimension. Of packed tensors, only these are unpacked.
Tensor edges(const Tensor& tensor) {
  Tensor result = tensor;
  for (int d = 0; d < tensor.rank(); ++d) {
    const std::int64_t size = tensor.shape()[d];
    if (size <= 2 * kEdge) continue;
    result = cat({dequantize(result.narrow(d, 0, kEdge)), dequantize(result.narrow(d, size - kEdge, kEdge))}, d);
  }
  return result;
}

template <typename T, typename Convert>
auto converted(const Tensor& tensor, Convert convert) {
  std::vector<decltype(convert(T()))> values;
  for (const T value : tensor.to_vector<T>()) values.push_back(convert(value));
  return values;
}

// f64 holds every value of the smaller types, subnormals too.
std::vector<double> float_values(const Tensor& tensor) {
  return visit_element(tensor.dtype(), [&]<typename T>(std::type_identity<T>) -> std::vector<double> {
    if constexpr (detail::row_of(lockstep::dtype_of<T>()).kind == ElementKind::floating) {
      return converted<T>(tensor, [](T value) {
        if constexpr (std::is_floating_point_v<T>) {
          return static_cast<double>(value);
        } else {
          return static_cast<double>(to_f32(value));
        }
      });
    }
    return {};
  });
}

// Real part, imaginary part, ...
std::vector<double> complex_parts(const Tensor& tensor) {
  std::vector<double> parts;
  for (const std::complex<float> value : tensor.to_vector<std::complex<float>>()) {
    parts.push_back(static_cast<double>(value.real()));
    parts.push_back(static_cast<double>(value.imag()));
  }
  return parts;
}

std::vector<std::string> integer_texts(const Tensor& tensor) {
  return visit_element(tensor.dtype(), [&]<typename T>(std::type_identity<T>) -> std::vector<std::string> {
    if constexpr (std::is_same_v<T, bool>) {
      return converted<bool>(tensor, [](bool value) { return std::string(value ? "True" : "False"); });
    } else if constexpr (std::is_integral_v<T>) {
      return converted<T>(tensor, [](T value) { return fmt::format("{}", value); });
    }
    return {};
  });
}

// How numbers are written, chosen from all that are shown.
class Format {
 public:
  explicit Format(const std::vector<double>& values) {
    double largest = 0;
    double smallest = INFINITY;
    for (const double value : values) {
      if (!std::isfinite(value) || value == 0) continue;
      whole_ = whole_ && std::trunc(value) == value;
      largest = std::max(largest, std::fabs(value));
      smallest = std::min(smallest, std::fabs(value));
    }
    if (largest == 0) return;
    scientific_ = largest / smallest > 1000 || largest > 1e8 || (!whole_ && smallest < 1e-4);
    for (const double value : values) {
      if (std::isfinite(value) && value != 0) width_ = std::max(width_, text(value).size());
    }
  }
  std::size_t width() const { return width_; }

  std::string text(double value) const {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
    if (scientific_) return fmt::format("{:.4e}", value);
    return whole_ ? fmt::format("{:.0f}.", value) : fmt::format("{:.4f}", value);
  }

 private:
  bool whole_ = true;
  bool scientific_ = false;
  std::size_t width_ = 1;
};

// The elements' texts and the width that lines are filled by (some zeros and NaN are wider).
struct Texts {
  std::vector<std::string> texts;
  std::size_t width = 1;
};
Texts texts_of(const Tensor& tensor) {
  Texts result;
  auto& [texts, width] = result;
  switch (detail::row_of(tensor.dtype()).kind) {
    case ElementKind::complex: {
      const std::vector<double> parts = complex_parts(tensor);
      const Format format(parts);
      for (std::size_t i = 0; i < parts.size(); i += 2) {
        const std::string imaginary = format.text(parts[i + 1]);
        texts.push_back(format.text(parts[i]) + (imaginary.front() == '-' ? "" : "+") + imaginary + "j");
        width = std::max(width, texts.back().size());
      }
      break;
    }
    case ElementKind::floating: {
      const std::vector<double> values = float_values(tensor);
      const Format format(values);
      for (const double value : values) texts.push_back(format.text(value));
      width = format.width();
      break;
    }
    case ElementKind::boolean:
    case ElementKind::unsigned_integer:
    case ElementKind::signed_integer:
      texts = integer_texts(tensor);
      for (const std::string& text : texts) width = std::max(width, text.size());
      break;
  }
  for (std::string& text : texts) text = fmt::format("{:>{}}", text, width);
  return result;
}

class Printer {
 public:
  explicit Printer(const Tensor& tensor) {
    const bool summarize = tensor.numel() > kSummarize;
    const Tensor shown = dequantize(summarize ? edges(tensor) : tensor);
    shape_ = shown.shape();
    for (int d = 0; d < tensor.rank(); ++d) cut_.push_back(shape_[d] < tensor.shape()[d]);
    texts_ = texts_of(shown);
  }

  std::string run() { return write(0, 0, kPrefix.size()); }

 private:
  std::string write(int dim, std::size_t offset, std::size_t indent) const {
    if (dim == shape_.rank()) return texts_.texts[offset];
    if (dim + 1 == shape_.rank()) return write_vector(offset, indent);
    const auto inner = static_cast<std::size_t>(shape_.slice(dim + 1, shape_.rank()).numel());
    const std::string separator =
        "," + std::string(static_cast<std::size_t>(shape_.rank() - dim - 1), '\n') + std::string(indent + 1, ' ');
    std::string text = "[";
    for (std::int64_t i = 0; i < shape_[dim]; ++i) {
      if (i > 0) text += separator;
      if (i == kEdge && cut_[static_cast<std::size_t>(dim)]) text += "..." + separator;
      text += write(dim + 1, offset + static_cast<std::size_t>(i) * inner, indent + 1);
    }
    return text + "]";
  }

  std::string write_vector(std::size_t offset, std::size_t indent) const {
    const std::size_t per_line = std::max<std::size_t>(1, (kLine - std::min(kLine, indent)) / (texts_.width + 2));
    std::string text = "[";
    std::size_t written = 0;
    const auto put = [&](const std::string& item) {
      if (written > 0) text += written % per_line == 0 ? ",\n" + std::string(indent + 1, ' ') : ", ";
      text += item;
      ++written;
    };
    const int dim = shape_.rank() - 1;
    for (std::int64_t i = 0; i < shape_[dim]; ++i) {
      if (i == kEdge && cut_[static_cast<std::size_t>(dim)]) put(" ...");
      put(texts_.texts[offset + static_cast<std::size_t>(i)]);
    }
    return text + "]";
  }

  Shape shape_;
  std::vector<bool> cut_;
  Texts texts_;
};

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) return "tensor(undefined)";
  const bool empty = numel() == 0;
  std::vector<std::string> suffixes;
  if (device() != Device{}) suffixes.push_back("device=" + device().to_string());
  if (empty && rank() != 1) {
    const std::string sizes = shape().to_string();
    suffixes.push_back("size=(" + sizes.substr(1, sizes.size() - 2) + ")");
  }
  const bool usual = dtype() == DType::f32 || (!empty && (dtype() == DType::i64 || dtype() == DType::boolean));
  if (!usual) suffixes.push_back("dtype=" + std::string(name_of(dtype())));
  if (encoding() != Encoding::dense) suffixes.push_back("encoding=" + std::string(name_of(encoding())));

  std::string text = std::string(kPrefix) + (empty ? "[]" : Printer(*this).run());
  const std::size_t newline = text.rfind('\n');
  std::size_t column = newline == std::string::npos ? text.size() + 2 : text.size() - newline + 1;
  for (const std::string& suffix : suffixes) {
    if (column + suffix.size() + 2 > kLine) {
      text += ",\n" + std::string(kPrefix.size(), ' ') + suffix;
      column = kPrefix.size() + suffix.size();
    } else {
      text += ", " + suffix;
      column += suffix.size() + 2;
    }
  }
  return text + ")";
}

std::ostream& operator<<(std::ostream& stream, DType dtype) { return stream << name_of(dtype); }
std::ostream& operator<<(std::ostream& stream, const Device& device) { return stream << device.to_string(); }

std::ostream& operator<<(std::ostream& stream, const Tensor& tensor) {
  return stream << tensor.to_string();
}

}  // namespace v0
}  // namespace lockstep
