// Fourier transforms: the error bounds of lockstep/fft.h, equal bits everywhere, errors. Values and gradients are
// compared with PyTorch's in tests/data/cases.
#include <lockstep/fft.h>

#include <cmath>
#include <numbers>

#include <lockstep/autograd.h>

#include "fft/tables.h"
#include "support/long_forms.h"
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
      if (n > 4000 && takes_long_here()) continue;
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
  EXPECT_BITS_EQ(fft::fft(zeros({0, 5, 2})), zeros({0, 5, 2}));
}

// Lengths with two and three stages, and a chirp: what is missing is zero, and what is too much is not read.
TEST(Fft, CutsAndFillsToAnyLength) {
  for (const std::int64_t n : {1, 20, 96, 131, 600, 4410, 9000}) {
    const Tensor x = normal({2, 100, 2}, DType::f64, 11);
    const Tensor filled = n <= 100 ? x.narrow(1, 0, n) : pad(x, {0, 0, 0, n - 100});
    EXPECT_BITS_EQ(fft::fft(x, {.n = n}), fft::fft(filled)) << n;
    EXPECT_BITS_EQ(fft::rfft(x.select(2, 0), {.n = n}), fft::rfft(filled.select(2, 0))) << n;
    const std::int64_t count = n / 2 + 1;
    const Tensor half = count <= 100 ? x.narrow(1, 0, count) : pad(x, {0, 0, 0, count - 100});
    EXPECT_BITS_EQ(fft::irfft(x, {.n = n}), fft::irfft(half, {.n = n})) << n;
  }
}

TEST(Fft, PicturesByDimensionsAndLengths) {
  const Tensor x = normal({3, 6, 5, 2}, DType::f64, 12);
  const Tensor real = x.select(3, 0);
  EXPECT_BITS_EQ(fft::fft2(x, {.dim = {2, 0}}), fft::fft(fft::fft(x, {.dim = 0}), {.dim = 2}));
  EXPECT_BITS_EQ(fft::ifft2(x, {.s = Shape{4, 7}}), fft::ifft(fft::ifft(x, {.n = 7, .dim = 2}), {.n = 4, .dim = 1}));
  EXPECT_BITS_EQ(fft::rfft2(real, {.s = Shape{2, 4}, .dim = {0, 1}}),
                 fft::fft(fft::rfft(real, {.n = 4, .dim = 1}), {.n = 2, .dim = 0}));
  EXPECT_BITS_EQ(fft::irfft2(x, {.s = Shape{6, 9}}), fft::irfft(fft::ifft(x, {.dim = 1}), {.n = 9, .dim = 2}));
  EXPECT_LE(relative_error(fft::irfft2(fft::rfft2(real), {.s = Shape{6, 5}}), real), 1e-14);
}

TEST(Fft, ElementsThatAreNotFiniteReachEveryFrequency) {
  for (const std::int64_t n : {8, 96, 131}) {
    const Tensor x = zeros({n}, DType::f64);
    const Tensor bad = slice_scatter(x, full({1}, std::nan(""), DType::f64), 0, {.start = 3, .stop = 4});
    EXPECT_TRUE(isnan(fft::rfft(bad)).all().item<bool>()) << n;
    const Tensor infinite = slice_scatter(x, full({1}, INFINITY, DType::f64), 0, {.start = 0, .stop = 1});
    EXPECT_FALSE(isfinite(fft::rfft(infinite)).select(1, 0).any().item<bool>()) << n;
  }
}

TEST(Fft, ImaginaryPartsThatMeanNothingAreNotRead) {
  for (const std::int64_t n : {8, 9, 96}) {
    const Tensor x = normal({n / 2 + 1, 2}, DType::f64, 13);
    Tensor bad = x;
    bad[{0, 1}] = full({}, std::nan(""), DType::f64);
    if (n % 2 == 0) bad[{n / 2, 1}] = full({}, INFINITY, DType::f64);
    EXPECT_BITS_EQ(fft::irfft(bad, {.n = n}), fft::irfft(x, {.n = n})) << n;
  }
}

