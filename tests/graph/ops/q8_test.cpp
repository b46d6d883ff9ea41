// Numerics::q8 (docs/numerics.md section 14): which products have it, the lemmas that its bits rest on, an independent
// truth, its bits on every device, its edge cases, and its error.
#include <lockstep/numerics.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/io/safetensors.h>
#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "core/device.h"
#include "core/fp_state.h"
#include "graph/numerics.h"
#include "graph/values.h"
#include "kernels/order.h"
#include "kernels/storage.h"
#include "support/data.h"
#include "support/long_forms.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

constexpr Encoding kQ8Encodings[] = {
#define ENCODING(name, ...) Encoding::name,
#include <lockstep/encodings.def>
#undef ENCODING
};

Tensor q8(const std::function<Tensor()>& compute) {
  const NumericsScope scope(Numerics::q8);
  return compute();
}

// --- what has them

TEST(Q8Numerics, AreThoseOfProductsAlongPackedBlocks) {
  expect_error<ValueError>([] { numerics_from_name("q4"); }, {"\"q4\"", "\"q8\""});
  EXPECT_EQ(numerics_from_name(name_of(Numerics::q8)), Numerics::q8);
  const Tensor weight = random_packed({64, 64}, Encoding::q4_0, 1);
  const Tensor x = random_tensor({3, 64}, DType::f32, 2);
  const auto differs = [&](const std::function<Tensor()>& compute) {
    const Tensor here = q8(compute);
    EXPECT_EQ(current_numerics(), Numerics::exact);
    return here.hash() != compute().hash();
  };
  EXPECT_TRUE(differs([&] { return linear(x, weight); }));
  EXPECT_TRUE(differs([&] { return matmul(x, weight.transpose(0, 1)); }));
  EXPECT_TRUE(differs([&] { return einsum("mk,nk->mn", {x, weight}); }));
  EXPECT_TRUE(differs([&] { return matmul(x.narrow(1, 0, 32), weight.narrow(1, 32, 32).transpose(0, 1)); }));
  // Blocks across the sum, parts of blocks, and dense weights: as outside of the scope.
  EXPECT_FALSE(differs([&] { return matmul(x, weight); }));
  EXPECT_FALSE(differs([&] { return matmul(x.narrow(1, 0, 31), weight.narrow(1, 1, 31).transpose(0, 1)); }));
  EXPECT_FALSE(differs([&] { return linear(x, dequantize(weight)); }));
  // The choice is made when the product is, not when it is computed.
  const Tensor lazy = q8([&] { return linear(x, weight); });
  EXPECT_BITS_EQ(lazy, q8([&] { return linear(x, weight).eval(); }));
}

TEST(Q8Numerics, GradientsAreExact) {
  const Tensor weight = random_packed({32, 64}, Encoding::q8_0, 1);
  const auto gradient = [&](Numerics numerics) {
    const NumericsScope scope(numerics);
    const Tensor x = requires_grad(random_tensor({3, 64}, DType::f32, 2));
    const Tensor seed = random_tensor({3, 32}, DType::f32, 3);
    return gradients(sum(linear(x, weight) * seed), {x})[0];
  };
  EXPECT_BITS_EQ(gradient(Numerics::q8), gradient(Numerics::exact));
}

// --- what the bits rest on

