#include "graph/borrowed_memory.h"

#include <sys/mman.h>

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include <lockstep/ops.h>

#include "graph/make.h"
#include "support/tensors.h"

namespace lockstep::graph {
namespace {

// A tensor whose elements begin `offset` bytes into `memory`.
Tensor borrowed(const Tensor& values, std::vector<std::byte>& memory, std::size_t offset, Device device) {
  const std::vector<float> elements = values.to_vector<float>();
  memory.resize(offset + 4 * elements.size());
  std::memcpy(memory.data() + offset, elements.data(), 4 * elements.size());
  return Tensor::from_blob(memory.data() + offset, values.shape(), DType::f32, {}, device);
}

TEST(BorrowedMemory, CopiesOfWeightsGoOnceTheseArePacked) {
  const Tensor values = random_tensor({160, 320}, DType::f32, 1);
  const Tensor x = random_tensor({64, 160}, DType::f32, 2);
  const Tensor product = matmul(x, values);
  product.hash();  // now, so that it shares no plan with what follows
  std::vector<std::byte> memory;
  const Tensor weight = borrowed(values, memory, 1, {});
  for (int run = 0; run < 3; ++run) {
    EXPECT_BITS_EQ(matmul(x, weight), product);
    EXPECT_EQ(node_of(weight)->aligned, nullptr);
  }
  // A kernel that looks at the elements, alone and beside one that does not.
  EXPECT_BITS_EQ(weight + 1.0, values + 1.0);
  EXPECT_NE(node_of(weight)->aligned, nullptr);
  const Tensor both = matmul(x, weight) + sum(weight);
  EXPECT_BITS_EQ(both, product + sum(values));
  EXPECT_BITS_EQ(matmul(x, weight), product);
  EXPECT_BITS_EQ(exp(weight), exp(values));
}

// Packed once, a weight is not read again by products with other numbers of rows, whose kernels are new: not even to be
// copied.
TEST(BorrowedMemory, KernelsOfOtherSizesFindThePackedWeight) {
  const Tensor values = random_tensor({160, 320}, DType::f32, 1);
  const std::vector<float> elements = values.to_vector<float>();
  const std::size_t bytes = 4 * elements.size() + 1;
  void* const pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  std::byte* const odd = static_cast<std::byte*>(pages) + 1;
  std::memcpy(odd, elements.data(), bytes - 1);
  const Tensor weight = Tensor::from_blob(odd, values.shape(), DType::f32, {});
  const auto product_of = [&](std::int64_t rows, const Tensor& right) {
    return matmul(random_tensor({rows, 160}, DType::f32, 2), right).eval();
  };
  EXPECT_BITS_EQ(product_of(61, weight), product_of(61, values));
  ASSERT_EQ(::mprotect(pages, bytes, PROT_NONE), 0);  // who reads it now ends here
  for (const std::int64_t rows : {59, 83, 97}) EXPECT_BITS_EQ(product_of(rows, weight), product_of(rows, values));
  ::munmap(pages, bytes);
}

TEST(BorrowedMemory, CopiesStayWhereEveryRunReadsThem) {
  const Device device{DeviceKind::ref};
  const Tensor values = random_tensor({160, 320}, DType::f32, 1);
  const Tensor x = random_tensor({64, 160}, DType::f32, 2, device);
  std::vector<std::byte> memory;
  const Tensor weight = borrowed(values, memory, 3, device);
  const Tensor expected = matmul(x, values.to(device));
  EXPECT_BITS_EQ(matmul(x, weight), expected);
  const BufferRef copy = node_of(weight)->aligned;
  ASSERT_NE(copy, nullptr);
  for (int run = 0; run < 2; ++run) EXPECT_BITS_EQ(matmul(x, weight), expected);
  EXPECT_EQ(node_of(weight)->aligned, copy);
}

// A weight that is an operand twice, and one that the epilogue reads, too.
TEST(BorrowedMemory, WhatIsReadBesideTheProductIsThere) {
  const Tensor values = random_tensor({64, 64}, DType::f32, 3);
  const Tensor x = random_tensor({64, 64}, DType::f32, 4);
  std::vector<std::byte> memory;
  const Tensor weight = borrowed(values, memory, 2, {});
  for (int run = 0; run < 4; ++run) {
    EXPECT_BITS_EQ(matmul(weight, weight), matmul(values, values));
    EXPECT_BITS_EQ(matmul(x, weight) + weight, matmul(x, values) + values);
  }
}

}  // namespace
}  // namespace lockstep::graph
