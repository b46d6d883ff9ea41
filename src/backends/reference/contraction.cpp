#include "backends/reference/contraction.h"

#include <algorithm>
#include <array>

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

/// The operand's element at `index`, exactly; f32 and bf16 subnormals as zero.
template <typename T>
T read(const Input& operand, const Binding& binding, const std::int64_t* index) {
  const std::int64_t address = operand.view.address(index);
  if (address < 0) return decode<T>(operand.dtype, operand.view.fill);
  return decode<T>(operand.dtype,
                   load_word(operand.encoding, operand.dtype,
                             binding.slots[static_cast<std::size_t>(operand.slot)], address));
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
      for (std::size_t n = 0; n < n_size; ++n) results.push_back(contract(a, b[n]));
      const Column accumulator = results;
      run_row(kernel.epilogue, binding, batch * m_size + m, &accumulator);
    }
  }
}

}  // namespace
}  // namespace reference

void run_kernel(const ContractionKernel& kernel, const Binding& binding) {
  switch (kernel.type) {
    case ComputeType::f32: return reference::run<float>(kernel, binding);
    case ComputeType::f64: return reference::run<double>(kernel, binding);
    case ComputeType::i32: return reference::run<std::int32_t>(kernel, binding);
    case ComputeType::i64: return reference::run<std::int64_t>(kernel, binding);
  }
}

}  // namespace v0
}  // namespace lockstep
