// Whole numbers in state dicts, for what loaders and generators save of themselves.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace data {

void put_integer(nn::StateDict& state, std::string_view name, std::uint64_t value);
/// ValueError if there is no such number, or it is not one i64.
std::uint64_t get_integer(const nn::StateDict& state, std::string_view name);
/// ValueError if there is any other name.
void check_names(const nn::StateDict& state, std::initializer_list<std::string_view> names);

}  // namespace data
}  // namespace v0
}  // namespace lockstep
