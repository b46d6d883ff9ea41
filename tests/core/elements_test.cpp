// What dtypes.def says of elements agrees with the C++ types themselves.
#include "core/elements.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Kind = detail::DTypeKind;

template <typename Function> void for_each_dtype(Function function) {
  for (int i = 0; i < kDTypeCount; ++i) function(static_cast<DType>(i));
}

// Values of the enum are in hashes and cache keys.
TEST(Elements, NumbersOfDTypesStay) {
  const DType in_order[] = {DType::boolean, DType::u8,     DType::i8,     DType::i16,      DType::i32, DType::i64,
                            DType::u32,     DType::f16,    DType::bf16,   DType::f32,      DType::f64, DType::u16,
                            DType::u64,     DType::f8e4m3, DType::f8e5m2, DType::complex64};
  ASSERT_EQ(std::size(in_order), static_cast<std::size_t>(kDTypeCount));
  for (std::size_t i = 0; i < std::size(in_order); ++i) EXPECT_EQ(static_cast<std::size_t>(in_order[i]), i);
}

TEST(Elements, AreVisitedAsTheirType) {
  for_each_dtype([](DType dtype) {
    EXPECT_TRUE(visit_element(dtype, [&]<typename T>(std::type_identity<T>) {
      return dtype_of<T>() == dtype && sizeof(T) == size_of(dtype);
    }));
  });
}

TEST(Elements, LimitsAreThoseOfTheCppTypes) {
  for_each_dtype([](DType dtype) {
    SCOPED_TRACE(name_of(dtype));
    visit_element(dtype, [&]<typename T>(std::type_identity<T>) {
      if constexpr (std::is_arithmetic_v<T>) {
        using Limits = std::numeric_limits<T>;
        EXPECT_EQ(limits_of(dtype).digits, Limits::digits);
        EXPECT_EQ(largest_of(dtype), static_cast<double>(Limits::max()));
        EXPECT_EQ(lowest_of(dtype), static_cast<double>(Limits::lowest()));
        if constexpr (std::is_floating_point_v<T>) {
          EXPECT_EQ(epsilon_of(dtype), static_cast<double>(Limits::epsilon()));
        }
      }
    });
  });
}

// The bit pattern below infinity's, or below that of the one NaN where there is no infinity, and the one after 1.
template <typename T, typename Bits> void expect_limits(Bits largest, Bits one) {
  constexpr DType dtype = dtype_of<T>();
  SCOPED_TRACE(name_of(dtype));
  EXPECT_EQ(static_cast<double>(to_f32(T{largest})), largest_of(dtype));
  EXPECT_FALSE(std::isfinite(to_f32(T{static_cast<Bits>(largest + 1)})));
  EXPECT_EQ(to_f32(T{one}), 1.0f);
  EXPECT_EQ(static_cast<double>(to_f32(T{static_cast<Bits>(one + 1)})) - 1, epsilon_of(dtype));
}

TEST(Elements, LimitsAreThoseOfTheSmallFloats) {
  expect_limits<Float16>(std::uint16_t{0x7bff}, std::uint16_t{0x3c00});
  expect_limits<BFloat16>(std::uint16_t{0x7f7f}, std::uint16_t{0x3f80});
  expect_limits<Float8E4M3>(std::uint8_t{0x7e}, std::uint8_t{0x38});
  expect_limits<Float8E5M2>(std::uint8_t{0x7b}, std::uint8_t{0x3c});
}

TEST(Elements, PredicatesFollowFromTheKind) {
  std::set<DType> floats, integers, stored, zeroing;
  for_each_dtype([&](DType dtype) {
    if (is_float(dtype)) floats.insert(dtype);
    if (is_integer(dtype)) integers.insert(dtype);
    if (is_storage_only(dtype)) stored.insert(dtype);
    if (zeroes_subnormals(dtype)) zeroing.insert(dtype);
  });
  EXPECT_EQ(floats, (std::set{DType::f16, DType::bf16, DType::f32, DType::f64}));
  EXPECT_EQ(integers, (std::set{DType::u8, DType::i8, DType::i16, DType::i32, DType::i64, DType::u32}));
  EXPECT_EQ(stored, (std::set{DType::u16, DType::u64, DType::f8e4m3, DType::f8e5m2, DType::complex64}));
  EXPECT_EQ(zeroing, (std::set{DType::bf16, DType::f32}));
}

}  // namespace
}  // namespace lockstep
