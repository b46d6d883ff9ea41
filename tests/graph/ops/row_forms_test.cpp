// Row programs at the lengths at which backends change their ways: teams of lanes, whole workgroups, chunks of 4096,
// and elementwise kernels over sizes that do and do not divide into vectors.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "support/long_forms.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

TEST(RowForms, ReductionsOfEveryLength) {
  int seed = 0;
  for (const std::int64_t n : {1, 3, 64, 65, 700, 1024, 1025, 2048, 3000, 4096, 4097, 8192, 12345}) {
    const DType dtype = ++seed % 3 == 0 ? DType::bf16 : DType::f32;
    const auto s = static_cast<std::uint64_t>(seed);
    SCOPED_TRACE(fmt::format("rows of {}", n));
    const std::int64_t rows = n > 5000 ? 2 : 5;
    same_everywhere([&](Device device) { return sum(random_tensor({rows, n}, dtype, s, device), {1}); });
    same_everywhere([&](Device device) { return softmax(random_tensor({rows, n}, dtype, s, device), -1); });
    same_everywhere([&](Device device) { return argmax(random_tensor({rows, n}, dtype, s, device, true), 1); });
    same_everywhere([&](Device device) {
      const Tensor x = random_tensor({rows, n}, dtype, s, device);
      return layer_norm(gelu(x) + 1.0, {n}, random_tensor({n}, dtype, 7, device), random_tensor({n}, dtype, 8, device));
    });
    same_everywhere([&](Device device) {
      const Tensor x = random_tensor({rows, n}, dtype, s, device);
      return sum(x * random_tensor({n}, dtype, 9, device), {1}) + amax(x, {1});
    });
  }
}

// Of more rows than a GPU has units: rows that stay in registers, on some.
TEST(RowForms, ManyLongRows) {
  constexpr std::int64_t kRows = 140;
  for (const auto& [n, dtype] : {std::pair{2048, DType::f16}, {2304, DType::bf16}, {4096, DType::f32}}) {
    SCOPED_TRACE(fmt::format("rows of {} {}", n, name_of(dtype)));
    const auto x = [n = n, dtype = dtype](Device device) { return random_tensor({kRows, n}, dtype, 701, device); };
    const auto w = [n = n, dtype = dtype](Device device) { return random_tensor({n}, dtype, 702, device); };
    same_everywhere([&](Device device) { return softmax(x(device), -1); });
    same_everywhere([&, n = n](Device device) {
      return layer_norm(gelu(x(device) + w(device)) + x(device), {n}, w(device), w(device));
    });
    same_everywhere([&](Device device) { return x(device) * sum(x(device) * x(device), {1}, true); });
  }
}

// Without an order to keep GPUs cut long rows as they like: few rows into more chunks than many.
TEST(RowForms, LargestAndSmallestOfLongRows) {
  int seed = 900;
  for (const std::int64_t n : {4097, 4608, 9001}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::i64}) {
      for (const std::int64_t rows : {1, 40}) {
        const auto s = static_cast<std::uint64_t>(++seed);
        SCOPED_TRACE(fmt::format("{} rows of {} {}", rows, n, name_of(dtype)));
        const auto x = [&](Device device) { return random_tensor({rows, n}, dtype, s, device, true); };
        same_everywhere([&](Device device) { return argmax(x(device), 1); });
        if (rows == 1) same_everywhere([&](Device device) { return argmin(x(device), 1); });
        if (rows == 1 && dtype == DType::f32) {
          same_everywhere([&](Device device) { return x(device) - amax(x(device), {1}, true); });
        }
      }
    }
  }
}

// Neighbours at once: every number of threads that a row can have.
TEST(RowForms, ShortAndLongRowsInVectors) {
  int seed = 50;
  for (const std::int64_t n : {4, 8, 12, 24, 32, 48, 64, 100, 128, 192, 256, 260, 520, 1032, 2056}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const auto s = static_cast<std::uint64_t>(++seed);
      SCOPED_TRACE(fmt::format("rows of {}", n));
      same_everywhere([&](Device device) {
        const Tensor x = random_tensor({37, n}, dtype, s, device, true);
        return softmax(x, -1) + sum(x, {1}, true) * prod(x * 0.5, {1}, true);
      });
    }
  }
  same_everywhere([](Device device) {
    return sum((random_tensor({3, 96}, DType::f32, 1, device) * 9.0).to(DType::i32), {1});
  });
  same_everywhere([](Device device) { return sum(random_tensor({3, 96}, DType::f32, 1, device).to(DType::f64), {1}); });
}

