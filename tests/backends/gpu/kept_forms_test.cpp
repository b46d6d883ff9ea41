// Forms of operands that GPUs keep: their bound and their end on a device that is not there, and on a CUDA device that
// has integer tensor cores the digits of weights.
#include "backends/gpu/kept_forms.h"

#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "backends/gpu/backend.h"
#include "support/fake_driver.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

constexpr std::size_t kFormBytes = std::size_t{1} << 20;

TEST(KeptForms, AreBoundedAndGoWithTheContentsOfTheirOperand) {
  auto device = std::make_shared<test::FakeDevice>();
  device->memory_limit = std::size_t{1} << 30;
  test::FakeDriver driver(device);
  gpu::Memory memory(driver);
  std::mutex mutex;
  const auto kept = std::make_shared<gpu::KeptForms>(memory, mutex, 2 * kFormBytes);
  const gpu::KeptForms::Maker maker{nullptr, {1, 2}};
  const gpu::KeptForms::Maker other{nullptr, {1, 3}};
  std::optional<Buffer> weights;
  weights.emplace(Device{DeviceKind::cuda, 0}, nullptr, 16, nullptr);
  Buffer more(Device{DeviceKind::cuda, 0}, nullptr, 16, nullptr);

  EXPECT_EQ(kept->find(weights->contents(), maker), 0U);
  const std::uint64_t address = kept->keep(*weights, maker, kFormBytes);
  EXPECT_NE(address, 0U);
  EXPECT_EQ(kept->find(weights->contents(), maker), address);
  EXPECT_EQ(kept->find(weights->contents(), other), 0U);
  EXPECT_EQ(kept->find(more.contents(), maker), 0U);
  EXPECT_NE(kept->keep(more, maker, kFormBytes), 0U);
  EXPECT_EQ(kept->keep(more, other, kFormBytes), 0U);  // beyond the limit
  EXPECT_EQ(kept->bytes(), 2 * kFormBytes);

  weights->overwrite();
  EXPECT_EQ(kept->bytes(), kFormBytes);
  EXPECT_EQ(kept->find(weights->contents(), maker), 0U);
  EXPECT_NE(kept->keep(*weights, other, kFormBytes), 0U);
  weights.reset();
  EXPECT_EQ(kept->bytes(), kFormBytes);
  EXPECT_TRUE(kept->drop_all());
  EXPECT_FALSE(kept->drop_all());
  EXPECT_EQ(kept->bytes(), 0U);
  EXPECT_EQ(memory.statistics().live, 0U);
}

// A GPU with integer tensor cores that looks at what launches say they touch.
class WatchingDriver : public test::FakeDriver {
 public:
  explicit WatchingDriver(std::shared_ptr<test::FakeDevice> device) : FakeDriver(std::move(device)) {
    info_.shared_bytes = 227 << 10;
    info_.integer_tiles = true;
  }
  static inline int inside = 0;  ///< of a block of memory, but not its beginning
  static inline int named = 0;

  std::uint64_t allocate(std::size_t bytes) override {
    const std::uint64_t address = FakeDriver::allocate(bytes);
    // Small values share a larger block.
    if (bytes != std::size_t{32} << 20) blocks_[address] = bytes;
    return address;
  }
  void launch(const gpu::Module& module, std::uint32_t groups, std::span<const std::uint32_t> words,
              std::span<const gpu::Access> accesses) override {
    for (const gpu::Access& access : accesses) {
      const auto after = blocks_.upper_bound(access.address);
      if (after == blocks_.begin()) continue;
      const auto& [begin, bytes] = *std::prev(after);
      if (access.address >= begin + bytes) continue;
      ++named;
      inside += access.address != begin;
    }
    FakeDriver::launch(module, groups, words, accesses);
  }

 private:
  std::map<std::uint64_t, std::size_t> blocks_;
};

// By its beginning launches of other kernels know scratch memory, too: in lists that are replayed they wait for no
// others than those that name the same memory.
TEST(KeptForms, MemoryIsNamedByItsBeginning) {
  constexpr Device kDevice{DeviceKind::cuda, 951};
  register_backend(std::make_unique<gpu::GpuBackend>(
      kDevice, std::make_unique<WatchingDriver>(std::make_shared<test::FakeDevice>()), ""));
  const NumericsScope scope(Numerics::blocked);
  const Tensor a = zeros({300, 4000}, {DType::bf16, kDevice}).eval();
  const Tensor b = zeros({4000, 500}, {DType::bf16, kDevice}).eval();
  matmul(a, b).eval();
  backend_of(kDevice).finish();
  EXPECT_GT(WatchingDriver::named, 4);
  EXPECT_EQ(WatchingDriver::inside, 0);
}

TEST(KeptForms, DigitsOfWeightsAreMadeOnce) {
  gpu::GpuBackend* backend = nullptr;
  for (const Device& device : Device::all()) {
    if (device.kind == DeviceKind::cuda) backend = dynamic_cast<gpu::GpuBackend*>(&backend_of(device));
  }
  if (backend == nullptr) GTEST_SKIP() << "no CUDA device";
  const NumericsScope scope(Numerics::blocked);
  const Device cpu{DeviceKind::cpu, 0};
  manual_seed(3);
  const Tensor rows = randn({40, 700}).to(DType::bf16);
  const Tensor values = randn({700, 300}).to(DType::bf16);
  const Tensor x = rows.to(backend->device()).eval();
  const std::size_t before = backend->kept_bytes();
  {
    const Tensor expected = matmul(rows, values).eval();
    const Tensor weights = values.to(backend->device()).eval();
    for (int run = 0; run < 4; ++run) {
      // Other rows each time: only the weights come again.
      const Tensor result = matmul((x * 1.0).eval(), weights).eval();
      EXPECT_BITS_EQ(result.to(cpu), expected) << run;
      if (run == 0) {
        EXPECT_EQ(backend->kept_bytes(), before);
      }
    }
    if (backend->kept_bytes() == before) GTEST_SKIP() << "no integer tensor cores";
    const Tensor turned = matmul(weights.transpose(0, 1), (x.transpose(0, 1) * 1.0).eval()).eval();
    EXPECT_BITS_EQ(turned.to(cpu), matmul(values.transpose(0, 1), rows.transpose(0, 1)).eval());
  }
  EXPECT_EQ(backend->kept_bytes(), before);
}

}  // namespace
}  // namespace lockstep
