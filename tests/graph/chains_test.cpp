// A kernel and the q8 products that alone read its result, as one executable (graph/chains.h): no launch rounds rows
// between the two, and the bits are those of kernels alone.
#include "graph/chains.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/autograd.h>
#include <lockstep/numerics.h>
#include <lockstep/ops.h>

#include "backends/gpu/backend.h"
#include "support/fake_driver.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

constexpr std::int64_t kHeads = 32, kKeyHeads = 8, kWidth = 128, kKeys = 256;

struct LayerSizes {
  std::int64_t hidden, inner;
};

// What a layer of a language model has around its products; each of the values in between is kept or not.
struct ChainedLayer {
  Tensor norm, query, key, value, output, gate, up, down;

  ChainedLayer(const LayerSizes& of, Encoding encoding, Device device) {
    std::vector<float> factors = random_tensor({of.hidden}, DType::f32, 1).to_vector<float>();
    // Blocks of nothing, and of scales that tensor cores cannot multiply.
    for (std::size_t k = 32; k < 64; ++k) factors[k] = 0.0f;
    for (std::size_t k = 64; k < 96; ++k) factors[k] *= 1e-30f;
    for (std::size_t k = 160; k < 192; ++k) factors[k] *= 1e20f;
    norm = Tensor::from(factors, {of.hidden}, device);
    const auto weight = [&](std::int64_t n, std::int64_t k, std::uint64_t seed) {
      return random_packed({n, k}, encoding, seed, device);
    };
    query = weight(of.hidden, of.hidden, 2), key = weight(1024, of.hidden, 3), value = weight(1024, of.hidden, 4);
    output = weight(of.hidden, kHeads * kWidth, 5);
    gate = weight(of.inner, of.hidden, 6), up = weight(of.inner, of.hidden, 7), down = weight(of.hidden, of.inner, 8);
  }

  Tensor normed(const Tensor& x) const { return x * rsqrt(mean(x * x, {-1}, true) + 1e-5) * norm; }
  std::vector<Tensor> projected(const Tensor& x, std::vector<Tensor>* kept = nullptr) const {
    const Tensor rows = keep(normed(x), kept);
    return {linear(rows, query), linear(rows, key), linear(rows, value)};
  }
  Tensor gated(const Tensor& x, std::vector<Tensor>* kept = nullptr) const {
    const Tensor rows = keep(normed(x), kept);
    return x + linear(keep(silu(linear(rows, gate)) * linear(rows, up), kept), down);
  }
  Tensor attended(const Tensor& x, std::vector<Tensor>* kept = nullptr) const {
    const std::int64_t rows = x.size(0);
    AttentionOptions options{.enable_gqa = true};
    const auto random = [&](const Shape& shape, std::uint64_t seed) {
      return random_tensor(shape, DType::f32, seed).to(x.device());
    };
    // Those of one text, times a number of each.
    const auto cached = [&](std::uint64_t seed) {
      return (random({1, kKeyHeads, kKeys, kWidth}, seed) * random({rows, 1, 1, 1}, seed + 1)).eval();
    };
    options.mask = gt(random({rows, 1, 1, kKeys}, 9), 0.0).eval();
    const Tensor made =
        scaled_dot_product_attention(random({rows, kHeads, 1, kWidth}, 10).eval(), cached(11), cached(13), options);
    return x + linear(keep(made.permute({0, 2, 1, 3}).reshape({rows, kHeads * kWidth}), kept), output);
  }

 private:
  static Tensor keep(Tensor tensor, std::vector<Tensor>* kept) {
    if (kept != nullptr) kept->push_back(tensor);
    return tensor;
  }
};

// A GPU that runs nothing, of the kind that has such products.
Device hopper(const std::shared_ptr<test::FakeDevice>& fake) {
  class Driver : public test::FakeDriver {
   public:
    explicit Driver(std::shared_ptr<test::FakeDevice> device) : FakeDriver(std::move(device)) {
      info_.units = 132;
      info_.groups = 1 << 20;
      info_.shared_bytes = 227 << 10;
      info_.copies_to_shared = info_.byte_products = info_.integer_tiles = info_.bf16_pairs = true;
    }
  };
  fake->memory_limit = std::size_t{4} << 30;
  const Device device{DeviceKind::cuda, 970};
  register_backend(std::make_unique<gpu::GpuBackend>(device, std::make_unique<Driver>(fake), ""));
  return device;
}

TEST(Chains, HaveNoLaunchThatRoundsRows) {
  const NoGrad no_gradients;
  const NumericsScope scope(Numerics::q8);
  const auto fake = std::make_shared<test::FakeDevice>();
  const Device device = hopper(fake);
  const ChainedLayer layer({4096, 8704}, Encoding::q8_0, device);
  const Tensor x = random_tensor({64, 4096}, DType::f32, 13).to(device).eval();
  const auto launches_of = [&](const std::vector<Tensor>& values) {
    backend_of(device).finish();
    const int before = fake->launches;
    for (const Tensor& value : values) value.eval();
    backend_of(device).finish();
    return fake->launches - before;
  };
  EXPECT_EQ(launches_of(layer.projected(x)), 2);
  EXPECT_EQ(launches_of({layer.gated(x)}), 3);
  // Somebody keeps what products read: rows are rounded apart.
  std::vector<Tensor> kept;
  EXPECT_EQ(launches_of(layer.projected(x, &kept)), 3);
  kept.clear();
  EXPECT_EQ(launches_of({layer.gated(x, &kept)}), 5);
}

TEST(Chains, HaveTheBitsOfKernelsAlone) {
  const NoGrad no_gradients;
  const NumericsScope scope(Numerics::q8);
  for (const Device device : test_devices()) {
    SCOPED_TRACE(device.to_string());
    const bool is_cuda = device.kind == DeviceKind::cuda;
    for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_0, Encoding::q4_1, Encoding::q4_k}) {
      if (!is_cuda && encoding != Encoding::q8_0) continue;
      // As large as these products' tiles take; elsewhere there are no chains.
      const LayerSizes sizes = is_cuda ? LayerSizes{4096, 8704} : LayerSizes{256, 512};
      const ChainedLayer layer(sizes, encoding, device);
      for (const std::int64_t rows : is_cuda ? std::vector<std::int64_t>{33, 64, 130} : std::vector<std::int64_t>{3}) {
        SCOPED_TRACE(std::string(name_of(encoding)) + ", " + std::to_string(rows));
        const Tensor x = random_tensor({rows, sizes.hidden}, DType::f32, 13).to(device).eval();
        const std::vector<Tensor> chained = layer.projected(x);
        for (const Tensor& one : chained) one.eval();
        std::vector<Tensor> kept;
        const std::vector<Tensor> alone = layer.projected(x, &kept);
        for (std::size_t i = 0; i < chained.size(); ++i) EXPECT_BITS_EQ(alone[i], chained[i]);
        const Tensor gated = layer.gated(x).eval();
        EXPECT_BITS_EQ(layer.gated(x, &kept), gated);
        const Tensor attended = layer.attended(x).eval();
        EXPECT_BITS_EQ(layer.attended(x, &kept), attended);
      }
    }
  }
}

}  // namespace
}  // namespace lockstep
