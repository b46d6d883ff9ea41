// What random ops share: the words of a draw.
#pragma once

#include <lockstep/random.h>

#include "graph/make.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

inline Generator& given_or_default(Generator* generator) {
  return generator != nullptr ? *generator : default_generator();
}

/// The u32 words of the generator's next draw.
Tensor random_words(const Shape& shape, Device device, Generator& generator);
/// 64 random bits per element, as i64: the words of one draw above those of the next.
Tensor random_words64(const Shape& shape, Device device, Generator& generator);
/// Bool: true with probability 1 - p, where the word is at least floor(p * 2^32). One draw.
Tensor random_keep(double p, const Shape& shape, Device device, Generator& generator);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
