// The reductions on the host: the bits that every compiler and machine must give, and matrices with little left of
// them.
#include "linalg/host.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace lockstep::linalg::host {
namespace {

using Matrix = std::vector<double>;

// FNV-1a over words, with their upper bits carried down.
std::uint64_t hash_of(std::initializer_list<const Matrix*> parts) {
  std::uint64_t hash = 1469598103934665603ull;
  for (const Matrix* part : parts) {
    for (const double value : *part) {
      hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 1099511628211ull;
      hash ^= hash >> 29;
    }
  }
  return hash;
}

Matrix integers(std::int64_t n) {
  Matrix a;
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      a.push_back(static_cast<double>((i * 7919 + j * 104729 + i * j * 31) % 1021 - 510) / 512);
    }
  }
  return a;
}

// GCC 12 with SSE2 and Clang 14 with AVX2 gave these, -O1 to -O3.
TEST(LinalgHost, BitsAreTheSameOnEveryMachine) {
  for (const auto& [n, expected] :
       {std::pair{std::int64_t{5}, 0x1b73a519a8fac1f4ull}, {std::int64_t{37}, 0xa3357fc2cd8a5677ull}}) {
    const Matrix a = integers(n);
    const Matrix turned = transposed(a, n, n);
    Matrix symmetric = a;
    for (std::size_t i = 0; i < a.size(); ++i) symmetric[i] = (a[i] + turned[i]) / 2;
    const Eigen eigen = symmetric_eigen(symmetric, n, true);
    const Singular singular = singular_values(a, n, n, n);
    EXPECT_EQ(hash_of({&eigen.values, &eigen.vectors, &singular.values, &singular.ut, &singular.vh}), expected) << n;
    EXPECT_EQ(symmetric_eigen(symmetric, n, false).values, eigen.values);
    EXPECT_EQ(singular_values(a, n, n, 0).values, singular.values);
  }
}

// Rows of `matrix` [rows, columns] against each other.
void expect_orthonormal(const Matrix& matrix, std::int64_t rows, std::int64_t columns) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j <= i; ++j) {
      double product = 0;
      for (std::int64_t k = 0; k < columns; ++k) {
        product +=
            matrix[static_cast<std::size_t>(i * columns + k)] * matrix[static_cast<std::size_t>(j * columns + k)];
      }
      ASSERT_NEAR(product, i == j ? 1 : 0, 1e-14 * static_cast<double>(columns)) << i << " " << j;
    }
  }
}

// Elements down to 2^-1000: their squares are nothing.
TEST(LinalgHost, VectorsOfStronglyGradedMatricesAreOrthonormal) {
  for (const std::int64_t n : {12, 40}) {
    Matrix a = integers(n);
    for (std::int64_t i = 0; i < n; ++i) {
      for (std::int64_t j = 0; j < n; ++j) {
        const int exponent = -static_cast<int>((i + j) * 500 / n);
        double& element = a[static_cast<std::size_t>(i * n + j)];
        element = std::ldexp(i <= j ? element : 0, exponent);
        if (i > j) element = a[static_cast<std::size_t>(j * n + i)];
      }
    }
    const Eigen eigen = symmetric_eigen(a, n, true);
    EXPECT_TRUE(eigen.converged);
    expect_orthonormal(eigen.vectors, n, n);
    const Singular singular = singular_values(a, n, n, n);
    EXPECT_TRUE(singular.converged);
    expect_orthonormal(singular.ut, n, n);
    expect_orthonormal(singular.vh, n, n);
  }
}

TEST(LinalgHost, TheLargestElementOfEachVectorIsPositive) {
  const Eigen eigen = symmetric_eigen({2, -1, 0, -1, 2, -1, 0, -1, 2}, 3, true);
  for (std::size_t row = 0; row < 3; ++row) {
    double largest = 0;
    for (std::size_t i = 0; i < 3; ++i) {
      const double element = eigen.vectors[row * 3 + i];
      if (std::abs(element) > std::abs(largest)) largest = element;
    }
    EXPECT_GT(largest, 0) << row;
  }
  const Singular singular = singular_values({-3, 0, 0, -2}, 2, 2, 2);
  EXPECT_EQ(singular.vh, (Matrix{1, 0, 0, 1}));
  EXPECT_EQ(singular.ut, (Matrix{-1, 0, 0, -1}));
}

TEST(LinalgHost, FurtherColumnsOfUCompleteTheBasis) {
  const std::int64_t m = 20;
  Matrix a = integers(m);
  a.resize(static_cast<std::size_t>(m * 6));
  expect_orthonormal(singular_values(a, m, 6, 13).ut, 13, m);
  expect_orthonormal(singular_values(Matrix(a.size(), 0.0), m, 6, m).ut, m, m);
}

TEST(LinalgHost, ValuesOfDiagonalMatricesAreExact) {
  const Matrix values = {0.5, 0, 1, 0x1p-900, 0.25};
  Matrix a(25);
  for (std::size_t i = 0; i < 5; ++i) a[i * 6] = values[i];
  EXPECT_EQ(singular_values(a, 5, 5, 0).values, (Matrix{1, 0.5, 0.25, 0x1p-900, 0}));
  a[12] = -1;
  EXPECT_EQ(symmetric_eigen(a, 5, false).values, (Matrix{-1, 0, 0x1p-900, 0.25, 0.5}));
  EXPECT_TRUE(singular_values({}, 4, 0, 0).values.empty());
  EXPECT_TRUE(symmetric_eigen({}, 0, true).values.empty());
}

}  // namespace
}  // namespace lockstep::linalg::host