// A code is at most 127 whatever the block's largest magnitude, and a scale has 13 bits, so that with the 11 of a
// weight's its product is exact; exponents change nothing but at the ends.
TEST(Q8Lemmas, ExhaustiveCodesReach127AndScalesHave13Bits) {
  const FloatingPointScope floating_point;
  const auto check = [](std::uint32_t bits) {
    const float largest = std::bit_cast<float>(bits);
    const float scale = scalar::q8_scale(bits);
    ASSERT_EQ(std::bit_cast<std::uint32_t>(scale) & 0x7ffu, 0u);
    if (scale == 0) return;
    const float inverse = 1.0f / scale;
    ASSERT_LE(std::abs(scalar::q8_code(largest, inverse)), 127) << bits;
    ASSERT_GE(scalar::q8_code(largest, inverse), 127) << bits;
    ASSERT_EQ(scalar::q8_code(-largest, inverse), -scalar::q8_code(largest, inverse));
  };
  for (std::uint32_t mantissa = 0; mantissa < 0x800000u; ++mantissa) check(0x3f800000u | mantissa);
  for (std::uint32_t exponent = 9; exponent < 255; ++exponent) {
    for (const std::uint32_t mantissa : {0u, 1u, 0x123456u, 0x7e0000u, 0x7fffffu}) check(exponent << 23 | mantissa);
  }
  EXPECT_EQ(scalar::q8_scale(0), 0.0f);
  EXPECT_EQ(scalar::q8_scale(0x00800001u), 0.0f);  // below the normal numbers
  EXPECT_TRUE(std::isnan(scalar::q8_scale(0x7f800000u)));
  EXPECT_EQ(scalar::q8_code(kInfinity, 0.0f), 0);
}

// Sums of a block are below 2^24, whatever its bytes say: float(sum) is exact.
TEST(Q8Lemmas, SumsOfABlockAreExactFloats) {
  for (const Encoding encoding : kQ8Encodings) {
    const EncodingInfo& info = info_of(encoding);
    std::int64_t largest = 0;
    std::int64_t share = 0;
    for (int byte = 0; byte < 256; ++byte) {
      // Factors and codes lie in bytes of their own: all equal reaches the largest of both, and so do these two mixed.
      for (int other = 0; other < 256; other += 5) {
        for (std::size_t cut = 0; cut < info.bytes; cut += 8) {
          std::vector<std::byte> block(info.bytes, static_cast<std::byte>(byte));
          std::fill(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(cut), static_cast<std::byte>(other));
          for (const int i : {0, 1, 17, 31}) {
            const BlockGroup group = load_group(encoding, block.data(), i);
            const int code = load_code(encoding, block.data(), i);
            largest = std::max<std::int64_t>(largest, std::abs(code * group.factor));
            share = std::max<std::int64_t>(share, std::abs(group.share));
          }
          if (encoding == Encoding::q8_0) break;
        }
      }
    }
    EXPECT_LT(32 * 127 * largest, 1 << 24) << info.name;
    EXPECT_LT(32 * 127 * share, 1 << 24) << info.name;
    EXPECT_EQ(share > 0, has_offsets(encoding)) << info.name;
    if (encoding == Encoding::q6_k) {
      EXPECT_EQ(largest, 128 * 32);
    } else if (encoding == Encoding::iq4_xs) {
      EXPECT_EQ(largest, 127 * 32);
    }
  }
}

// --- the truth

// Activations [4, 512], weights [5, 512] and their products.
struct Golden {
  Tensor x, weight, product;
};
Golden golden(const io::TensorFile& file, Encoding encoding) {
  const std::string name(info_of(encoding).name);
  const std::vector<std::uint8_t> blocks = file.tensors.at(name + ".blocks").to_vector<std::uint8_t>();
  return {.x = file.tensors.at("x"),
          .weight = Tensor::from_blocks(blocks.data(), blocks.size(), {5, 512}, encoding),
          .product = file.tensors.at(name + ".product")};
}

TEST(Q8Numerics, ProductsAreThoseOfExactFractions) {
  const io::TensorFile file = io::load_safetensors(test::repository_data("q8.safetensors").string());
  for (const Encoding encoding : kQ8Encodings) {
    SCOPED_TRACE(info_of(encoding).name);
    const Golden given = golden(file, encoding);
    EXPECT_BITS_EQ(q8([&] { return linear(given.x, given.weight); }), given.product);
  }
}

// --- the same bits everywhere

