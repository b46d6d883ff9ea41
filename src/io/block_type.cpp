#include "io/block_type.h"

#include <algorithm>
#include <array>
#include <string>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace io {
namespace {

constexpr std::array kTypes = {
    BlockType{0, "F32", 1, 4, StoredType::f32, nullptr},
    BlockType{1, "F16", 1, 2, StoredType::f16, nullptr},
    BlockType{2, "Q4_0", 32, 18, std::nullopt, decode_q4_0, encode_q4_0, 1},
    BlockType{3, "Q4_1", 32, 20, std::nullopt, decode_q4_1, encode_q4_1, 2},
    BlockType{6, "Q5_0", 32, 22, std::nullopt, decode_q5_0, encode_q5_0, 1},
    BlockType{7, "Q5_1", 32, 24, std::nullopt, decode_q5_1, encode_q5_1, 2},
    BlockType{8, "Q8_0", 32, 34, std::nullopt, decode_q8_0, encode_q8_0, 1},
    BlockType{9, "Q8_1", 32, 40, std::nullopt, nullptr},
    BlockType{10, "Q2_K", 256, 84, std::nullopt, decode_q2_k, encode_q2_k, 2, 80},
    BlockType{11, "Q3_K", 256, 110, std::nullopt, decode_q3_k, encode_q3_k, 1, 108},
    BlockType{12, "Q4_K", 256, 144, std::nullopt, decode_q4_k, encode_q4_k, 2},
    BlockType{13, "Q5_K", 256, 176, std::nullopt, decode_q5_k, encode_q5_k, 2},
    BlockType{14, "Q6_K", 256, 210, std::nullopt, decode_q6_k, encode_q6_k, 1, 208},
    BlockType{15, "Q8_K", 256, 292, std::nullopt, nullptr},
    BlockType{16, "IQ2_XXS", 256, 66, std::nullopt, decode_iq2_xxs},
    BlockType{17, "IQ2_XS", 256, 74, std::nullopt, decode_iq2_xs},
    BlockType{18, "IQ3_XXS", 256, 98, std::nullopt, decode_iq3_xxs},
    BlockType{19, "IQ1_S", 256, 50, std::nullopt, decode_iq1_s},
    BlockType{20, "IQ4_NL", 32, 18, std::nullopt, decode_iq4_nl, encode_iq4_nl, 1},
    BlockType{21, "IQ3_S", 256, 110, std::nullopt, decode_iq3_s},
    BlockType{22, "IQ2_S", 256, 82, std::nullopt, decode_iq2_s},
    BlockType{23, "IQ4_XS", 256, 136, std::nullopt, decode_iq4_xs, encode_iq4_xs, 1},
    BlockType{24, "I8", 1, 1, StoredType::i8, nullptr},
    BlockType{25, "I16", 1, 2, StoredType::i16, nullptr},
    BlockType{26, "I32", 1, 4, StoredType::i32, nullptr},
    BlockType{27, "I64", 1, 8, StoredType::i64, nullptr},
    BlockType{28, "F64", 1, 8, StoredType::f64, nullptr},
    BlockType{29, "IQ1_M", 256, 56, std::nullopt, decode_iq1_m},
    BlockType{30, "BF16", 1, 2, StoredType::bf16, nullptr},
    BlockType{34, "TQ1_0", 256, 54, std::nullopt, decode_tq1_0},
    BlockType{35, "TQ2_0", 256, 66, std::nullopt, decode_tq2_0},
    BlockType{39, "MXFP4", 32, 17, std::nullopt, decode_mxfp4, encode_mxfp4, 0},
    BlockType{40, "NVFP4", 64, 36, std::nullopt, decode_nvfp4},
    BlockType{41, "Q1_0", 128, 18, std::nullopt, decode_q1_0},
    BlockType{42, "Q2_0", 64, 18, std::nullopt, decode_q2_0},
};

}  // namespace

std::span<const BlockType> block_types() {
  return kTypes;
}

const BlockType* find_block_type(std::uint32_t id) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const BlockType& type) { return type.id == id; });
  return row == kTypes.end() ? nullptr : &*row;
}

Encoding encoding_of(const BlockType& type) {
  std::string name(type.name);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return 'A' <= c && c <= 'Z' ? static_cast<char>(c + 32) : c; });
#define ENCODING(encoding, ...) \
  if (name == #encoding) return Encoding::encoding;
#include <lockstep/encodings.def>
#undef ENCODING
  return Encoding::dense;
}

void decode_blocks(const BlockType& type, std::span<const std::byte> blocks, std::span<float> values) {
  LOCKSTEP_ASSERT(type.decode != nullptr && blocks.size() % type.bytes == 0);
  const std::size_t count = blocks.size() / type.bytes;
  LOCKSTEP_ASSERT(values.size() == count * type.elements);
  for (std::size_t i = 0; i < count; ++i) {
    type.decode(reinterpret_cast<const std::uint8_t*>(blocks.data()) + i * type.bytes,
                values.data() + i * type.elements);
  }
}

}  // namespace io
}  // namespace v0
}  // namespace lockstep
