#include "optim/state_reader.h"

#include <fmt/format.h>

#include "graph/check.h"

namespace lockstep {
inline namespace v0 {
namespace optim {

StateReader::StateReader(const char* of, const nn::StateDict& state, CallSite site) : of_(of), site_(site) {
  for (const auto& [key, tensor] : state) {
    graph::check_defined("load_state_dict", {{key, tensor}}, site);
    given_.emplace(key, &tensor);
  }
}

void StateReader::note(const char* problem, std::string_view key, DType dtype, const Shape& shape,
                       const std::string& rest) {
  problems_ += fmt::format("  {:<11} {:<40} {} {}{}\n", problem, key, name_of(dtype), shape.to_string(), rest);
}

Tensor StateReader::tensor(const std::string& key, DType dtype, const Shape& shape) {
  const auto found = given_.find(key);
  if (found == given_.end()) {
    ++missing_;
    note("missing", key, dtype, shape, "");
    return {};
  }
  const Tensor value = *found->second;
  given_.erase(found);
  if (value.shape() != shape) {
    ++misshaped_;
    note("misshaped", key, value.dtype(), value.shape(), fmt::format(", wanted {}", shape.to_string()));
    return {};
  }
  if (value.dtype() != dtype) {
    ++mistyped_;
    note("mistyped", key, value.dtype(), value.shape(), fmt::format(", wanted {}", name_of(dtype)));
    return {};
  }
  return value;
}

double StateReader::number(const std::string& key) {
  const Tensor value = tensor(key, DType::f64, {});
  return value.defined() ? value.item<double>(site_) : 0;
}

std::int64_t StateReader::count(const std::string& key) {
  const Tensor value = tensor(key, DType::i64, {});
  const std::int64_t count = value.defined() ? value.item<std::int64_t>(site_) : 0;
  if (count < 0) {
    ++others_;
    note("negative", key, DType::i64, {}, fmt::format(": {}", count));
  }
  return count;
}

void StateReader::finish() {
  for (const auto& [key, tensor] : given_) note("unexpected", key, tensor->dtype(), tensor->shape(), "");
  if (problems_.empty()) return;
  const std::string text = fmt::format(
      "load_state_dict: the state does not fit {}: {} missing, {} unexpected, {} misshaped, {} mistyped\n{}"
      "  fix: make it as it was when the state was saved\n  at {}:{}",
      of_, missing_, given_.size(), misshaped_, mistyped_, problems_, site_.file, site_.line);
  if (missing_ == 0 && given_.empty() && others_ == 0) {
    if (mistyped_ == 0) throw ShapeError(text);
    if (misshaped_ == 0) throw DTypeError(text);
  }
  throw ValueError(text);
}

Tensor saved_number(double value) {
  return Tensor::from<double>({value}, {});
}

Tensor saved_count(std::int64_t value) {
  return Tensor::from<std::int64_t>({value}, {});
}

}  // namespace optim
}  // namespace v0
}  // namespace lockstep
