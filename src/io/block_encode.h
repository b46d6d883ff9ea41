// Writes float values as blocks of GGUF's quantised types: the bytes that ggml's reference code (ggml_quantize_chunk)
// and, of the types that it has, the Python package gguf (0.19) write without an importance matrix. Which types can be
// written says the column `encode` of block_type.cpp.
#pragma once

#include <cstddef>
#include <span>

#include "io/block_type.h"

namespace lockstep {
inline namespace v0 {
namespace io {

/// Encodes `values`, whose number is a multiple of a block's elements, into `blocks`, which have room for just them.
/// Every operation is rounded to f32 by itself; the bytes are the same on every machine. A block whose scale is so
/// small that its inverse overflows (it is stored as 0) holds the codes of zeros, where gguf's are undefined.
/// ValueError for types without an encoder (it lists those that have one), for a value that is not finite, and for a
/// block whose f16 scale or minimum would be infinite.
void encode_blocks(const BlockType& type, std::span<const float> values, std::span<std::byte> blocks);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
