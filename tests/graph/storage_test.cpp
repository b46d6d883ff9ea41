// Element types that are only stored (u16, u64, f8e4m3, f8e5m2, complex64): what moves them works, what computes
// refuses.
#include <complex>
#include <cstring>

#include "graph/make.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

constexpr DType kStorageOnly[] = {DType::u16, DType::u64, DType::f8e4m3, DType::f8e5m2, DType::complex64};

// Every byte has another value, so that a misplaced one shows.
std::vector<std::byte> pattern(DType dtype, std::size_t count) {
  std::vector<std::byte> bytes(count * size_of(dtype));
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37 + 11);
  return bytes;
}

Tensor made(DType dtype, const Shape& shape, Device device) {
  const std::vector<std::byte> bytes = pattern(dtype, static_cast<std::size_t>(shape.numel()));
  return Tensor::from_bytes(bytes.data(), bytes.size(), shape, dtype, device);
}

std::vector<std::byte> bytes_of(const Tensor& tensor) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(tensor.numel()) * size_of(tensor.dtype()));
  tensor.read_bytes(bytes.data());
  return bytes;
}

TEST(StorageTypes, AreViewedCopiedAndMovedBitForBit) {
  for (const DType dtype : kStorageOnly) {
    SCOPED_TRACE(name_of(dtype));
    for (const Device device : {Device{DeviceKind::ref, 0}, Device{}}) {
      const Tensor x = made(dtype, {5, 7}, device);
      EXPECT_EQ(bytes_of(x), pattern(dtype, 35));
      EXPECT_EQ(x.to(Device{DeviceKind::cpu, 0}).to(Device{DeviceKind::ref, 0}).hash(), x.hash());
      const Tensor moved = cat(
          {x.transpose(0, 1).flip({0}).slice(1, {.step = 2}), zeros({7, 1}, {.dtype = dtype, .device = device})}, 1);
      const Tensor back = moved.narrow(1, 0, 3).flip({0}).transpose(0, 1);
      const std::size_t row = 7 * size_of(dtype);
      const std::vector<std::byte> all = pattern(dtype, 35);
      const std::vector<std::byte> kept = bytes_of(back);
      for (std::size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(std::memcmp(kept.data() + i * row, all.data() + 2 * i * row, row), 0) << i;
      }
      const Tensor mask = Tensor::from(std::vector<bool>{true, false, true, false, true}, {5, 1}, device);
      const Tensor chosen = where(mask, x, zeros({5, 7}, {.dtype = dtype, .device = device}));
      EXPECT_EQ(bytes_of(chosen.select(0, 4)), bytes_of(x.select(0, 4)));
      EXPECT_EQ(bytes_of(chosen.select(0, 1)), std::vector<std::byte>(row));
      EXPECT_EQ(bytes_of(x.expand({2, 5, 7}).select(0, 1)), all);

      const Tensor ids = Tensor::from(std::vector<std::int64_t>{4, 2, 2, 0, 3, 1, 4}, {1, 7}, device);
      const Tensor gathered = graph::gather(x, 0, ids);
      EXPECT_EQ(bytes_of(gathered.select(1, 0)), bytes_of(x.select(0, 4).narrow(0, 0, 1)));
      const Tensor scattered = graph::scatter(ScatterOp::set, x, 0, ids, gathered, true);
      EXPECT_EQ(bytes_of(scattered), all);
      const Tensor row_0 = x.select(0, 0);
      const Tensor updated = graph::update(x, View::contiguous(x.shape()).sliced(0, 2, 1, 1), row_0.unsqueeze(0));
      EXPECT_EQ(bytes_of(updated.select(0, 2)), bytes_of(row_0));
      EXPECT_EQ(bytes_of(updated.select(0, 3)), bytes_of(x.select(0, 3)));
    }
  }
}

