// What is said of the members of a primitive (graph/primitive.h): which of them the scheduler looks at, which are bound
// at each run. A member that its primitive's list leaves out does not compile.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

namespace lockstep {
inline namespace v0 {
namespace graph {

enum class FieldUse : std::uint8_t {
  structure,  ///< what schedule() looks at: part of a plan's key
  parameter,  ///< bound at each run: one plan serves all values
};

/// A member of P and what it is used for.
template <typename P, typename T, FieldUse kUse, int kOperand = -1> struct Field {
  static constexpr FieldUse use = kUse;
  static constexpr int operand = kOperand;  ///< whose reading it describes; -1: none's
  T P::*member;
};

/// Part of a plan's key.
template <typename P, typename T> constexpr Field<P, T, FieldUse::structure> key(T P::*member) {
  return {member};
}
/// The same, and the view through which operand `kOperand` is read.
template <int kOperand, typename P, typename T>
constexpr Field<P, T, FieldUse::structure, kOperand> reads(T P::*member) {
  return {member};
}
/// A parameter of the kernels that use it.
template <typename P, typename T> constexpr Field<P, T, FieldUse::parameter> bound(T P::*member) {
  return {member};
}

/// Calls visit(field, member) for each field of `primitive`, in their order; Field's facts are static members of the
/// field's type.
template <typename P, typename Visit> constexpr void for_each_field(const P& primitive, Visit&& visit) {
  std::apply([&](const auto&... field) { (visit(field, primitive.*field.member), ...); }, P::fields);
}

namespace field_check {

struct AnyMember {
  template <typename T> operator T() const;
};
template <typename P, std::size_t... I> constexpr bool takes(std::index_sequence<I...>) {
  return requires {
    P{(static_cast<void>(I), AnyMember())...};
  };
}
template <typename A, typename B> constexpr bool differ(const A& a, const B& b) {
  if constexpr (std::is_same_v<decltype(a.member), decltype(b.member)>) {
    return a.member != b.member;
  } else {
    return true;
  }
}
template <typename P, std::size_t i, std::size_t... J> constexpr bool differs_from_others(std::index_sequence<J...>) {
  return ((i == J || differ(std::get<i>(P::fields), std::get<J>(P::fields))) && ...);
}
template <typename P, std::size_t... I> constexpr bool all_differ([[maybe_unused]] std::index_sequence<I...> all) {
  return (differs_from_others<P, I>(all) && ...);
}

}  // namespace field_check

/// Whether the fields of P are all members of P, each once.
template <typename P> constexpr bool lists_every_member() {
  using namespace field_check;
  constexpr std::size_t count = std::tuple_size_v<std::remove_const_t<decltype(P::fields)>>;
  return takes<P>(std::make_index_sequence<count>()) && !takes<P>(std::make_index_sequence<count + 1>()) &&
         all_differ<P>(std::make_index_sequence<count>());
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
