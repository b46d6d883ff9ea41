// Products of one left operand as one executable, where a device says that this pays (graph/siblings.h): the bits of
// the kernels alone, what belongs together, and what does not.
#include "graph/siblings.h"

#include <functional>

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/numerics.h>
#include <lockstep/ops.h>
#include <lockstep/shadow.h>
#include <lockstep/threads.h>

#include "backends/backend.h"
#include "backends/cpu/contraction/q8.h"
#include "backends/cpu/isa.h"
#include "graph/window.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

struct ProjectionSizes {
  std::int64_t rows, k, queries, keys;
};
struct Projections {
  Tensor query, key, value;
};

Projections projections_of(const ProjectionSizes& sizes, Encoding encoding, Encoding of_values, Device device) {
  return {random_packed({sizes.queries, sizes.k}, encoding, 1, device),
          random_packed({sizes.keys, sizes.k}, encoding, 2, device),
          random_packed({sizes.keys, sizes.k}, of_values, 3, device)};
}

std::vector<Tensor> products_of(const Tensor& x, const Projections& weights) {
  const NumericsScope scope(Numerics::q8);
  return {linear(x, weights.query), linear(x, weights.key), linear(x, weights.value)};
}

// The CPU where it reads weights where they lie.
bool runs_products_together(Device device, std::int64_t rows) {
  if (device.kind != DeviceKind::cpu) return device.kind != DeviceKind::ref;
  return rows <= 2 && contraction::q8_loops(Encoding::q4_0, selected_isa()).multiply_in_place != nullptr;
}

// With one, two and seven threads.
void with_threads(const std::function<void()>& check) {
  const int before = num_threads();
  for (const int threads : {1, 2, 7}) {
    SCOPED_TRACE(threads);
    set_num_threads(threads);
    check();
  }
  set_num_threads(before);
}

std::uint64_t kernels_run_for(const std::vector<Tensor>& values) {
  const Device device = values.front().device();
  const std::uint64_t before = graph::window_statistics(device).kernels;
  values.front().eval();
  for (const Tensor& value : values) value.eval();
  return graph::window_statistics(device).kernels - before;
}

TEST(Siblings, HaveTheBitsOfKernelsAlone) {
  const NoGrad no_gradients;
  const auto check = [](Encoding encoding, Encoding of_values, const ProjectionSizes& sizes) {
    SCOPED_TRACE(::testing::Message() << name_of(encoding) << " " << sizes.rows << " x " << sizes.k);
    same_everywhere([&](Device d) {
      const Tensor x = random_tensor({sizes.rows, sizes.k}, DType::f32, 4).to(d);
      const Projections weights = projections_of(sizes, encoding, of_values, d);
      const std::vector<Tensor> all = products_of(x, weights);
      // The left operand has other readers, and results meet before and after.
      return cat({all[0] * 2.0, silu(all[1]), all[2] + all[1], x + 1.0}, -1);
    });
  };
  check(Encoding::q4_0, Encoding::q4_0, {1, 512, 200, 37});
  check(Encoding::q8_0, Encoding::q4_1, {2, 288, 70, 33});
  check(Encoding::q4_k, Encoding::q6_k, {8, 256, 40, 24});
  check(Encoding::q4_0, Encoding::q8_0, {40, 256, 96, 33});
  // Several units of work, of one row and of two, for threads that share them; of lengths that are not whole ones.
  with_threads([&] {
    check(Encoding::q4_0, Encoding::q4_0, {1, 2048, 700, 300});
    check(Encoding::q8_0, Encoding::q8_0, {2, 1056, 1200, 130});
    check(Encoding::q4_k, Encoding::q6_k, {1, 1024, 513, 129});
  });
}

TEST(Siblings, AreOneKernelWhereItPays) {
  const NoGrad no_gradients;
  for (const Device device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    for (const std::int64_t rows : {1, 40}) {
      const ProjectionSizes sizes{rows, 512, 64, 32};
      const Projections weights = projections_of(sizes, Encoding::q4_0, Encoding::q4_0, device);
      const Tensor x = random_tensor({rows, 512}, DType::f32, 4).to(device).eval();
      EXPECT_EQ(kernels_run_for(products_of(x, weights)), runs_products_together(device, rows) ? 1u : 3u);
      const NumericsScope scope(Numerics::q8);
      EXPECT_EQ(kernels_run_for({linear(x, weights.query), linear(x + 1.0, weights.key)}), 3u);
      EXPECT_EQ(kernels_run_for({linear(x, weights.query), linear(x.narrow(0, 0, rows), weights.key)}),
                runs_products_together(device, rows) ? 1u : 2u);
    }
  }
}

