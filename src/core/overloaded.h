// Lambdas as one overload set, for std::visit over the alternatives of a closed set: one without a lambda that takes it
// does not compile. What is right to leave out is named (OneOf), never caught by a lambda that takes anything.
#pragma once

#include <type_traits>

namespace lockstep {
inline namespace v0 {

template <typename... Functions> struct overloaded : Functions... { using Functions::operator()...; };
template <typename... Functions> overloaded(Functions...) -> overloaded<Functions...>;

/// T is one of these, e.g. `[](const OneOf<Data, ViewOf> auto&) {}`.
template <typename T, typename... Types>
concept OneOf = (std::is_same_v<T, Types> || ...);

}  // namespace v0
}  // namespace lockstep
