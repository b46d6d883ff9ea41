// Rotary embeddings as published models were trained with them: frequencies and angles rounded to f32 where the
// original code (transformers) rounds them, cosines and sines of those angles computed in f64 and rounded once.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include <lockstep/ops/attention.h>

#include "models/language/config.h"

namespace lockstep {
inline namespace v0 {
namespace models {

/// One frequency for each pair of rotated elements.
std::vector<float> rotary_frequencies(const RotaryConfig& config);

/// Cosines and sines of positions, [positions, dims / 2]. Those that were asked for before are not computed again, up
/// to some 65,000 positions. Any thread.
class RotaryTurns {
 public:
  explicit RotaryTurns(const RotaryConfig& config);
  RopeTables at(std::span<const std::int64_t> positions, Device device) const;

 private:
  struct Kept;
  void compute(std::int64_t position, float* row) const;

  std::vector<float> frequencies_;
  float amplitude_;
  std::shared_ptr<Kept> kept_;
};

}  // namespace models
}  // namespace v0
}  // namespace lockstep
