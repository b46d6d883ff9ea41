// What is said of the primitives once is what plans are found by: over the fields of each, so that a new one is tested
// without a line here.
#include "graph/primitive.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/plan_key.h"

namespace lockstep {
namespace {

using namespace graph;

template <typename... T> PlanKey key_of(const T&... values) {
  PlanKey key;
  append(key, values...);
  return key;
}

// Values that differ from the given one, and from each other.
std::vector<bool> others(bool value) {
  return {!value};
}
template <typename T>
requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) std::vector<T> others(T value) {
  return {static_cast<T>(value + 1), static_cast<T>(value - 1), static_cast<T>(value + (T{1} << (8 * sizeof(T) - 2)))};
}
template <typename T>
requires std::is_enum_v<T> std::vector<T> others(T value) {
  const int number = static_cast<int>(value);
  return {static_cast<T>(number + 1), static_cast<T>(number + 2)};
}
std::vector<Scalar> others(const Scalar& value) {
  return {{value.bits + 1}};
}
std::vector<std::array<Scalar, 3>> others(const std::array<Scalar, 3>& value) {
  std::vector<std::array<Scalar, 3>> result(3, value);
  for (std::size_t i = 0; i < 3; ++i) result[i][i].bits += 1;
  return result;
}
std::vector<Shape> others(const Shape& value) {
  std::vector<Shape> result(1, value);
  result.back().push_back(value.rank() > 0 ? value.back() : 0);
  for (int d = 0; d < value.rank(); ++d) {
    result.push_back(value);
    result.back()[d] += 1;
  }
  return result;
}
// `whole` with `member` of it, which is part of `base`, replaced by each other value.
template <typename Whole, typename T> void add_others(std::vector<Whole>& result, const Whole& base, T Whole::*member) {
  for (const T& other : others(base.*member)) {
    result.push_back(base);
    result.back().*member = other;
  }
}
std::vector<View> others(const View& value) {
  std::vector<View> result;
  add_others(result, value, &View::shape);
  add_others(result, value, &View::strides);
  add_others(result, value, &View::offset);
  add_others(result, value, &View::fill);
  std::vector<Bound> bounds;
  add_others(bounds, value.bounds[0], &Bound::offset);
  add_others(bounds, value.bounds[0], &Bound::m);
  add_others(bounds, value.bounds[0], &Bound::lo);
  add_others(bounds, value.bounds[0], &Bound::hi);
  add_others(bounds, value.bounds[0], &Bound::step);
  add_others(bounds, value.bounds[0], &Bound::stride);
  for (const Bound& bound : bounds) {
    result.push_back(value);
    result.back().bounds[0] = bound;
  }
  result.push_back(value);
  result.back().bounds.push_back(value.bounds[0]);
  result.push_back(value);
  result.back().bounds.clear();
  return result;
}

const View kView = *View::contiguous({2, 3}).padded(1, 1, 1, 7);

void set_up(View& view) {
  view = kView;
}
void set_up(Shape& shape) {
  shape = {2, 3};
}
template <typename T> void set_up(T&) {}

// P with views that have bounds, so that all their members count.
template <typename P> P example() {
  P primitive;
  std::apply([&](const auto&... field) { (set_up(primitive.*field.member), ...); }, P::fields);
  return primitive;
}

template <typename P> class EveryPrimitive : public ::testing::Test {};
template <typename Variant> struct AllOf;
template <typename... P> struct AllOf<std::variant<P...>> {
  using Types = ::testing::Types<typename UnboxedType<P>::type...>;
};
TYPED_TEST_SUITE(EveryPrimitive, AllOf<Primitive>::Types);

TYPED_TEST(EveryPrimitive, KeyDiffersWithEachFieldOfTheStructureAndWithNoOther) {
  const TypeParam base = example<TypeParam>();
  const PlanKey key = key_of(Primitive(base));
  std::set<PlanKey> seen{key};
  std::size_t structures = 0;
  for_each_field(base, [&]<typename F>(const F& field, const auto& member) {
    for (const auto& other : others(member)) {
      TypeParam changed = base;
      changed.*field.member = other;
      if (F::use == FieldUse::structure) {
        ++structures;
        seen.insert(key_of(Primitive(changed)));
      } else {
        EXPECT_EQ(key_of(Primitive(changed)), key);
      }
    }
  });
  EXPECT_EQ(seen.size(), structures + 1);
}

TYPED_TEST(EveryPrimitive, HasAKeyOfItsOwn) {
  const PlanKey key = key_of(Primitive(example<TypeParam>()));
  const auto differs = [&]<typename Other>(const Other&) {
    return std::is_same_v<Other, TypeParam> || key_of(Primitive(example<Other>())) != key;
  };
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    EXPECT_TRUE((differs(typename UnboxedType<std::variant_alternative_t<I, Primitive>>::type()) && ...));
  }
  (std::make_index_sequence<std::variant_size_v<Primitive>>());
}

