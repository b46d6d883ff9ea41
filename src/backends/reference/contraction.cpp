#include "backends/reference/contraction.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backends/reference/program.h"
#include "backends/reference/reduce.h"
#include "kernels/storage.h"

namespace lockstep {
inline namespace v0 {
namespace reference {
namespace {

constexpr std::size_t kBlock = 256;

/// "k in blocks of 256; inside a block acc = fma(a, b, acc) from +0, k ascending; the first partial is stored, later
/// ones are added in ascending order. K = 0 gives +0." "Only the stored result is made canonical."
template <typename T> T contract(const std::vector<T>& a, const std::vector<T>& b) {
  T result = T(0);
  for (std::size_t block = 0; block < a.size(); block += kBlock) {
    T partial = T(0);
    for (std::size_t k = block; k < std::min(a.size(), block + kBlock); ++k) {
      partial = multiply_add(a[k], b[k], partial);
    }
    result = block == 0 ? partial : add(result, partial);
  }
  return scalar::canonical(result);
}

// Blocked numerics (section 12): the rows' blocks as integers that share a power of two, and exact sums of products.
constexpr std::size_t kSharedBlock = 128;

struct SharedBlock {
  std::vector<std::int32_t> q;  ///< 15 bits and a sign
  int exponent = 0;             ///< magnitudes are below 2^exponent
  bool is_number = true;        ///< no infinity, NaN or magnitude of 2^119 and more
};

SharedBlock share_exponent(const float* x, std::size_t count) {
  SharedBlock block;
  float largest = 0;
  for (std::size_t k = 0; k < count; ++k) {
    block.is_number = block.is_number && std::fabs(x[k]) < 0x1p119f;
    largest = std::max(largest, std::fabs(x[k]));
  }
  if (!block.is_number) return block;
  if (largest != 0) std::frexp(largest, &block.exponent);
  if (largest == 0 || block.exponent < -106) block.exponent = -106;
  for (std::size_t k = 0; k < count; ++k) {
    // The nearest integer, of two the even one; the scaled number is exact as f64.
    const double scaled = std::ldexp(static_cast<double>(x[k]), 14 - block.exponent);
    block.q.push_back(static_cast<std::int32_t>(std::min(std::nearbyint(scaled), 16383.0)));
  }
  return block;
}

/// "Per block the exact sum of products is rounded to a multiple of 128, converted to f32 once, and added by fma."
float contract_blocked(const std::vector<float>& a, const std::vector<float>& b) {
  float result = 0;
  for (std::size_t k = 0; k < a.size(); k += kSharedBlock) {
    const std::size_t count = std::min(kSharedBlock, a.size() - k);
    const SharedBlock left = share_exponent(&a[k], count);
    const SharedBlock right = share_exponent(&b[k], count);
    if (!left.is_number || !right.is_number) return std::numeric_limits<float>::quiet_NaN();
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += std::int64_t{left.q[i]} * right.q[i];
    const auto rounded = static_cast<float>((sum + 64) >> 7);
    result = std::fma(std::ldexp(rounded, left.exponent - 20), std::ldexp(1.0f, right.exponent - 1), result);
  }
  return scalar::canonical(result);
}

// q8 numerics (section 14).
constexpr std::size_t kQ8Block = 32;

/// Of the activations of one row along k.
struct Q8Block {
  std::int32_t q[kQ8Block];
  float scale;
};

std::vector<Q8Block> q8_blocks(const std::vector<float>& x) {
  std::vector<Q8Block> blocks(x.size() / kQ8Block);
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const float* const at = &x[i * kQ8Block];
    std::uint32_t largest = 0;
    for (std::size_t k = 0; k < kQ8Block; ++k) largest = std::max(largest, BITS(at[k]) & 0x7fffffffu);
    blocks[i].scale = scalar::q8_scale(largest);
    const float inverse = blocks[i].scale > 0 ? 1.0f / blocks[i].scale : 0.0f;
    for (std::size_t k = 0; k < kQ8Block; ++k) blocks[i].q[k] = scalar::q8_code(at[k], inverse);
  }
  return blocks;
}

/// One column of weights along k.
struct Q8Weights {
  Encoding encoding;
  const std::byte* blocks;
  std::int64_t first;  ///< element
};

/// "acc = fma(float(I), D d, acc), then fma(float(S), Dmin d, acc); from +0 in every 256 k"
float contract_q8(const std::vector<Q8Block>& a, const Q8Weights& b) {
  float result = 0;
  float partial = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::int32_t sum = 0;
    std::int32_t shares = 0;
    BlockGroup group;
    for (std::size_t k = 0; k < kQ8Block; ++k) {
      const std::int64_t element = b.first + static_cast<std::int64_t>(i * kQ8Block + k);
      group = load_group(b.encoding, b.blocks, element);
      sum += group.factor * load_code(b.encoding, b.blocks, element) * a[i].q[k];
      shares += group.share * a[i].q[k];
    }
    partial = std::fma(static_cast<float>(sum), scalar::canonical(group.scale * a[i].scale), partial);
    if (has_offsets(b.encoding)) {
      partial = std::fma(static_cast<float>(shares), scalar::canonical(group.offset * a[i].scale), partial);
    }
    const std::size_t end = (i + 1) * kQ8Block;
    if (end % kBlock != 0 && i + 1 != a.size()) continue;
    result = end <= kBlock ? partial : add(result, partial);
    partial = 0;
  }
  return scalar::canonical(result);
}

template <typename T> T contract(const ContractionKernel& kernel, const std::vector<T>& a, const std::vector<T>& b) {
  if constexpr (std::is_same_v<T, float>) {
    if (kernel.numerics == Numerics::blocked) return contract_blocked(a, b);
    if (kernel.numerics == Numerics::fast) throw BackendError("ref: fast numerics have no specified bits");
  }
  return contract(a, b);
}

/// The operand's element at `index`, exactly; f32 and bf16 subnormals as zero.
template <typename T> T read(const Input& operand, const Binding& binding, const std::int64_t* index) {
  const std::int64_t address = operand.view.address(index);
  if (address < 0) return decode<T>(operand.dtype, operand.view.fill);
  return decode<T>(operand.dtype, load_word(operand.encoding, operand.dtype,
                                            binding.slots[static_cast<std::size_t>(operand.slot)], address));
}

// As `run` below; the columns are read by their blocks.
void run_q8(const ContractionKernel& kernel, const Binding& binding) {
  const auto k_size = static_cast<std::size_t>(kernel.k.numel());
  const std::int64_t m_size = kernel.m.numel();
  std::array<std::int64_t, 3 * Shape::kCapacity> index{};
  std::int64_t* const second = index.data() + kernel.b.rank();
  const std::byte* const blocks = binding.slots[static_cast<std::size_t>(kernel.b_operand.slot)];
  std::vector<float> a(k_size);
  for (std::int64_t batch = 0; batch < kernel.b.numel(); ++batch) {
    unravel(kernel.b, batch, index.data());
    std::vector<Q8Weights> columns;
    for (std::int64_t n = 0; n < kernel.n.numel(); ++n) {
      unravel(kernel.k, 0, second);
      unravel(kernel.n, n, second + kernel.k.rank());
      columns.push_back({kernel.b_operand.encoding, blocks, kernel.b_operand.view.address(index.data())});
    }
    for (std::int64_t m = 0; m < m_size; ++m) {
      unravel(kernel.m, m, second);
      for (std::size_t k = 0; k < k_size; ++k) {
        unravel(kernel.k, static_cast<std::int64_t>(k), second + kernel.m.rank());
        a[k] = read<float>(kernel.a, binding, index.data());
      }
      const std::vector<Q8Block> row = q8_blocks(a);
      std::vector<float> results;
      for (const Q8Weights& column : columns) results.push_back(contract_q8(row, column));
      const Column accumulator = results;
      run_row(kernel.epilogue, binding, batch * m_size + m, &accumulator);
    }
  }
}

template <typename T> void run(const ContractionKernel& kernel, const Binding& binding) {
  const auto k_size = static_cast<std::size_t>(kernel.k.numel());
  const auto n_size = static_cast<std::size_t>(kernel.n.numel());
  const std::int64_t m_size = kernel.m.numel();
  std::array<std::int64_t, 3 * Shape::kCapacity> index{};
  std::int64_t* const second = index.data() + kernel.b.rank();  // the batch's index comes first in both views
  std::vector<T> a(k_size);
  std::vector<std::vector<T>> b(n_size, std::vector<T>(k_size));
  for (std::int64_t batch = 0; batch < kernel.b.numel(); ++batch) {
    unravel(kernel.b, batch, index.data());
    for (std::size_t k = 0; k < k_size; ++k) {
      unravel(kernel.k, static_cast<std::int64_t>(k), second);
      for (std::size_t n = 0; n < n_size; ++n) {
        unravel(kernel.n, static_cast<std::int64_t>(n), second + kernel.k.rank());
        b[n][k] = read<T>(kernel.b_operand, binding, index.data());
      }
    }
    for (std::int64_t m = 0; m < m_size; ++m) {
      unravel(kernel.m, m, second);
      for (std::size_t k = 0; k < k_size; ++k) {
        unravel(kernel.k, static_cast<std::int64_t>(k), second + kernel.m.rank());
        a[k] = read<T>(kernel.a, binding, index.data());
      }
      std::vector<T> results;
      for (std::size_t n = 0; n < n_size; ++n) results.push_back(contract(kernel, a, b[n]));
      const Column accumulator = results;
      run_row(kernel.epilogue, binding, batch * m_size + m, &accumulator);
    }
  }
}

}  // namespace
}  // namespace reference

void run_kernel(const ContractionKernel& kernel, const Binding& binding) {
  if (kernel.numerics == Numerics::q8) return reference::run_q8(kernel, binding);
  switch (kernel.type) {
    case ComputeType::f32: return reference::run<float>(kernel, binding);
    case ComputeType::f64: return reference::run<double>(kernel, binding);
    case ComputeType::i32: return reference::run<std::int32_t>(kernel, binding);
    case ComputeType::i64: return reference::run<std::int64_t>(kernel, binding);
  }
}

}  // namespace v0
}  // namespace lockstep
