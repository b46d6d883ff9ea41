// Jacobi rotations. Columns are in two halves, and column i is rotated against column i of the other half; then all but
// the first move on by one place (a round-robin tournament), so that every pair meets once in a sweep and all are where
// they were. A sweep over a small matrix is done by elements; a large one is cut into blocks, whose pairs play the same
// tournament: the sweep over a pair of blocks gives an orthogonal matrix, which the rest is multiplied by.
//
// What needs no rotation is multiplied by exactly 1 and 0, so a matrix that has converged keeps its bits for however
// long others in the batch go on.
#include <cmath>
#include <limits>

#include "linalg/factors.h"

namespace lockstep {
inline namespace v0 {
namespace linalg {
namespace {

constexpr std::int64_t kLargestSweep = 64;  ///< columns that are rotated as one block
constexpr std::int64_t kJacobiBlock = 16;
constexpr int kMostSweeps = 40;

double epsilon_of(const Tensor& a) {
  return a.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// Where each of `count` players, in two halves, comes from in the next round; the player at place 0 stays.
std::vector<std::int32_t> next_round(std::int64_t count) {
  const std::int64_t half = count / 2;
  std::vector<std::int32_t> from;
  for (std::int64_t place = 0; place < count; ++place) {
    std::int64_t source = place < half ? place - 1 : place + 1;
    if (place == 0) source = 0;
    if (place == 1) source = half;
    if (place == count - 1) source = half - 1;
    if (count == 2) source = place;
    from.push_back(static_cast<std::int32_t>(source));
  }
  return from;
}

// Places in [n] and [n, n] as index tensors, for one round.
struct RoundPlaces {
  std::int64_t size;
  Tensor from, partner;              ///< columns
  Tensor first, second, both, back;  ///< elements pp, qq, pq and qp of the rotation that a place takes part in
  Tensor sign;                       ///< of the sine: -1 for places of the first half
  Tensor elements[4];                ///< of row and column: themselves, column's partner, row's partner, both partners
  Tensor is_pair;                    ///< bool [n, n]: rotated against each other

  RoundPlaces(std::int64_t n, const Tensor& like);
};

RoundPlaces::RoundPlaces(std::int64_t n, const Tensor& like) : size(n) {
  const auto half = static_cast<std::int32_t>(n / 2);
  const auto width = static_cast<std::int32_t>(n);
  const std::vector<std::int32_t> source = next_round(n);
  std::vector<std::int32_t> other, lists[4], tables[4];
  std::vector<float> signs;
  std::vector<bool> pairs;
  for (const std::int32_t place : source) {
    const std::int32_t low = place % half;
    const std::int32_t high = low + half;
    other.push_back(place < half ? place + half : place - half);
    signs.push_back(place < half ? -1.0F : 1.0F);
    lists[0].push_back(low * width + low);
    lists[1].push_back(high * width + high);
    lists[2].push_back(low * width + high);
    lists[3].push_back(high * width + low);
  }
  for (std::size_t row = 0; row < source.size(); ++row) {
    for (std::size_t column = 0; column < source.size(); ++column) {
      tables[0].push_back(source[row] * width + source[column]);
      tables[1].push_back(source[row] * width + other[column]);
      tables[2].push_back(other[row] * width + source[column]);
      tables[3].push_back(other[row] * width + other[column]);
      pairs.push_back(source[row] == other[column]);
    }
  }
  const Device device = like.device();
  from = Tensor::from(source, {n}, device);
  partner = Tensor::from(other, {n}, device);
  first = Tensor::from(lists[0], {n}, device);
  second = Tensor::from(lists[1], {n}, device);
  both = Tensor::from(lists[2], {n}, device);
  back = Tensor::from(lists[3], {n}, device);
  sign = Tensor::from(signs, {n}, device).to(like.dtype());
  for (int t = 0; t < 4; ++t) elements[t] = Tensor::from(tables[t], {n * n}, device);
  is_pair = Tensor::from(pairs, {n, n}, device);
}

// When a pair is rotated: |a_pq| is above a limit, which is absolute [P, 1], or, for products of columns, relative to
// the product of both lengths, and `least` times the larger one: what is below is nothing beside the whole matrix.
struct Threshold {
  Tensor absolute;
  double relative = 0;
  double least = 0;

  Tensor of(const Tensor& first, const Tensor& second) const {
    if (absolute.defined()) return absolute;
    const Tensor p = sqrt(maximum(first, 0));
    const Tensor q = sqrt(maximum(second, 0));
    return maximum(p * q * relative, maximum(p, q) * least);
  }
};

struct Swept {
  Tensor matrix;    ///< [P, n, n], rotated on both sides
  Tensor rotation;  ///< [P, n, n], orthogonal: matrix = rotation^T given rotation
};

// Rutishauser's rotation, for each place of the next round.
struct Rotations {
  Tensor cosine, sine, active;
};
Rotations rotations_of(const Tensor& matrix, const RoundPlaces& places, const Threshold& threshold) {
  const Tensor flat = matrix.reshape({matrix.size(0), -1});
  const auto at = [&](const Tensor& index) { return index_select(flat, 1, index); };
  const Tensor first = at(places.first);
  const Tensor second = at(places.second);
  const Tensor between = (at(places.both) + at(places.back)) * 0.5;
  const Tensor active = gt(abs(between), threshold.of(first, second));
  const Tensor cotangent = (second - first) / (where(active, between, 1) * 2);  // of twice the angle
  const Tensor size = abs(cotangent);
  const Tensor root = where(gt(size, 1e9), size, sqrt(cotangent * cotangent + 1));
  const Tensor steep = 1 / (size + root);
  const Tensor tangent = where(lt(cotangent, 0), neg(steep), steep);
  const Tensor cosine = 1 / sqrt(tangent * tangent + 1);
  return {where(active, cosine, 1), where(active, tangent * cosine * places.sign, 0), active};
}

Swept sweep(const Tensor& given, const RoundPlaces& places, const Threshold& threshold) {
  const std::int64_t n = places.size;
  const std::int64_t count = given.size(0);
  Swept result{given, identity(n, n, given).expand({count, n, n})};
  for (std::int64_t round = 0; round + 1 < n; ++round) {
    const Rotations turn = rotations_of(result.matrix, places, threshold);
    const Tensor flat = result.matrix.reshape({count, n * n});
    const auto element = [&](int which) {
      return index_select(flat, 1, places.elements[which]).reshape({count, n, n});
    };
    const Tensor column_cosine = turn.cosine.unsqueeze(1);
    const Tensor column_sine = turn.sine.unsqueeze(1);
    const Tensor own = column_cosine * element(0) + column_sine * element(1);
    const Tensor other = column_cosine * element(2) + column_sine * element(3);
    const Tensor turned = turn.cosine.unsqueeze(2) * own + turn.sine.unsqueeze(2) * other;
    result.matrix = where(bitwise_and(places.is_pair, turn.active.unsqueeze(2)), 0, turned);
    result.rotation = column_cosine * index_select(result.rotation, 2, places.from) +
                      column_sine * index_select(result.rotation, 2, places.partner);
  }
  return result;
}

// n columns as 2 h blocks of b; pairs of blocks are columns [2, h, b] at one place of h.
struct Blocks {
  std::int64_t half;
  std::int64_t width;
  Tensor from;  ///< blocks of the next round

  std::int64_t columns() const { return 2 * half * width; }
  std::int64_t pair() const { return 2 * width; }

  Blocks(std::int64_t n, const Tensor& like)
      : half(n <= kLargestSweep ? 1 : (n + 2 * kJacobiBlock - 1) / (2 * kJacobiBlock)),
        width(n <= kLargestSweep ? (n + 1) / 2 : kJacobiBlock),
        from(Tensor::from(next_round(2 * half), {2 * half}, like.device())) {}

  // x [B, r, n] with its columns by pairs: [B, h, r, 2 b].
  Tensor by_pairs(const Tensor& x) const {
    return x.reshape({x.size(0), x.size(1), 2, half, width})
        .permute({0, 3, 1, 2, 4})
        .reshape({x.size(0), half, x.size(1), pair()});
  }
  // Back, and on to the next round.
  Tensor next(const Tensor& x) const {
    const std::int64_t rows = x.size(2);
    const Tensor columns_of = x.reshape({x.size(0), half, rows, 2, width}).permute({0, 2, 3, 1, 4});
    if (half == 1) return columns_of.reshape({x.size(0), rows, columns()});
    const Tensor blocks = columns_of.reshape({x.size(0), rows, 2 * half, width});
    return index_select(blocks, 2, from).reshape({x.size(0), rows, columns()});
  }
  // x w for the pairs' matrices w [B, h, 2 b, 2 b].
  Tensor turned(const Tensor& x, const Tensor& w) const { return next(matmul(by_pairs(x), w)); }
};

// Rounding makes the product of many rotations drift away from an orthogonal matrix: one step of Newton's back to it.
Tensor straightened(const Tensor& v) {
  return v + matmul(v, (identity(v.size(2), v.size(2), v) - matmul(transposed(v), v)) * 0.5);
}

Tensor off_diagonal(const Tensor& a) {
  const Tensor number = numbers(a.size(2), a);
  return ne(number.unsqueeze(1), number);
}

// Sweeps until no matrix of the batch needs a rotation; `active` [B] says which do.
template <typename Active, typename Round> Tensor sweep_until_done(Active active, std::int64_t rounds, Round round) {
  Tensor unfinished = active();
  for (int s = 0; s < kMostSweeps && any(unfinished).template item<bool>(); ++s) {
    for (std::int64_t r = 0; r < rounds; ++r) round();
    unfinished = active();
  }
  return unfinished.to(DType::i64);
}

}  // namespace

Spectrum jacobi_eigh(const Tensor& given) {
  const std::int64_t batch = given.size(0);
  const std::int64_t n = given.size(2);
  const Blocks blocks(n, given);
  const std::int64_t padded = blocks.columns();
  const RoundPlaces places(blocks.pair(), given);
  Tensor a = lockstep::pad(given, {0, padded - n, 0, padded - n});
  Tensor v = identity(padded, padded, given).expand({batch, padded, padded});
  // What is left off the diagonal is below an epsilon / 4 of the whole.
  const Tensor limit = (sqrt(sum(a * a, {1, 2}, true)) * (epsilon_of(given) / (4 * static_cast<double>(n)))).eval();
  const Threshold threshold{limit.expand({batch, blocks.half, 1}).reshape({-1, 1})};
  const Tensor is_off = off_diagonal(a);
  const auto active = [&] { return any(bitwise_and(gt(abs((a + transposed(a)) * 0.5), limit), is_off), {1, 2}); };
  const auto round = [&] {
    const std::int64_t h = blocks.half;
    const std::int64_t pair = blocks.pair();
    const Tensor paired = blocks.by_pairs(a).reshape({batch, h, 2, h, blocks.width, pair});
    const Tensor own = paired.diagonal(0, 1, 3).permute({0, 4, 1, 2, 3}).reshape({batch * h, pair, pair});
    const Swept swept = sweep(own, places, threshold);
    const Tensor w = swept.rotation.reshape({batch, h, pair, pair});
    v = blocks.turned(v, w);
    if (h == 1) {
      a = swept.matrix;
      return;
    }
    // Columns, then rows: [B, h (columns), n, 2 b] to [B, h (rows), h (columns), 2 b, 2 b].
    const Tensor right = matmul(blocks.by_pairs(a), w).reshape({batch, h, 2, h, blocks.width, pair});
    const Tensor arranged = right.permute({0, 3, 1, 2, 4, 5}).reshape({batch, h, h, pair, pair});
    const Tensor both = matmul(transposed(w).unsqueeze(2), arranged);
    const Tensor number = numbers(h, a);
    const Tensor is_own = eq(number.reshape({h, 1, 1, 1}), number.reshape({h, 1, 1}));
    const Tensor exact = where(is_own, swept.matrix.reshape({batch, h, 1, pair, pair}), both);
    const Tensor by_columns = exact.reshape({batch, h, h, 2, blocks.width, pair})
                                  .permute({0, 2, 3, 1, 4, 5})
                                  .reshape({batch, h, 2 * h, blocks.width, pair});
    const Tensor rows = index_select(by_columns, 2, blocks.from).reshape({batch, h, padded, pair});
    a = blocks.next(rows);
  };
  const Tensor info = sweep_until_done(active, 2 * blocks.half - 1, round);
  const Tensor values = a.diagonal(0, 1, 2).narrow(1, 0, n);
  const Tensor order = argsort(values, 1);
  const Tensor vectors = straightened(v.narrow(1, 0, n).narrow(2, 0, n));
  return {lockstep::gather(values, 1, order), take_columns(vectors, order), info};
}

OneSided jacobi_columns(const Tensor& given) {
  const std::int64_t batch = given.size(0);
  const std::int64_t n = given.size(2);
  const Blocks blocks(n, given);
  const std::int64_t padded = blocks.columns();
  const RoundPlaces places(blocks.pair(), given);
  Tensor x = lockstep::pad(given, {0, padded - n});
  Tensor v = identity(padded, padded, given).expand({batch, padded, padded});
  const auto size = static_cast<double>(n);
  const double epsilon = epsilon_of(given);
  const Threshold threshold{
      .absolute = {}, .relative = epsilon * std::max(4.0, std::sqrt(size)), .least = epsilon / (4 * size)};
  const Tensor is_off = off_diagonal(x);
  const auto active = [&] {
    const Tensor gram = matmul(transposed(x), x);
    const Tensor squares = gram.diagonal(0, 1, 2);
    const Tensor limit = threshold.of(squares.unsqueeze(2), squares.unsqueeze(1));
    return any(bitwise_and(gt(abs(gram), limit), is_off), {1, 2});
  };
  const auto round = [&] {
    const Tensor paired = blocks.by_pairs(x);
    const std::int64_t pair = blocks.pair();
    const Tensor gram = matmul(transposed(paired), paired).reshape({batch * blocks.half, pair, pair});
    const Tensor w = sweep(gram, places, threshold).rotation.reshape({batch, blocks.half, pair, pair});
    x = blocks.next(matmul(paired, w));
    v = blocks.turned(v, w);
  };
  const Tensor info = sweep_until_done(active, 2 * blocks.half - 1, round);
  return {x.narrow(2, 0, n), straightened(v.narrow(1, 0, n).narrow(2, 0, n)), info};
}

}  // namespace linalg
}  // namespace v0
}  // namespace lockstep