// A product that reads what another one makes: the rows are rounded once, and the order stays.
TEST(Siblings, MayNeedEachOther) {
  const NoGrad no_gradients;
  const auto gated = [](const Tensor& x, const Projections& weights) {
    const NumericsScope scope(Numerics::q8);
    return silu(linear(x, weights.key)) * linear(x, weights.value);
  };
  for (const auto& [rows, columns] : {std::pair{40, 72}, {1, 1500}, {2, 640}}) {
    const ProjectionSizes sizes{rows, 512, 8, columns};
    with_threads([&] {
      same_everywhere([&](Device d) {
        const Tensor x = random_tensor({sizes.rows, sizes.k}, DType::f32, 4).to(d);
        return gated(x, projections_of(sizes, Encoding::q4_0, Encoding::q4_0, d));
      });
    });
    for (const Device device : test_devices()) {
      // Whether few rows pay on a GPU is its own matter.
      const bool may_be_apart = rows <= 2 && device.kind != DeviceKind::cpu && device.kind != DeviceKind::ref;
      if (may_be_apart) continue;
      const Tensor x = random_tensor({sizes.rows, sizes.k}, DType::f32, 4).to(device).eval();
      const Projections weights = projections_of(sizes, Encoding::q4_0, Encoding::q4_0, device);
      EXPECT_EQ(kernels_run_for({gated(x, weights)}), runs_products_together(device, rows) ? 1u : 2u)
          << device.to_string();
    }
  }
}

// Results of other columns than a product's own are there when it reads them.
TEST(Siblings, MayReadResultsElsewhere) {
  const NoGrad no_gradients;
  for (const std::int64_t rows : {1, 2}) {
    const ProjectionSizes sizes{rows, 512, 900, 899};
    with_threads([&] {
      same_everywhere([&](Device d) {
        const NumericsScope scope(Numerics::q8);
        const Tensor x = random_tensor({rows, sizes.k}, DType::f32, 4).to(d);
        const Projections weights = projections_of(sizes, Encoding::q4_0, Encoding::q4_0, d);
        const Tensor query = linear(x, weights.query);
        const Tensor key = query.narrow(1, 1, sizes.keys) * linear(x, weights.key);
        return cat({query, key, linear(x, weights.value) + query.narrow(1, 0, sizes.keys) + key}, -1);
      });
    });
  }
}

// A weight that is overwritten between products, and a product whose left operand is made by the one before.
TEST(Siblings, KeepTheOrderOfWhatTheyRead) {
  const NoGrad no_gradients;
  same_everywhere([](Device d) {
    const NumericsScope scope(Numerics::q8);
    const Projections weights = projections_of({1, 256, 256, 64}, Encoding::q8_0, Encoding::q8_0, d);
    Tensor x = random_tensor({1, 256}, DType::f32, 4).to(d);
    const Tensor query = linear(x, weights.query);
    const Tensor of_query = linear(query, weights.key);
    const Tensor key = linear(x, weights.key);
    x[0] = query[0];
    return cat({query, of_query, key, linear(x, weights.value)}, -1);
  });
}

// Of what is held in 16 bits, in exact numerics.
TEST(Siblings, OfDenseWeightsInHalves) {
  const NoGrad no_gradients;
  same_everywhere([](Device d) {
    const Tensor x = random_tensor({1, 512}, DType::f32, 4).to(d);
    const auto weight = [&](std::int64_t n, int seed) {
      return random_tensor({n, 512}, DType::f32, seed).to(DType::bf16).to(d);
    };
    const Tensor half = x.to(DType::bf16);
    const auto product = [&](std::int64_t n, int seed) { return matmul(half, weight(n, seed).transpose(0, 1)); };
    return cat({product(1600, 1), product(1600, 2), product(48, 3)}, -1);
  });
}

// Watches see each.
TEST(Siblings, AreKernelsAloneForThoseWhoLook) {
  const NoGrad no_gradients;
  for (const Device device : test_devices()) {
    const Projections weights = projections_of({1, 512, 64, 32}, Encoding::q4_0, Encoding::q4_0, device);
    const Tensor x = random_tensor({1, 512}, DType::f32, 4).to(device).eval();
    const std::vector<Tensor> before = products_of(x, weights);
    for (const Tensor& value : before) value.eval();
    const Shadow shadow({DeviceKind::ref}, {.cases = ""});
    const std::vector<Tensor> results = products_of(x, weights);
    EXPECT_EQ(kernels_run_for(results), 3u);
    EXPECT_EQ(shadow.counts().different, 0u);
    for (std::size_t i = 0; i < results.size(); ++i) EXPECT_BITS_EQ(results[i].to(Device()), before[i].to(Device()));
  }
}

// Recorded for gradients, nothing changes.
TEST(Siblings, HaveTheGradientsOfKernelsAlone) {
  same_everywhere([](Device d) {
    const NumericsScope scope(Numerics::q8);
    const Projections weights = projections_of({2, 256, 40, 24}, Encoding::q8_0, Encoding::q8_0, d);
    const Tensor x = requires_grad(random_tensor({2, 256}, DType::f32, 4).to(d));
    const std::vector<Tensor> all = products_of(x, weights);
    backward(sum(all[0]) + sum(all[1] * all[2]));
    return grad(x);
  });
}

}  // namespace
}  // namespace lockstep