// Many rows that are read once: as few threads per row as there are lanes.
TEST(RowForms, ManyRowsAtOnce) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::u8}) {
    for (const std::int64_t n : {264, 1032, 4096}) {
      SCOPED_TRACE(fmt::format("rows of {}", n));
      const std::int64_t rows = !long_forms() ? 90 : n > 1000 ? 1100 : 9000;
      same_everywhere([&](Device device) {
        return sum((random_tensor({rows, n}, DType::f32, 21, device) * 50.0).to(dtype).eval(), {1});
      });
    }
  }
  same_everywhere([](Device device) {
    const Tensor x = random_tensor({long_forms() ? 1100 : 90, 800}, DType::bf16, 22, device).eval();
    return var(x, {1}, 1, true) + mean(x * x - 1.0, {1}, true);
  });
}

// Rows of several inputs may pass through shared memory.
TEST(RowForms, RowsOfSeveralInputs) {
  const auto normalised = [](std::int64_t n, DType dtype, Device device) {
    const Tensor x = random_tensor({2, 19, n}, dtype, 25, device).eval();
    const Tensor y = random_tensor({19, 2, n}, dtype, 26, device).eval();
    const Tensor z = (abs(random_tensor({2, 19, n}, DType::f32, 28, device)) * 30.0).to(DType::u8).eval();
    const Tensor weight = random_tensor({n}, dtype, 27, device).eval();
    return layer_norm(x * weight + y.transpose(0, 1) * z.to(dtype), {n}, weight);
  };
  for (const std::int64_t n : {640, 1032, 2048, 4096}) {
    SCOPED_TRACE(fmt::format("rows of {}", n));
    same_everywhere([&](Device device) { return normalised(n, DType::f32, device); });
    same_everywhere([&](Device device) { return normalised(n, DType::bf16, device); });
  }
}

// More chunks than a chunk has elements.
// More inputs than are held from one sum to the next: each sum reads them again.
TEST(RowForms, SumsOfInputsThatAreReadAgain) {
  same_everywhere([](Device device) {
    const auto x = [&](std::uint64_t seed) { return random_tensor({3, 4096}, DType::f32, seed, device); };
    const Tensor a = x(1);
    const Tensor b = x(2);
    const Tensor c = x(3);
    const Tensor d = x(4);
    const Tensor e = x(5);
    const Tensor first = sum(((a * b + c) * d + e) * 0.001, {1}, true);
    return sum(((a - first) * (b - first) + (c - first)) * (d - first) + (e - first), {1});
  });
}

TEST(RowForms, ChunksOfChunks) {
  same_everywhere([](Device device) {
    const Tensor x = random_tensor({4096 + 64}, DType::f32, 23, device).eval();
    return sum(x.reshape({1, 4160}).expand({4099, 4160}) * random_tensor({4099, 1}, DType::f32, 24, device).eval());
  });
}

// Data may hold what no result does: subnormals, which are read as zero, and the smallest normal number, which is read
// as it is but becomes zero when it is cast.
TEST(RowForms, SmallestNumbersOfGivenData) {
  std::vector<std::uint16_t> bf16(512);
  std::vector<std::uint32_t> f32(512);
  for (std::size_t i = 0; i < bf16.size(); ++i) {
    bf16[i] = static_cast<std::uint16_t>(i % 2 == 0 ? 0x0080U : 0x8081U - i % 3);
    f32[i] = static_cast<std::uint32_t>(bf16[i]) << 16;
  }
  same_everywhere([&](Device device) {
    const Tensor x = Tensor::from_bytes(bf16.data(), 2 * bf16.size(), {8, 64}, DType::bf16).to(device);
    const Tensor y = Tensor::from_bytes(f32.data(), 4 * f32.size(), {8, 64}, DType::f32).to(device);
    return (sum(x, {1}, true).to(DType::f32) + abs(x).to(DType::f32) * 1e30) +
           (maximum(y, -y) + sum(y, {1}, true)) * 1e30;
  });
}

