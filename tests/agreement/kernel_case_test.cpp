// Cases: what is saved is computed again to the same bits on every device, what is hostile is refused, and what is made
// smaller still differs.
#include "graph/kernel_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include <lockstep/lockstep.h>

#include "agreement/case_reading.h"
#include "agreement/planted_bit.h"
#include "graph/ops/contraction.h"
#include "support/files.h"
#include "support/long_forms.h"
#include "support/random_graph.h"
#include "support/tensors.h"

namespace lockstep {
inline namespace v0 {
namespace {

using ::testing::HasSubstr;

// Values of the graph that can be saved: computed by ops that are still pending.
std::vector<Tensor> pending_of(const RandomGraph& graph) {
  std::vector<Tensor> pending;
  for (const Tensor& value : graph.values()) {
    const graph::NodeRef& node = graph::Access::node(value);
    if (!node->ready && graph::form_of(node->op) != graph::Form::view) pending.push_back(value);
  }
  return pending;
}

TEST(KernelCase, OfRandomGraphsIsComputedAgainOnEveryDevice) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path("case.safetensors");
  int saved = 0;
  for (std::uint64_t seed = 1; seed <= enough_of(150U); ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph graph(seed, Device{});
    graph.grow(12);
    const std::vector<Tensor> pending = pending_of(graph);
    if (pending.empty()) continue;
    save_case(file, pending);
    ++saved;
    const graph::KernelCase work = test::read_case(file);
    ASSERT_EQ(work.results.size(), pending.size());
    for (const Device& device : test_devices()) {
      const std::vector<graph::Bytes> results = graph::compute_case(work, device);
      const auto found = graph::compare_results(work, test::expected_of(work), results);
      EXPECT_FALSE(found) << device.to_string() << ": " << found->element.a << " and " << found->element.b;
    }
    EXPECT_EQ(graph::case_text(work), graph::case_text(test::read_case(file)));
  }
  EXPECT_GT(saved, enough_of(100));
}

// As quantised models multiply them.
TEST(KernelCase, HoldsProductsOfUnsignedBySignedBytes) {
  const test::TemporaryFolder folder;
  const std::string file = folder.path("case.safetensors");
  const Tensor a = full({2, 3}, 200, {.dtype = DType::u8}).eval();
  const Tensor b = full({3, 4}, -100, {.dtype = DType::i8}).eval();
  save_case(file, {graph::batched_matmul(a, b)});
  const graph::KernelCase work = test::read_case(file);
  for (const Device& device : test_devices()) {
    const auto found = graph::compare_results(work, test::expected_of(work), graph::compute_case(work, device));
    EXPECT_FALSE(found) << device.to_string();
  }
}

TEST(KernelCase, WhatIsComputedAlreadyCannotBeSaved) {
  const test::TemporaryFolder folder;
  const Tensor x = exp(randn({4}));
  x.eval();
  try {
    save_case(folder.path("case"), {x});
    FAIL();
  } catch (const ValueError& error) {
    EXPECT_THAT(error.what(), HasSubstr("computed already"));
    EXPECT_THAT(error.what(), HasSubstr("kernel_case_test.cpp"));
  }
  EXPECT_THROW(save_case(folder.path("case"), {}), ValueError);
  EXPECT_THROW(save_case(folder.path("case"), {exp(x).transpose(0, 0).unsqueeze(0)}), ValueError);
  EXPECT_THROW(save_case(folder.path("none/case"), {exp(x)}), IoError);
}

// Numbers of the text become others: it is refused, or computed without harm. (Run under the sanitizers.)
TEST(KernelCase, WhatIsHostileIsRefused) {
  constexpr std::uint32_t kSeed = 3;
  std::mt19937 random(kSeed);
  int refused = 0;
  for (std::uint64_t seed = 1; seed <= (takes_long_here() ? 20U : 40U); ++seed) {
    const test::TemporaryFolder folder;
    RandomGraph graph(seed, Device{});
    graph.grow(6);
    const std::vector<Tensor> pending = pending_of(graph);
    if (pending.empty()) continue;
    save_case(folder.path("case"), pending);
    const io::SafetensorsReader reader(folder.path("case"));
    const graph::KernelCase good = test::read_case(folder.path("case"));
    const auto bytes = [&](const std::string& name) -> std::optional<graph::Bytes> {
      if (!name.starts_with("value.")) return std::nullopt;
      const std::size_t i = std::stoul(name.substr(6));
      return i < good.values.size() ? std::optional(good.values[i].data) : std::nullopt;
    };
    for (int i = 0; i < 60; ++i) {
      SCOPED_TRACE(testing::Message() << "seed " << kSeed << ", graph " << seed << ", change " << i);
      std::map<std::string, std::string> texts = reader.metadata();
      std::string& text = texts["work"];
      const std::size_t from = random() % text.size();
      const std::size_t digit = text.find_first_of("0123456789", from);
      if (digit == std::string::npos) continue;
      const char* const others[] = {"-1",   "0",    "3", "7", "64", "99999", "281474976710656", "18446744073709551615",
                                    "null", "\"x\""};
      const std::size_t end = std::min(text.find_first_not_of("0123456789", digit), text.size());
      text.replace(digit, end - digit, others[random() % std::size(others)]);
      try {
        graph::compute_case(graph::parse_case(texts, bytes, "case"), Device{});
      } catch (const FormatError& error) {
        ++refused;
        EXPECT_THAT(error.what(), HasSubstr("case: "));
      } catch (const Error&) {
      }
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_THROW(graph::parse_case(
                   {}, [](const std::string&) { return std::nullopt; }, "case"),
               FormatError);
  EXPECT_THROW(
      graph::parse_case(
          {{"format", "lockstep-kernel-1"}, {"work", "[]"}}, [](const std::string&) { return std::nullopt; }, "case"),
      FormatError);
}

// cases/: what ever differed anywhere, made small, and some of every kind of kernel. They are replayed on every device.
TEST(KernelCase, KeptOnesHaveTheirBitsOnEveryDevice) {
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/agreement/cases")) {
    const graph::KernelCase work = test::read_case(entry.path().string());
    ++count;
    for (const Device& device : test_devices()) {
      const auto found = graph::compare_results(work, test::expected_of(work), graph::compute_case(work, device));
      EXPECT_FALSE(found) << entry.path() << " on " << device.to_string();
    }
  }
  EXPECT_GT(count, 0);
}

TEST(KernelCase, IsSavedOfTheFirstDifferenceOfAShadow) {
  const test::TemporaryFolder folder;
  const Tensor a = randn({5, 7}).eval();
  const Tensor b = randn({7, 3}).eval();
  std::vector<ShadowDifference> found;
  {
    const test::PlantedBit plant(Device{}, 0, 4, 30);
    const Shadow shadow(Device::parse("ref"),
                        {.policy = ShadowPolicy::report,
                         .cases = folder.path("cases"),
                         .on_difference = [&](const ShadowDifference& one) { found.push_back(one); }});
    gelu(a.matmul(b)).eval();
  }
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].to_string(), HasSubstr("lockstep replay " + found[0].case_file));
  const graph::KernelCase work = test::read_case(found[0].case_file);
  // The bit was planted, so the device makes what the reference made when it runs again, and not what it had made.
  EXPECT_FALSE(graph::compare_results(work, test::expected_of(work), graph::compute_case(work, Device{})));
  const graph::Bytes& actual = work.results.at(0).actual;
  const auto element = graph::first_difference(DType::f32, work.results[0].expected, actual);
  ASSERT_TRUE(element);
  EXPECT_EQ(element->count, 1);
  EXPECT_EQ(graph::index_of(element->position, found[0].shape), found[0].index);
}

// Two passes, on two machines: the second keeps what the kernel read.
TEST(KernelCase, IsKeptByARecorderOnASecondPass) {
  const test::TemporaryFolder folder;
  const Tensor x = randn({6, 6}).eval();
  const auto work = [&](const std::string& file, std::int64_t kernel) {
    Recorder record(file, {.case_of = kernel});
    const Tensor y = softmax(x, 1).eval();
    (y.matmul(x) + 1.0).eval();
    record.finish();
  };
  work(folder.path("a"), 2);
  const graph::KernelCase clean = test::read_case(graph::case_file_of(folder.path("a"), 2));
  {
    const test::PlantedBit plant(Device{}, 1, 9, 3);
    work(folder.path("b"), 2);
  }
  const graph::KernelCase planted = test::read_case(graph::case_file_of(folder.path("b"), 2));
  const auto found = graph::compare_results(clean, test::expected_of(clean), test::expected_of(planted));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->element.position, 9);
  EXPECT_EQ(found->element.ulps, 8u);
}

