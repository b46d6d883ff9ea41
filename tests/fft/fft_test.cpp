// Fourier transforms: the error bounds of lockstep/fft.h, equal bits everywhere, errors. Values and gradients are
// compared with PyTorch's in tests/data/cases.
#include <lockstep/fft.h>

#include <cmath>
#include <numbers>

#include <lockstep/autograd.h>

#include "fft/tables.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

const DType kTypes[] = {DType::f32, DType::f64};

Tensor normal(const Shape& shape, DType dtype, std::uint64_t seed) {
  Generator generator(seed);
  return randn(shape, {.dtype = DType::f64}, &generator).to(dtype).eval();
}
double bound(DType dtype) {
  return dtype == DType::f64 ? 2e-15 : 1e-6;
}

// The definition, in long double.
std::vector<double> slow_transform(const std::vector<double>& x, int sign) {
  const std::size_t n = x.size() / 2;
  std::vector<long double> cosines, sines;
  for (std::size_t k = 0; k < n; ++k) {
    const long double angle =
        2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / static_cast<long double>(n);
    cosines.push_back(std::cos(angle));
    sines.push_back(static_cast<long double>(sign) * std::sin(angle));
  }
  std::vector<double> y;
  for (std::size_t k = 0; k < n; ++k) {
    long double real = 0;
    long double imaginary = 0;
    for (std::size_t j = 0; j < n; ++j) {
      const long double c = cosines[j * k % n];
      const long double s = sines[j * k % n];
      real += x[2 * j] * c - x[2 * j + 1] * s;
      imaginary += x[2 * j] * s + x[2 * j + 1] * c;
    }
    y.push_back(static_cast<double>(real));
    y.push_back(static_cast<double>(imaginary));
  }
  return y;
}

double relative_error(const Tensor& found, const Tensor& truth) {
  const Tensor error = norm(found.to(DType::f64) - truth.to(DType::f64));
  return error.item<double>() / norm(truth.to(DType::f64)).item<double>();
}

TEST(Fft, IsTheTransformOfItsDefinition) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {1, 2, 5, 8, 60, 64, 127, 128, 131, 257, 360, 1000, 1024, 1310, 2187, 4096}) {
      const Tensor x = normal({n, 2}, dtype, 3);
      const bool is_bluestein = n == 131 || n == 257 || n == 1310;
      for (const int sign : {-1, 1}) {
        const Tensor truth = Tensor::from(slow_transform(x.to(DType::f64).to_vector<double>(), sign), {n, 2});
        const Tensor found = sign < 0 ? fft::fft(x) : fft::ifft(x, {.norm = fft::Norm::forward});
        EXPECT_LE(relative_error(found, truth), bound(dtype) * (is_bluestein ? 2 : 1)) << n;
      }
      const Tensor real = x.select(1, 0);
      const Tensor whole = fft::fft(stack({real, zeros_like(real)}, -1)).narrow(0, 0, n / 2 + 1);
      EXPECT_LE(relative_error(fft::rfft(real), whole), 3 * bound(dtype)) << n;
      EXPECT_LE(relative_error(fft::irfft(fft::rfft(real), {.n = n}), real), 3 * bound(dtype)) << n;
    }
  }
}

TEST(Fft, LongTransformsAreAccurate) {
  for (const std::int64_t n : {std::int64_t{1} << 20, std::int64_t{1000003}}) {
    const Tensor x = normal({n, 2}, DType::f64, 4);
    const Tensor y = fft::fft(x);
    const double factor = n == 1000003 ? 2 : 1;
    EXPECT_LE(relative_error(fft::ifft(y), x), 2 * factor * bound(DType::f64)) << n;
    EXPECT_LE(relative_error(fft::fft(x.to(DType::f32)), y), factor * bound(DType::f32)) << n;
    // A few frequencies by the definition.
    const std::vector<double> values = x.to_vector<double>();
    for (const std::int64_t k : {std::int64_t{1}, n / 3, n - 2}) {
      long double real = 0;
      long double imaginary = 0;
      for (std::int64_t j = 0; j < n; ++j) {
        const fft::Root root = fft::root_of_unity(j * k % n, n);
        const auto at = static_cast<std::size_t>(2 * j);
        real +=
            static_cast<long double>(values[at]) * root.cosine + static_cast<long double>(values[at + 1]) * root.sine;
        imaginary +=
            static_cast<long double>(values[at + 1]) * root.cosine - static_cast<long double>(values[at]) * root.sine;
      }
      const double scale = std::sqrt(2.0 * static_cast<double>(n));
      EXPECT_NEAR(y.index({k, 0}).item<double>(), static_cast<double>(real), 1e-14 * scale);
      EXPECT_NEAR(y.index({k, 1}).item<double>(), static_cast<double>(imaginary), 1e-14 * scale);
    }
  }
}

TEST(Fft, RootsAreAccurateInEveryOctant) {
  for (const std::int64_t n : {1, 2, 3, 4, 7, 8, 12, 100, 1001}) {
    for (std::int64_t k = 0; k < n; ++k) {
      const long double angle =
          2 * std::numbers::pi_v<long double> * static_cast<long double>(k) / static_cast<long double>(n);
      const fft::Root root = fft::root_of_unity(k, n);
      EXPECT_NEAR(root.cosine, static_cast<double>(std::cos(angle)), 2.3e-16) << k << "/" << n;
      EXPECT_NEAR(root.sine, static_cast<double>(std::sin(angle)), 2.3e-16) << k << "/" << n;
    }
  }
  EXPECT_EQ(fft::root_of_unity(1, 4).cosine, 0);
  EXPECT_EQ(fft::root_of_unity(1, 2).sine, 0);
}

