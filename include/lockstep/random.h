// Random numbers that are the same on every device, with any number of threads: element i of draw d under seed s is one
// fixed value (Philox4x32-10, docs/numerics.md section 8).
//
// Every op that draws takes the next draw (or two) of its generator when it is called; without one, of the calling
// thread's generator. Shapes, devices and dtypes are checked as everywhere: ShapeError, DeviceError, DTypeError.
#pragma once

#include <cstdint>
#include <optional>

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

// --- numbers of float types -----------------------------------------------------------------------------------------
/// Uniform in [0, 1): multiples of 2^-24 (f32), 2^-11 (f16), 2^-8 (bf16), 2^-53 (f64).
LOCKSTEP_API Tensor rand(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr,
                         CallSite site = {});
/// Normal with mean 0 and deviation 1 (Box-Muller).
LOCKSTEP_API Tensor randn(const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr,
                          CallSite site = {});
/// low + (high - low) * rand, rounded once; high itself may occur by rounding.  PyTorch: Tensor.uniform_.
LOCKSTEP_API Tensor uniform(double low, double high, const Shape& shape, TensorOptions options = {},
                            Generator* generator = nullptr, CallSite site = {});
/// mean + deviation * randn, rounded once.  PyTorch: normal(mean, std, size).
LOCKSTEP_API Tensor normal(double mean, double deviation, const Shape& shape, TensorOptions options = {},
                           Generator* generator = nullptr, CallSite site = {});
/// The same for tensors (or a tensor and a scalar) of means and deviations, which broadcast.
LOCKSTEP_API Tensor normal(const Operand& mean, const Operand& deviation, Generator* generator = nullptr);
/// -log(1 - uniform) / rate. ValueError unless rate > 0.  PyTorch: Tensor.exponential_.
LOCKSTEP_API Tensor exponential(const Shape& shape, double rate = 1, TensorOptions options = {},
                                Generator* generator = nullptr, CallSite site = {});

// With one option: rand({2}, DType::f64), randn(3, device).
template <OneOption Option> Tensor rand(const Shape& shape, Option option, CallSite site = {}) {
  return rand(shape, tensor_options(option), nullptr, site);
}
template <OneOption Option> Tensor randn(const Shape& shape, Option option, CallSite site = {}) {
  return randn(shape, tensor_options(option), nullptr, site);
}

// Sizes without braces: randn(2, 3).
template <Integer... Rest> Tensor rand(detail::SizeHere a, detail::SizeHere b, Rest... rest) {
  return rand(detail::list_of<Shape>(a, b, rest...), {}, nullptr, a.site);
}
template <Integer... Rest> Tensor randn(detail::SizeHere a, detail::SizeHere b, Rest... rest) {
  return randn(detail::list_of<Shape>(a, b, rest...), {}, nullptr, a.site);
}

// --- integers and choices -------------------------------------------------------------------------------------------
/// Integers in [low, high), each equally likely to within 2^-64 of their number. ValueError if there is none,
/// DTypeError if the dtype cannot hold them all.
LOCKSTEP_API Tensor randint(std::int64_t low, std::int64_t high, const Shape& shape,
                            TensorOptions options = {.dtype = DType::i64}, Generator* generator = nullptr,
                            CallSite site = {});
/// A random order of 0 ... n - 1.
LOCKSTEP_API Tensor randperm(std::int64_t n, TensorOptions options = {.dtype = DType::i64},
                             Generator* generator = nullptr, CallSite site = {});
/// 1 with probability p, else 0. ValueError unless 0 <= p <= 1.
LOCKSTEP_API Tensor bernoulli(double p, const Shape& shape, TensorOptions options = {}, Generator* generator = nullptr,
                              CallSite site = {});
/// 1 with the probability that each element of the float tensor `p` gives, else 0, in p's dtype. Values above 1 count
/// as 1, negative ones and NaN as 0.
LOCKSTEP_API Tensor bernoulli(const Operand& p, Generator* generator = nullptr);
/// `samples` indices (i64) per row of `weights` [n] or [rows, n], float and not negative, with probabilities in
/// proportion to the weights; without replacement every index occurs once, and ones of weight 0 come last. ValueError
/// for no samples, or for more than n without replacement.
LOCKSTEP_API Tensor multinomial(const Operand& weights, std::int64_t samples, bool replacement = false,
                                Generator* generator = nullptr);

// --- in the shape, on the device and of the dtype of a tensor -------------------------------------------------------
/// rand, randn and randint in the shape and on the device of a tensor, and of its dtype unless another is given.
LOCKSTEP_API Tensor rand_like(const Tensor& like, std::optional<DType> dtype = std::nullopt,
                              Generator* generator = nullptr, CallSite site = {});
LOCKSTEP_API Tensor randn_like(const Tensor& like, std::optional<DType> dtype = std::nullopt,
                               Generator* generator = nullptr, CallSite site = {});
LOCKSTEP_API Tensor randint_like(const Tensor& like, std::int64_t low, std::int64_t high,
                                 std::optional<DType> dtype = std::nullopt, Generator* generator = nullptr,
                                 CallSite site = {});

}  // namespace v0
}  // namespace lockstep
