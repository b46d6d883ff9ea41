// Linear algebra: the error bounds of lockstep/linalg.h, equal bits everywhere, matrices without an answer. Values and
// gradients are compared with PyTorch's in tests/data/cases.
#include <lockstep/linalg.h>

#include <cmath>
#include <limits>

#include <lockstep/autocast.h>
#include <lockstep/autograd.h>

#include "linalg/matrices.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

const DType kTypes[] = {DType::f32, DType::f64};
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double unit(DType dtype) {
  return dtype == DType::f64 ? 0x1p-53 : 0x1p-24;
}
Tensor normal(const Shape& shape, DType dtype, std::uint64_t seed) {
  Generator generator(seed);
  return randn(shape, {.dtype = DType::f64}, &generator).to(dtype).eval();
}
Tensor mt(const Tensor& a) {
  return a.transpose(-2, -1);
}
Tensor wide(const Tensor& a) {
  return a.to(DType::f64);
}
// The largest Frobenius norm of a batch.
double length(const Tensor& a) {
  const Tensor lengths = norm(wide(a), {-2, -1});
  return lengths.numel() == 0 ? 0 : amax(lengths).item<double>();
}
// |a| of each matrix as a factor.
Tensor lengths(const Tensor& a) {
  return norm(wide(a), {-2, -1}, true);
}
Tensor one(std::int64_t n) {
  return eye(n, std::nullopt, {.dtype = DType::f64});
}
double size_of_error(const Tensor& error, const Tensor& scale) {
  return amax(norm(error, {-2, -1}, true) / scale).item<double>();
}

// Ordinary matrices, nearly singular ones (Hilbert's), and graded ones.
std::vector<Tensor> square_matrices(std::int64_t n, DType dtype) {
  const Tensor number = arange(1, static_cast<double>(n + 1), 1, {.dtype = DType::f64});
  const Tensor hilbert = 1 / (number.unsqueeze(1) + number - 1);
  const Tensor scales = exp2(neg(number)).unsqueeze(0);
  return {normal({3, n, n}, dtype, 5), hilbert.to(dtype).unsqueeze(0),
          (wide(normal({2, n, n}, dtype, 6)) * scales).to(dtype)};
}

TEST(Linalg, SolutionsHaveSmallResiduals) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {1, 2, 7, 32, 33, 100}) {
      for (const Tensor& a : square_matrices(n, dtype)) {
        const Tensor b = normal({a.size(0), n, 3}, dtype, 7);
        const Tensor x = linalg::solve(a, b);
        const Tensor residual = wide(b) - matmul(wide(a), wide(x));
        EXPECT_LE(size_of_error(residual, lengths(a) * lengths(x)), 16 * static_cast<double>(n) * unit(dtype)) << n;
      }
    }
  }
}

TEST(Linalg, InversesHaveSmallResiduals) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {1, 5, 40, 100}) {
      const Tensor a = normal({2, n, n}, dtype, 8);
      const Tensor y = linalg::inv(a);
      const Tensor residual = matmul(wide(a), wide(y)) - one(n);
      EXPECT_LE(size_of_error(residual, lengths(a) * lengths(y)), 16 * static_cast<double>(n) * unit(dtype)) << n;
    }
  }
}

TEST(Linalg, CholeskyFactorsGiveTheMatrix) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {1, 2, 31, 65, 100}) {
      const Tensor x = normal({2, n, n + 3}, dtype, 9);
      const Tensor a = matmul(x, mt(x));
      const Tensor l = linalg::cholesky(a);
      const double bound = 4 * static_cast<double>(n) * unit(dtype);
      EXPECT_LE(size_of_error(wide(a) - matmul(wide(l), mt(wide(l))), lengths(a)), bound) << n;
      EXPECT_BITS_EQ(linalg::cholesky(triu(a), {.upper = true}), mt(linalg::cholesky(mt(triu(a)))));
    }
  }
}