TEST(Q8Numerics, ProductsOfEveryEncodingAreTheSameEverywhere) {
  std::uint64_t seed = 0;
  for (const Encoding encoding : kQ8Encodings) {
    for (const std::int64_t rows : {1, 3, 9}) {
      for (const bool special : {false, true}) {
        ++seed;
        SCOPED_TRACE(std::string(info_of(encoding).name) + " " + std::to_string(rows) + (special ? " special" : ""));
        const std::int64_t k = info_of(encoding).elements == 256 || seed % 2 == 0 ? 512 : 352;
        same_everywhere([&](Device device) {
          const Tensor x = random_tensor({rows, k}, DType::f32, seed, device, special);
          const Tensor weight = random_packed({37, k}, encoding, seed, device, special);
          return q8([&] { return rows == 3 ? relu(linear(x, weight)) + 1 : linear(x, weight); });
        });
      }
    }
  }
}

TEST(Q8Numerics, ViewsAndBatchesAreTheSameEverywhere) {
  same_everywhere([](Device device) {  // weights of a batch, activations that are shared
    const Tensor x = random_tensor({5, 96}, DType::f32, 1, device);
    const Tensor weights = random_packed({3, 20, 96}, Encoding::q5_1, 2, device);
    return q8([&] { return matmul(x, weights.transpose(1, 2)); });
  });
  same_everywhere([](Device device) {  // both change
    const Tensor x = random_tensor({3, 7, 256}, DType::f32, 1, device);
    const Tensor weights = random_packed({3, 20, 256}, Encoding::q4_k, 2, device);
    return q8([&] { return matmul(x, weights.transpose(1, 2)); });
  });
  same_everywhere([](Device device) {  // activations across memory, parts of weights
    const Tensor x = random_tensor({320, 6}, DType::f32, 1, device).transpose(0, 1);
    const Tensor weights = random_packed({40, 512}, Encoding::q4_0, 2, device);
    const Tensor part = weights.narrow(1, 64, 320).slice(0, {.start = 1, .step = 3});
    return q8([&] { return linear(x, part); });
  });
  same_everywhere([](Device device) {  // more k than a workgroup has at once
    const Tensor x = random_tensor({2, 66048}, DType::f32, 1, device);
    const Tensor weights = random_packed({3, 66048}, Encoding::q4_1, 2, device);
    return q8([&] { return linear(x, weights); });
  });
  same_everywhere([](Device device) {  // many rows
    const Tensor x = random_tensor({133, 768}, DType::f32, 1, device);
    const Tensor weights = random_packed({150, 768}, Encoding::q6_k, 2, device);
    return q8([&] { return linear(x, weights); });
  });
}

// Outside of the scope a few rows have the same kernel, with decoded weights.
TEST(Q8Numerics, FewRowsTimesDecodedWeightsAreTheSameEverywhere) {
  std::uint64_t seed = 0;
  for (const Encoding encoding : kQ8Encodings) {
    for (const bool special : {false, true}) {
      ++seed;
      SCOPED_TRACE(std::string(info_of(encoding).name) + (special ? " special" : ""));
      const std::int64_t k = info_of(encoding).elements == 256 || special ? 1024 : 800;
      same_everywhere([&](Device device) {
        const Tensor x = random_tensor({special ? 1 : 5, k}, DType::f32, seed, device, special);
        return linear(x, random_packed({37, k}, encoding, seed, device, special)) * 2;
      });
    }
  }
}

// More columns than all workgroups of a large GPU have at once, and fewer than one for each of its threads' pieces.
TEST(Q8Numerics, LongColumnsAreTheSameEverywhere) {
  for (const auto& [columns, k] :
       {std::pair<std::int64_t, std::int64_t>{long_forms() ? 2220 : 140, 8192}, {70, 14336}}) {
    for (const Numerics numerics : {Numerics::q8, Numerics::exact}) {
      for (const Encoding encoding : {Encoding::q4_0, Encoding::q4_k}) {
        SCOPED_TRACE(std::string(info_of(encoding).name) + " " + std::to_string(columns));
        same_everywhere([&, n = columns, length = k](Device device) {
          const Tensor x = random_tensor({1, length}, DType::f32, 1, device);
          const Tensor weight = random_packed({n, length}, encoding, 2, device);
          const NumericsScope scope(numerics);
          return linear(x, weight).eval();
        });
      }
    }
  }
}

