#include <lockstep/trace.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>

#include <lockstep/lockstep.h>
#include <nlohmann/json.hpp>

#include "support/files.h"
#include "support/tensors.h"

namespace lockstep::test {
namespace {

using nlohmann::json;

json events_of(const std::string& file) {
  return json::parse(read_whole_file(file)).at("traceEvents");
}

json find_event(const json& events, const std::string& name) {
  for (const json& event : events) {
    if (event.at("name") == name) return event;
  }
  return nullptr;
}

TEST(Trace, NamesTheOpsOfAKernelAndTheLineThatCalled) {
  const TemporaryFolder folder;
  const std::string file = folder.path("trace.json");
  const Tensor x = random_tensor({64, 32}, DType::f32, 1);
  const Tensor w = random_tensor({32, 16}, DType::f32, 2);
  Trace trace(file);
  const Tensor y = gelu(matmul(x, w));
  y.eval();
  sum(x).item<float>();
  trace.finish();
  const json events = events_of(file);
  const json product = find_event(events, "matmul + gelu: contraction + gelu_erf f32 [64, 16]");
  ASSERT_FALSE(product.is_null()) << events;
  EXPECT_EQ(product.at("cat"), "kernel");
  EXPECT_EQ(product.at("ph"), "X");
  EXPECT_GE(product.at("dur").get<double>(), 0);
  EXPECT_NE(product.at("args").at("called at").get<std::string>().find("trace_test.cpp"), std::string::npos);
  EXPECT_EQ(product.at("args").at("writes"), json({"f32 [64, 16]"}));
  EXPECT_EQ(product.at("args").at("reads"), json({"f32 [64, 32]", "f32 [32, 16]"}));
  EXPECT_EQ(product.at("args").at("bytes"), 4 * (64 * 32 + 32 * 16 + 64 * 16));
  for (const char* name : {"sum f32 [1, 1]", "compile", "download", "memory of cpu", "thread_name"}) {
    EXPECT_FALSE(find_event(events, name).is_null()) << name;
  }
}

TEST(Trace, NamesTheModule) {
  struct Net : nn::Module {
    nn::Linear hidden{*this, "hidden", 8, 4};
  } const net;
  const TemporaryFolder folder;
  Trace trace(folder.path("trace.json"));
  net.hidden(random_tensor({2, 8}, DType::f32, 1)).eval();
  trace.finish();
  bool found = false;
  for (const json& event : events_of(folder.path("trace.json"))) {
    found = found || (event.value("cat", "") == "kernel" && event.at("args").at("module") == "hidden");
  }
  EXPECT_TRUE(found);
}

TEST(Trace, EventsOfOneDeviceDoNotOverlap) {
  const TemporaryFolder folder;
  const std::string file = folder.path("trace.json");
  Trace trace(file);
  for (int i = 0; i < 5; ++i) softmax(random_tensor({50, 40}, DType::f32, 3) * i, -1).eval();
  trace.finish();
  double end = 0;
  int kernels = 0;
  for (const json& event : events_of(file)) {
    if (event.at("ph") != "X" || event.at("cat") != "kernel") continue;
    EXPECT_GE(event.at("ts").get<double>(), end);
    end = event.at("ts").get<double>() + event.at("dur").get<double>();
    ++kernels;
  }
  EXPECT_GE(kernels, 5);
}

TEST(Trace, TotalsAreTheLongestFirstAndCountEveryRun) {
  const TemporaryFolder folder;
  Trace trace(folder.path("trace.json"));
  const Tensor x = random_tensor({128}, DType::f32, 1);
  for (int i = 0; i < 3; ++i) exp(x).eval();
  const std::vector<TraceTotal> totals = trace.totals();
  const auto found =
      std::find_if(totals.begin(), totals.end(), [](const TraceTotal& t) { return t.what == "exp f32 [128]"; });
  ASSERT_NE(found, totals.end());
  EXPECT_EQ(found->count, 3u);
  EXPECT_EQ(found->device, "cpu");
  EXPECT_TRUE(std::is_sorted(totals.begin(), totals.end(), [](auto& a, auto& b) { return a.seconds > b.seconds; }));
}

TEST(Trace, GivesTheSameBits) {
  const TemporaryFolder folder;
  const Tensor x = random_tensor({3, 40}, DType::f32, 5, {}, true);
  const auto compute = [&] { return layer_norm(gelu(x) * 3.0, {40}).eval(); };
  const Tensor plain = compute();
  Trace trace(folder.path("trace.json"));
  EXPECT_BITS_EQ(compute(), plain);
}

TEST(Trace, OnlyOneAtATime) {
  const TemporaryFolder folder;
  {
    const Trace first(folder.path("a.json"));
    const std::string message = message_of<ValueError>([&] { const Trace second(folder.path("b.json")); });
    EXPECT_NE(message.find("another trace"), std::string::npos) << message;
  }
  EXPECT_NO_THROW(Trace(folder.path("b.json")).finish());
  EXPECT_EQ(folder.names(), (std::vector<std::string>{"a.json", "b.json"}));
}

TEST(Trace, AFileThatCannotBeMadeIsKnownBeforeTheWork) {
  const TemporaryFolder folder;
  EXPECT_THROW(Trace(folder.path("nowhere/trace.json")), IoError);
  EXPECT_NO_THROW(Trace(folder.path("trace.json")));  // the one that failed does not count as recorded
}

TEST(Trace, ThreadsMayComputeWhileItBeginsAndEnds) {
  const TemporaryFolder folder;
  std::atomic<bool> done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      const Tensor x = random_tensor({100}, DType::f32, static_cast<std::uint64_t>(i));
      while (!done) sum(exp(x)).eval();
    });
  }
  for (int i = 0; i < 20; ++i) Trace(folder.path("trace.json")).finish();
  done = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(json::parse(read_whole_file(folder.path("trace.json"))).is_object());
}

}  // namespace
}  // namespace lockstep::test
