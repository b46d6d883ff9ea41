// Packed forms of values: kept with the second use, gone with the value, and never those of other contents.
#include "backends/cpu/kept_panels.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/lockstep.h>

#include "backends/cpu/backend.h"
#include "backends/cpu/isa.h"
#include "graph/stored_tensor.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

constexpr Device kRef{DeviceKind::ref, 0};

std::size_t kept_bytes() {
  return dynamic_cast<const CpuBackend&>(backend_of({DeviceKind::cpu, 0})).kept().bytes();
}

TEST(KeptPanels, WeightsArePackedOnceAndLeaveWithTheirValue) {
  const std::size_t before = kept_bytes();
  {
    const Tensor weight = randn({64, 300}).eval();
    const Tensor x = randn({40, 300}).eval();
    const auto product = [&] { return linear(x * 1.5, weight).eval(); };  // of a value that is new in each run
    const Tensor first = product();
    EXPECT_EQ(kept_bytes(), before) << "one use is no reason to keep anything";
    const Tensor second = product();
    EXPECT_GE(kept_bytes(), before + 64 * 300 * sizeof(float));
    EXPECT_LT(kept_bytes(), before + 2 * 64 * 300 * sizeof(float));
    const std::size_t kept = kept_bytes();
    const Tensor third = product();
    EXPECT_EQ(kept_bytes(), kept);
    const Tensor expected = linear(x.to(kRef) * 1.5, weight.to(kRef));
    for (const Tensor& result : {first, second, third}) EXPECT_EQ(result.hash(), expected.hash());
  }
  EXPECT_EQ(kept_bytes(), before);
}

// Layers of one shape share a kernel where a network is computed in several parts.
TEST(KeptPanels, WeightsThatComeByTurnsArePackedOnce) {
  const std::size_t before = kept_bytes();
  std::vector<Tensor> weights;
  for (int layer = 0; layer < 12; ++layer) weights.push_back(randn({64, 300}).eval());
  const Tensor x = randn({40, 300}).eval();
  for (int use = 0; use < 3; ++use) {
    for (const Tensor& weight : weights) {
      EXPECT_EQ(linear(x * 1.5, weight).eval().hash(), linear(x.to(kRef) * 1.5, weight.to(kRef)).hash());
    }
  }
  EXPECT_GE(kept_bytes(), before + weights.size() * 64 * 300 * sizeof(float));
}

// Panels would take twice the memory of weights of 16 bits beside f32.
TEST(KeptPanels, WeightsOfFewerBitsAreNotKept) {
  const std::size_t before = kept_bytes();
  for (const std::int64_t rows : {1, 40}) {
    const Tensor weight = randn({64, 300}).to(DType::bf16).eval();
    const Tensor x = randn({rows, 300}).eval();
    const Tensor expected = linear(x * 1.5, weight.to(DType::f32)).eval();
    for (int use = 0; use < 3; ++use) {
      EXPECT_EQ(linear(x * 1.5, graph::packed_as_f32(weight)).eval().hash(), expected.hash());
      EXPECT_EQ(kept_bytes(), before) << rows << " rows, use " << use;
    }
  }
}

// Products of so few rows read columns where they are, until they meet them again.
TEST(KeptPanels, FewRowsMeetPackedColumnsWithTheSameBits) {
  const int threads_before = num_threads();
  for (const std::int64_t rows : {1, 2, 3, 5, 8}) {
    for (const Shape& shape : {Shape{7, 64}, Shape{130, 515}, Shape{2100, 1024}}) {
      if (rows > 1 && shape[0] == 2100) continue;
      const std::size_t before = kept_bytes();
      const Tensor weight = randn(shape).eval();
      const Tensor x = randn({rows, shape[1]}).eval();
      const Tensor expected = linear(x.to(kRef) * 1.5, weight.to(kRef));
      for (const int threads : {1, 2, 7}) {
        set_num_threads(threads);
        for (int use = 0; use < 3; ++use) {
          EXPECT_EQ(linear(x * 1.5, weight).eval().hash(), expected.hash())
              << rows << " rows, weight " << shape.to_string() << ", " << threads << " threads, use " << use;
        }
      }
      if (rows == 1 && shape[0] > 7) {
        EXPECT_GE(kept_bytes(), before + static_cast<std::size_t>(shape.numel()) * sizeof(float));
      }
    }
  }
  set_num_threads(threads_before);
}

// The copy can go then.
TEST(KeptPanels, WhatIsReadFromACopyIsPackedAtOnce) {
  const Tensor weight = randn({300, 64}).eval();
  const Tensor x = randn({40, 300}).eval();
  const Tensor expected = matmul(x.to(kRef) * 1.5, weight.to(kRef));
  const std::vector<float> elements = weight.to_vector<float>();
  std::vector<std::byte> memory(4 * elements.size() + 1);
  std::memcpy(memory.data() + 1, elements.data(), 4 * elements.size());
  const std::size_t before = kept_bytes();
  const Tensor odd = Tensor::from_blob(memory.data() + 1, weight.shape(), DType::f32, {}, {});
  EXPECT_EQ(matmul(x * 1.5, odd).eval().hash(), expected.hash());
  EXPECT_GE(kept_bytes(), before + 4 * elements.size());
}

