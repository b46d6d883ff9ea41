#include <lockstep/dtype.h>

#include <cmath>

#include <gtest/gtest.h>

#include <lockstep/error.h>

namespace lockstep {
namespace {

TEST(DType, NamesParseBack) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(parse_dtype(name_of(dtype)), dtype);
  }
  EXPECT_EQ(name_of(DType::boolean), "bool");
  EXPECT_EQ(name_of(DType::bf16), "bf16");
}

TEST(DType, AnUnknownNameSaysWhatIsKnown) {
  try {
    parse_dtype("float32");
    FAIL();
  } catch (const DTypeError& error) {
    EXPECT_STREQ(error.what(), "unknown dtype 'float32'; known are bool u8 i8 i16 i32 i64 u32 f16 bf16 f32 f64 u16 u64 "
                               "f8e4m3 f8e5m2 complex64");
  }
}

TEST(DType, EightBitFloatsAreExactInF32) {
  EXPECT_EQ(to_f32(Float8E4M3{0x7e}), 448.0f);
  EXPECT_EQ(to_f32(Float8E4M3{0x38}), 1.0f);
  EXPECT_EQ(to_f32(Float8E4M3{0x81}), -0x1p-9f);
  EXPECT_EQ(to_f32(Float8E4M3{0x08}), 0x1p-6f);
  EXPECT_TRUE(std::isnan(to_f32(Float8E4M3{0xff})));
  EXPECT_EQ(to_f32(Float8E5M2{0x7b}), 57344.0f);
  EXPECT_EQ(to_f32(Float8E5M2{0xfc}), -INFINITY);
  EXPECT_EQ(to_f32(Float8E5M2{0x01}), 0x1p-16f);
}

}  // namespace
}  // namespace lockstep
