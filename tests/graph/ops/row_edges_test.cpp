// Row programs over the numbers at which GPUs change their ways: where rounding to 16 bits has its borders, where exp
// ends, quotients next to the middle of two bf16. Compared as words, so that every NaN is the one NaN.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <fmt/format.h>

#include "graph/values.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

/// same_everywhere, but that NaN has to be the one NaN. The words are taken of a value that is stored: nothing else
/// than the store rounds it.
void same_words(const std::function<Tensor(Device)>& compute) {
  same_everywhere([&](Device device) {
    const Tensor value = compute(device).eval();
    return value.bitcast(value.dtype() == DType::f32 ? DType::i32 : DType::i16);
  });
}

Tensor tensor_of(const std::vector<std::uint32_t>& words, const Shape& shape, Device device) {
  return Tensor::from_bytes(words.data(), 4 * words.size(), shape, DType::f32).to(device);
}

/// Every word of a 16-bit dtype, as it is.
Tensor every_word(DType dtype, Device device) {
  std::vector<std::uint16_t> words(65536);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = static_cast<std::uint16_t>(i);
  return Tensor::from_bytes(words.data(), 2 * words.size(), {64, 1024}, dtype).to(device);
}

/// Floats around `step` apart ones, of every sign and exponent.
std::vector<std::uint32_t> around_steps(std::uint32_t step) {
  std::vector<std::uint32_t> words;
  for (std::uint64_t word = 0; word <= 0xffffffffU; word += step) {
    for (const int off : {-1, 0, 1, 2})
      words.push_back(static_cast<std::uint32_t>(word) + static_cast<std::uint32_t>(off));
  }
  return words;
}

TEST(RowEdges, RoundingTo16Bits) {
  // Halves of the steps of bf16, and of f16's normal numbers; every 61st of those, whose subnormals have others.
  const std::vector<std::uint32_t> steps = around_steps(0x8000);
  const std::vector<std::uint32_t> small_steps = around_steps(0x1000 * 61);
  for (const std::vector<std::uint32_t>& words : {steps, small_steps}) {
    const auto columns = static_cast<std::int64_t>(words.size()) / 8 / 16 * 16;
    const std::vector<std::uint32_t> used(words.begin(), words.begin() + 8 * columns);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(name_of(dtype));
      same_words([&](Device device) { return tensor_of(used, {8, columns}, device).to(dtype); });
      same_words([&](Device device) { return (tensor_of(used, {8, columns}, device) * 0.75).to(dtype); });
      // One by one: no neighbours.
      same_words([&](Device device) { return tensor_of(used, {8, columns}, device).transpose(0, 1).to(dtype); });
    }
  }
}

TEST(RowEdges, EveryWordOf16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const auto same = [&](const std::function<Tensor(const Tensor&)>& compute) {
      same_words([&](Device device) { return compute(every_word(dtype, device)); });
    };
    same([](const Tensor& x) { return x * 1.0; });
    same([](const Tensor& x) { return -x; });
    same([](const Tensor& x) { return relu(x); });
    same([](const Tensor& x) { return maximum(x, -x); });
    same([](const Tensor& x) { return x.to(DType::f32); });
    same([](const Tensor& x) { return (x.to(DType::f32) * 0.5).to(x.dtype()); });
    same([](const Tensor& x) { return (x + x) * 0.25 + x; });
    same([](const Tensor& x) { return where(x > 0.0, x, x.to(DType::f32).to(x.dtype())); });
    same([](const Tensor& x) { return gelu(x * 0.5) * 1e30; });
    same([](const Tensor& x) { return gelu(x); });
    same([](const Tensor& x) { return exp(x); });
    same([](const Tensor& x) { return copysign(relu(x), x); });
    same([](const Tensor& x) { return sum(x, {1}); });
    same([](const Tensor& x) { return amax(x, {1}); });
    same([](const Tensor& x) { return x / 3.0; });
  }
}