TEST(Linalg, QrIsOrthogonalAndGivesTheMatrix) {
  for (const DType dtype : kTypes) {
    for (const auto& [m, n] : {std::pair{1, 1}, {5, 3}, {3, 5}, {70, 40}, {40, 70}, {100, 100}}) {
      Tensor a = normal({2, m, n}, dtype, 10);
      if (n > 2) a = cat({a.narrow(2, 0, n - 1), a.narrow(2, 0, 1)}, 2);  // not of full rank
      for (const linalg::QrMode mode : {linalg::QrMode::reduced, linalg::QrMode::complete}) {
        const linalg::Qr parts = linalg::qr(a, {.mode = mode});
        const double u = unit(dtype) * std::max(m, n);
        EXPECT_LE(size_of_error(wide(a) - matmul(wide(parts.q), wide(parts.r)), lengths(a)), 4 * u) << m << " " << n;
        EXPECT_LE(length(matmul(mt(wide(parts.q)), wide(parts.q)) - one(parts.q.size(-1))), 8 * u) << m << " " << n;
        EXPECT_BITS_EQ(parts.r, triu(parts.r));
      }
    }
  }
}

void expect_eigh(const Tensor& a) {
  const std::int64_t n = a.size(-1);
  const linalg::Eigh parts = linalg::eigh(a);
  const Tensor v = wide(parts.eigenvectors);
  const double bound = 16 * static_cast<double>(n) * unit(a.dtype());
  const Tensor residual = matmul(wide(a), v) - v * wide(parts.eigenvalues).unsqueeze(-2);
  EXPECT_LE(size_of_error(residual, maximum(lengths(a), 1e-300)), bound) << n;
  EXPECT_LE(length(matmul(mt(v), v) - one(n)), bound) << n;
  EXPECT_TRUE(all(le(parts.eigenvalues.narrow(-1, 0, n - 1), parts.eigenvalues.narrow(-1, 1, n - 1))).item<bool>());
  EXPECT_BITS_EQ(linalg::eigvalsh(a), parts.eigenvalues);
}

TEST(Linalg, EigenvectorsAreOrthogonalAndSolveTheProblem) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {1, 2, 3, 20, 70}) {
      for (const Tensor& x : square_matrices(n, dtype)) expect_eigh((x + mt(x)) * 0.5);
    }
    expect_eigh(zeros({1, 9, 9}, {.dtype = dtype}));
    expect_eigh(one(9).to(dtype).unsqueeze(0));
    expect_eigh(ones({1, 80, 80}, {.dtype = dtype}));  // one eigenvalue but 0
    const Tensor extreme = normal({2, 6, 6}, dtype, 11) * (dtype == DType::f64 ? 1e150 : 1e37);
    expect_eigh((extreme * 0.5 + mt(extreme) * 0.5));
  }
}

void expect_svd(const Tensor& a) {
  const std::int64_t m = a.size(-2);
  const std::int64_t n = a.size(-1);
  const std::int64_t k = std::min(m, n);
  const double bound = 16 * static_cast<double>(std::max(m, n)) * unit(a.dtype());
  for (const bool full : {false, true}) {
    const linalg::Svd parts = linalg::svd(a, {.full_matrices = full});
    const Tensor u = wide(parts.u);
    const Tensor vh = wide(parts.vh);
    EXPECT_EQ(u.size(-1), full ? m : k);
    EXPECT_EQ(vh.size(-2), full ? n : k);
    const Tensor product = matmul(u.narrow(-1, 0, k) * wide(parts.s).unsqueeze(-2), vh.narrow(-2, 0, k));
    EXPECT_LE(size_of_error(wide(a) - product, maximum(lengths(a), 1e-300)), bound) << m << " " << n;
    EXPECT_LE(length(matmul(mt(u), u) - one(u.size(-1))), bound) << m << " " << n;
    EXPECT_LE(length(matmul(vh, mt(vh)) - one(vh.size(-2))), bound) << m << " " << n;
    EXPECT_TRUE(all(ge(parts.s.narrow(-1, 0, k - 1), parts.s.narrow(-1, 1, k - 1))).item<bool>());
    EXPECT_TRUE(all(ge(parts.s, 0)).item<bool>());
    EXPECT_BITS_EQ(linalg::svdvals(a), parts.s);
  }
}