TEST(StorageTypes, RefuseArithmeticAndCastsAtTheCall) {
  const std::vector<std::string> parts = {"do not compute", "fix: "};
  for (const DType dtype : kStorageOnly) {
    SCOPED_TRACE(name_of(dtype));
    const Tensor x = made(dtype, {4, 4}, {});
    std::vector<std::string> named = parts;
    named.emplace_back(name_of(dtype));
    expect_error<DTypeError>([&] { x + x; }, named);
    expect_error<DTypeError>([&] { x * 2; }, named);
    expect_error<DTypeError>([&] { eq(x, x); }, named);
    expect_error<DTypeError>([&] { x.to(DType::f32); }, named);
    expect_error<DTypeError>([&] { ones({2}).to(dtype); }, named);
    expect_error<DTypeError>([&] { sum(x); }, named);
    expect_error<DTypeError>([&] { amax(x, {0}); }, named);
    expect_error<DTypeError>([&] { argmin(x); }, named);
    expect_error<DTypeError>([&] { matmul(x, x); }, named);
    expect_error<DTypeError>([&] { ones({2}, {.dtype = dtype}); }, named);
    expect_error<DTypeError>([&] { masked_fill(x, ones({4, 4}, {.dtype = DType::boolean}), 1); }, named);
    EXPECT_THROW(softmax(x, 0), DTypeError);
    expect_error<DTypeError>([&] { graph::scan(ScanOp::sum, x, 0); }, named);
    expect_error<DTypeError>([&] { graph::sort_indices(x, 0, false); }, named);
    EXPECT_THROW(mean(x), DTypeError);
  }
}

TEST(StorageTypes, PrintTheirValues) {
  EXPECT_EQ(Tensor::from(std::vector<std::uint16_t>{1, 65535}, {2}).to_string(),
            "tensor([    1, 65535], dtype=u16)");
  EXPECT_EQ(Tensor::from(std::vector<std::uint64_t>{UINT64_MAX}, {1}).to_string(),
            "tensor([18446744073709551615], dtype=u64)");
  EXPECT_EQ(Tensor::from(std::vector<Float8E4M3>{{0x38}, {0x7f}}, {2}).to_string(),
            "tensor([1., nan], dtype=f8e4m3)");
  EXPECT_EQ(Tensor::from(std::vector<std::complex<float>>{{1, -2.5f}, {0, 1}}, {2}).to_string(),
            "tensor([1.0000-2.5000j, 0.0000+1.0000j], dtype=complex64)");
}

TEST(StorageTypes, OneElementIsRead) {
  EXPECT_EQ(Tensor::from(std::vector<std::uint16_t>{65535}, {}).item<std::int64_t>(), 65535);
  EXPECT_EQ(Tensor::from(std::vector<Float8E5M2>{{0x3c}}, {}).item<float>(), 1.0f);
  EXPECT_EQ(Tensor::from(std::vector<std::complex<float>>{{1, 2}}, {}).item<std::complex<float>>(),
            std::complex<float>(1, 2));
  EXPECT_THROW(Tensor::from(std::vector<std::complex<float>>{{1, 2}}, {}).item<float>(), DTypeError);
}

// A borrow ends when nothing that is still to be computed needs the memory: pending work keeps it, and is done first.
TEST(BorrowedMemory, LivesUntilPendingWorkIsDone) {
  for (const Device device : {Device{DeviceKind::ref, 0}, Device{}}) {
    std::vector<float> memory = {1, 2, 3, 4};
    int deleted = 0;
    Tensor x = Tensor::from_blob(
        memory.data(), {2, 2}, DType::f32, [&] { ++deleted; }, device);
    Tensor chain = relu(x.transpose(0, 1) + 1) * 2;
    Tensor view = x.select(0, 1);
    x = Tensor();
    EXPECT_EQ(deleted, 0);
    view = Tensor();
    EXPECT_EQ(deleted, 0);
    chain.eval();
    EXPECT_EQ(deleted, 1);
    memory.assign(4, -1);  // the user's again
    EXPECT_EQ(chain.to_vector<float>(), (std::vector<float>{4, 8, 6, 10}));
  }
}

TEST(BorrowedMemory, EndsWithWorkThatNobodyWantsAnyMore) {
  std::vector<float> memory(8, 1);
  int deleted = 0;
  {
    const Tensor x = Tensor::from_blob(memory.data(), {8}, DType::f32, [&] { ++deleted; });
    Tensor unused = exp(x) + 1;
    EXPECT_EQ(deleted, 0);
  }
  EXPECT_EQ(deleted, 1);
}

TEST(BorrowedMemory, IsGivenBackWhenTheCallFails) {
  int deleted = 0;
  const float value = 1;
  EXPECT_THROW(Tensor::from_blob(&value, {-1}, DType::f32, [&] { ++deleted; }), ShapeError);
  EXPECT_EQ(deleted, 0);  // the caller keeps what was never taken
}

}  // namespace
}  // namespace lockstep
