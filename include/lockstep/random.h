// Random numbers that are the same on every device: element i of draw d under seed s is one fixed value
// (Philox4x32-10, docs/numerics.md section 8).
#pragma once

#include <cstdint>

#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// A seed and a counter of draws. Every op that draws takes the next number when it is called, so two layers never
/// share a draw. Not thread-safe: one generator per thread, or the caller's lock.
class LOCKSTEP_API Generator {
 public:
  /// Seeded from the operating system: two runs differ.
  Generator();
  explicit Generator(std::uint64_t seed) : seed_(seed) {}

  std::uint64_t seed() const { return seed_; }
  std::uint64_t draws() const { return draws_; }
  std::uint64_t next_draw() { return draws_++; }
  /// Continues after `draws` draws, e.g. from a checkpoint.
  void restore(std::uint64_t seed, std::uint64_t draws) {
    seed_ = seed;
    draws_ = draws;
  }

 private:
  std::uint64_t seed_;
  std::uint64_t draws_ = 0;
};

/// The calling thread's generator, used where an op is given none.
LOCKSTEP_API Generator& default_generator();
/// Seeds the calling thread's generator.  PyTorch: manual_seed.
LOCKSTEP_API void manual_seed(std::uint64_t seed);

/// Uniform in [0, 1).
LOCKSTEP_API Tensor rand(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr,
                         CallSite site = {});
/// Normal with mean 0 and deviation 1 (Box-Muller).
LOCKSTEP_API Tensor randn(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr,
                          CallSite site = {});

}  // namespace v0
}  // namespace lockstep