// A transform's bits depend neither on its neighbours nor on how its elements lie in memory.
TEST(Fft, BitsDependOnTheSignalAlone) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {12, 96, 131, 1000}) {
      const Tensor x = normal({5, n, 3, 2}, dtype, 14);
      const Tensor all = fft::fft(x, {.dim = 1});
      EXPECT_BITS_EQ(all.select(2, 1).select(0, 3), fft::fft(contiguous(x.select(2, 1).select(0, 3)))) << n;
      const Tensor planes = contiguous(x.permute({3, 0, 2, 1})).permute({1, 3, 2, 0});
      EXPECT_BITS_EQ(fft::fft(planes, {.dim = 1}), all) << n;
    }
  }
}

TEST(Fft, FrequenciesAreNumPys) {
  EXPECT_EQ(fft::fftfreq(4, 0.5, {.dtype = DType::f64}).to_vector<double>(), (std::vector<double>{0, 0.5, -1, -0.5}));
  EXPECT_EQ(fft::fftfreq(5).to_vector<float>(), (std::vector<float>{0, 0.2F, 0.4F, -0.4F, -0.2F}));
  EXPECT_EQ(fft::rfftfreq(5, 1, {.dtype = DType::f64}).to_vector<double>(), (std::vector<double>{0, 0.2, 0.4}));
  EXPECT_EQ(fft::rfftfreq(1).to_vector<float>(), (std::vector<float>{0}));
  expect_error<ValueError>([] { fft::fftfreq(0); }, {"fft.fftfreq", "n is 0"});
  expect_error<ValueError>([] { fft::rfftfreq(4, 0); }, {"fft.rfftfreq", "d is 0"});
  expect_error<DTypeError>([] { fft::fftfreq(4, 1, {.dtype = DType::i64}); }, {"fft.fftfreq"});
}

