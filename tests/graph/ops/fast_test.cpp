// Numerics::fast (docs/numerics.md section 13): where it is refused, and on a CUDA device with cuBLASLt and cuDNN the
// bound of its results, that they repeat, and that every op that multiplies takes it.
#include <lockstep/numerics.h>

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "graph/ops/contraction.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

template <typename Compute> auto in_fast(Compute compute) {
  const NumericsScope scope(Numerics::fast);
  return compute();
}

// --- where there is none

TEST(FastNumerics, AreRefusedWhereADeviceHasNone) {
  EXPECT_EQ(numerics_from_name("fast"), Numerics::fast);
  const NumericsScope scope(Numerics::fast);
  EXPECT_EQ(current_numerics(), Numerics::fast);
  for (const Device device : {Device{DeviceKind::cpu, 0}, Device{DeviceKind::ref, 0}}) {
    const Tensor x = ones({4, 4}, {.dtype = DType::bf16, .device = device});
    const std::string name = device.to_string();
    {
      const NumericsScope other(Numerics::blocked, device);
      expect_error<DeviceError>([&] { NumericsScope(Numerics::fast, device); },
                                {"NumericsScope", "fast numerics on " + name, "CUDA", "fix", "blocked"});
      EXPECT_EQ(current_numerics(), Numerics::blocked);  // as before
    }
    expect_error<DeviceError>([&] { matmul(x, x); }, {"matmul", "fast numerics on " + name, "CUDA", "fix", "blocked"});
    const Tensor picture = ones({1, 2, 4, 4}, {.dtype = DType::f16, .device = device});
    const Tensor filter = ones({2, 2, 3, 3}, {.dtype = DType::f16, .device = device});
    expect_error<DeviceError>([&] { conv2d(picture, filter); }, {"conv2d", "fast numerics on " + name});
    // So are weights of 8-bit floats, whatever they multiply.
    const Tensor weight = random_packed({16, 256}, Encoding::e4m3, 1, device);
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Tensor rows = ones({20, 256}, {.dtype = dtype, .device = device});
      expect_error<DeviceError>([&] { linear(rows, weight); }, {"linear", "fast numerics on " + name, "CUDA"});
    }
    // What is exact in every scope.
    const Tensor y = ones({4, 4}, {.device = device});
    EXPECT_EQ(matmul(y, y).to_vector<float>()[0], 4.0f);
  }
}

// --- on a device that has it

class FastOnCuda : public testing::Test {
 protected:
  void SetUp() override {
    for (const Device& device : Device::all()) {
      if (device.kind == DeviceKind::cuda && backend_of(device).missing_for_fast_convolutions().empty()) {
        device_ = device;
        return;
      }
    }
    GTEST_SKIP() << "no CUDA device with cuBLASLt and cuDNN";
  }

  Tensor random(const Shape& shape, DType dtype) const { return randn(shape).to(dtype).to(device_).eval(); }

  Device device_;
};

double error_of(const Tensor& a, const Tensor& b) {
  const std::vector<double> x = a.to(DType::f64).to(Device{DeviceKind::cpu, 0}).to_vector<double>();
  const std::vector<double> y = b.to(DType::f64).to(Device{DeviceKind::cpu, 0}).to_vector<double>();
  double errors = 0, squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    errors += (x[i] - y[i]) * (x[i] - y[i]);
    squares += y[i] * y[i];
  }
  return std::sqrt(errors / squares);
}

struct FastShape {
  Shape batch;
  std::int64_t m, n, k;
};