TEST(Linalg, SingularVectorsAreOrthogonalAndGiveTheMatrix) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {1, 2, 3, 20, 70}) {
      for (const Tensor& x : square_matrices(n, dtype)) expect_svd(x);
    }
    expect_svd(normal({2, 9, 4}, dtype, 12));
    expect_svd(normal({2, 4, 50}, dtype, 13));
    expect_svd(zeros({1, 5, 4}, {.dtype = dtype}));
    expect_svd(ones({1, 12, 12}, {.dtype = dtype}));
    expect_svd(one(7).to(dtype).unsqueeze(0));
  }
}

// Eigenvalues of the chain with 2 on the diagonal and -1 beside it: 4 sin^2(k pi / (2 n + 2)). Singular values of its
// bidiagonal root are the square roots.
TEST(Linalg, EigenvaluesOfTheChainAreExact) {
  const std::int64_t n = 60;
  std::vector<double> chain(n * n), root(n * n), expected;
  for (std::int64_t i = 0; i < n; ++i) {
    chain[i * n + i] = 2;
    if (i > 0) chain[i * n + i - 1] = chain[(i - 1) * n + i] = -1;
    expected.push_back(4 * std::pow(std::sin(static_cast<double>(i + 1) * std::acos(-1.0) / (2 * n + 2)), 2));
  }
  for (std::int64_t i = 0; i < n; ++i) {  // L^T of chain = L L^T
    root[i * n + i] = std::sqrt(static_cast<double>(i + 2) / static_cast<double>(i + 1));
    if (i + 1 < n) root[i * n + i + 1] = -1 / root[i * n + i];
  }
  for (const DType dtype : kTypes) {
    const auto given = [&](const std::vector<double>& a) { return Tensor::from(a, {n, n}).to(dtype); };
    const std::vector<double> values = wide(linalg::eigvalsh(given(chain))).to_vector<double>();
    const std::vector<double> lengths = wide(linalg::svdvals(given(root))).to_vector<double>();
    // LAPACK's errors here, by NumPy: 20 units for eigvalsh, 12 for eigh, 6 for svd.
    const double bound = static_cast<double>(n) * unit(dtype);
    for (std::int64_t i = 0; i < n; ++i) {
      EXPECT_NEAR(values[i], expected[i], bound) << i;
      EXPECT_NEAR(lengths[n - 1 - i], std::sqrt(expected[i]), bound) << i;
    }
  }
}

TEST(Linalg, SmallSingularValuesAreAccurateBesideTheLargest) {
  const Tensor q = linalg::qr(normal({6, 3}, DType::f64, 14)).q;
  const Tensor a = q * Tensor::from(std::vector<double>{1, 0x1p-20, 0x1p-40}, {3});
  const std::vector<double> s = linalg::svdvals(a).to_vector<double>();
  EXPECT_NEAR(s[0], 1, 1e-15);
  EXPECT_NEAR(s[1], 0x1p-20, 1e-15);
  EXPECT_NEAR(s[2], 0x1p-40, 1e-15);
}

// Only what is left of the elimination is far below the rest: the vectors must be orthogonal all the same.
TEST(Linalg, MatricesOfLowRankHaveOrthogonalVectors) {
  for (const DType dtype : kTypes) {
    for (const std::int64_t n : {3, 64, 100}) {
      const Tensor x = normal({1, n, 2}, dtype, 18);
      expect_svd(cat(std::vector<Tensor>(static_cast<std::size_t>(n / 2 + 1), x), 2).narrow(2, 0, n));
      expect_eigh(matmul(x, mt(x)));
      const Tensor number = arange(static_cast<double>(n), {.dtype = DType::i64});
      const Tensor above = gt(number.unsqueeze(0), number.unsqueeze(1));
      expect_svd((one(n) - above.to(DType::f64)).to(dtype).unsqueeze(0));  // Kahan's: nearly singular
      expect_svd(diag_embed(ones({1, n - 1}, {.dtype = dtype}), 1));       // a Jordan block
    }
  }
}

