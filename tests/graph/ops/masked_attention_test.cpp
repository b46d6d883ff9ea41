// Attention of one row with a mask as one kernel, where a device has it (AttentionKernel::masked on GPUs): the bits of
// the composition, which the reference computes.
#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/shadow.h>

#include "backends/backend.h"
#include "graph/ops/attention_fused.h"
#include "support/long_forms.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

struct StepSizes {
  std::int64_t batches, heads, key_heads, keys, width;
};

Tensor numbers(const Shape& shape, std::uint64_t seed, bool special, DType dtype = DType::f32) {
  return random_tensor(shape, DType::f32, seed, {}, special).to(dtype);
}

// What the rows see: the first none, the last all but one of the keys.
Tensor seen_keys(std::int64_t batches, std::int64_t keys, double more = 0) {
  const double step = static_cast<double>((keys - 1) / std::max<std::int64_t>(batches - 1, 1));
  const Tensor last = arange(static_cast<double>(batches)).reshape({batches, 1, 1, 1}) * step;
  return arange(static_cast<double>(keys)) < last + more;
}

Tensor attend_step(const StepSizes& s, Device device, bool special, std::optional<double> scale = std::nullopt,
                   DType dtype = DType::f32) {
  AttentionOptions options;
  options.enable_gqa = s.heads != s.key_heads;
  options.mask = seen_keys(s.batches, s.keys).to(device);
  options.scale = scale;
  const auto operand = [&](std::int64_t heads, std::int64_t length, std::uint64_t seed) {
    return numbers({s.batches, heads, length, s.width}, seed, special, dtype).to(device);
  };
  return scaled_dot_product_attention(operand(s.heads, 1, 1), operand(s.key_heads, s.keys, 2),
                                      operand(s.key_heads, s.keys, 3), options);
}

bool is_one_kernel(const Tensor& result) {
  const std::vector<std::string> kernels = plan({result});
  return std::any_of(kernels.begin(), kernels.end(), [](const std::string& k) {
    return k.starts_with("attention[") && k.find("masked") != std::string::npos;
  });
}

void expect_steps(const StepSizes& s, bool special = false, std::optional<double> scale = std::nullopt,
                  DType dtype = DType::f32) {
  SCOPED_TRACE(::testing::Message() << s.batches << " x " << s.heads << " (" << s.key_heads << ") x " << s.keys << " x "
                                    << s.width << (special ? " special" : ""));
  const NoGrad no_gradients;
  same_everywhere([&](Device device) { return attend_step(s, device, special, scale, dtype); });
  for (const Device device : test_devices()) {
    EXPECT_EQ(is_one_kernel(attend_step(s, device, special, scale, dtype)), backend_of(device).has_masked_attention())
        << device.to_string();
  }
}

TEST(MaskedAttention, HeadsThatShareKeys) {
  for (const std::int64_t repeats : {1, 3, 4, 8}) expect_steps({3, 2 * repeats, 2, 256, 32});
}

TEST(MaskedAttention, Widths) {
  for (const std::int64_t width : {64, 96, 128}) expect_steps({2, 4, 1, 256, width});
}

TEST(MaskedAttention, BlocksOfKeys) {
  for (const std::int64_t keys : {512, 768, 4096}) expect_steps({3, 2, 1, keys, 32});
}

// Enough workgroups that each takes more columns, on a device of few units.
TEST(MaskedAttention, ManyRows) {
  for (const std::int64_t heads : {4, 16}) expect_steps({long_forms() ? 12 : 3, heads, 2, 512, 64});
}

// So many heads of keys that a workgroup has all of one, on a large GPU too.
TEST(MaskedAttention, ManyTexts) {
  const std::int64_t many = long_forms() ? 1 : 11;  // of which one is enough elsewhere
  for (const std::int64_t repeats : {1, 6}) expect_steps({67 / many, 4 * repeats, 4, 256, 32});
  expect_steps({88 / many, 6, 3, 512, 32}, true);
  expect_steps({133 / many, 2, 2, 256, 96}, false, -1.0);
  for (const DType dtype : {DType::f16, DType::bf16}) {
    expect_steps({67 / many, 8, 4, 256, 32}, false, std::nullopt, dtype);
  }
}

// Padding that is promised to be finite changes no bit, and is not read: by GPUs where there are many texts.
void expect_unread_padding(const StepSizes& s, bool many) {
  SCOPED_TRACE(::testing::Message() << s.batches << " x " << s.heads << " (" << s.key_heads << ") x " << s.keys << " x "
                                    << s.width);
  const NoGrad no_gradients;
  const auto attend = [&](Device device, DType dtype, double behind) {
    AttentionOptions options;
    options.enable_gqa = true;
    const Tensor seen = seen_keys(s.batches, s.keys);
    options.mask = seen.to(device);
    const auto rows = [&](std::uint64_t seed) {
      return numbers({s.batches, s.key_heads, s.keys, s.width}, seed, false);
    };
    // Vectors of 4 values of keys are read as a whole.
    const Tensor values = where(seen_keys(s.batches, s.keys, 4).transpose(2, 3), rows(3), behind);
    const graph::FinitePadding promise;
    return scaled_dot_product_attention(numbers({s.batches, s.heads, 1, s.width}, 1, false, dtype).to(device),
                                        rows(2).to(dtype).to(device), values.to(dtype).to(device), options);
  };
  for (const DType dtype : {DType::f32, DType::f16}) {
    same_everywhere([&](Device device) { return attend(device, dtype, 0.5); });
    for (const Device device : test_devices()) {
      if (!backend_of(device).has_masked_attention() || !(many || device.kind == DeviceKind::cpu)) continue;
      EXPECT_BITS_EQ(attend(device, dtype, std::numeric_limits<double>::quiet_NaN()), attend(device, dtype, 0.5))
          << device.to_string();
    }
  }
}

