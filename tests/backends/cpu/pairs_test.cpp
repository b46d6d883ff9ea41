// Products of small integers on the CPU, in pairs of 16 bits and in fours of bytes, against the reference backend by equality
// of bits.
#include "backends/cpu/contraction/pairs.h"

#include <gtest/gtest.h>

#include "backends/cpu/contraction_problem.h"
#include "support/long_forms.h"

namespace lockstep {
namespace {

using namespace testing;  // of contraction_problem.h

MatmulOptions of_integers(DType a, DType b, bool transpose) {
  return {.a = a, .b = b, .type = ComputeType::i32, .transpose_a = transpose, .transpose_b = !transpose};
}

TEST(CpuPairs, AroundTileEdges) {
  bool transpose = false;
  for (const std::int64_t m : {1, 2, 3, 5, 6, 7, 9, 11, 12, 13, 14, 15, 29}) {
    for (const std::int64_t n : {1, 7, 8, 9, 16, 17, 32, 33, 65}) {
      for (const std::int64_t k : {1, 2, 7, 8, 9, 17}) {
        transpose = !transpose;
        Problem problem = matmul_problem({}, m, n, k, of_integers(DType::i16, DType::i8, transpose));
        expect_reference_bits(problem, {1});
      }
    }
  }
}

TEST(CpuPairs, InBlocksOfKAndOnThreads) {
  for (const std::int64_t k : {0, 1, 2, 3, 255, 256, 257, 264, 511, 512, 1000}) {
    for (const bool transpose : {false, true}) {
      Problem square = matmul_problem({2}, 19, 37, k, of_integers(DType::i16, DType::i16, transpose));
      expect_reference_bits(square, {1, 2, 7});
      Problem row = matmul_problem({}, 1, 70, k, of_integers(DType::u8, DType::i8, transpose));
      expect_reference_bits(row, {1});
      MatmulOptions turned = of_integers(DType::i8, DType::u8, transpose);
      turned.transpose_out = turned.flip_a = turned.flip_b = true;
      Problem tall = matmul_problem({}, 70, 9, k, turned);
      expect_reference_bits(tall, {1});
    }
  }
  Problem wide = matmul_problem({}, 130, 1100, long_forms() ? 300 : 30, of_integers(DType::i16, DType::i16, false));
  expect_reference_bits(wide, {1, 2, 7});
}

TEST(CpuPairs, OfBytesAroundTileEdges) {
  bool transpose = false;
  for (const std::int64_t m : {1, 3, 5, 11, 13, 14, 15, 29}) {
    for (const std::int64_t n : {1, 15, 16, 17, 31, 32, 33, 65}) {
      for (const std::int64_t k : {1, 2, 3, 4, 5, 15, 16, 17, 33}) {
        transpose = !transpose;
        const bool left = (m + n + k) % 2 == 0;
        const DType a = left ? DType::u8 : DType::i8;
        Problem problem = matmul_problem({}, m, n, k, of_integers(a, left ? DType::i8 : DType::u8, transpose));
        expect_reference_bits(problem, {1});
      }
    }
  }
}

TEST(CpuPairs, OfBytesInBlocksOfKAndOnThreads) {
  for (const std::int64_t k : {0, 1, 16, 255, 256, 257, 258, 259, 260, 272, 511, 512, 1000}) {
    for (const bool transpose : {false, true}) {
      Problem square = matmul_problem({2}, 19, 37, k, of_integers(DType::u8, DType::i8, transpose));
      expect_reference_bits(square, {1, 2, 7});
      MatmulOptions turned = of_integers(DType::i8, DType::u8, transpose);
      turned.transpose_out = turned.flip_a = turned.flip_b = true;
      Problem tall = matmul_problem({}, 70, 9, k, turned);
      expect_reference_bits(tall, {1});
    }
  }
  Problem wide = matmul_problem({}, 130, 1100, long_forms() ? 300 : 30, of_integers(DType::u8, DType::i8, false));
  expect_reference_bits(wide, {1, 2, 7});
}

TEST(CpuPairs, Convolutions) {
  for (const bool channels_last : {false, true}) {
    for (const std::int64_t stride : {1, 2, 3}) {
      for (const DType dtype : {DType::i16, DType::u8}) {
        for (const std::int64_t groups : {1, 3}) {
          Problem problem = convolution_problem({.batch = 2,
                                                 .groups = groups,
                                                 .in = 5,
                                                 .out = 9,
                                                 .size = {9, 20},
                                                 .padding = 2,
                                                 .stride = stride,
                                                 .channels_last = channels_last,
                                                 .fill = 3,
                                                 .weight = DType::i16,
                                                 .input = dtype});
          expect_reference_bits(problem, {1, 7});
        }
      }
    }
  }
}

TEST(CpuPairs, ConvolutionsOfBytes) {
  for (const bool channels_last : {false, true}) {
    for (const std::int64_t stride : {1, 2}) {
      for (const std::int64_t groups : {1, 3}) {
        Problem problem = convolution_problem({.batch = 2,
                                               .groups = groups,
                                               .in = 5,
                                               .out = 9,
                                               .size = {9, 20},
                                               .padding = 2,
                                               .stride = stride,
                                               .channels_last = channels_last,
                                               .fill = 3,
                                               .weight = DType::i8,
                                               .input = DType::u8});
        expect_reference_bits(problem, {1, 7});
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
