// The fuzzer: random graphs of ops, dtypes, views and reuse on the reference, on the CPU with every set of instructions
// and with 1, 2 and 7 threads, and on what LOCKSTEP_TEST_DEVICES names. LOCKSTEP_FUZZ_SECONDS (3 without it) says for
// how long, LOCKSTEP_FUZZ_SEED where to begin; without it the day decides, so that every day tries others. What it ever
// finds is kept in cases/ (kernel_case_test.cpp), made small by `lockstep minimize`.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <iostream>

#include <lockstep/threads.h>

#include "agreement/isa_backend.h"
#include "support/random_graph.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

std::uint64_t number_of(const char* variable, std::uint64_t otherwise) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::vector<Tensor> values_on(std::uint64_t seed, Device device) {
  RandomGraph graph(seed, device);
  graph.grow(40);
  for (const Tensor& value : graph.values()) value.eval();
  return graph.values();
}

void expect_equal(std::uint64_t seed, const std::vector<Tensor>& expected, const std::vector<Tensor>& values,
                  const std::string& who) {
  ASSERT_EQ(values.size(), expected.size()) << who;
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_TRUE(bits_equal("ref", who.c_str(), expected[i], values[i]))
        << "LOCKSTEP_FUZZ_SEED=" << seed << ", value " << i;
  }
}

void try_graph(std::uint64_t seed) {
  const std::vector<Tensor> expected = values_on(seed, Device::parse("ref"));
  const int threads_before = num_threads();
  for (const int threads : {1, 2, 7}) {
    set_num_threads(threads);
    expect_equal(seed, expected, values_on(seed, Device{}), "cpu with " + std::to_string(threads) + " threads");
  }
  set_num_threads(threads_before);
  for (const Device& device : test::isa_devices()) {
    expect_equal(seed, expected, values_on(seed, device), "cpu with " + backend_of(device).description());
  }
  for (const Device& device : test_devices()) {
    if (device.kind == DeviceKind::ref || device == Device{}) continue;
    try {
      expect_equal(seed, expected, values_on(seed, device), device.to_string());
    } catch (const DTypeError&) {  // a device without f64, and the graph has some
    }
  }
}

TEST(Fuzz, RandomGraphsHaveTheSameBitsEverywhere) {
  const auto today = static_cast<std::uint64_t>(std::time(nullptr) / 86400);
  const std::uint64_t first = number_of("LOCKSTEP_FUZZ_SEED", today * 1'000'000);
  const auto seconds = std::chrono::seconds(number_of("LOCKSTEP_FUZZ_SECONDS", 3));
  const auto end = std::chrono::steady_clock::now() + seconds;
  std::uint64_t seed = first;
  while (std::chrono::steady_clock::now() < end && !HasFatalFailure()) try_graph(seed++);
  std::cout << seed - first << " graphs, LOCKSTEP_FUZZ_SEED=" << first << "\n";
  EXPECT_GT(seed, first);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