// The bound of section 13, element by element, on f32 results: whole tiles and ragged ones, transposed operands, one
// matrix for all batches, and elements of very different sizes.
TEST_F(FastOnCuda, ErrorStaysBelowTheBound) {
  manual_seed(5);
  const FastShape shapes[] = {
      {{}, 128, 192, 256}, {{}, 77, 51, 1001}, {{3}, 64, 49, 147}, {{2, 3}, 33, 130, 72}, {{}, 640, 17, 4096}};
  for (const FastShape& shape : shapes) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      for (const int transposed : {0, 1, 2, 3}) {
        const auto operand = [&](std::int64_t rows, std::int64_t columns, bool transposes) {
          Shape sizes = shape.batch;
          sizes.push_back(transposes ? columns : rows);
          sizes.push_back(transposes ? rows : columns);
          const Tensor values = (randn(sizes) * exp(randn(sizes))).to(dtype).to(device_).eval();
          return transposes ? values.transpose(-1, -2) : values;
        };
        const Tensor a = operand(shape.m, shape.k, (transposed & 1) != 0);
        const Tensor b = operand(shape.k, shape.n, (transposed & 2) != 0);
        const Tensor got = in_fast([&] { return graph::batched_matmul(a, b).eval(); });
        EXPECT_BITS_EQ(got, in_fast([&] { return graph::batched_matmul(a, b).eval(); }));
        const Device cpu{DeviceKind::cpu, 0};
        const Tensor x = a.to(cpu).to(DType::f64);
        const Tensor y = b.to(cpu).to(DType::f64);
        const std::vector<double> exact = matmul(x, y).to_vector<double>();
        const std::vector<double> sizes = matmul(abs(x), abs(y)).to_vector<double>();
        const std::vector<float> results = got.to_vector<float>();
        ASSERT_EQ(results.size(), exact.size());
        for (std::size_t i = 0; i < exact.size(); ++i) {
          const double bound = static_cast<double>(shape.k + 16) * 0x1p-23 * sizes[i];
          ASSERT_LE(std::fabs(results[i] - exact[i]), bound)
              << name_of(dtype) << " " << shape.m << " " << shape.n << " " << shape.k << " " << transposed;
        }
      }
    }
  }
}

// Weights of 8-bit floats: the bound of section 13, element by element, for all that is known of scales, from the first
// row on and from another one; three times, since the weights' form is kept meanwhile.
TEST_F(FastOnCuda, WeightsOfFloatsStayBelowTheBound) {
  if (const std::string missing = backend_of(device_).missing_for_fast_floats(); !missing.empty())
    GTEST_SKIP() << missing;
  manual_seed(6);
  const Device cpu{DeviceKind::cpu, 0};
  const FastShape shapes[] = {{{}, 128, 192, 256}, {{}, 77, 272, 1024}, {{2}, 33, 144, 384}, {{}, 640, 400, 4096}};
  for (const FastShape& shape : shapes) {
    for (const Encoding encoding : {Encoding::e4m3, Encoding::e4m3_rows, Encoding::e4m3_squares}) {
      for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        const std::int64_t first = shape.m == 77 ? 128 : shape.m == 640 ? 16 : 0;
        const Tensor weight = random_packed({first + shape.n, shape.k}, encoding, 9, cpu);
        Shape sizes = shape.batch;
        for (const std::int64_t size : {shape.m, shape.k}) sizes.push_back(size);
        const Tensor x = (randn(sizes) * exp(randn(sizes))).to(dtype).eval();
        const Tensor on_device = x.to(device_);
        const Tensor weights = weight.to(device_).narrow(0, first, shape.n);
        const auto product = [&] { return in_fast([&] { return relu(linear(on_device, weights)).eval(); }); };
        const Tensor got = product();
        for (int again = 0; again < 2; ++again) EXPECT_BITS_EQ(got, product());
        const Tensor w = dequantize(weight.narrow(0, first, shape.n)).to(DType::f64).transpose(0, 1);
        const Tensor a = x.to(DType::f64).reshape({-1, shape.k});
        const std::int64_t shared = encoding == Encoding::e4m3_rows ? shape.k : 128;
        const Tensor blocks = abs(a).reshape({-1, shape.k / shared, shared});
        const Tensor largest = amax(blocks, {-1}, true).expand(blocks.shape()).reshape(a.shape());
        const double rounding = dtype == DType::f32 ? 0x1p-8 : dtype == DType::bf16 ? 0x1p-7 : 0x1p-8;
        const double sums = 0x1p-6 + static_cast<double>(shape.k + 16) * 0x1p-23 + rounding;
        const std::vector<double> exact = matmul(a, w).to_vector<double>();
        const std::vector<double> bounds =
            matmul(abs(a) * (0x1p-4 + sums) + largest * 0x1p-18, abs(w)).to_vector<double>();
        const std::vector<float> results = got.to(DType::f32).to_vector<float>();
        ASSERT_EQ(results.size(), exact.size());
        double squares = 0, errors = 0;
        for (std::size_t i = 0; i < exact.size(); ++i) {
          const double wanted = std::max(exact[i], 0.0);
          ASSERT_LE(std::fabs(results[i] - wanted), bounds[i])
              << name_of(encoding) << " " << name_of(dtype) << " " << shape.m << " " << i;
          errors += (results[i] - wanted) * (results[i] - wanted);
          squares += wanted * wanted;
        }
        EXPECT_LT(std::sqrt(errors / squares), 0.05) << name_of(encoding) << " " << name_of(dtype);
      }
    }
  }
}

