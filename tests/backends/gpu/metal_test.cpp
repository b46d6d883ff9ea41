// The Metal driver on the device of the tests (tests/metal_emulator): memory, transfers, errors, ownership. Runs where
// LOCKSTEP_METAL_LIBRARY names it (scripts/test metal does); what kernels compute is compared everywhere else.
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <thread>

#include <gtest/gtest.h>

#include <lockstep/error.h>

#include "backends/gpu/backend.h"
#include "backends/gpu/driver.h"
#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace {

using namespace gpu;

/// An environment variable while it lives. The emulator reads its settings when a device is opened.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Setting() { ::unsetenv(name_); }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  const char* name_;
};

class MetalDriver : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_metal().devices.empty()) GTEST_SKIP() << find_metal().reason;
  }
};

/// Adds a scalar to `count` words: out[i] = in[i] + scalar.
KernelText add_text() {
  KernelText text;
  text.words = 6;
  text.addresses = {0, 2};
  text.body = R"(  MEMORY from = MEMORY_AT(0, 0);
  MEMORY to = MEMORY_AT(1, 2);
  int count = int(P(5));
  for (int i = int(GROUP) * 256 + int(THREAD); i < count; i += int(GROUPS) * 256) {
    STORE_U32(to, i, LOAD_U32(from, i) + P(4));
  }
)";
  return text;
}

std::unique_ptr<Module> loaded(Driver& driver, const KernelText& text) {
  const std::vector<std::byte> binary = driver.compile(driver.source(text, {}));
  return driver.load(binary, text);
}

void add(Driver& driver, const Module& module, std::uint64_t from, std::uint64_t to, std::uint32_t scalar,
         std::uint32_t count, std::uint32_t groups) {
  const std::uint32_t words[] = {static_cast<std::uint32_t>(from),
                                 static_cast<std::uint32_t>(from >> 32),
                                 static_cast<std::uint32_t>(to),
                                 static_cast<std::uint32_t>(to >> 32),
                                 scalar,
                                 count};
  const Access accesses[] = {{from, 0, false}, {to, 2, true}};
  driver.launch(module, groups, words, accesses);
}

std::vector<std::uint32_t> numbers(std::size_t count) {
  std::vector<std::uint32_t> result(count);
  std::iota(result.begin(), result.end(), 0u);
  return result;
}

TEST_F(MetalDriver, RunsWhatIsLaunchedInOrder) {
  const std::unique_ptr<Driver> driver = open_metal(0);
  constexpr std::uint32_t kCount = 1000;
  const std::uint64_t a = driver->allocate(4 * kCount);
  const std::uint64_t b = driver->allocate(4 * kCount);
  const std::vector<std::uint32_t> in = numbers(kCount);
  driver->upload(a, in.data(), 4 * kCount);
  const std::unique_ptr<Module> module = loaded(*driver, add_text());
  for (std::uint32_t i = 0; i < 10; ++i) {
    add(*driver, *module, a, b, i, kCount, 3);
    add(*driver, *module, b, a, 1, kCount, 4);
  }
  // Between launches: not before those ahead of it, not after those behind it.
  driver->copy(b, a, 4 * kCount);
  driver->upload(a, in.data(), 4 * kCount);
  std::vector<std::uint32_t> out(kCount);
  driver->download(out.data(), b, 4 * kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], i + 45 + 10);
  driver->download(out.data(), a + 40, 4 * 10);
  EXPECT_EQ(out[9], 19u);
}

