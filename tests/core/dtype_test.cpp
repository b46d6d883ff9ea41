#include <lockstep/dtype.h>

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
    EXPECT_STREQ(error.what(), "unknown dtype 'float32'; known are bool u8 i8 i16 i32 i64 u32 f16 bf16 f32 f64");
  }
}

}  // namespace
}  // namespace lockstep
