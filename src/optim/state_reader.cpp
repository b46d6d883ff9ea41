#include "optim/state_reader.h"

#include <fmt/format.h>

#include <lockstep/check.h>

namespace lockstep {
inline namespace v0 {
namespace optim {

StateReader::StateReader(const char* of, const nn::StateDict& state) : of_(of) {
  for (const auto& [key, tensor] : state) {
    check_defined({{key, tensor}});
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
  return value.defined() ? value.item<double>() : 0;
}

std::int64_t StateReader::count(const std::string& key) {
  const Tensor value = tensor(key, DType::i64, {});
  const std::int64_t count = value.defined() ? value.item<std::int64_t>() : 0;
  if (count < 0) {
    ++others_;
    note("negative", key, DType::i64, {}, fmt::format(": {}", count));
  }
  return count;
}

void StateReader::finish() {
  for (const auto& [key, tensor] : given_) note("unexpected", key, tensor->dtype(), tensor->shape(), "");
  if (problems_.empty()) return;
  problems_.pop_back();  // the end of the last line
  const std::string what =
      fmt::format("the state does not fit {}: {} missing, {} unexpected, {} misshaped, {} mistyped\n{}", of_, missing_,
                  given_.size(), misshaped_, mistyped_, problems_);
  constexpr const char* kFix = "make it as it was when the state was saved";
  if (missing_ == 0 && given_.empty() && others_ == 0) {
    if (mistyped_ == 0) fail<ShapeError>(what, {}, kFix);
    if (misshaped_ == 0) fail<DTypeError>(what, {}, kFix);
  }
  fail<ValueError>(what, {}, kFix);
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