// By values of every size and kind: the inverse of the row's value serves some of them.
TEST(RowForms, DivisionsByRowValues) {
  const std::vector<float> divisors = {1.0F,     3.0F,    -3.0F,   0.0F,    -0.0F,     1e-5F, 1.5e-5F,  1.6e-5F,
                                       1e30F,    1.2e18F, 1.1e18F, 3e38F,   1.3e-38F,  -1.0F, 16777215, 0.99999994F,
                                       INFINITY, NAN,     7.0F,    4097.0F, 123456.0F, 1e9F,  2.5F,     0.1F};
  const auto rows = static_cast<std::int64_t>(divisors.size());
  for (const std::int64_t n : {8, 64, 200, 3000, 5000}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      SCOPED_TRACE(fmt::format("rows of {}", n));
      same_everywhere([&](Device device) {
        const Tensor d = Tensor::from(divisors, {rows, 1}).to(device);
        Tensor x = random_tensor({rows, n}, DType::f32, 31, device, true);
        // From the smallest numbers to the largest, zeros of both signs among them.
        x = x * exp(random_tensor({rows, n}, DType::f32, 32, device) * 40.0);
        x = where(random_tensor({rows, n}, DType::f32, 33, device) > 1.0, x * 0.0, x).to(dtype).eval();
        return x / (d.to(dtype) + sum(x * 0.0, {1}, true)) + x / d.to(dtype) + x / 3.0 + x / -3.0;
      });
    }
  }
}

// Zeros of both signs are equal: the first one wins.
TEST(RowForms, ExtremaOfZeros) {
  for (const std::int64_t n : {8, 64, 300, 4096}) {
    for (const double sign : {1.0, -1.0}) {
      const auto zeros = [&](Device device) {
        const Tensor x = random_tensor({20, n}, DType::f32, 3, device) * sign;
        return where(x > 0.5, x * 0.0, where(x < -0.5, x * 0.0, x * -sign * 0.0));
      };
      same_everywhere([&](Device device) { return amax(zeros(device), {1}); });
      same_everywhere([&](Device device) { return amin(zeros(device), {1}); });
      same_everywhere([&](Device device) {
        const Tensor x = relu(zeros(device)) * sign;
        return x * amax(x, {1}, true) + amin(abs(x), {1}, true);
      });
      // Where exp takes the difference, any zero will do; the sign shows elsewhere.
      same_everywhere([&](Device device) { return softmax(zeros(device), 1); });
      same_everywhere([&](Device device) {
        const Tensor x = zeros(device);
        return exp(x - amax(x, {1}, true)) / copysign(exp(x), amax(x, {1}, true));
      });
      same_everywhere([&](Device device) {
        const Tensor x = zeros(device);
        return exp(x - amax(x, {1}, true)) / amax(x, {1}, true);
      });
      same_everywhere([&](Device device) {
        const Tensor top = amax(zeros(device), {1}, true);
        return where(top.bitcast(DType::i32) == 0, exp(zeros(device) - top), 2.0);
      });
    }
  }
}

TEST(RowForms, ColumnsAndChannels) {
  same_everywhere([](Device device) { return sum(random_tensor({5000, 6}, DType::f32, 1, device), {0}); });
  same_everywhere([](Device device) { return var(random_tensor({3, 4, 40, 45}, DType::f32, 2, device), {0, 2, 3}); });
  same_everywhere([](Device device) { return sum(random_tensor({200, 1100}, DType::f32, 5, device), {0}); });
  same_everywhere([](Device device) { return sum(random_tensor({4200, 600}, DType::bf16, 6, device), {0}); });
  same_everywhere([](Device device) {
    const Tensor x = random_tensor({3, 130, 500}, DType::f32, 7, device);
    return mean(x * x + 1.0, {1}) + sum(x, {1});
  });
  same_everywhere([](Device device) { return var(random_tensor({70, 1100}, DType::f32, 9, device), {0}); });
  same_everywhere([](Device device) { return log_softmax(random_tensor({5000, 3}, DType::f32, 3, device), 0); });
  same_everywhere([](Device device) { return sum(random_tensor({300, 301}, DType::f32, 4, device)); });
}