TEST_F(MetalDriver, LargeGridsAreDispatchedInSlices) {
  const std::unique_ptr<Driver> driver = open_metal(0);
  constexpr std::uint32_t kCount = 3000 * 256 - 5;
  const std::uint64_t a = driver->allocate(4 * kCount);
  const std::uint64_t b = driver->allocate(4 * kCount);
  const std::vector<std::uint32_t> in = numbers(kCount);
  driver->upload(a, in.data(), 4 * kCount);
  const std::unique_ptr<Module> module = loaded(*driver, add_text());
  add(*driver, *module, a, b, 7, kCount, 3000);
  std::vector<std::uint32_t> out(kCount);
  driver->download(out.data(), b, 4 * kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(out[i], i + 7);
}

TEST_F(MetalDriver, MemoryThatIsNotThereIsNoAddress) {
  const Setting memory("LOCKSTEP_METAL_MEMORY", "67108864");
  const std::unique_ptr<Driver> driver = open_metal(0);
  EXPECT_EQ(driver->allocate(std::size_t{1} << 50), 0u);
  const auto whole = static_cast<std::size_t>(driver->info().memory_bytes);
  const std::uint64_t half = driver->allocate(whole / 2);
  EXPECT_NE(half, 0u);
  EXPECT_EQ(driver->allocate(whole / 4 * 3), 0u);
  driver->release(half);
}

TEST_F(MetalDriver, ATextThatDoesNotCompileIsAnErrorInTheCompilersWords) {
  const std::unique_ptr<Driver> driver = open_metal(0);
  KernelText text = add_text();
  text.body += "  undefined_thing();\n";
  try {
    loaded(*driver, text);
    FAIL() << "no error was thrown";
  } catch (const BackendError& error) {
    EXPECT_NE(std::string(error.what()).find("undefined_thing"), std::string::npos) << error.what();
  }
}

TEST_F(MetalDriver, APipelineForTooSmallGroupsIsRefused) {
  const Setting threads("LOCKSTEP_METAL_THREADS", "192");
  const std::unique_ptr<Driver> driver = open_metal(0);
  try {
    loaded(*driver, add_text());
    FAIL() << "no error was thrown";
  } catch (const TooManyThreads& error) {
    EXPECT_EQ(error.most, 192);
    for (const char* part : {"256", "192", "fix:"}) EXPECT_NE(std::string(error.what()).find(part), std::string::npos);
  }
}

// What a killed command buffer would have computed is lost: nothing is read from the device any more.
TEST_F(MetalDriver, AFailedCommandBufferIsReportedToEveryLaterCall) {
  const std::unique_ptr<Driver> driver = open_metal(0);
  const std::uint64_t a = driver->allocate(4096);
  const std::uint64_t b = driver->allocate(4096);
  const std::unique_ptr<Module> module = loaded(*driver, add_text());
  std::vector<std::uint32_t> out(100);
  std::string failure;
  // The emulator counts the command buffers of the process, and this is not its first: the number to fail catches up.
  for (int number = 1; failure.empty() && number < 20000; number += 2) {
    const Setting failing("LOCKSTEP_METAL_FAIL", std::to_string(number).c_str());
    add(*driver, *module, a, b, 1, 100, 1);
    try {
      driver->download(out.data(), a, 400);
    } catch (const BackendError& error) {
      failure = error.what();
    }
  }
  EXPECT_NE(failure.find("Timeout"), std::string::npos) << failure;
  EXPECT_THROW(driver->wait(), BackendError);
  EXPECT_THROW(driver->download(out.data(), a, 400), BackendError);
  EXPECT_THROW(add(*driver, *module, a, b, 1, 100, 1), BackendError);
  driver->release(a);  // cannot fail
}

// Where the GPU has memory of its own, the processor's reach it through copies of whole words.
TEST_F(MetalDriver, PrivateMemoryIsReachedThroughCopies) {
  const Setting apart("LOCKSTEP_METAL_UNIFIED", "0");
  const std::unique_ptr<Driver> driver = open_metal(0);
  constexpr std::uint32_t kCount = 5 << 20;  // more than one transfer
  const std::uint64_t a = driver->allocate(4 * kCount);
  const std::vector<std::uint32_t> in = numbers(kCount);
  driver->upload(a, in.data(), 4 * kCount);
  std::vector<std::uint32_t> out(kCount);
  driver->download(out.data(), a, 4 * kCount);
  EXPECT_EQ(out, in);
  std::uint8_t bytes[7] = {};
  driver->download(bytes, a + 4 * 0x010203 + 2, 7);  // the upper half of one word, one word, and a byte
  const std::uint8_t expected[7] = {1, 0, 4, 2, 1, 0, 5};
  EXPECT_EQ(std::memcmp(bytes, expected, 7), 0);
}

TEST_F(MetalDriver, GivesBackAllItTook) {
  const std::string name = std::getenv("LOCKSTEP_METAL_LIBRARY");
  const os::SharedLibrary library(std::span(&name, 1));
  const auto live = reinterpret_cast<long (*)()>(library.function("fakemetal_live_objects"));
  if (live == nullptr) GTEST_SKIP() << "not the device of the tests";
  const auto use = [] {
    const std::unique_ptr<Driver> driver = open_metal(0);
    const std::uint64_t a = driver->allocate(4096);
    const std::uint64_t b = driver->allocate(20 << 20);
    const std::uint64_t c = driver->allocate(4096);
    const std::vector<std::uint32_t> in = numbers(1024);
    driver->upload(a, in.data(), 4096);
    const std::unique_ptr<Module> module = loaded(*driver, add_text());
    for (std::uint32_t i = 0; i < 2000; ++i) add(*driver, *module, a, b, i, 1000, 2);
    driver->upload(a, in.data(), 4096);
    driver->copy(b, a, 4096);
    std::vector<std::uint32_t> out(1024);
    driver->download(out.data(), b, 4096);
    driver->release(a);
    add(*driver, *module, c, b, 1, 1000, 2);  // left behind, not submitted
  };
  use();
  const long before = live();
  use();
  EXPECT_EQ(live(), before);
  std::thread(use).join();  // pools belong to threads
  EXPECT_EQ(live(), before);
}

}  // namespace
}  // namespace v0
}  // namespace lockstep