TEST(Q8Numerics, ARowDoesNotDependOnTheOthers) {
  const Tensor x = random_tensor({11, 512}, DType::f32, 1);
  for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_k}) {
    const Tensor weight = random_packed({70, 512}, encoding, 2);
    const Tensor all = q8([&] { return linear(x, weight); });
    for (std::int64_t row = 0; row < 11; ++row) {
      EXPECT_BITS_EQ(q8([&] { return linear(x.narrow(0, row, 1), weight); }), all.narrow(0, row, 1));
    }
  }
}

// Many rows are those of a few: every form of tiles, with rows and columns that fill none, columns that begin at any
// byte, groups, offsets.
void check_many_rows(Encoding encoding, std::int64_t rows, const Shape& shape, bool special, Device device) {
  SCOPED_TRACE(device.to_string() + " " + std::string(info_of(encoding).name) + " " + std::to_string(rows) + " " +
               std::to_string(shape[0]) + " " + std::to_string(shape[1]));
  const Tensor weight = random_packed(shape, encoding, 2, device, special);
  const Tensor x = random_tensor({rows, shape[1]}, DType::f32, 1, device, special);
  const Tensor added = random_tensor({rows, shape[0]}, DType::f32, 3, device);
  const auto product = [&](std::int64_t first, std::int64_t count) {
    return q8([&] { return (linear(x.narrow(0, first, count), weight) * 3 + added.narrow(0, first, count)).eval(); });
  };
  const Tensor all = product(0, rows);
  for (const std::int64_t row : {std::int64_t{0}, rows / 2, rows - 7}) {
    EXPECT_BITS_EQ(product(row, 7), all.narrow(0, row, 7));
  }
}
// Forms that only they have, in sizes that are none for software.
std::vector<Device> cuda_devices() {
  std::vector<Device> found = test_devices();
  std::erase_if(found, [](Device device) { return device.kind != DeviceKind::cuda; });
  return found;
}
// And those with cooperative matrices, which software has none of.
std::vector<Device> devices_with_tiles() {
  std::vector<Device> found = test_devices();
  std::erase_if(found, [](Device device) {
    return device.kind != DeviceKind::cuda &&
           backend_of(device).description().find("matrices of bytes") == std::string::npos;
  });
  return found;
}

TEST(Q8Numerics, ManyRowsAreTheRowsOfAFew) {
  for (const Device device : test_devices()) {
    if (is_host(device) && device != Device{}) continue;
    for (const Encoding encoding : kQ8Encodings) check_many_rows(encoding, 20, {150, 512}, true, device);
  }
}

// Teams that share a tile's k: stages that have a piece for each, or but for some.
TEST(Q8Numerics, ManyRowsWhoseKIsPartedAreTheRowsOfAFew) {
  for (const Device device : cuda_devices()) {
    for (const std::int64_t k : {256, 768, 1280, 2048}) {
      for (const std::int64_t rows : {14, 30, 64, 100, 300}) {
        check_many_rows(Encoding::q6_k, rows, {2100, k}, false, device);
      }
      check_many_rows(Encoding::q4_k, 64, {1030, k}, false, device);
    }
  }
}

TEST(Q8Numerics, ManyRowsOfManyColumnsAreTheRowsOfAFew) {
  for (const Device device : devices_with_tiles()) {
    for (const Encoding encoding : {Encoding::q4_0, Encoding::q6_k, Encoding::q2_k, Encoding::q4_k, Encoding::q8_0}) {
      for (const std::int64_t rows : {14, 30, 64, 100, 200})
        check_many_rows(encoding, rows, {17000, 512}, false, device);
    }
  }
}