// A plan that is new finds what another one has packed, as when a run is recorded that comes again.
TEST(KeptPanels, AnotherPlanFindsThemAtOnce) {
  const Tensor weight = randn({300, 64}).eval();
  const Tensor x = randn({40, 300}).eval();
  const std::size_t before = kept_bytes();
  for (int use = 0; use < 2; ++use) matmul(x * 1.5, weight).eval();
  const std::size_t kept = kept_bytes();
  ASSERT_GT(kept, before);
  for (int use = 0; use < 2; ++use) {
    EXPECT_EQ(exp(matmul(x * 1.5, weight)).eval().hash(), exp(matmul(x.to(kRef) * 1.5, weight.to(kRef))).hash());
    EXPECT_EQ(kept_bytes(), kept);
  }
}

// The windows of a sound that is given again and again.
TEST(KeptPanels, WindowsOfAValueAreNotKept) {
  const Tensor sound = randn({1, 1, 80000}).eval();
  const Tensor filters = randn({64, 1, 256}).eval();
  const std::size_t before = kept_bytes();
  const Tensor expected = conv1d(sound.to(kRef), filters.to(kRef), {}, {.stride = 32});
  for (int use = 0; use < 3; ++use) {
    EXPECT_EQ(conv1d(sound, filters, {}, {.stride = 32}).eval().hash(), expected.hash());
    EXPECT_LT(kept_bytes(), before + (1 << 20)) << "use " << use;
  }
}

// Integers of 16 bits take as many bytes as those of 8, if all fit.
TEST(KeptPanels, SmallIntegersTakeHalfTheBytes) {
  for (const int most : {127, 128}) {
    for (const int rows : {1, 9}) {
      const std::size_t before = kept_bytes();
      const Tensor weight = (arange(256 * 64).remainder(most + 129) - 128).to(DType::i16).reshape({256, 64}).eval();
      const Tensor x = arange(rows * 256).remainder(511).sub(255).to(DType::i16).reshape({rows, 256}).eval();
      const Tensor expected = matmul(x.to(kRef), weight.to(kRef));
      for (int use = 0; use < 3; ++use) {
        EXPECT_EQ(matmul(x + 0, weight).eval().hash(), expected.hash()) << most << ", use " << use;
      }
      if (selected_isa() != Isa::scalar) {
        EXPECT_EQ(kept_bytes() - before < 256 * 64 * sizeof(std::int16_t), most == 127);
      }
    }
  }
}

// They are multiplied as they lie, in a mapped file above all.
TEST(KeptPanels, QuantisedWeightsHaveNoSecondCopy) {
  const std::size_t before = kept_bytes();
  const NumericsScope scope(Numerics::q8);
  for (const Encoding encoding : {Encoding::q8_0, Encoding::q4_k}) {
    const Tensor weight = random_packed({100, 512}, encoding, 1);
    for (const std::int64_t rows : {1, 9}) {
      const Tensor x = randn({rows, 512}).eval();
      const Tensor expected = linear(x.to(kRef), weight.to(kRef));
      for (int use = 0; use < 3; ++use) EXPECT_EQ(linear(x * 1.0, weight).eval().hash(), expected.hash());
    }
    EXPECT_EQ(kept_bytes(), before);
  }
}

// An optimiser's update writes into the memory that the weights were in.
TEST(KeptPanels, AnOverwrittenValueIsNotFoundInItsOldForm) {
  nn::Linear layer(300, 64);
  const Tensor x = randn({40, 300}).eval();
  const Tensor zero = zeros({64, 300}).eval();
  for (int step = 0; step < 3; ++step) {
    Tensor now;
    for (int use = 0; use < 3; ++use) {
      const NoGrad no_grad;
      now = layer.forward(x * 1.5).eval();
    }
    const Tensor ref = linear(x.to(kRef) * 1.5, Tensor(layer.weight).to(kRef), Tensor(layer.bias).to(kRef));
    EXPECT_EQ(now.hash(), ref.hash()) << "step " << step;
    optim::SGD optimizer(layer.parameters(), {.lr = 0.5});
    sum(layer.forward(x)).backward();
    optimizer.step();
  }
}

TEST(KeptPanels, NothingIsKeptBeyondTheLimit) {
  const auto kept = std::make_shared<KeptPanels>(std::make_shared<MemoryPool>(), 1000);
  Buffer buffer(Device{DeviceKind::cpu, 0}, nullptr, 0, nullptr);
  EXPECT_EQ(kept->allocate(1001), nullptr);
  kept->keep(buffer, "a", kept->allocate(900), 900);
  EXPECT_EQ(kept->allocate(101), nullptr);
  EXPECT_NE(kept->allocate(100), nullptr) << "room is taken by keep";
  EXPECT_NE(kept->find(buffer.contents(), "a"), nullptr);
  EXPECT_EQ(kept->find(buffer.contents(), "b"), nullptr);
  const std::uint64_t contents = buffer.contents();
  buffer.overwrite();
  EXPECT_EQ(kept->find(contents, "a"), nullptr);
  EXPECT_NE(buffer.contents(), contents);
  EXPECT_EQ(kept->bytes(), 0u);
}

}  // namespace
}  // namespace lockstep
