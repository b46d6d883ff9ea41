#include "data/state.h"

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/check.h>

namespace lockstep {
inline namespace v0 {
namespace data {

void put_integer(nn::StateDict& state, std::string_view name, std::uint64_t value) {
  // As i64, which every reader of the file can compute with; the conversion keeps the bits.
  state.push_back(std::string(name), Tensor::from(std::vector{static_cast<std::int64_t>(value)}, Shape(), Device{}));
}

std::uint64_t get_integer(const nn::StateDict& state, std::string_view name) {
  const Tensor* value = state.find(name);
  if (value == nullptr || !value->defined() || value->dtype() != DType::i64 || value->numel() != 1) {
    fail<ValueError>(fmt::format("the state has no whole number \"{}\"", name), {}, "load what state_dict() gave");
  }
  return static_cast<std::uint64_t>(value->item<std::int64_t>());
}

void check_names(const nn::StateDict& state, std::initializer_list<std::string_view> names) {
  for (const auto& entry : state) {
    if (std::find(names.begin(), names.end(), entry.first) == names.end()) {
      fail<ValueError>(fmt::format("the state has an unknown entry \"{}\"", entry.first), {},
                       "load what state_dict() gave");
    }
  }
}

}  // namespace data
}  // namespace v0
}  // namespace lockstep
