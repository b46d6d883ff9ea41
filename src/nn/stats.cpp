#include <lockstep/nn/stats.h>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace {

std::vector<double> numbers_of(const Tensor& tensor) {
  const Device host{};
  const Tensor dense = (tensor.encoding() == Encoding::dense ? tensor : dequantize(tensor)).to(host);
  return dense.to(DType::f64).to_vector<double>();
}

TensorStats stats_of(const std::string& name, const Tensor& tensor) {
  TensorStats result{.name = name, .dtype = tensor.dtype(), .shape = tensor.shape()};
  if (is_storage_only(tensor.dtype())) return result;
  double sum = 0;
  std::int64_t count = 0;
  const std::vector<double> values = numbers_of(tensor);
  for (const double value : values) {
    if (!std::isfinite(value)) {
      ++result.not_finite;
      continue;
    }
    result.least = count == 0 ? value : std::min(result.least, value);
    result.most = count == 0 ? value : std::max(result.most, value);
    result.zeros += value == 0 ? 1 : 0;
    sum += value;
    ++count;
  }
  if (count == 0) return result;
  result.mean = sum / static_cast<double>(count);
  double squares = 0;
  for (const double value : values) squares += std::isfinite(value) ? (value - result.mean) * (value - result.mean) : 0;
  result.deviation = std::sqrt(squares / static_cast<double>(count));
  return result;
}

}  // namespace

ModelStats stats(const nn::Module& model) {
  const NoGrad no_grad;
  ModelStats result;
  for (const auto& [name, parameter] : model.named_parameters()) {
    TensorStats line = stats_of(name, parameter.tensor());
    const Tensor& gradient = parameter.grad();
    if (gradient.defined() && gradient.numel() > 0) {
      double squares = 0;
      const std::vector<double> values = numbers_of(gradient);
      for (const double value : values) squares += value * value;
      line.gradient = std::sqrt(squares / static_cast<double>(values.size()));
    }
    result.tensors.push_back(std::move(line));
  }
  for (const auto& [name, buffer] : model.named_buffers()) result.tensors.push_back(stats_of(name, buffer.tensor()));
  return result;
}

std::string ModelStats::to_string() const {
  std::size_t width = 4;
  for (const TensorStats& line : tensors) width = std::max(width, line.name.size());
  std::string text = fmt::format("{:{}}  {:>10} {:>10} {:>10} {:>10} {:>8} {:>10} {:>10}  {}\n", "name", width, "mean",
                                 "deviation", "least", "most", "zeros", "not finite", "gradient", "shape");
  for (const TensorStats& line : tensors) {
    text += fmt::format("{:{}}  {:>10.3g} {:>10.3g} {:>10.3g} {:>10.3g} {:>8} {:>10} {:>10}  {} {}\n", line.name, width,
                        line.mean, line.deviation, line.least, line.most, line.zeros, line.not_finite,
                        line.gradient < 0 ? "-" : fmt::format("{:.3g}", line.gradient), name_of(line.dtype),
                        line.shape.to_string());
  }
  return text;
}

}  // namespace v0
}  // namespace lockstep
