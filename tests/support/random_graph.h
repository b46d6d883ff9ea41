// Random programs: elementwise ops, reductions, products, views, computed places, packed weights, in any order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include <lockstep/ops.h>

#include "graph/make.h"
#include "support/tensors.h"

namespace lockstep {

/// Grows a graph of random ops over random views. The same seed grows the same graph on every device.
class RandomGraph {
 public:
  RandomGraph(std::uint64_t seed, Device device) : random_(seed), device_(device) {
    for (int i = 0; i < 4; ++i) {
      values_.push_back(random_tensor(shape(), DType::f32, random_(), device, number(0, 3) == 0).eval());
    }
  }

  void grow(int steps) {
    for (int i = 0; i < steps; ++i) {
      Tensor next = step();
      if (next.numel() == 0 || next.numel() > 3000) continue;
      values_.push_back(std::move(next));
      // Values that nobody holds any more may be fused away.
      if (number(0, 2) == 0) values_.erase(values_.begin() + number(0, static_cast<int>(values_.size()) - 1));
      if (number(0, 15) == 0) pick().eval();
    }
  }

  const std::vector<Tensor>& values() const { return values_; }

 private:
  int number(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  std::int64_t size() {
    const int kind = number(0, 9);
    return kind == 0 ? 70 : kind == 1 ? 1 : number(2, 6);
  }
  Shape shape() {
    Shape result;
    for (int d = number(1, 3); d > 0; --d) result.push_back(size());
    return result;
  }
  const Tensor& pick() { return values_[static_cast<std::size_t>(number(0, static_cast<int>(values_.size()) - 1))]; }

  // Some value of this dtype that broadcasts with `like`: another value if one fits, else one made from scratch.
  Tensor partner(const Tensor& like) {
    for (int attempt = 0; attempt < 6; ++attempt) {
      const Tensor& other = pick();
      if (other.dtype() != like.dtype()) continue;
      bool fits = true;
      for (int i = 1; i <= std::min(like.rank(), other.rank()); ++i) {
        const std::int64_t a = like.shape()[like.rank() - i];
        const std::int64_t b = other.shape()[other.rank() - i];
        fits = fits && (a == b || a == 1 || b == 1);
      }
      if (fits) return other;
    }
    Shape small = like.shape();
    for (std::int64_t& extent : small) extent = number(0, 1) == 0 ? 1 : extent;
    return random_tensor(small, like.dtype(), random_(), device_);
  }

  Tensor floats() {
    const Tensor& x = pick();
    return is_float(x.dtype()) ? x : x.to(DType::f32);
  }

  // Positions in a dimension of size n, computed from data, in `shape`.
  Tensor positions(const Shape& shape, std::int64_t n) {
    const Tensor x = random_tensor(shape, DType::f32, random_(), device_);
    return minimum(maximum((x * 100.0).to(DType::i64), 0), n - 1);
  }

  Tensor irregular() {
    const Tensor x = pick();
    if (x.rank() == 0 || x.numel() == 0) return x;
    const int dim = number(0, x.rank() - 1);
    const std::int64_t n = x.shape()[dim];
    switch (number(0, 6)) {
      case 0: return index_select(x, dim, positions({number(1, 9)}, n));
      case 1: {
        Shape shape = x.shape();
        shape[dim] = number(1, 7);
        return gather(x, dim, positions(shape, n));
      }
      case 2: return x.dtype() == DType::boolean ? x : scatter_add(x, dim, positions(x.shape(), n), x.flip({dim}));
      case 3: return scatter(x, dim, positions(x.shape(), n), x);
      case 4: return sort(x, dim, number(0, 1) == 0).values;
      case 5: {
        constexpr ScanOp kOps[] = {ScanOp::sum, ScanOp::max, ScanOp::min, ScanOp::prod};
        return graph::scan(kOps[number(0, 3)], floats().reshape({-1}), 0);
      }
      default: {
        const std::int64_t start = number(0, static_cast<int>(n) - 1);
        const View region = View::contiguous(x.shape()).sliced(dim, start, 1, number(1, static_cast<int>(n - start)));
        return graph::update(x, region, random_tensor(region.shape, x.dtype(), random_(), device_));
      }
    }
  }

  // Through packed weights, from anywhere in their blocks.
  Tensor packed() {
    const Tensor x = floats();
    if (x.rank() == 0 || x.dtype() != DType::f32) return x;
    const std::int64_t k = x.shape().back();
    constexpr Encoding kEncodings[] = {Encoding::q8_0, Encoding::q4_0, Encoding::q5_1, Encoding::q4_k, Encoding::q6_k};
    const Encoding encoding = kEncodings[number(0, 4)];
    const std::int64_t block = info_of(encoding).elements;
    const std::int64_t columns = (k + block - 1) / block * block;
    const Tensor weight = random_packed({number(1, 9), columns}, encoding, random_(), device_, number(0, 3) == 0);
    const Tensor part = weight.narrow(1, number(0, static_cast<int>(columns - k)), k);
    if (number(0, 1) == 0) return linear(x, part);
    return embedding(part, positions({number(1, 9)}, weight.shape()[0])) + x.reshape({-1, k}).select(0, 0);
  }

  Tensor step() {
    switch (number(0, 26)) {
      case 22:
      case 23:
      case 24: return irregular();
      case 0: return tanh(floats());
      case 1: return exp(minimum(floats(), 3.0));
      case 2: return relu(pick().to(DType::f32));
      case 3: return abs(floats()) + 0.5;
      case 4: return gelu(floats());
      case 5:
      case 6: {
        const Tensor x = floats();
        const Tensor y = partner(x);
        return number(0, 1) == 0 ? x + y : x * y;
      }
      case 7: {
        const Tensor x = floats();
        return x - partner(x);
      }
      case 8: {
        const Tensor x = floats();
        return where(x > 0.25, x, partner(x));
      }
      case 9: {
        const Tensor x = floats();
        return sum(x, {number(0, std::max(0, x.rank() - 1))}, number(0, 3) > 0);
      }
      case 10: {
        const Tensor x = floats();
        return x.rank() == 0 ? x : amax(x, {number(0, x.rank() - 1)}, true);
      }
      case 11: {
        const Tensor x = floats();
        return x.rank() == 0 ? x : softmax(x, number(0, x.rank() - 1));
      }
      case 12: {
        const Tensor x = floats();
        return x.rank() == 0 ? x : layer_norm(x, {x.shape().back()});
      }
      case 13: {
        const Tensor x = pick();
        Shape dims;
        for (int d = 0; d < x.rank(); ++d) dims.push_back(d);
        std::shuffle(dims.begin(), dims.end(), random_);
        return x.permute(Dims(dims));
      }
      case 14: return pick().flatten();
      case 15: {
        const Tensor x = pick();
        if (x.rank() == 0) return x;
        return x.slice(number(0, x.rank() - 1), {.start = number(0, 2), .step = number(0, 3) == 0 ? -1 : number(1, 2)});
      }
      case 16: {
        const Tensor x = floats();
        return x.rank() == 0 ? x : pad(x, {number(0, 2), number(-1, 2)}, number(0, 1));
      }
      case 17: {
        const Tensor x = pick();
        return x.rank() == 0 ? x : cat({x, x}, number(0, x.rank() - 1));
      }
      case 18: {
        const DType types[] = {DType::f16, DType::bf16, DType::i32, DType::f64, DType::u8, DType::f32};
        return floats().to(types[number(0, 5)]);
      }
      case 19: {
        const Tensor x = floats();
        if (x.rank() == 0) return x;
        return matmul(x, random_tensor({x.shape().back(), number(1, 20)}, x.dtype(), random_(), device_));
      }
      case 25: return packed();
      case 20: {
        const Tensor x = floats();
        return x.rank() > 5 ? x : x.unsqueeze(number(0, x.rank()));
      }
      default: {
        const Tensor x = floats();
        if (x.rank() == 0) return x;
        const Tensor mean_row = mean(x, {-1}, true);
        return (x - mean_row) * rsqrt(var(x, {-1}, true, 0) + 1e-3);
      }
    }
  }

  std::mt19937_64 random_;
  Device device_;
  std::vector<Tensor> values_;
};

}  // namespace lockstep
