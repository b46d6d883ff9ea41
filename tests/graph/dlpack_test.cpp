// DLPack in both directions, with plain structs in the role of the other library.
#include <lockstep/dlpack.h>

#include "support/tensors.h"

namespace lockstep {
namespace {

// A foreign tensor that counts how often it is given back.
struct Foreign {
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  int deleted = 0;
  dlpack::ManagedTensor managed{};
  dlpack::ManagedTensorVersioned versioned{};

  Foreign(void* data, std::vector<std::int64_t> sizes, std::vector<std::int64_t> steps,
          dlpack::DataType type = {dlpack::kFloat, 32, 1})
      : shape(std::move(sizes)), strides(std::move(steps)) {
    managed.tensor = {data, {dlpack::kCpu, 0}, static_cast<std::int32_t>(shape.size()),
                      type, shape.data(),      strides.empty() ? nullptr : strides.data(),
                      0};
    managed.manager_ctx = this;
    managed.deleter = [](dlpack::ManagedTensor* self) { ++static_cast<Foreign*>(self->manager_ctx)->deleted; };
    versioned.version = {1, 0};
    versioned.tensor = managed.tensor;
    versioned.manager_ctx = this;
    versioned.deleter = [](dlpack::ManagedTensorVersioned* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->deleted;
    };
  }
};

TEST(DLPack, HasTheLayoutOfTheSpecification) {
  static_assert(sizeof(dlpack::DataType) == 4 && sizeof(dlpack::Device) == 8);
  static_assert(offsetof(dlpack::TensorInfo, ndim) == 16 && offsetof(dlpack::TensorInfo, dtype) == 20);
  static_assert(offsetof(dlpack::TensorInfo, shape) == 24 && offsetof(dlpack::TensorInfo, byte_offset) == 40);
  static_assert(sizeof(dlpack::TensorInfo) == 48 && sizeof(dlpack::ManagedTensor) == 64);
  static_assert(offsetof(dlpack::ManagedTensorVersioned, flags) == 24);
  static_assert(offsetof(dlpack::ManagedTensorVersioned, tensor) == 32);
}

TEST(DLPack, ImportsWithoutACopyAndDeletesOnce) {
  std::vector<float> data = {1, 2, 3, 4, 5, 6};
  Foreign foreign(data.data(), {2, 3}, {});
  {
    Tensor x = from_dlpack(&foreign.managed);
    EXPECT_EQ(x.shape(), (Shape{2, 3}));
    data[0] = 10;  // before the first read: the memory is shared
    Tensor y = x * 2;
    x = Tensor();
    EXPECT_EQ(foreign.deleted, 0);
    EXPECT_EQ(y.to_vector<float>(), (std::vector<float>{20, 4, 6, 8, 10, 12}));
    EXPECT_EQ(foreign.deleted, 1);
  }
  EXPECT_EQ(foreign.deleted, 1);
  { const Tensor versioned = from_dlpack(&foreign.versioned); }
  EXPECT_EQ(foreign.deleted, 2);
}

TEST(DLPack, StridesBecomeViews) {
  std::vector<float> data = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const auto values = [&](std::vector<std::int64_t> shape, std::vector<std::int64_t> strides, std::uint64_t offset) {
    Foreign foreign(data.data(), std::move(shape), std::move(strides));
    foreign.managed.tensor.byte_offset = offset * 4;
    std::vector<float> result;
    {
      const Tensor x = from_dlpack(&foreign.managed);
      result = (x + 0).to_vector<float>();
      EXPECT_EQ(x.to_vector<float>(), result);
    }
    EXPECT_EQ(foreign.deleted, 1);
    return result;
  };
  EXPECT_EQ(values({3, 2}, {1, 3}, 0), (std::vector<float>{0, 3, 1, 4, 2, 5}));  // transposed
  EXPECT_EQ(values({3}, {-2}, 5), (std::vector<float>{5, 3, 1}));                // backwards
  EXPECT_EQ(values({2, 2}, {0, 1}, 3), (std::vector<float>{3, 4, 3, 4}));        // broadcast
  EXPECT_EQ(values({3, 2}, {1, 1}, 1), (std::vector<float>{1, 2, 2, 3, 3, 4}));  // overlapping windows
  EXPECT_EQ(values({2, 1}, {6, 12345}, 0), (std::vector<float>{0, 6}));          // the stride of one element is unused
  EXPECT_EQ(values({0, 3}, {7, -7}, 0), std::vector<float>{});
  EXPECT_EQ(values({}, {}, 2), std::vector<float>{2});
}

TEST(DLPack, TakesEveryTypeThatTensorsHave) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    SCOPED_TRACE(name_of(dtype));
    const std::vector<std::byte> bytes(3 * size_of(dtype), std::byte{1});
    const Tensor x = Tensor::from_bytes(bytes.data(), bytes.size(), {3}, dtype);
    if (dtype == DType::f8e4m3 || dtype == DType::f8e5m2) {
      expect_error<DTypeError>([&] { to_dlpack(x); }, {"to_dlpack", "fix: "});
      continue;
    }
    const Tensor back = from_dlpack(to_dlpack(x));
    EXPECT_EQ(back.dtype(), dtype);
    EXPECT_EQ(back.hash(), x.hash());
    EXPECT_EQ(from_dlpack(to_dlpack_unversioned(x)).hash(), x.hash());
  }
}

