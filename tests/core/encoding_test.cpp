#include <lockstep/encoding.h>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

TEST(Encoding, RowsSayWhatABlockIs) {
  const EncodingInfo& info = info_of(Encoding::q8_0);
  EXPECT_EQ(info.name, "q8_0");
  EXPECT_EQ(info.elements, 32);
  EXPECT_EQ(info.bytes, 34u);
  EXPECT_EQ(info.dtype, DType::f32);
  EXPECT_FALSE(info.what.empty());
}

TEST(Encoding, HasANameAndShowsItBesideTheDType) {
  EXPECT_EQ(name_of(Encoding::dense), "dense");
  EXPECT_EQ(name_of(Encoding::q8_0), "q8_0");
  EXPECT_EQ(type_text(DType::bf16, Encoding::dense), "bf16");
  EXPECT_EQ(type_text(DType::f32, Encoding::q8_0), "f32 (q8_0)");
}

TEST(Encoding, BytesAreThoseOfWholeBlocks) {
  EXPECT_EQ(encoded_bytes(Encoding::dense, DType::f16, 7), 14u);
  EXPECT_EQ(encoded_bytes(Encoding::q8_0, DType::f32, 0), 0u);
  EXPECT_EQ(encoded_bytes(Encoding::q8_0, DType::f32, 1), 34u);
  EXPECT_EQ(encoded_bytes(Encoding::q8_0, DType::f32, 32), 34u);
  EXPECT_EQ(encoded_bytes(Encoding::q8_0, DType::f32, 33), 68u);
  EXPECT_EQ(encoded_bytes(Encoding::q8_0, DType::f32, std::int64_t{32} << 32), std::size_t{34} << 32);
}

}  // namespace
}  // namespace lockstep