TEST(RowEdges, ExpAtItsEnds) {
  std::vector<std::uint32_t> words;
  for (const std::uint32_t center : {0xc2aeac4fU, 0xc2af0000U, 0x42b17217U, 0x00000000U, 0x80000000U, 0x7f800000U,
                                     0xff800000U, 0x00800000U, 0x80800000U, 0xc2b00000U, 0x7fc00000U, 0xffc00000U}) {
    for (std::uint32_t off = 0; off < 512; ++off) words.push_back(center - 256 + off);
  }
  const Shape shape{static_cast<std::int64_t>(words.size()) / 512, 512};
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    same_words([&](Device device) { return exp(tensor_of(words, shape, device)).to(dtype); });
    same_words([&](Device device) {
      const Tensor x = tensor_of(words, shape, device);
      return (exp(x - 0.0) * exp(x)).to(dtype);
    });
    same_words([&](Device device) { return softmax(tensor_of(words, shape, device).to(dtype), 1); });
  }
}

// Each row's sum is its first element, which is so large that the others vanish beside it.
TEST(RowEdges, QuotientsBySums) {
  std::mt19937_64 random(5);
  std::vector<float> divisors = {1.0F,    3.0F,      1.9999999F, 1.0000001F, 0x1p-16F, 0x1.8p-17F, 0x1.fffffep59F,
                                 0x1p60F, 1.234e20F, 3.4e38F,    1.3e-30F,   -7.0F,    kInfinity,  0x1.6a09e6p0F};
  for (int i = 0; i < 50; ++i) {
    divisors.push_back(std::ldexp(1 + static_cast<float>(random() >> 41) * 0x1p-23F, static_cast<int>(random() % 60)));
  }
  const auto rows = static_cast<std::int64_t>(divisors.size());
  for (const std::int64_t columns : {64, 1024, 4096}) {
    std::vector<float> values;
    for (const float divisor : divisors) {
      for (std::int64_t i = 0; i < columns; ++i) {
        const std::uint64_t word = random();
        // Quotients that are halfway between two of bf16 or f16 but for little, ordinary ones, and zeros.
        const int bits = word % 2 == 0 ? 8 : 11;
        const auto odd = static_cast<double>((word >> 8 & ((1U << (bits - 1)) - 1)) * 2 + 1);
        const double middle = 1 + odd / (1 << bits);
        const int exponent = -60 - static_cast<int>(word >> 24 & 63);
        auto value = static_cast<float>(std::ldexp(middle * static_cast<double>(divisor), exponent));
        if (word % 3 == 0) value = std::nextafter(value, word % 5 == 0 ? 0.0F : kInfinity);
        if (word % 7 == 0) value = word % 11 == 0 ? -0.0F : 0.0F;
        values.push_back(i == 0 ? divisor : value);
      }
    }
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(fmt::format("{} of {}", name_of(dtype), columns));
      same_words([&](Device device) {
        const Tensor x = Tensor::from(values, {rows, columns}).to(device);
        return (x / sum(x, {1}, true)).to(dtype);
      });
      // The same quotients where they are ordinary numbers.
      same_words([&](Device device) {
        const Tensor x = Tensor::from(values, {rows, columns}).to(device);
        return (x * 0x1p58 / sum(x, {1}, true)).to(dtype);
      });
    }
  }
  // NaN and infinities among them.
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    same_words([&](Device device) {
      const Tensor x = random_tensor({40, 1024}, DType::f32, 3, device, true);
      return (x / sum(abs(random_tensor({40, 1024}, DType::f32, 4, device)), {1}, true)).to(dtype);
    });
  }
}

// Rows whose largest is not finite take the full exponential beside those that take the shorter one.
TEST(RowEdges, SoftmaxOfRowsWithAndWithoutALargest) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    for (const std::int64_t n : {512, 1032, 4096}) {
      SCOPED_TRACE(fmt::format("rows of {} {}", n, name_of(dtype)));
      std::vector<float> values(static_cast<std::size_t>(8 * n));
      std::mt19937 draw(7);
      for (float& value : values) value = static_cast<float>(draw() % 40000) / 100.0F - 300.0F;
      const auto row = [&](std::int64_t i) { return values.begin() + i * n; };
      row(1)[5] = kInfinity;
      row(2)[n - 1] = std::numeric_limits<float>::quiet_NaN();
      std::fill(row(3), row(4), -kInfinity);
      std::fill(row(4), row(4) + n / 2, -kInfinity);
      std::fill(row(5), row(6), -0.0F);
      row(6)[0] = row(6)[n / 2] = kInfinity;
      same_words([&](Device device) { return softmax(Tensor::from(values, {8, n}, device).to(dtype).eval(), -1); });
      // Without a sum, which NaN would pass through anyway.
      same_words([&](Device device) {
        const Tensor x = Tensor::from(values, {8, n}, device).to(dtype).eval();
        const Tensor largest = amax(x, {1}, true);
        return exp(x - where(isfinite(largest), largest, 0.0));
      });
      same_words([&](Device device) {
        const Tensor x = Tensor::from(values, {8, n}, device).to(dtype).eval();
        return exp(x - amax(x, {1}, true)) + exp(amin(x, {1}, true) - x);
      });
    }
  }
}