TEST(Linalg, ReadsTheLowerTriangleOfASymmetricMatrix) {
  const Tensor a = normal({2, 5, 5}, DType::f64, 19);
  const Tensor both = tril(a) + mt(tril(a, -1));
  EXPECT_BITS_EQ(linalg::eigh(a).eigenvectors, linalg::eigh(both).eigenvectors);
  const Tensor nan_above = triu(full({5, 5}, kNaN, {.dtype = DType::f64}), 1);
  EXPECT_BITS_EQ(linalg::eigvalsh(where(isnan(nan_above), kNaN, a)), linalg::eigvalsh(a));
}

TEST(Linalg, LeastSquaresHaveOrthogonalResiduals) {
  for (const DType dtype : kTypes) {
    const Tensor a = normal({2, 30, 7}, dtype, 15);
    const Tensor b = normal({2, 30, 2}, dtype, 16);
    const linalg::Lstsq result = linalg::lstsq(a, b);
    const Tensor residual = wide(b) - matmul(wide(a), wide(result.solution));
    EXPECT_LE(size_of_error(matmul(mt(wide(a)), residual), lengths(a) * lengths(b)), 100 * unit(dtype));
    EXPECT_LE(amax(abs(wide(result.residuals) - sum(residual * residual, {1}))).item<double>(), 1e4 * unit(dtype));
    EXPECT_EQ(result.rank.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 7}));
    // Two equal columns: the shortest solution gives both the same.
    const Tensor twice = cat({a, a}, 2);
    const linalg::Lstsq shortest = linalg::lstsq(twice, b);
    EXPECT_EQ(shortest.rank.to_vector<std::int64_t>(), (std::vector<std::int64_t>{7, 7}));
    const Tensor half = wide(result.solution) * 0.5;
    EXPECT_LE(length(wide(shortest.solution) - cat({half, half}, 1)), 1e3 * unit(dtype));
  }
}