TEST_F(FastOnCuda, ShadowsHoldTheBoundOfFloats) {
  if (const std::string missing = backend_of(device_).missing_for_fast_floats(); !missing.empty())
    GTEST_SKIP() << missing;
  manual_seed(7);
  for (const Encoding encoding : {Encoding::e4m3, Encoding::e4m3_rows, Encoding::e4m3_squares}) {
    const Tensor weight = random_packed({64, 512}, encoding, 2, device_);
    const Tensor x = random({48, 512}, DType::bf16);
    const Shadow shadow({DeviceKind::cpu, 0}, {.policy = ShadowPolicy::report});
    in_fast([&] { return linear(x, weight).eval(); });
    EXPECT_GE(shadow.counts().compared, 1);
    EXPECT_EQ(shadow.counts().different, 0) << name_of(encoding);
  }
}

TEST_F(FastOnCuda, OtherPackedWeightsAreRefused) {
  const NumericsScope scope(Numerics::fast);
  const Tensor x = ones({20, 256}, {.dtype = DType::bf16, .device = device_});
  expect_error<DeviceError>(
      [&] {
        linear(x, random_packed({16, 256}, Encoding::q4_0, 1, device_));
      },
      {"linear", "of packed weights only e4m3"});
  if (!backend_of(device_).missing_for_fast_floats().empty()) return;
  expect_error<DeviceError>(
      [&] {
        linear(x, random_packed({18, 256}, Encoding::e4m3, 1, device_));
      },
      {"linear", "multiples of 16, not 18"});
}

struct FastConvolution {
  Shape input;  ///< [N, C, size...]
  std::int64_t outputs, kernel, stride, padding, dilation;
};

