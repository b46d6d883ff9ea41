// Rotary embeddings as published models were trained with them: frequencies and angles rounded to f32 where the
// original code (transformers) rounds them, cosines and sines of those angles computed in f64 and rounded once.
#pragma once

#include <span>
#include <vector>

#include <lockstep/ops/attention.h>

#include "models/language/config.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// One frequency for each pair of rotated elements.
std::vector<float> rotary_frequencies(const RotaryConfig& config);

/// For positions first ... first + length - 1.
RopeTables rotary_tables(const RotaryConfig& config, std::int64_t first, std::int64_t length, Device device);
/// Of any positions.
RopeTables rotary_tables(const RotaryConfig& config, std::span<const std::int64_t> positions, Device device);

}  // namespace models
}  // namespace v0
}  // namespace lockstep