TEST(Linalg, DeterminantsOfPermutationsAndTriangles) {
  const Tensor swap = Tensor::from(std::vector<double>{0, 1, 0, 1, 0, 0, 0, 0, 1}, {3, 3});
  EXPECT_EQ(linalg::det(swap).item<double>(), -1);
  EXPECT_EQ(linalg::det(roll(one(3), {1}, {0})).item<double>(), 1);
  EXPECT_EQ(linalg::slogdet(swap).sign.item<double>(), -1);
  EXPECT_EQ(linalg::slogdet(zeros({2, 2})).logabs.item<float>(), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(linalg::det(zeros({4, 0, 0})).to_vector<float>(), std::vector<float>(4, 1));
}

TEST(Linalg, BitsAreTheSameEverywhere) {
  for (const DType dtype : kTypes) {
    same_everywhere([&](Device device) {
      return linalg::solve(normal({2, 35, 35}, dtype, 1).to(device), normal({2, 35, 2}, dtype, 2).to(device));
    });
    same_everywhere([&](Device device) { return linalg::det(normal({3, 5, 5}, dtype, 1).to(device)); });
    same_everywhere([&](Device device) { return linalg::qr(normal({2, 36, 34}, dtype, 1).to(device)).q; });
    same_everywhere([&](Device device) {
      const Tensor x = normal({2, 6, 6}, dtype, 1).to(device);
      return linalg::cholesky(matmul(x, mt(x)));
    });
    same_everywhere([&](Device device) {
      const Tensor x = normal({2, 7, 7}, dtype, 1).to(device);
      return linalg::eigh(x + mt(x)).eigenvectors;
    });
    same_everywhere([&](Device device) { return linalg::svd(normal({2, 7, 5}, dtype, 1).to(device)).u; });
  }
}

TEST(Linalg, BitsDoNotDependOnTheRestOfTheBatch) {
  const Tensor x = cat({normal({2, 6, 6}, DType::f32, 3), one(6).to(DType::f32).unsqueeze(0)});
  const Tensor symmetric = x + mt(x);
  for (std::int64_t i = 0; i < 3; ++i) {
    const Tensor own = symmetric.select(0, i);
    EXPECT_BITS_EQ(linalg::eigh(symmetric).eigenvectors.select(0, i), linalg::eigh(own).eigenvectors);
    EXPECT_BITS_EQ(linalg::svd(x).u.select(0, i), linalg::svd(x.select(0, i)).u);
    EXPECT_BITS_EQ(linalg::inv(x).select(0, i), linalg::inv(x.select(0, i)));
    EXPECT_BITS_EQ(linalg::qr(x).q.select(0, i), linalg::qr(x.select(0, i)).q);
  }
}

TEST(Linalg, MatricesWithoutAnAnswerThrowWhenTheResultIsRead) {
  const Tensor good = one(3).unsqueeze(0);
  const Tensor singular = Tensor::from(std::vector<double>{1, 2, 3, 2, 4, 6, 1, 0, 1}, {1, 3, 3});
  const Tensor both = cat({good, singular});
  const Tensor inverse = linalg::inv(both);  // nothing is computed yet
  expect_error<LinalgError>(
      [&] {
        inverse.eval();
        inverse.to_vector<double>();
      },
      {"linalg.inv", "matrix 1 of the batch is singular: pivot 3 is 0", "linalg_test.cpp"});
  expect_error<LinalgError>([&] { (linalg::solve(both, ones({3}, {.dtype = DType::f64})) * 2).to_vector<double>(); },
                            {"linalg.solve", "matrix 1"});
  expect_error<LinalgError>([&] { linalg::cholesky(neg(both)).to_vector<double>(); },
                            {"linalg.cholesky", "matrix 0", "minor of order 1"});
  const Tensor bad = full({2, 2}, kNaN);
  expect_error<LinalgError>([&] { linalg::eigh(bad).eigenvalues.to_vector<float>(); }, {"linalg.eigh", "not finite"});
  expect_error<LinalgError>([&] { linalg::svdvals(bad).to_vector<float>(); }, {"linalg.svdvals", "not finite"});
  expect_error<LinalgError>([&] { linalg::lstsq(bad, bad).solution.to_vector<float>(); }, {"linalg.lstsq"});
  EXPECT_EQ(linalg::inv_ex(both).info.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(linalg::solve_ex(both, both).info.to_vector<std::int64_t>(), (std::vector<std::int64_t>{0, 3}));
  const Tensor indefinite = Tensor::from(std::vector<float>{1, 0, 0, -1}, {2, 2});
  EXPECT_EQ(linalg::cholesky_ex(indefinite).info.item<std::int64_t>(), 2);
  EXPECT_EQ(linalg::cholesky_ex(bad).info.item<std::int64_t>(), 1);
  // What does not depend on it is computed.
  EXPECT_EQ(linalg::inv(good).to_vector<double>(), one(3).to_vector<double>());
}

// Windows of one structure that differ in nothing but what a bad index means: they are different plans.
TEST(Linalg, PlansOfOneStructureKeepTheirErrors) {
  const Tensor x = ones({2, 3, 3}).eval();
  const Tensor info = Tensor::from(std::vector<std::int64_t>{0, 2}, {2});
  for (int round = 0; round < 2; ++round) {
    expect_error<LinalgError>([&] { linalg::guarded(x, info, graph::Failure::singular).to_vector<float>(); },
                              {"matrix 1 of the batch is singular: pivot 2 is 0"});
    expect_error<LinalgError>(
        [&] { linalg::guarded(x, info, graph::Failure::not_positive_definite).to_vector<float>(); },
        {"matrix 1 of the batch is not positive definite: its leading minor of order 2"});
  }
  EXPECT_BITS_EQ(linalg::guarded(x, zeros_like(info), graph::Failure::singular), x);
}

TEST(Linalg, NaNStaysInItsMatrix) {
  Tensor a = normal({2, 4, 4}, DType::f32, 17);
  a = cat({a.narrow(0, 0, 1), full({1, 4, 4}, kNaN)});
  const Tensor inverse = linalg::inv(a);
  EXPECT_FALSE(any(isnan(inverse.select(0, 0))).item<bool>());
  EXPECT_TRUE(all(isnan(inverse.select(0, 1))).item<bool>());
  EXPECT_TRUE(any(isnan(linalg::qr(a).r.select(0, 1))).item<bool>());
  EXPECT_TRUE(std::isnan(linalg::det(a).to_vector<float>()[1]));
}

TEST(Linalg, RefusesOperandsAtTheCall) {
  const Tensor a = ones({2, 3});
  expect_error<ShapeError>([&] { linalg::inv(a); }, {"linalg.inv", "square", "[2, 3]", "linalg_test.cpp"});
  expect_error<ShapeError>([&] { linalg::svd(ones({3})); }, {"linalg.svd", "matrix"});
  expect_error<DTypeError>([&] { linalg::qr(a.to(DType::f16)); }, {"linalg.qr", "f32 and f64"});
  expect_error<DTypeError>([&] { linalg::det(ones({2, 2}, {.dtype = DType::i32})); }, {"linalg.det"});
  expect_error<ShapeError>([&] { linalg::solve(ones({2, 2}), ones({3, 2})); }, {"linalg.solve", "rows"});
  expect_error<ShapeError>([&] { linalg::solve(ones({2, 2, 2}), ones({3, 2, 2})); }, {"broadcast"});
  expect_error<DTypeError>([&] { linalg::solve(ones({2, 2}), ones({2, 2}, {.dtype = DType::f64})); }, {"linalg.solve"});
  expect_error<ValueError>([&] { linalg::lstsq(a, ones({2}), {.rcond = -1.0}); }, {"linalg.lstsq", "rcond"});
  const Tensor tracked = requires_grad(ones({3, 2}));
  expect_error<ValueError>([&] { linalg::qr(tracked, {.mode = linalg::QrMode::complete}); }, {"complete", "gradient"});
  expect_error<ValueError>([&] { linalg::qr(tracked, {.mode = linalg::QrMode::r}); }, {"mode r"});
}

TEST(Linalg, EmptyMatricesAreFine) {
  const Tensor none = zeros({2, 0, 0});
  EXPECT_EQ(linalg::inv(none).shape(), (Shape{2, 0, 0}));
  EXPECT_EQ(linalg::solve(none, zeros({2, 0, 3})).shape(), (Shape{2, 0, 3}));
  EXPECT_EQ(linalg::solve(ones({0, 2, 2}), ones({0, 2, 1})).shape(), (Shape{0, 2, 1}));
  EXPECT_EQ(linalg::solve(one(2), zeros({2, 0}, {.dtype = DType::f64})).shape(), (Shape{2, 0}));
  EXPECT_EQ(linalg::cholesky(none).shape(), (Shape{2, 0, 0}));
  EXPECT_EQ(linalg::eigh(none).eigenvalues.shape(), (Shape{2, 0}));
  EXPECT_EQ(linalg::qr(zeros({3, 0})).q.shape(), (Shape{3, 0}));
  EXPECT_BITS_EQ(linalg::qr(zeros({3, 0}), {.mode = linalg::QrMode::complete}).q, one(3).to(DType::f32));
  EXPECT_EQ(linalg::svd(zeros({3, 0})).u.shape(), (Shape{3, 3}));
  EXPECT_EQ(linalg::svd(zeros({0, 3, 2})).vh.shape(), (Shape{0, 2, 2}));
  EXPECT_EQ(linalg::slogdet(none).logabs.to_vector<float>(), (std::vector<float>{0, 0}));
}

// The gradient of sum(gradient * v), against the gradient's own differences.
void expect_second_gradient(const std::string& name, const Tensor& at, const std::function<Tensor(const Tensor&)>& f) {
  const Tensor weights = normal(f(at).shape(), DType::f64, 21);
  const Tensor direction = normal(at.shape(), DType::f64, 22);
  const Tensor along = normal(at.shape(), DType::f64, 23);
  const auto gradient = [&](const Tensor& x, bool create) {
    const Tensor leaf = requires_grad(x);
    return std::pair{leaf, gradients(sum(f(leaf) * weights), {leaf}, {.create_graph = create})[0]};
  };
  const auto [leaf, first] = gradient(at, true);
  const Tensor second = gradients(sum(first * direction), {leaf}, {.allow_unused = true})[0];
  const double step = 1e-5;
  const Tensor difference =
      (gradient(at + along * step, false).second - gradient(at - along * step, false).second) * (0.5 / step);
  const double expected = sum(difference * direction).item<double>();
  EXPECT_NEAR(sum(second * along).item<double>(), expected, 1e-6 * std::max(1.0, std::abs(expected))) << name;
}

TEST(Linalg, GradientsHaveGradients) {
  const Tensor a = one(3) * 2 + normal({3, 3}, DType::f64, 24) * 0.5;
  const Tensor tall = normal({4, 3}, DType::f64, 25);
  const Tensor b = normal({3, 2}, DType::f64, 26);
  const auto symmetric = [](const Tensor& x) { return (x + mt(x)) * 0.5; };
  expect_second_gradient("solve", a, [&](const Tensor& x) { return linalg::solve(x, b); });
  expect_second_gradient("inv", a, [&](const Tensor& x) { return linalg::inv(x); });
  expect_second_gradient("det", a, [&](const Tensor& x) { return linalg::det(x); });
  expect_second_gradient("slogdet", a, [&](const Tensor& x) { return linalg::slogdet(x).logabs; });
  expect_second_gradient("cholesky", a, [&](const Tensor& x) { return linalg::cholesky(matmul(x, mt(x))); });
  expect_second_gradient("qr", tall, [&](const Tensor& x) { return linalg::qr(x).q; });
  expect_second_gradient("eigh", a, [&](const Tensor& x) { return linalg::eigh(symmetric(x)).eigenvalues; });
  expect_second_gradient("eigh vectors", a, [&](const Tensor& x) { return linalg::eigh(symmetric(x)).eigenvectors; });
  expect_second_gradient("svd", tall, [&](const Tensor& x) { return linalg::svdvals(x); });
  expect_second_gradient("svd u", tall, [&](const Tensor& x) { return linalg::svd(x, {.full_matrices = false}).u; });
  expect_second_gradient("lstsq", tall, [&](const Tensor& x) {
    return linalg::lstsq(x, normal({4, 2}, DType::f64, 27)).solution;
  });
}

TEST(Linalg, ErrorsInGradientsNameTheOp) {
  const Tensor a = requires_grad(zeros({2, 2}));
  const Tensor value = linalg::slogdet(a).logabs;
  expect_error<LinalgError>([&] { gradients(value, {a})[0].to_vector<float>(); }, {"slogdet", "singular"});
}

TEST(Linalg, AutocastDoesNotReachIn) {
  const Tensor a = one(3).to(DType::f32) * 2 + normal({3, 3}, DType::f32, 28) * 0.5;
  const Tensor b = normal({3, 2}, DType::f32, 29);
  const auto all = [&] {
    return std::vector<Tensor>{linalg::solve(a, b), linalg::inv(a), linalg::det(a), linalg::qr(a).q,
                               linalg::cholesky(one(3).to(DType::f32)), linalg::lstsq(a, b).solution,
                               linalg::solve_triangular(a, b, {.upper = true})};
  };
  const std::vector<Tensor> outside = all();
  const Autocast scope(DType::bf16);
  const std::vector<Tensor> inside = all();
  for (std::size_t i = 0; i < outside.size(); ++i) EXPECT_BITS_EQ(inside[i], outside[i]) << i;
}

}  // namespace
}  // namespace lockstep::test