// The bound with the rounding to the operands' dtype, element by element, of convolutions and what they are the
// gradients of: channels and sizes that fit and that do not, even kernels, one to three spatial dimensions.
TEST_F(FastOnCuda, ConvolutionsStayBelowTheBound) {
  manual_seed(8);
  const FastConvolution cases[] = {
      {{3, 32, 14, 11}, 48, 3, 1, 1, 1}, {{2, 16, 15, 12}, 24, 3, 2, 1, 1},  {{2, 3, 30, 31}, 32, 7, 2, 3, 1},
      {{2, 20, 12, 12}, 21, 3, 1, 2, 2}, {{1, 24, 16, 16}, 17, 4, 2, 1, 1},  {{2, 40, 9, 9}, 32, 1, 2, 0, 1},
      {{2, 16, 50}, 32, 5, 1, 2, 1},     {{1, 16, 6, 7, 8}, 32, 3, 1, 1, 1}, {{2, 32, 8, 8}, 32, 2, 2, 0, 1},
  };
  const Device cpu{DeviceKind::cpu, 0};
  for (const FastConvolution& c : cases) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const int rank = c.input.rank() - 2;
      Shape weight{c.outputs, c.input[1]};
      for (int d = 0; d < rank; ++d) weight.push_back(c.kernel);
      const ConvOptions options{.stride = {c.stride}, .padding = {c.padding}, .dilation = {c.dilation}};
      const auto convolve = [&](const Tensor& x, const Tensor& w) {
        return rank == 1   ? conv1d(x, w, std::nullopt, options)
               : rank == 2 ? conv2d(x, w, std::nullopt, options)
                           : conv3d(x, w, std::nullopt, options);
      };
      const Tensor x = (randn(c.input) * exp(randn(c.input))).to(dtype).eval();
      const Tensor w = (randn(weight) * 0.1).to(dtype).eval();
      const Shape out = convolve(x, w).shape();
      const Tensor g = randn(out).to(dtype).eval();
      // y, and the gradients of x and w, of operands in another dtype and on another device.
      const auto all = [&](const Tensor& to_x, const Tensor& to_w, const Tensor& to_g) {
        const Tensor leaf_x = requires_grad(to_x);
        const Tensor leaf_w = requires_grad(to_w);
        const Tensor y = convolve(leaf_x, leaf_w);
        std::vector<Tensor> results = gradients(y, {leaf_x, leaf_w}, {.seed = to_g});
        results.insert(results.begin(), detach(y));
        for (Tensor& result : results) result = result.eval();
        return results;
      };
      const auto fast = [&] { return in_fast([&] { return all(x.to(device_), w.to(device_), g.to(device_)); }); };
      const std::vector<Tensor> got = fast();
      const std::vector<Tensor> again = fast();
      const auto wide = [&](const Tensor& t) { return t.to(cpu).to(DType::f64); };
      const std::vector<Tensor> exact = all(wide(x), wide(w), wide(g));
      const std::vector<Tensor> sizes = all(abs(wide(x)), abs(wide(w)), abs(wide(g)));
      const double ulp = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
      const double least = dtype == DType::bf16 ? 0x1p-120 : 0x1p-24;
      const std::int64_t positions = out.numel() / c.outputs;
      const std::int64_t taps = weight.numel() / c.outputs / c.input[1];
      const std::int64_t lengths[] = {c.input[1] * taps, c.outputs * taps, positions};
      for (std::size_t r = 0; r < 3; ++r) {
        EXPECT_BITS_EQ(got[r], again[r]);
        const std::vector<double> results = wide(got[r]).to_vector<double>();
        const std::vector<double> truth = exact[r].to_vector<double>();
        const std::vector<double> size = sizes[r].to_vector<double>();
        ASSERT_EQ(results.size(), truth.size());
        for (std::size_t i = 0; i < truth.size(); ++i) {
          const double sum = static_cast<double>(lengths[r] + 16) * 0x1p-23 * size[i];
          ASSERT_LE(std::fabs(results[i] - truth[i]), sum + ulp * (std::fabs(truth[i]) + sum) + least)
              << name_of(dtype) << " " << c.input.to_string() << " kernel " << c.kernel << " stride " << c.stride
              << " result " << r << " element " << i;
        }
      }
    }
  }
}

TEST_F(FastOnCuda, TransposedConvolutionsTakeIt) {
  manual_seed(9);
  const Tensor x = random({3, 32, 9, 10}, DType::bf16);
  const Tensor w = random({32, 24, 4, 4}, DType::bf16);
  const Tensor bias = random({24}, DType::bf16);
  const auto compute = [&] { return conv_transpose2d(x, w, bias, {.stride = {2}, .padding = {1}}).eval(); };
  EXPECT_LT(error_of(in_fast(compute), compute()), 5e-3);
}

