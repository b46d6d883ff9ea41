// One hash for all weights of a model.
#pragma once

#include <cstdint>

#include <lockstep/nn/module.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// Of names and values, in their order.
std::uint64_t hash_of(const nn::StateDict& state);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