// Exponentials of what is from -32 to 0 and their shares of a row, beside rows and threads with others: below that, of
// one sign, with NaN of both signs, which words order otherwise than numbers.
TEST(RowEdges, SoftmaxOfMildRows) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr std::int64_t kRows = 12;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const auto word_of = [&](float value) -> std::uint32_t {
      return dtype == DType::f32    ? std::bit_cast<std::uint32_t>(value)
             : dtype == DType::bf16 ? to_bf16(value).bits
                                    : to_f16(value).bits;
    };
    const std::size_t size = size_of(dtype);
    const std::uint32_t sign = size == 4 ? 0x80000000U : 0x8000U;
    for (const std::int64_t n : {1032, 4096}) {
      SCOPED_TRACE(fmt::format("rows of {} {}", n, name_of(dtype)));
      std::vector<std::byte> bytes(size * static_cast<std::size_t>(kRows * n));
      std::mt19937 draw(9);
      const auto set = [&](std::int64_t row, std::int64_t i, std::uint32_t word) {
        std::memcpy(&bytes[size * static_cast<std::size_t>(row * n + i)], &word, size);
      };
      for (std::int64_t row = 0; row < kRows; ++row) {
        for (std::int64_t i = 0; i < n; ++i) {
          const float value = static_cast<float>(draw() % 4096) / 256.0F - 8.0F;
          set(row, i, word_of(row == 1 || row == 7 ? -9.0F + value : value));
        }
      }
      for (std::int64_t row = 2; row < 4; ++row) {
        set(row, 0, word_of(8.0F));
        set(row, n - 1, word_of(row == 2 ? -24.0F : -24.25F));
      }
      set(4, n / 2, word_of(-kInfinity));
      set(5, n / 3, word_of(kInfinity));
      for (std::int64_t row = 6; row < 8; ++row) set(row, 17, word_of(kInfinity) + 1 + sign);
      set(8, 17, word_of(kInfinity) + 1);
      for (std::int64_t i = 0; i < n; ++i) {
        set(9, i, i % 3 == 0 ? sign : 0);
        set(10, i, sign);
        set(11, i, i % 2 == 0 ? 1 : sign + 1);  // subnormal
      }
      const auto x = [&](Device device) {
        return Tensor::from_bytes(bytes.data(), bytes.size(), {kRows, n}, dtype).to(device);
      };
      same_words([&](Device device) { return softmax(x(device), -1); });
      same_words([&](Device device) { return softmax((x(device) + 0.0).eval(), -1); });
      same_words([&](Device device) { return exp(x(device) - amax(x(device), {1}, true)); });
    }
  }
}

// Sums of bf16 in rows, two at a time where a device has them: of every word and another one.
TEST(RowEdges, SumsOf16BitsInRows) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    same_words([&](Device device) {
      const Tensor x = every_word(dtype, device);
      const Tensor y = x.flip({0, 1});
      // A row's sum is mostly NaN: what is stored beside it tells the elements.
      const Tensor sums = (gelu(x + y) + x * 0.5) + y;
      return sums + (sum(sums, {1}, true) * 0.0 > 1.0).to(dtype);
    });
    same_words([&](Device device) {
      // Numbers alone: comparisons with NaN are false.
      const Tensor all = every_word(dtype, device);
      const Tensor x = where(all.abs() < 60.0, all, full_like(all, 1.0)).eval();
      return layer_norm(gelu(x + x.flip({0})) + x.flip({1}), {1024});
    });
  }
}

}  // namespace
}  // namespace lockstep