TEST(Fft, BitsAreTheSameEverywhere) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {9, 12, 64, 100, 131, 262}) {
      same_everywhere([&](Device device) { return fft::fft(normal({3, n, 2}, dtype, 6).to(device)); });
      same_everywhere([&](Device device) { return fft::ifft(normal({n, 3, 2}, dtype, 6).to(device), {.dim = 0}); });
      same_everywhere([&](Device device) { return fft::rfft(normal({3, n}, dtype, 6).to(device)); });
      same_everywhere([&](Device device) { return fft::irfft(normal({3, n, 2}, dtype, 6).to(device)); });
    }
    same_everywhere([&](Device device) { return fft::stft(normal({2, 40}, dtype, 6).to(device), 8); });
  }
  // Sums on the way are subnormal: they are kept, results are not.
  for (const std::int64_t n : {9, 64}) {
    same_everywhere([&](Device device) { return fft::fft((normal({n, 2}, DType::f32, 7) * 2e-38).to(device)); });
    same_everywhere([&](Device device) { return fft::rfft((normal({n}, DType::f32, 7) * 2e-38).to(device)); });
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
  expect_error<ValueError>([] { fft::rfft(ones({4}), {.n = std::int64_t{1} << 40}); }, {"fft.rfft", "at most 2^24"});
  expect_error<ValueError>([] { fft::fftfreq(std::int64_t{1} << 40); }, {"fft.fftfreq", "at most 2^24"});
  expect_error<ValueError>([] { fft::irfft(ones({1, 2})); }, {"fft.irfft", "length"});
  expect_error<ValueError>([] { fft::stft(ones({20}), 0); }, {"fft.stft", "n_fft"});
  expect_error<ValueError>([] { fft::stft(ones({20}), 8, {.hop_length = 0}); }, {"hop_length"});
  expect_error<ShapeError>([] { fft::stft(ones({20}), 8, {.win_length = 6, .window = ones({5})}); }, {"win_length"});
  expect_error<ShapeError>([] { fft::stft(ones({20}), 8, {.window = ones({6})}); }, {"win_length"});
  expect_error<ValueError>([] { fft::stft(ones({20}), 8, {.win_length = 9}); }, {"win_length"});
  expect_error<DTypeError>([] { fft::stft(ones({20}), 8, {.window = ones({8}, DType::f64)}); }, {"fft.stft"});
  expect_error<ShapeError>([] { fft::stft(ones({4}), 8); }, {"fft.stft"});
  expect_error<ShapeError>([] { fft::stft(ones({2, 2, 20}), 8); }, {"[batch, length]"});
  expect_error<ValueError>([] { fft::istft(ones({5, 3, 2}), 8, {.hop_length = 7, .win_length = 6}); }, {"hop_length"});
  expect_error<ValueError>([] { fft::istft(ones({5, 1, 2}), 8); }, {"nothing is left"});
  expect_error<ValueError>([] { fft::fft2(ones({4, 4, 2}), {.dim = {1, -1}}); }, {"fft.fft2", "twice"});
  expect_error<ValueError>([] { fft::rfft2(ones({4, 4}), {.dim = {1}}); }, {"fft.rfft2", "1 elements"});
  expect_error<ShapeError>([] { fft::rfft2(ones({4, 4}), {.s = Shape{4}}); }, {"fft.rfft2", "s is [4]"});
  expect_error<IndexError>([] { fft::irfft2(ones({4, 4, 2}), {.dim = {0, 2}}); }, {"fft.irfft2", "dim 2"});
  expect_error<DTypeError>(
      [] {
        const std::vector<std::uint8_t> blocks(34, 1);
        fft::rfft(Tensor::from_blocks(blocks.data(), 34, {32}, Encoding::q8_0));
      },
      {"fft.rfft", "packed", "dequantize"});
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

// |rfft(x)|^2 summed has 2 n x as its gradient but for the frequencies that stand alone; again, its gradient is linear.
TEST(Fft, GradientsHaveGradients) {
  const Tensor x = requires_grad(normal({96}, DType::f64, 15));
  const Tensor power = [&] {
    const Tensor y = fft::fft(stack({x, zeros_like(x)}, -1));
    return sum(y * y);
  }();
  const Tensor slope = gradients(power, {x}, {.create_graph = true})[0];
  EXPECT_LE(relative_error(slope, x * 192), 1e-13);
  const Tensor direction = normal({96}, DType::f64, 16);
  EXPECT_LE(relative_error(gradients(sum(slope * direction), {x})[0], direction * 192), 1e-13);
}

// Nothing is copied on the way; factors of the norm and missing elements cost no kernel.
TEST(Fft, ATransformIsAKernel) {
  for (const std::int64_t n : {64, 1024, 1 << 16, 1009}) {
    const Tensor x = ones({3, n, 2}).eval();
    EXPECT_EQ(plan({fft::fft(x)}).size(), 1u) << n;
    EXPECT_EQ(plan({fft::ifft(x, {.n = 5, .dim = 0})}).size(), 1u) << n;
    EXPECT_EQ(plan({fft::rfft(x.select(2, 0), {.norm = fft::Norm::ortho})}).size(), 1u) << n;
    EXPECT_EQ(plan({fft::irfft(x)}).size(), 1u) << n;
  }
}

// What a user of half a spectrum differentiates: frequencies that stand for two, and those that stand alone.
TEST(Fft, GradientsOfRealTransformsAreAdjoint) {
  for (const std::int64_t n : {1, 2, 9, 10, 262}) {
    const Tensor x = requires_grad(normal({n, 3}, DType::f64, 17));
    const Tensor y = normal({n / 2 + 1, 3, 2}, DType::f64, 18);
    const Tensor spectrum = fft::rfft(x, {.dim = 0});
    const Tensor back = gradients(spectrum, {x}, {.seed = y})[0];
    EXPECT_NEAR(sum(back * x).item<double>(), sum(spectrum * y).item<double>(), 1e-10) << n;
    const Tensor half = requires_grad(y);
    const Tensor signal = fft::irfft(half, {.n = n, .dim = 0});
    const Tensor seed = normal({n, 3}, DType::f64, 19);
    const Tensor slope = gradients(signal, {half}, {.seed = seed})[0];
    EXPECT_NEAR(sum(slope * half).item<double>(), sum(signal * seed).item<double>(), 1e-10) << n;
  }
}

}  // namespace
}  // namespace lockstep::test