TYPED_TEST(EveryPrimitive, HasAViewOfItsOwnForTheOperandsThatItSays) {
  const Primitive primitive = example<TypeParam>();
  std::size_t views = 0;
  for_each_field(*primitive_if<TypeParam>(primitive), [&]<typename F>(const F&, const auto& member) {
    if constexpr (F::operand >= 0) {
      EXPECT_EQ(own_view_of(primitive, static_cast<std::size_t>(F::operand)), &member);
      ++views;
    }
  });
  for (std::size_t i = 0; i < 3; ++i) views -= own_view_of(primitive, i) != nullptr;
  EXPECT_EQ(views, 0u);
}

TYPED_TEST(EveryPrimitive, SaysNothingOfOperandsThatItDoesNotHave) {
  const Form form = TypeParam::traits.form;
  const bool reads = form != Form::given && form != Form::source;
  EXPECT_TRUE(reads || TypeParam::traits.reads_anywhere == 0);
  EXPECT_TRUE(reads || !TypeParam::traits.checks_index);
  EXPECT_STREQ(name_of(Primitive(TypeParam())), TypeParam().op_name());
  EXPECT_NE(std::string(TypeParam().op_name()), "");
}

// Only copies of boxed ones have memory of their own.
TEST(Primitive, CopiesAreDeepAndMovesAreNot) {
  Contract product;
  product.m = {5};
  Primitive first = product;
  const Contract* const at = primitive_if<Contract>(first);
  Primitive copy = first;
  primitive_if<Contract>(copy)->m = {7};
  EXPECT_EQ(primitive_if<Contract>(first)->m, Shape({5}));
  const Primitive moved = std::move(first);
  EXPECT_EQ(primitive_if<Contract>(moved), at);
  copy = moved;
  EXPECT_EQ(primitive_if<Contract>(copy)->m, Shape({5}));
  EXPECT_EQ(primitive_if<Gather>(copy), nullptr);
}

TEST(Primitive, ParametersAreNumberedThroughTheFieldsThatAreBound) {
  EXPECT_EQ(parameter_of(Full{{7}}, 0).bits, 7u);
  EXPECT_EQ(parameter_of(Random{.seed = 3, .draw = 4}, 0).bits, 3u);
  EXPECT_EQ(parameter_of(Random{.seed = 3, .draw = 4}, 1).bits, 4u);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(parameter_of(Elementwise{Op::where, {Scalar{10}, Scalar{11}, Scalar{12}}}, i).bits, 10u + i);
  }
  EXPECT_THROW(parameter_of(Iota{}, 0), InternalError);
  EXPECT_THROW(parameter_of(Random{}, 2), InternalError);
}

TEST(Primitive, WhatOnlyMovesElementsDependsOnTheOp) {
  EXPECT_EQ(results_of(Elementwise{.op = Op::copy}), Results::moved);
  EXPECT_EQ(results_of(Elementwise{.op = Op::add}), Results::computed);
  EXPECT_EQ(results_of(Elementwise{.op = Op::lt}), Results::computed);
  EXPECT_EQ(results_of(Scatter{.op = ScatterOp::set}), Results::moved);
  EXPECT_EQ(results_of(Scatter{.op = ScatterOp::add}), Results::mixed);
}

TEST(PlanKey, SmallValuesThatShareAWordKeepTheirPlaces) {
  const auto byte = [](int value) { return static_cast<std::uint8_t>(value); };
  EXPECT_EQ(key_of(byte(1), byte(2), byte(3)), PlanKey{0x030201});
  EXPECT_NE(key_of(byte(1), byte(0)), key_of(byte(0), byte(1)));
  EXPECT_NE(key_of(true, false), key_of(false, true));
  EXPECT_EQ(key_of(byte(1), std::int64_t{2}), (PlanKey{1, 2}));
  // A negative value has no more bits than its type.
  EXPECT_EQ(key_of(-1, 0), PlanKey{0xffffffff});
  EXPECT_EQ(key_of(std::int64_t{-1}, 2), (PlanKey{~std::uint64_t{0}, 2}));
}

TEST(PlanKey, ShapesThatFollowEachOtherAreNotTakenForOthers) {
  const auto both = [](const Shape& a, const Shape& b) {
    PlanKey key;
    append(key, a);
    append(key, b);
    return key;
  };
  EXPECT_NE(both({1, 2}, {3}), both({1}, {2, 3}));
  EXPECT_NE(both({}, {0}), both({0}, {}));
}

}  // namespace
}  // namespace lockstep