TEST(Q8Numerics, RowsOfLargeTilesAreTheRowsOfAFew) {
  for (const Device device : devices_with_tiles()) {
    for (const Encoding encoding : kQ8Encodings) check_many_rows(encoding, 1400, {2100, 1024}, true, device);
  }
}

// Hopper's warpgroups: those that take pieces by turns, with more of them than pieces and fewer, and those that do not.
TEST(Q8Numerics, ManyRowsByWarpgroupsAreTheRowsOfAFew) {
  for (const Device device : cuda_devices()) {
    for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_0, Encoding::q4_1, Encoding::q4_k, Encoding::q5_k}) {
      for (const std::int64_t k : {256, 768, 2304}) {
        check_many_rows(encoding, 33, {5000, k}, true, device);
        check_many_rows(encoding, 64, {9000, k}, false, device);
      }
      check_many_rows(encoding, 300, {4100, 512}, true, device);
    }
  }
}

// Rows whose scales tensor cores multiply, some with large sums of codes, and rows with others, down to the smallest
// and up to no number.
TEST(Q8Numerics, ManyRowsOfAnyScaleAreTheRowsOfAFew) {
  constexpr std::int64_t kLength = 768;
  for (const Device device : cuda_devices()) {
    for (const auto& [encoding, columns] :
         {std::pair{Encoding::q4_1, 9000}, std::pair{Encoding::q4_k, 9000}, std::pair{Encoding::q5_k, 9000},
          std::pair{Encoding::q8_0, 4100}, std::pair{Encoding::q4_0, 4100}}) {
      SCOPED_TRACE(std::string(info_of(encoding).name));
      for (const bool special : {false, true}) {
        const Tensor weight = random_packed({columns, kLength}, encoding, 2, device, special);
        // Tiles of two groups of columns, and of three.
        for (const std::size_t rows : {std::size_t{64}, std::size_t{128}}) {
          const Shape shape{static_cast<std::int64_t>(rows), kLength};
          std::vector<float> values = random_tensor(shape, DType::f32, 1).to_vector<float>();
          for (std::size_t i = 0; i < rows; i += 3) {
            for (std::size_t k = 0; k < 256; ++k) values[i * kLength + k] += 8.0f;
          }
          // Of the second piece one block of some rows; the third has none. 2^-60 and 2^30 are in the scales' midst.
          const float sizes[] = {0.0f, 1e-37f, 1e-25f, 2e-16f, 1e-16f,    1e-15f,
                                 1e9f, 1e11f,  3e11f,  1e30f,  kInfinity, std::nanf("")};
          for (std::size_t i = 0; i < std::size(sizes); ++i) {
            for (std::size_t k = 256; k < 288; ++k) values[(5 * i + 2) * kLength + 32 * (i % 8) + k] *= sizes[i];
          }
          for (const std::size_t used : {rows, std::size_t{20}}) {
            std::vector<float> some = values;
            std::fill(some.begin() + static_cast<std::ptrdiff_t>(used * kLength), some.end(), 0.5f);
            const Tensor x = Tensor::from(some, shape, device);
            const Tensor all = q8([&] { return linear(x, weight).eval(); });
            for (std::int64_t row = 0; row < shape[0]; row += 8) {
              EXPECT_BITS_EQ(q8([&] { return linear(x.narrow(0, row, 8), weight); }), all.narrow(0, row, 8));
            }
          }
        }
      }
    }
  }
}

// Copies that overtake what is still being read go wrong once in thousands of launches.
TEST(Q8Numerics, ManyRowsByWarpgroupsAreTheSameEveryTime) {
  constexpr int kTimes = 4000;
  for (const Device device : cuda_devices()) {
    for (const Shape& shape : {Shape{4096, 4096}, Shape{4096, 14336}, Shape{14336, 4096}}) {
      SCOPED_TRACE(shape.to_string());
      const Tensor weight = random_packed(shape, Encoding::q8_0, 1, device);
      const Tensor x = random_tensor({64, shape[1]}, DType::f32, 2).to(device);
      const Tensor first = q8([&] { return linear(x, weight).eval(); });
      Tensor different = zeros({}, {.dtype = DType::i64, .device = device});
      for (int i = 0; i < kTimes; ++i) {
        // Several in one recording, as in a model.
        for (int j = 0; j < 4; ++j) {
          different = different + sum(ne(q8([&] { return linear(x + 0.0 * j, weight); }), first).to(DType::i64));
        }
        different.eval();
      }
      EXPECT_EQ(different.to_vector<std::int64_t>().front(), 0) << "of " << 4 * kTimes;
    }
  }
}

