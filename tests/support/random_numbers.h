// Random numbers of a double's precision for tests: those of libstdc++'s distributions, by any compiler and library.
// Its own take two logarithms of long doubles for each number, which Clang computes, so that they were most of many
// sanitized tests.
#pragma once

#include <random>

namespace lockstep {
inline namespace v0 {
namespace testing {

/// In [low, high).
double uniform_number(std::mt19937_64& random, double low, double high);
/// Of mean 0 and deviation 1.
double normal_number(std::mt19937_64& random);

}  // namespace testing
}  // namespace v0
}  // namespace lockstep