// Neighbouring columns of 2 bytes are read at once where there are enough of them, if rows begin at a multiple of 4
// bytes and everything else that is read is the same for both.
TEST(RowForms, PairsOfColumns) {
  const std::int64_t enough = long_forms() ? 8704 : 512;
  for (const auto& [dtype, columns] : {std::pair<DType, std::int64_t>{DType::bf16, enough},
                                       {DType::f16, enough + 2},
                                       {DType::i16, enough},
                                       {DType::bf16, enough + 1}}) {
    SCOPED_TRACE(fmt::format("{} columns", columns));
    same_everywhere([&, dtype = dtype, columns = columns](Device device) {
      const Tensor x = (random_tensor({70, columns}, DType::f32, 10, device) * 50.0).to(dtype).eval();
      return sum(x, {0});
    });
  }
  same_everywhere([&](Device device) {
    const Tensor x = random_tensor({enough / 2}, DType::bf16, 11, device).eval();
    return sum(x.expand({4097, enough / 2}) * random_tensor({4097, 1}, DType::bf16, 16, device).eval(), {0});
  });
  const auto x = [](Device device) { return random_tensor({18, 70, 500}, DType::bf16, 12, device, true).eval(); };
  same_everywhere([&](Device device) {
    return (mean(x(device) * x(device) + 1.0, {1}) + sum(x(device), {1})) *
           random_tensor({500}, DType::bf16, 13, device);
  });
  same_everywhere([&](Device device) {
    return sum(x(device).to(DType::f32) * random_tensor({70, 1}, DType::f32, 14, device), {1});
  });
  same_everywhere([&](Device device) {
    return sum(x(device).to(DType::f32) * random_tensor({70, 500}, DType::f32, 15, device), {1});
  });
  same_everywhere([&](Device device) { return var(x(device), {1}); });
  same_everywhere([&](Device device) { return sum(x(device).narrow(2, 1, 498), {1}); });
}

TEST(RowForms, LongRowsOfOtherTypes) {
  for (const DType dtype : {DType::f64, DType::i32, DType::i64, DType::f16}) {
    same_everywhere([&](Device device) {
      return sum((random_tensor({2, 9000}, DType::f32, 1, device) * 50.0).to(dtype), {1});
    });
    same_everywhere([&](Device device) {
      return amax((random_tensor({2, 9000}, DType::f32, 2, device) * 50.0).to(dtype), {1});
    });
    same_everywhere([&](Device device) {
      return sum((random_tensor({2, 1500}, DType::f32, 3, device) * 50.0).to(dtype), {1});
    });
  }
}

TEST(RowForms, ElementwiseInVectors) {
  int seed = 100;
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::u8, DType::i64, DType::boolean}) {
    for (const std::int64_t n : {1, 4, 7, 8, 12, 64}) {
      const auto s = static_cast<std::uint64_t>(++seed);
      same_everywhere([&](Device device) {
        const Tensor x = random_tensor({9, n}, DType::f32, s, device, true);
        const Tensor y = (x * 3.0).to(dtype);
        return where(x > 0.0, y, y.flip({1})).to(DType::f32) + random_tensor({n}, DType::f32, s, device);
      });
      same_everywhere([&](Device device) { return (random_tensor({9, n}, DType::f32, s, device) * 3.0).to(dtype); });
    }
  }
}

// A value that one kernel stores and goes on with: rounded once, and its NaN is the one NaN.
TEST(RowForms, WhatIsStoredAndUsedIsCanonical) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
    same_everywhere([&](Device device) {
      const Tensor stored = random_tensor({9, 64}, dtype, 150, device, true) * 2.0;
      const Tensor used = exp(stored).eval();
      return stored;
    });
    same_everywhere([&](Device device) {
      const Tensor stored = random_tensor({9, 64}, DType::f32, 151, device, true).to(dtype);
      const Tensor used = (stored + 1.0).eval();
      return stored;
    });
  }
}

}  // namespace
}  // namespace lockstep