// --- edges

TEST(Q8Numerics, EdgesOfTheRangeAreTheSameEverywhere) {
  for (const float size : {0.0f, 1e-44f, 1.2e-38f, 1e-36f, 1e-33f, 3e38f, kInfinity, std::nanf("")}) {
    SCOPED_TRACE(size);
    for (const Encoding encoding : {Encoding::q8_0, Encoding::mxfp4, Encoding::q4_1}) {
      same_everywhere([&](Device device) {
        std::vector<float> values(2 * 64, 0.25f);
        for (std::size_t i = 0; i < 32; ++i) values[i] = i % 3 == 0 ? size : size / static_cast<float>(i + 1);
        const Tensor x = Tensor::from(values, {2, 64}, device);
        const Tensor weight = random_packed({9, 64}, encoding, 5, device, true);
        return q8([&] { return linear(x, weight); });
      });
    }
  }
}

TEST(Q8Numerics, NoNumbersAndNothing) {
  const Tensor weight = random_packed({4, 64}, Encoding::q8_0, 3);
  std::vector<float> values(3 * 64, 1.0f);
  values[5] = kInfinity;
  values[64 + 40] = std::nanf("");
  const Tensor y = q8([&] { return linear(Tensor::from(values, {3, 64}), weight); });
  const std::vector<float> got = y.to_vector<float>();
  for (std::size_t i = 0; i < 12; ++i) EXPECT_EQ(std::isnan(got[i]), i < 8) << i;
  EXPECT_BITS_EQ(q8([&] { return linear(zeros({2, 64}), weight); }), zeros({2, 4}));
  EXPECT_EQ(q8([&] { return linear(zeros({0, 64}), weight); }).shape(), Shape({0, 4}));
}

// --- the error

// |result - sum| <= sum over blocks of d / 2 (1 + 2^-11) * the block's sum of |w|, and what adding blocks rounds.
TEST(Q8Numerics, TheErrorIsWithinItsBound) {
  const io::TensorFile file = io::load_safetensors(test::repository_data("q8.safetensors").string());
  for (const Encoding encoding : kQ8Encodings) {
    const Golden given = golden(file, encoding);
    const std::vector<float> got = q8([&] { return linear(given.x, given.weight); }).to_vector<float>();
    const std::vector<float> w = dequantize(given.weight).to_vector<float>();
    const std::vector<float> a = given.x.to_vector<float>();
    for (std::size_t m = 0; m < 4; ++m) {
      for (std::size_t n = 0; n < 5; ++n) {
        double sum = 0;
        double bound = 0;
        double all = 0;
        for (std::size_t block = 0; block < 512 / 32; ++block) {
          double largest = 0;
          double weights = 0;
          for (std::size_t i = block * 32; i < block * 32 + 32; ++i) {
            const double x_i = a[m * 512 + i];
            const double w_i = w[n * 512 + i];
            sum += x_i * w_i;
            all += std::fabs(x_i * w_i);
            largest = std::max(largest, std::fabs(x_i));
            weights += std::fabs(w_i);
          }
          bound += largest / 254 * (1 + 0x1p-11) * weights;
        }
        // Codes and offsets of a block are summed apart: their sums may be larger than the products'.
        EXPECT_LE(std::fabs(got[m * 5 + n] - sum), bound + 40 * 0x1p-24 * 8 * (all + bound))
            << info_of(encoding).name << " " << m << " " << n;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