// Against exact numerics: what the op rounds is far more than what fast numerics lose.
TEST_F(FastOnCuda, EveryOpThatMultipliesTakesIt) {
  manual_seed(6);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const double most = dtype == DType::bf16 ? 5e-3 : 7e-4;
    const auto expect_near = [&](const char* name, const std::function<Tensor()>& compute) {
      const Tensor exact = compute().eval();
      const Tensor fast = in_fast([&] { return compute().eval(); });
      EXPECT_LT(error_of(fast, exact), most) << name << " " << name_of(dtype);
      EXPECT_BITS_EQ(fast, in_fast([&] { return compute().eval(); })) << name;
    };
    const Tensor x = random({300, 264}, dtype);
    const Tensor w = random({200, 264}, dtype);
    const Tensor bias = random({200}, dtype);
    expect_near("matmul", [&] { return matmul(x, w.transpose(0, 1)); });
    expect_near("linear, gelu", [&] { return gelu(linear(x, w, bias)); });
    expect_near("linear of a slice", [&] { return linear(x.narrow(1, 3, 257), w.narrow(1, 3, 257)) + bias; });
    const Tensor picture = random({5, 32, 28, 28}, dtype);
    for (const std::int64_t kernel : {1, 3}) {
      for (const std::int64_t groups : {1, 2}) {
        for (const std::int64_t stride : {1, 2}) {
          const Tensor filter = random({64, 32 / groups, kernel, kernel}, dtype);
          const Tensor beside = random({64}, dtype);
          const ConvOptions options{.stride = {stride}, .padding = {kernel / 2}, .groups = groups};
          expect_near("conv2d", [&] { return relu(conv2d(picture, filter, beside, options)); });
        }
      }
    }
    const Tensor q = random({2, 100, 4, 64}, dtype).transpose(1, 2);
    const Tensor k = random({2, 90, 4, 64}, dtype).transpose(1, 2);
    const Tensor v = random({2, 90, 4, 64}, dtype).transpose(1, 2);
    expect_near("attention", [&] { return scaled_dot_product_attention(q, k, v); });
  }
}

struct FastAttention {
  std::int64_t batch, heads, key_heads, rows, keys, width;
  bool causal;
  CausalAlignment alignment = CausalAlignment::top_left;
};