TEST(DLPack, ExportsKeepTheElementsAlive) {
  Tensor x = ones({2, 3}) * 3;
  dlpack::ManagedTensorVersioned* const exported = to_dlpack(x.transpose(0, 1));
  x = Tensor();
  EXPECT_EQ(exported->flags, dlpack::kReadOnly);
  EXPECT_EQ(exported->version.major, 1u);
  EXPECT_EQ(exported->tensor.ndim, 2);
  EXPECT_EQ(exported->tensor.shape[0], 3);
  EXPECT_EQ(exported->tensor.strides[0], 2);
  EXPECT_EQ(exported->tensor.strides[1], 1);
  EXPECT_EQ(static_cast<const float*>(exported->tensor.data)[5], 3.0f);
  exported->deleter(exported);
  const Tensor same = ones({4}).eval();
  dlpack::ManagedTensor* const shared = to_dlpack_unversioned(same);
  dlpack::ManagedTensor* const again = to_dlpack_unversioned(same.narrow(0, 1, 3));
  EXPECT_EQ(static_cast<float*>(shared->tensor.data) + 1, again->tensor.data);  // no copies
  shared->deleter(shared);
  again->deleter(again);
}

TEST(DLPack, RefusesAndLeavesTheTensorToItsOwner) {
  float value = 1;
  Foreign foreign(&value, {1}, {});
  const auto refuses = [&]<typename E>(E*, auto change, const std::vector<std::string>& parts) {
    Foreign other(&value, {2}, {1});
    change(other);
    expect_error<E>([&] { from_dlpack(&other.managed); }, parts);
    EXPECT_EQ(other.deleted, 0);
  };
  refuses(static_cast<DeviceError*>(nullptr),
          [](Foreign& f) {
            f.managed.tensor.device = {dlpack::kCuda, 0};
          },
          {"type 2", "fix: "});
  refuses(static_cast<DTypeError*>(nullptr), [](Foreign& f) { f.managed.tensor.dtype.lanes = 4; },
          {"4 lanes", "fix: "});
  refuses(static_cast<DTypeError*>(nullptr),
          [](Foreign& f) {
            f.managed.tensor.dtype = {dlpack::kComplex, 128, 1};
          },
          {"128 bits"});
  refuses(static_cast<DTypeError*>(nullptr),
          [](Foreign& f) {
            f.managed.tensor.dtype = {dlpack::kInt, 4, 1};
          },
          {"4 bits"});
  refuses(static_cast<ShapeError*>(nullptr), [](Foreign& f) { f.managed.tensor.ndim = 9; }, {"9 dimensions"});
  refuses(static_cast<ShapeError*>(nullptr), [](Foreign& f) { f.shape[0] = -1; }, {"negative"});
  refuses(static_cast<ShapeError*>(nullptr), [](Foreign& f) { f.strides[0] = INT64_MAX; }, {"strides"});
  refuses(static_cast<ValueError*>(nullptr), [](Foreign& f) { f.managed.tensor.data = nullptr; }, {"null"});
  foreign.versioned.version.major = 2;
  expect_error<ValueError>([&] { from_dlpack(&foreign.versioned); }, {"version 2.0"});
  expect_error<ValueError>([&] { from_dlpack(static_cast<dlpack::ManagedTensor*>(nullptr)); }, {"null"});
  EXPECT_EQ(foreign.deleted, 0);
}

}  // namespace
}  // namespace lockstep