TEST(Fft, DimensionsLengthsAndNorms) {
  const Tensor x = normal({3, 6, 5, 2}, DType::f64, 5);
  const Tensor moved = x.transpose(0, 2);
  EXPECT_BITS_EQ(fft::fft(x, {.dim = 0}), fft::fft(moved).transpose(0, 2));
  EXPECT_BITS_EQ(fft::fft(x, {.n = 4, .dim = 1}), fft::fft(x.narrow(1, 0, 4), {.dim = -2}));
  EXPECT_BITS_EQ(fft::fft(x, {.n = 8, .dim = 1}), fft::fft(pad(x, {0, 0, 0, 0, 0, 2}), {.dim = 1}));
  EXPECT_BITS_EQ(fft::fft(x, {.norm = fft::Norm::forward}), fft::fft(x) * (1.0 / 5));
  EXPECT_BITS_EQ(fft::fft2(x), fft::fft(fft::fft(x), {.dim = -2}));
  EXPECT_EQ(fft::rfft(ones({4, 7}), {.dim = 0}).shape(), (Shape{3, 7, 2}));
  EXPECT_EQ(fft::irfft2(ones({3, 4, 5, 2})).shape(), (Shape{3, 4, 8}));
  EXPECT_EQ(fft::fft(zeros({0, 5, 2})).shape(), (Shape{0, 5, 2}));
  EXPECT_EQ(fft::rfft(zeros({0, 5})).shape(), (Shape{0, 3, 2}));
  EXPECT_EQ(fft::irfft(zeros({0, 3, 2})).shape(), (Shape{0, 4}));
}

TEST(Fft, BitsAreTheSameEverywhere) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {12, 100, 131}) {
      same_everywhere([&](Device device) { return fft::fft(normal({3, n, 2}, dtype, 6).to(device)); });
      same_everywhere([&](Device device) { return fft::rfft(normal({3, n}, dtype, 6).to(device)); });
      same_everywhere([&](Device device) { return fft::irfft(normal({3, n, 2}, dtype, 6).to(device)); });
    }
    same_everywhere([&](Device device) { return fft::stft(normal({2, 40}, dtype, 6).to(device), 8); });
  }
  const Tensor x = normal({5, 96, 2}, DType::f32, 7);
  EXPECT_BITS_EQ(fft::fft(x).select(0, 3), fft::fft(x.select(0, 3)));
}

TEST(Fft, SpectraOfFramesGiveTheSignalBack) {
  const Tensor x = normal({2, 100}, DType::f64, 8);
  const Tensor window = linspace(0.2, 1, 16, {.dtype = DType::f64});
  for (const bool onesided : {true, false}) {
    const Tensor spectra = fft::stft(x, 16, {.hop_length = 5, .window = window, .onesided = onesided});
    EXPECT_EQ(spectra.shape(), (Shape{2, onesided ? 9 : 16, 21, 2}));
    const Tensor back =
        fft::istft(spectra, 16, {.hop_length = 5, .window = window, .onesided = onesided, .length = 100});
    EXPECT_LE(relative_error(back, x), 1e-14);
  }
}

TEST(Fft, RefusesOperandsAtTheCall) {
  expect_error<ShapeError>([] { fft::fft(ones({4, 3})); }, {"fft.fft", "pairs", "fft_test.cpp"});
  expect_error<ShapeError>([] { fft::rfft(ones({})); }, {"fft.rfft", "dimension"});
  expect_error<ShapeError>([] { fft::fft2(ones({4, 2})); }, {"fft.fft2"});
  expect_error<DTypeError>([] { fft::rfft(ones({4}, {.dtype = DType::f16})); }, {"fft.rfft", "f32 and f64"});
  expect_error<DTypeError>([] { fft::rfft(ones({4}, {.dtype = DType::i32})); }, {"fft.rfft"});
  expect_error<IndexError>([] { fft::fft(ones({4, 2}), {.dim = 1}); }, {"fft.fft", "dim 1"});
  expect_error<ValueError>([] { fft::fft(ones({4, 2}), {.n = 0}); }, {"fft.fft", "at least one"});
  expect_error<ValueError>([] { fft::irfft(ones({1, 2})); }, {"fft.irfft", "options.n"});
  expect_error<ValueError>([] { fft::stft(ones({20}), 0); }, {"fft.stft", "n_fft"});
  expect_error<ValueError>([] { fft::stft(ones({20}), 8, {.hop_length = 0}); }, {"hop_length"});
  expect_error<ShapeError>([] { fft::stft(ones({20}), 8, {.win_length = 6, .window = ones({5})}); }, {"win_length"});
  expect_error<ShapeError>([] { fft::stft(ones({5}), 8, {.center = false}); }, {"no frame"});
  expect_error<ShapeError>([] { fft::istft(ones({4, 3, 2}), 8); }, {"fft.istft", "5 frequencies"});
  expect_error<ValueError>([] { fft::istft(ones({5, 3, 2}), 8, {.hop_length = 8, .window = zeros({8})}); }, {"weight"});
}

TEST(Fft, GradientsAreInverseTransforms) {
  const Tensor x = requires_grad(normal({12, 2}, DType::f64, 9));
  const Tensor seed = normal({12, 2}, DType::f64, 10);
  const Tensor found = gradients(fft::fft(x), {x}, {.seed = seed})[0];
  EXPECT_LE(relative_error(found, fft::ifft(seed, {.norm = fft::Norm::forward})), 1e-14);
}

}  // namespace
}  // namespace lockstep::test