TEST(MaskedAttention, FinitePadding) {
  expect_unread_padding({3, 8, 2, 512, 32}, false);
  expect_unread_padding({3, 4, 2, 256, 128}, false);
}

TEST(MaskedAttention, ManyTextsWithFinitePadding) {
  const std::int64_t texts = long_forms() ? 67 : 5;
  expect_unread_padding({texts, 16, 4, 512, 32}, texts > 5);
  expect_unread_padding({texts, 8, 4, 256, 128}, texts > 5);
}

TEST(MaskedAttention, SpecialValues) {
  for (const std::int64_t heads : {2, 6}) expect_steps({6, heads, 2, 512, 32}, true);
  expect_steps({2, 2, 2, 512, 32}, false, 0x1p-100);
  expect_steps({2, 2, 2, 512, 32}, false, -1.0);
}

// As the memory of a model in 16 bits has it.
TEST(MaskedAttention, SixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    for (const bool special : {false, true}) expect_steps({3, 6, 2, 512, 64}, special, std::nullopt, dtype);
    expect_steps({2, 8, 2, 256, 128}, false, std::nullopt, dtype);
  }
  const NoGrad no_gradients;
  same_everywhere([&](Device d) {  // keys that are copied, since elements lie apart
    AttentionOptions options;
    options.enable_gqa = true;
    options.mask = seen_keys(3, 256).to(d);
    return scaled_dot_product_attention(numbers({3, 4, 32, 1}, 1, false, DType::bf16).to(d).transpose(2, 3),
                                        numbers({3, 2, 32, 256}, 2, false, DType::bf16).to(d).transpose(2, 3),
                                        numbers({3, 2, 256, 33}, 3, false, DType::bf16).to(d).narrow(3, 1, 32),
                                        options);
  });
}

// Keys in front of a memory with room for more, rows that lie between others, elements that lie apart.
TEST(MaskedAttention, ReadsOperandsWhereTheyLie) {
  const NoGrad no_gradients;
  const auto attend = [](const Tensor& q, const Tensor& k, const Tensor& v) {
    AttentionOptions options;
    options.enable_gqa = true;
    options.mask = seen_keys(q.size(0), k.size(2)).to(q.device());
    return scaled_dot_product_attention(q, k, v, options);
  };
  same_everywhere([&](Device d) {
    return attend(numbers({1, 4, 3, 64}, 1, false).to(d).permute({2, 1, 0, 3}),
                  numbers({3, 2, 600, 64}, 2, false).to(d).narrow(2, 0, 512),
                  numbers({3, 2, 600, 64}, 3, false).to(d).narrow(2, 8, 512));
  });
  same_everywhere([&](Device d) {
    return attend(numbers({3, 4, 32, 1}, 1, false).to(d).transpose(2, 3),
                  numbers({3, 2, 32, 256}, 2, false).to(d).transpose(2, 3),
                  numbers({3, 2, 256, 33}, 3, false).to(d).narrow(3, 1, 32));
  });
  same_everywhere([&](Device d) {
    return attend(pad(numbers({3, 4, 1, 30}, 1, false).to(d), {2, 0}),
                  numbers({3, 2, 1, 32}, 2, false).to(d).expand({3, 2, 256, 32}),
                  pad(numbers({3, 2, 250, 32}, 3, false).to(d), {0, 0, 3, 3}));
  });
}

TEST(MaskedAttention, OthersAreComposed) {
  const NoGrad no_gradients;
  const auto is_one = [](const StepSizes& s, std::int64_t rows, DType dtype, bool is_bias) {
    AttentionOptions options;
    options.mask = is_bias ? zeros({s.keys}) : ones({s.keys}, {.dtype = DType::boolean});
    for (const Device device : test_devices()) {
      AttentionOptions here = options;
      here.mask = options.mask->to(device);
      const Tensor keys = zeros({s.batches, s.key_heads, s.keys, s.width}, {dtype, device});
      const Tensor query = zeros({s.batches, s.heads, rows, s.width}, {dtype, device});
      if (is_one_kernel(scaled_dot_product_attention(query, keys, keys, here))) return true;
    }
    return false;
  };
  EXPECT_FALSE(is_one({1, 2, 2, 255, 32}, 1, DType::f32, false));
  EXPECT_FALSE(is_one({1, 2, 2, 4352, 32}, 1, DType::f32, false));
  EXPECT_FALSE(is_one({1, 2, 2, 256, 48}, 1, DType::f32, false));
  EXPECT_FALSE(is_one({1, 2, 2, 256, 160}, 1, DType::f32, false));
  EXPECT_FALSE(is_one({1, 2, 2, 256, 32}, 2, DType::f32, false));
  EXPECT_FALSE(is_one({1, 2, 2, 256, 32}, 1, DType::f64, false));
  EXPECT_FALSE(is_one({1, 2, 2, 256, 32}, 1, DType::f32, true));
}

// Who watches kernels sees the composition.
TEST(MaskedAttention, WatchedKernelsAreThoseOfTheComposition) {
  const NoGrad no_gradients;
  for (const Device device : test_devices()) {
    const Shadow shadow({DeviceKind::ref}, {.cases = ""});
    const Tensor result = attend_step({2, 4, 2, 256, 32}, device, false);
    EXPECT_FALSE(is_one_kernel(result));
    result.eval();
    EXPECT_EQ(shadow.counts().different, 0u);
  }
}

}  // namespace
}  // namespace lockstep
