#include "backends/gpu/renderer/packed_piece.h"

#include <fmt/format.h>

#include <lockstep/encoding.h>

#include "core/assert.h"

namespace lockstep {
inline namespace v0 {
namespace gpu {

PackedPiece::PackedPiece(Encoding encoding)
    : encoding_(encoding),
      each_(static_cast<int>(info_of(encoding).bytes)),
      bytes_(each_ * kElements / static_cast<int>(info_of(encoding).elements)) {}

// The first byte of the block that 32 elements are in.
int PackedPiece::first_of(int block) const {
  return block * 32 / static_cast<int>(info_of(encoding_).elements) * each_;
}

std::string PackedPiece::word(int byte) const {
  const int at = byte / 4;
  const int shift = byte % 4 * 8;
  if (shift == 0) return fmt::format("piece[{}]", at);
  return fmt::format("(piece[{}] >> {} | piece[{}] << {})", at, shift, at + 1, 32 - shift);
}
std::string PackedPiece::byte(int at) const {
  return fmt::format("(piece[{}] >> {} & 255u)", at / 4, at % 4 * 8);
}
std::string PackedPiece::half_word(int byte) const {
  const int shift = byte % 4 * 8;
  if (shift == 24) return fmt::format("({} & 65535u)", word(byte));
  return fmt::format("(piece[{}] >> {} & 65535u)", byte / 4, shift);
}
std::string PackedPiece::half(int byte) const {
  return fmt::format("ANY_DECODE_F16({})", half_word(byte));
}
// Codes of 32 elements in 16 bytes, the first half in the low bits.
std::string PackedPiece::nibbles(int first, int word_of) const {
  return fmt::format("({} >> {} & 0x0f0f0f0fu)", word(first + word_of % 4 * 4), word_of / 4 * 4);
}

int PackedPiece::bias() const {
  switch (encoding_) {
    case Encoding::q4_0: return 8;
    case Encoding::q5_0: return 16;
    case Encoding::q3_k: return 4;
    case Encoding::q6_k: return 32;
    case Encoding::dense:
    case Encoding::q8_0:
    case Encoding::q4_1:
    case Encoding::q5_1:
    case Encoding::q2_k:
    case Encoding::q4_k:
    case Encoding::q5_k:
    case Encoding::iq4_nl:
    case Encoding::iq4_xs:
    case Encoding::mxfp4:
    case Encoding::e4m3:
    case Encoding::e4m3_rows:
    case Encoding::e4m3_squares:
    case Encoding::e5m2:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return 0;
}

bool PackedPiece::has_signed_codes() const {
  return encoding_ == Encoding::q8_0 || encoding_ == Encoding::iq4_nl || encoding_ == Encoding::iq4_xs ||
         encoding_ == Encoding::mxfp4;
}

// Levels of four codes, as the bytes of a word; and 2^(byte - 128) as group_mxfp4 has it.
std::string PackedPiece::functions() const {
  const bool float4 = encoding_ == Encoding::mxfp4;
  if (!float4 && encoding_ != Encoding::iq4_nl && encoding_ != Encoding::iq4_xs) return "";
  std::string text;
  if (float4) {
    text +=
        R"(FUNCTION float power_of_byte(UINT power) { return FROM_BITS(SELECT(power < 3u, 0u, (power - 1u) << 23)); }
FUNCTION int level_of(UINT code) {
  int level = e2m1_level(code & 7u);
  return SELECT((code & 8u) != 0u, -level, level);
}
)";
  } else {
    text += "FUNCTION int level_of(UINT code) { return uneven_level(int(code)); }\n";
  }
  return text + R"(FUNCTION UINT levels_of(UINT codes) {
  UINT levels = UINT(level_of(codes & 15u)) & 255u;
  levels = levels | (UINT(level_of(codes >> 8 & 15u)) & 255u) << 8;
  levels = levels | (UINT(level_of(codes >> 16 & 15u)) & 255u) << 16;
  return levels | UINT(level_of(codes >> 24 & 15u)) << 24;
}
)";
}

std::string PackedPiece::codes(int block, int w) const {
  const int first = first_of(block);
  // Bits 4 w to 4 w + 3 of a word, as the fifth ones of four codes.
  const auto fifth_of = [&](int at) {
    return fmt::format("((({} >> {} & 15u) * 0x00204081u & 0x01010101u) << 4)", word(at), 4 * w);
  };
  // One bit of each byte of a word.
  const auto bit = [&](int at, int shift, int to) {
    return fmt::format("(({} >> {} & 0x01010101u) << {})", word(at), shift, to);
  };
  const auto two_bits = [&](int at) {
    return fmt::format("({} >> {} & 0x03030303u)", word(at + block / 4 * 32 + 4 * w), block % 4 * 2);
  };
  const auto four_bits = [&](int at) {
    return fmt::format("({} >> {} & 0x0f0f0f0fu)", word(at + block / 2 * 32 + 4 * w), block % 2 * 4);
  };
  switch (encoding_) {
    case Encoding::q8_0: return word(first + 2 + 4 * w);
    case Encoding::q4_0: return nibbles(first + 2, w);
    case Encoding::q4_1: return nibbles(first + 4, w);
    case Encoding::q5_0: return fmt::format("({} | {})", nibbles(first + 6, w), fifth_of(first + 2));
    case Encoding::q5_1: return fmt::format("({} | {})", nibbles(first + 8, w), fifth_of(first + 4));
    case Encoding::q2_k: return two_bits(16);
    case Encoding::q3_k: return fmt::format("({} | {})", two_bits(32), bit(4 * w, block, 2));
    case Encoding::q4_k: return four_bits(16);
    case Encoding::q5_k: return fmt::format("({} | {})", four_bits(48), bit(16 + 4 * w, block, 4));
    case Encoding::q6_k:
      return fmt::format("(({} >> {} & 0x0f0f0f0fu) | {} << 4)", word(block / 4 * 64 + block % 2 * 32 + 4 * w),
                         block % 4 / 2 * 4, two_bits(128));
    case Encoding::iq4_nl: return fmt::format("levels_of({})", nibbles(first + 2, w));
    case Encoding::iq4_xs: return fmt::format("levels_of({})", nibbles(8 + 16 * block, w));
    case Encoding::mxfp4: return fmt::format("levels_of({})", nibbles(first + 1, w));
    case Encoding::e4m3:
    case Encoding::e4m3_rows:
    case Encoding::e4m3_squares:
    case Encoding::e5m2: return word(first + 4 + block % 4 * 32 + 4 * w);
    case Encoding::dense:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  LOCKSTEP_ASSERT(false);
  return "";
}

// In the upper half of a byte a code of four bits has its sign after one instruction.
int PackedPiece::code_step() const {
  return encoding_ == Encoding::q4_0 ? 16 : 1;
}
std::string PackedPiece::signed_codes(int block, int w) const {
  if (encoding_ == Encoding::q4_0) {
    return fmt::format("({}{} & 0xf0f0f0f0u ^ 0x80808080u)", word(first_of(block) + 2 + w % 4 * 4), w < 4 ? " << 4" : "");
  }
  return unscaled_codes(block, w);
}
std::string PackedPiece::unscaled_codes(int block, int w) const {
  if (bias() == 0) return codes(block, w);
  // They are no more than 127 with their bias.
  return fmt::format("((({}) | 0x80808080u) - {}u ^ 0x80808080u)", codes(block, w), bias() * 0x01010101);
}

std::string PackedPiece::scale(int block) const {
  const int first = first_of(block);
  if (encoding_ == Encoding::mxfp4) return fmt::format("power_of_byte({})", byte(first));
  if (is_floats(encoding_)) return fmt::format("operand_f32(FROM_BITS({}))", word(first));
  return half(first + static_cast<int>(info_of(encoding_).first_half));
}
std::string PackedPiece::offset(int block) const {
  return half(first_of(block) + static_cast<int>(info_of(encoding_).first_half) + 2);
}

std::string PackedPiece::factor(int block, int half_of) const {
  const int number = 2 * block + half_of;  // of a group of 16
  switch (encoding_) {
    case Encoding::q2_k: return fmt::format("int({} & 15u)", byte(number));
    case Encoding::q3_k:
      return fmt::format("(int(({} >> {} & 15u) | ({} >> {} & 3u) << 4) - 32)", byte(96 + number % 8), number / 8 * 4,
                         byte(104 + number % 4), number / 4 * 2);
    case Encoding::q4_k:
    case Encoding::q5_k:
      return block < 4 ? fmt::format("int({} & 63u)", byte(4 + block))
                       : fmt::format("int(({} & 15u) | ({} >> 6) << 4)", byte(8 + block), byte(block));
    case Encoding::q6_k: return fmt::format("signed_byte({})", byte(192 + number));
    case Encoding::iq4_xs:
      return fmt::format("(int(({} >> {} & 15u) | ({} >> {} & 3u) << 4) - 32)", byte(4 + block / 2), block % 2 * 4,
                         half_word(2), 2 * block);
    case Encoding::dense:
    case Encoding::q8_0:
    case Encoding::q4_0:
    case Encoding::q4_1:
    case Encoding::q5_0:
    case Encoding::q5_1:
    case Encoding::iq4_nl:
    case Encoding::mxfp4:
    case Encoding::e4m3:
    case Encoding::e4m3_rows:
    case Encoding::e4m3_squares:
    case Encoding::e5m2:
    case Encoding::f16:
    case Encoding::bf16: break;
  }
  return "1";
}

std::string PackedPiece::share(int block, int half_of) const {
  if (encoding_ == Encoding::q2_k) return fmt::format("-int({} >> 4)", byte(2 * block + half_of));
  if (encoding_ == Encoding::q4_k || encoding_ == Encoding::q5_k) {
    return block < 4 ? fmt::format("-int({} & 63u)", byte(8 + block))
                     : fmt::format("-int({} >> 4 | ({} >> 6) << 4)", byte(8 + block), byte(4 + block));
  }
  return "1";
}

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