// What is in an element above some size differs: one op, of the smallest size that is above it, is left.
TEST(KernelCase, IsMadeSmaller) {
  const test::TemporaryFolder folder;
  const Tensor a = randn({12, 20}).eval();
  const Tensor b = randn({20, 30}).eval();
  save_case(folder.path("case"), {sum(relu(exp(a.matmul(b) * 0.1) + 2.0), {0}, true)});
  const graph::KernelCase work = test::read_case(folder.path("case"));
  const auto has_wide_exp = [](const graph::KernelCase& tried) {
    for (const graph::KernelCase::Value& value : tried.values) {
      const auto* op = std::get_if<graph::Elementwise>(&value.op);
      if (op != nullptr && op->op == Op::exp && value.shape.back() > 17) return true;
    }
    return false;
  };
  const graph::KernelCase smaller = graph::minimized(work, has_wide_exp, 1000);
  ASSERT_TRUE(has_wide_exp(smaller));
  EXPECT_EQ(graph::mistake_in(smaller), "");
  int computed = 0;
  for (std::size_t i = 0; i < smaller.values.size(); ++i) {
    EXPECT_LE(smaller.values[i].shape.numel(), 18) << i;
    if (!smaller.is_given(i)) {
      ++computed;
      continue;
    }
    for (const std::byte byte : smaller.values[i].data) EXPECT_EQ(byte, std::byte{0});
  }
  EXPECT_EQ(computed, 1);
  EXPECT_FALSE(graph::compare_results(smaller, graph::compute_case(smaller, Device::parse("ref")),
                                      graph::compute_case(smaller, Device{})));
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