// The bounds of fused attention and its gradients, element by element: lengths that are no multiples of anything, heads
// that share keys, operands that are slices of one projection and some that lie otherwise, both dtypes.
TEST_F(FastOnCuda, AttentionStaysBelowTheBound) {
  if (!backend_of(device_).has_fast_attention()) GTEST_SKIP() << "attention of fast numerics is not fused here";
  manual_seed(9);
  const FastAttention cases[] = {
      {2, 4, 4, 128, 128, 64, true},   {2, 3, 3, 77, 77, 64, false},
      {1, 6, 2, 100, 333, 128, false}, {2, 4, 2, 130, 130, 40, true},
      {1, 2, 2, 70, 200, 64, true},    {1, 2, 2, 70, 200, 64, true, CausalAlignment::bottom_right},
      {3, 2, 1, 50, 300, 32, false},
  };
  const Device cpu{DeviceKind::cpu, 0};
  for (const FastAttention& c : cases) {
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const AttentionOptions options{
          .causal = c.causal, .alignment = c.alignment, .enable_gqa = c.heads != c.key_heads};
      const auto heads_of = [&](std::int64_t heads, std::int64_t positions) {
        return random({c.batch, positions, heads, c.width}, dtype).transpose(1, 2);
      };
      std::vector<Tensor> given{heads_of(c.heads, c.rows), heads_of(c.key_heads, c.keys),
                                heads_of(c.key_heads, c.keys)};
      if (c.rows == c.keys && c.heads == c.key_heads) {
        const Tensor all = random({c.batch, c.rows, 3, c.heads, c.width}, dtype).permute({2, 0, 3, 1, 4});
        for (int i = 0; i < 3; ++i) given[static_cast<std::size_t>(i)] = all.select(0, i);
      }
      if (c.width == 32) given[1] = random({c.batch, c.key_heads, c.width, c.keys}, dtype).transpose(2, 3);
      const Tensor upstream = heads_of(c.heads, c.rows);
      const auto computed = [&] {
        std::vector<Tensor> x;
        for (const Tensor& one : given) x.push_back(requires_grad(one));
        const Tensor result = in_fast([&] { return scaled_dot_product_attention(x[0], x[1], x[2], options); });
        std::vector<Tensor> all = gradients(sum(result.to(DType::f32) * upstream.to(DType::f32)), x);
        all.push_back(detach(result));
        for (Tensor& one : all) one = one.eval();
        return all;
      };
      const std::vector<Tensor> got = computed();
      for (int again = 0; again < 3; ++again) {
        const std::vector<Tensor> repeated = computed();
        for (std::size_t i = 0; i < got.size(); ++i) EXPECT_BITS_EQ(got[i], repeated[i]);
      }

      // In f64, and the same with magnitudes.
      const double unit = dtype == DType::bf16 ? 0x1p-8 : 0x1p-11;
      const double smallest = dtype == DType::bf16 ? 0x1p-126 : 0x1p-14;
      const auto wide = [&](const Tensor& x, bool repeats) {
        const Tensor all = x.to(cpu).to(DType::f64);
        if (!repeats) return all;
        const Shape shape{c.batch, c.key_heads, c.heads / c.key_heads, c.keys, c.width};
        return all.unsqueeze(2).expand(shape).reshape({c.batch, c.heads, c.keys, c.width});
      };
      const Tensor q = wide(given[0], false), k = wide(given[1], true), v = wide(given[2], true);
      const Tensor g = wide(upstream, false);
      const double scale = 1 / std::sqrt(static_cast<double>(c.width));
      const std::int64_t behind = c.alignment == CausalAlignment::bottom_right ? c.keys - c.rows : 0;
      const Tensor seen = c.causal ? tril(ones({c.rows, c.keys}, {.dtype = DType::f64}), behind)
                                   : ones({c.rows, c.keys}, {.dtype = DType::f64});
      const auto turned = [](const Tensor& x) { return x.transpose(-1, -2); };
      const Tensor scores = where(seen > 0.0, matmul(q, turned(k)) * scale, -1e300);
      const Tensor w = softmax(scores, -1);
      const Tensor out = matmul(w, v);
      // Of every score: what the products and the exponential err by, relative to its weight.
      const Tensor delta = amax(matmul(abs(q), turned(abs(k))) * seen, {-1}, true) *
                           (scale * static_cast<double>(c.width + 16) * 0x1p-23);
      const Tensor of_weights = w * (delta * 4.0 + (unit + static_cast<double>(c.keys + 16) * 0x1p-23));
      const Tensor bound = matmul(of_weights, abs(v)) + matmul(seen, abs(v)) * (unit * smallest) + abs(out) * unit;
      const Tensor of_dots = matmul(abs(g), turned(abs(v))) + sum(abs(g) * abs(out), {-1}, true);
      const Tensor ds = w * (matmul(g, turned(v)) - sum(g * out, {-1}, true));
      const Tensor of_ds = (of_weights * 3.0 * of_dots + seen * (of_dots * (unit * smallest))) * scale;
      const auto added = [&](const Tensor& x) {
        return sum(x.reshape({c.batch, c.key_heads, c.heads / c.key_heads, c.keys, c.width}), {2}, false);
      };
      const Tensor dq = matmul(ds, k) * scale, dk = added(matmul(turned(ds), q) * scale),
                   dv = added(matmul(turned(w), g));
      const std::vector<Tensor> exact{dq, dk, dv, out};
      const std::vector<Tensor> bounds{
          matmul(of_ds, abs(k)) + abs(dq) * unit, added(matmul(turned(of_ds), abs(q))) + abs(dk) * unit,
          added(matmul(turned(of_weights) * 2.0, abs(g)) + matmul(turned(seen), abs(g)) * (unit * smallest)) +
              abs(dv) * unit,
          bound};
      constexpr const char* kNames[] = {"query", "key", "value", "result"};
      for (std::size_t i = 0; i < got.size(); ++i) {
        const std::vector<double> x = got[i].to(cpu).to(DType::f64).to_vector<double>();
        const std::vector<double> y = exact[i].to_vector<double>();
        const std::vector<double> most = bounds[i].to_vector<double>();
        ASSERT_EQ(x.size(), y.size());
        double worst = 0;
        // Results below the smallest normal number are rounded, too.
        for (std::size_t e = 0; e < x.size(); ++e) {
          worst = std::max(worst, std::fabs(x[e] - y[e]) / (most[e] + unit * smallest));
        }
        EXPECT_LE(worst, 1) << kNames[i] << " " << name_of(dtype) << " " << c.rows << " " << c.keys << " " << c.width;
      }
    }
  }
}

