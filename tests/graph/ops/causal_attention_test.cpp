// Attention of rows that see the keys up to their own as one kernel, where a device has it (a prompt on GPUs): the bits
// of the composition, which the reference computes.
#include <lockstep/autograd.h>
#include <lockstep/ops.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/shadow.h>

#include "backends/backend.h"
#include "support/long_forms.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

struct PromptSizes {
  std::int64_t batches, heads, key_heads, rows, keys, width;
};

Tensor prompt_numbers(const Shape& shape, std::uint64_t seed, bool special, DType dtype) {
  return random_tensor(shape, DType::f32, seed, {}, special).to(dtype);
}

Tensor attend_prompt(const PromptSizes& s, Device device, bool special = false, DType dtype = DType::f32,
                     std::optional<std::int64_t> first_query = std::nullopt) {
  AttentionOptions options;
  options.causal = true;
  options.enable_gqa = s.heads != s.key_heads;
  options.first_query = first_query;
  const auto operand = [&](std::int64_t heads, std::int64_t length, std::uint64_t seed) {
    return prompt_numbers({s.batches, heads, length, s.width}, seed, special, dtype).to(device);
  };
  return scaled_dot_product_attention(operand(s.heads, s.rows, 1), operand(s.key_heads, s.keys, 2),
                                      operand(s.key_heads, s.keys, 3), options);
}

bool is_prompt_kernel(const Tensor& result) {
  const std::vector<std::string> kernels = plan({result});
  return kernels.size() == 1 && kernels[0].starts_with("attention[") && kernels[0].find("causal") != std::string::npos;
}

void expect_prompt(const PromptSizes& s, bool special = false, DType dtype = DType::f32,
                   std::optional<std::int64_t> first_query = std::nullopt) {
  SCOPED_TRACE(::testing::Message() << s.batches << " x " << s.heads << " (" << s.key_heads << ") x " << s.rows << " x "
                                    << s.keys << " x " << s.width << (special ? " special" : ""));
  const NoGrad no_gradients;
  same_everywhere([&](Device device) { return attend_prompt(s, device, special, dtype, first_query); });
  for (const Device device : test_devices()) {
    if (is_host(device) || !backend_of(device).has_masked_attention()) continue;
    EXPECT_TRUE(is_prompt_kernel(attend_prompt(s, device, special, dtype, first_query))) << device.to_string();
  }
}

TEST(CausalAttention, RowsAndKeys) {
  expect_prompt({1, 2, 2, 256, 256, 64});
  for (const std::int64_t rows : {129, 200, 300}) expect_prompt({1, 2, 1, rows, rows, 32});
  expect_prompt({1, 1, 1, 150, 40, 8});  // fewer keys than rows
  expect_prompt({1, 1, 1, 140, 523, 24});
}

TEST(CausalAttention, HeadsThatShareKeysAndBatches) {
  expect_prompt({2, 6, 2, 130, 130, 16});
  expect_prompt({3, 4, 1, 260, 260, 128});
}

TEST(CausalAttention, RowsBehindOthers) {
  for (const std::int64_t first : {1, 100, 256, 383}) expect_prompt({1, 2, 1, 140, 523, 32}, false, DType::f32, first);
  expect_prompt({1, 1, 1, 131, 4096, 8}, false, DType::f32, 3965);
}

TEST(CausalAttention, SpecialValues) {
  expect_prompt({2, 4, 2, 300, 300, 32}, true);
  expect_prompt({1, 2, 1, 140, 523, 16}, true, DType::f32, 33);
  // What no row of a tile sees is not read; what one sees, all of them multiply by zero.
  const NoGrad no_gradients;
  same_everywhere([&](Device device) {
    const Tensor values = cat({zeros({1, 1, 250, 16}), full({1, 1, 50, 16}, kInfinity)}, 2).to(device);
    const Tensor keys = prompt_numbers({1, 1, 300, 16}, 1, false, DType::f32).to(device);
    return scaled_dot_product_attention(keys, keys, values, {.causal = true});
  });
}

TEST(CausalAttention, SixteenBits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    expect_prompt({2, 4, 2, 200, 200, 64}, false, dtype);
    expect_prompt({1, 2, 1, 140, 300, 32}, true, dtype, 150);
  }
}

// On CUDA a workgroup has 128 rows and all of their keys where tiles of rows are enough for every unit of the device:
// one tile for each workgroup, and two for some; keys of more than one block, fewer than rows, and behind them.
TEST(CausalAttention, TilesThatAreMany) {
  const std::int64_t many = long_forms() ? 1 : 17;  // of which one is enough elsewhere
  expect_prompt({1, 68 / many, 17 / many, 129, 260, 128}, false, DType::f32, 100);
  expect_prompt({3, 46 / many, 23 / many, 132, 132, 64});
  expect_prompt({1, 68 / many, 68 / many, 129, 40, 64});
  expect_prompt({1, 66 / many, 33 / many, 131, 270, 64}, true, DType::f32, 33);
  for (const DType dtype : {DType::bf16, DType::f16}) {
    expect_prompt({1, 66 / many, 33 / many, 129, 270, 64}, true, dtype, 141);
  }
}

TEST(CausalAttention, ReadsOperandsWhereTheyLie) {
  const NoGrad no_gradients;
  same_everywhere([&](Device d) {
    const auto turned = [&](std::int64_t length, std::int64_t heads, std::uint64_t seed) {
      return prompt_numbers({2, length, heads, 33}, seed, false, DType::f32).to(d).transpose(1, 2).narrow(3, 1, 32);
    };
    return scaled_dot_product_attention(turned(150, 4, 1), turned(270, 2, 2).narrow(2, 3, 260),
                                        turned(270, 2, 3).narrow(2, 5, 260),
                                        {.causal = true, .first_query = 110, .enable_gqa = true});
  });
}

}  // namespace
}  // namespace lockstep
