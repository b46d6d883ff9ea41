// The element types of GGUF files, one row each: dense ones, and blocks of quantised values, which are decoded here on
// the host. Values are those that ggml's reference code gives, bit for bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include <lockstep/encoding.h>
#include <lockstep/io/tensor_file.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// Decodes one block into as many floats as its type's row says.
using DecodeBlock = void(const std::uint8_t* block, float* values);
/// Encodes that many finite floats as one block.
using EncodeBlock = void(const float* values, std::uint8_t* block);

struct BlockType {
  std::uint32_t id;        ///< In the file.
  std::string_view name;   ///< As ggml spells it: "Q4_K".
  std::uint32_t elements;  ///< Of a block; 1 for dense types.
  std::uint32_t bytes;     ///< Of a block.
  std::optional<StoredType> dense;
  DecodeBlock* decode;  ///< Null for dense types, and for those that are known by name alone.
  EncodeBlock* encode = nullptr;     ///< Null where there is no quantiser (encode_blocks).
  std::uint32_t encoded_halves = 0;  ///< How many f16 numbers an encoder puts into a block,
  std::uint32_t halves_at = 0;       ///< one behind the other, from this byte on.
};

/// All rows, in the order of their numbers.
std::span<const BlockType> block_types();
/// The row of that number, or null.
const BlockType* find_block_type(std::uint32_t id);

/// The encoding whose blocks are those of the type (its name in small letters), or dense if there is none.
Encoding encoding_of(const BlockType& type);

/// Decodes `blocks`, whose size is a multiple of a block's, into `values`. The type must have a decoder.
void decode_blocks(const BlockType& type, std::span<const std::byte> blocks, std::span<float> values);

// The decoders. Types of 32 to 128 elements and K types: block_decode.cpp; those with tables: block_decode_grid.cpp.
DecodeBlock decode_q4_0, decode_q4_1, decode_q5_0, decode_q5_1, decode_q8_0, decode_q2_k, decode_q3_k, decode_q4_k,
    decode_q5_k, decode_q6_k, decode_q1_0, decode_q2_0, decode_tq1_0, decode_tq2_0, decode_mxfp4, decode_nvfp4,
    decode_iq4_nl, decode_iq4_xs;
DecodeBlock decode_iq2_xxs, decode_iq2_xs, decode_iq2_s, decode_iq3_xxs, decode_iq3_s, decode_iq1_s, decode_iq1_m;

// The encoders: block_encode.cpp, block_encode_search.cpp.
EncodeBlock encode_q4_0, encode_q4_1, encode_q5_0, encode_q5_1, encode_q8_0, encode_mxfp4;
EncodeBlock encode_q2_k, encode_q3_k, encode_q4_k, encode_q5_k, encode_q6_k, encode_iq4_nl, encode_iq4_xs;

}  // namespace io
}  // namespace v0
}  // namespace lockstep