// What has other masks, and few rows, keep the composition; gradients of gradients do, too.
TEST_F(FastOnCuda, OtherAttentionIsComposed) {
  manual_seed(10);
  const auto operand = [&](std::int64_t rows) { return random({1, 2, rows, 64}, DType::bf16); };
  const Tensor q = operand(40), k = operand(40), v = operand(40), few = operand(8);
  const Tensor mask = (arange(0, 40).to(device_) < 20).expand({40, 40});
  const auto expect_near = [&](const std::function<Tensor()>& compute) {
    EXPECT_LT(error_of(in_fast(compute), compute()), 8e-3);
  };
  expect_near([&] { return scaled_dot_product_attention(q, k, v, {.mask = mask}); });
  expect_near([&] { return scaled_dot_product_attention(q, k, v, {.window_left = 5}); });
  expect_near([&] { return scaled_dot_product_attention(q, k, v, {.softcap = 3}); });
  expect_near([&] { return scaled_dot_product_attention(few, k, v); });
  expect_near([&] {
    const Tensor x = requires_grad(q);
    const Tensor once =
        gradients(sum(scaled_dot_product_attention(x, k, v).to(DType::f32)), {x}, {.create_graph = true})[0];
    return gradients(sum(once.to(DType::f32) * once.to(DType::f32)), {x})[0];
  });
}

TEST_F(FastOnCuda, GradientsHaveThoseOfTheirOp) {
  manual_seed(7);
  const Tensor picture = random({4, 16, 20, 20}, DType::bf16);
  const Tensor filter = random({32, 16, 3, 3}, DType::bf16);
  const Tensor matrix = random({32 * 400, 24}, DType::bf16) * 0.05;
  const auto slopes = [&](Numerics numerics) {
    const Tensor x = requires_grad(picture);
    const Tensor w = requires_grad(filter);
    const Tensor m = requires_grad(matrix.eval());
    Tensor loss;
    {
      const NumericsScope scope(numerics);
      const Tensor hidden = conv2d(x, w, std::nullopt, {.padding = {1}});
      loss = sum(matmul(hidden.reshape({4, 32 * 400}), m).to(DType::f32) * 0.01);
    }
    std::vector<Tensor> all = gradients(loss, {x, w, m});
    for (Tensor& slope : all) slope = slope.eval();
    return all;
  };
  const std::vector<Tensor> exact = slopes(Numerics::exact);
  const std::vector<Tensor> fast = slopes(Numerics::fast);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    EXPECT_LT(error_of(fast[i], exact[i]), 5e-3) << i;
  }
}

}  // namespace
}  // namespace lockstep
