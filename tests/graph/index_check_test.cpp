// Bad indices on devices that compute while the program goes on: nothing waits for them, and whoever reads a value that
// depends on one gets the error.
#include <gtest/gtest.h>

#include <atomic>

#include <lockstep/lockstep.h>

#include "backends/backend.h"
#include "backends/reference/backend.h"
#include "backends/side_work.h"
#include "graph/early_read.h"
#include "graph/make.h"
#include "graph/window.h"
#include "support/tensors.h"

namespace lockstep {
namespace {

// A GPU as the graph sees it: the reference, with memory that only downloads can read. Counts them.
class Remote : public Backend, public CopiesToHost {
 public:
  static constexpr Device kDevice{DeviceKind::cuda, 900};
  static std::atomic<int> downloads;
  static std::atomic<int> uploads;
  static std::atomic<int> looks;  ///< at copies to the host, which wait for them

  Device device() const override { return kDevice; }
  BufferRef allocate(std::size_t bytes) override {
    BufferRef memory = reference_->allocate(bytes);
    std::byte* const data = memory->data();
    return std::make_shared<Buffer>(kDevice, data, bytes, [memory] {});
  }
  void upload(Buffer& to, const void* from, std::size_t bytes) override {
    ++uploads;
    reference_->upload(to, from, bytes);
  }
  void download(void* to, const Buffer& from, std::size_t bytes, std::size_t offset) override {
    ++downloads;
    reference_->download(to, from, bytes, offset);
  }
  std::unique_ptr<HostCopy> begin_download(const Buffer& from, std::size_t bytes, std::size_t offset) override {
    struct Copy : HostCopy {
      std::vector<std::byte> then;
      std::span<const std::byte> bytes() override {
        ++looks;
        return then;
      }
    };
    auto copy = std::make_unique<Copy>();
    copy->then.resize(bytes);
    reference_->download(copy->then.data(), from, bytes, offset);
    return copy;
  }
  std::unique_ptr<Executable> compile(const Kernel& kernel) override { return reference_->compile(kernel); }
  std::string description() const override { return "the reference, far away"; }

 private:
  std::unique_ptr<Backend> reference_ = make_reference_backend();
};
std::atomic<int> Remote::downloads = 0;
std::atomic<int> Remote::uploads = 0;
std::atomic<int> Remote::looks = 0;

class IndexChecks : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { register_backend(std::make_unique<Remote>()); }
  void SetUp() override { Remote::downloads = 0; }

  const Device device_ = Remote::kDevice;
  Tensor table_ = arange(0, 4, 1, {.dtype = DType::f32, .device = device_}).eval();

  Tensor picked(const std::vector<std::int64_t>& at) {
    const auto count = static_cast<std::int64_t>(at.size());
    const CallScope call("embedding", CallSite());
    return graph::gather(table_, 0, Tensor::from<std::int64_t>(at, {count}, device_));
  }
};

TEST_F(IndexChecks, NothingIsReadBeforeSomebodyReads) {
  const Tensor good = picked({3, 0});
  graph::flush(device_);
  const Tensor next = good * 2.0;
  graph::flush(device_);
  EXPECT_EQ(Remote::downloads, 0);
  EXPECT_EQ(next.to_vector<float>(), (std::vector<float>{6, 0}));
  EXPECT_EQ(Remote::downloads, 2) << "the fault words, then the value";
  EXPECT_EQ(good.to_vector<float>(), (std::vector<float>{3, 0}));
  EXPECT_EQ(Remote::downloads, 3) << "the words were read already";
}

TEST_F(IndexChecks, AReadingThatBeganEarlyWaitsForNothingThatCameLater) {
  const Tensor good = picked({3, 0});
  graph::EarlyRead first(good * 2.0);
  graph::EarlyRead bad(picked({1, 4}) + 1.0);
  const Tensor later = picked({9}) * 3.0;
  graph::flush(device_);
  EXPECT_EQ(first.to_vector<float>(), (std::vector<float>{6, 0}));
  expect_error<IndexError>([&] { bad.bytes(); }, {"index 4 at position [1] is outside a dimension of size 4"});
  graph::EarlyRead column(good.reshape({2, 1}).expand({2, 2}));
  EXPECT_EQ(Remote::downloads, 1) << "of the bad index: nothing else was waited for";
  EXPECT_EQ(column.to_vector<float>(), (std::vector<float>{3, 3, 0, 0}));
  expect_error<IndexError>([&] { later.item<float>(); }, {"index 9"});
}

// A loop that reads each value when the next has begun, as decoding does: the words of the next are on their way then.
TEST_F(IndexChecks, AnEarlyReadingLooksAtNoWordsThatBeganLater) {
  graph::EarlyRead before(picked({1}) + 1.0);
  for (int i = 0; i < 4; ++i) {
    graph::EarlyRead next(picked({2}) + 1.0);
    Remote::looks = 0;
    EXPECT_EQ(before.to_vector<float>().size(), 1U);
    EXPECT_EQ(Remote::looks, 2) << "its words, then the value";
    before = std::move(next);
  }
  EXPECT_EQ(Remote::downloads, 0);
}

// Words that were read as zeros need not be cleared for the next flush; others are.
TEST_F(IndexChecks, WordsAreClearedOnlyAfterABadIndex) {
  const Tensor index = Tensor::from<std::int64_t>({2, 0}, {2}, device_).eval();
  const Tensor bad = Tensor::from<std::int64_t>({2, 7}, {2}, device_).eval();
  const auto pick = [&](const Tensor& at) { return graph::gather(table_, 0, at).to_vector<float>(); };
  pick(index);
  Remote::uploads = 0;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pick(index), (std::vector<float>{2, 0}));
  EXPECT_EQ(Remote::uploads, 0);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THROW(pick(bad), IndexError);
    EXPECT_EQ(pick(index), (std::vector<float>{2, 0}));
  }
}

TEST_F(IndexChecks, ErrorsComeWithWhateverDependsOnThem) {
  const Tensor bad = picked({1, 4});
  const Tensor other = picked({1, 2}) + 1.0;
  graph::flush(device_);
  const Tensor total = sum(bad);
  const Tensor both = total + sum(other);
  graph::flush(device_);
  const std::vector<std::string> story = {"embedding", "index 4 at position [1]", "size 4"};
  EXPECT_EQ(other.to_vector<float>(), (std::vector<float>{2, 3}));
  for (int i = 0; i < 2; ++i) {
    expect_error<IndexError>([&] { both.item<float>(); }, story);
    expect_error<IndexError>([&] { total.eval(); }, story);
    expect_error<IndexError>([&] { bad.to(Device{}); }, story);
    expect_error<IndexError>([&] { (total * 2.0).eval(); }, story);
  }
  EXPECT_EQ((other * 2.0).to_vector<float>(), (std::vector<float>{4, 6}));
}

TEST_F(IndexChecks, AValueThatWasUpdatedInPlaceFailsToo) {
  Tensor cache = zeros({4}, {.device = device_}) + 1.0;
  cache = graph::update(cache, View::contiguous({4}).sliced(0, 1, 1, 2), picked({9, 0}));
  graph::flush(device_);
  cache = graph::update(cache, View::contiguous({4}).sliced(0, 0, 1, 1), ones({1}, {.device = device_}));
  graph::flush(device_);
  expect_error<IndexError>([&] { cache.to_vector<float>(); }, {"index 9 at position [0]"});
}

TEST_F(IndexChecks, IndicesThatWereNeverStoredAreComputedAgainForTheError) {
  Tensor x = Tensor::from<std::int64_t>({0, 1, 2}, {3}, device_);
  const CallScope call("take", CallSite());
  const Tensor bad = graph::gather(table_, 0, (x + 1) * 2 - 1) + 0.5;
  x = Tensor();
  graph::flush(device_);
  expect_error<IndexError>([&] { bad.to_vector<float>(); }, {"take", "index 5 at position [2]"});
}

TEST_F(IndexChecks, AreReadAfterAWhileWithoutAReader) {
  std::weak_ptr<graph::Node> index;
  Tensor good;
  {
    const Tensor at = Tensor::from<std::int64_t>({1}, {1}, device_);
    index = graph::node_of(at);
    const CallScope call("take", CallSite());
    good = graph::gather(table_, 0, at);
    graph::flush(device_);
  }
  EXPECT_FALSE(index.expired()) << "kept for the error";
  for (int i = 0; i < 20; ++i) {
    const Tensor more = picked({2});
    graph::flush(device_);
  }
  EXPECT_TRUE(index.expired());
  EXPECT_LT(Remote::downloads, 40);
  EXPECT_EQ(good.item<float>(), 1);
}

TEST_F(IndexChecks, ThatKeepMuchMemoryAreReadAtOnce) {
  Tensor large = (zeros({20 << 20}, {.dtype = DType::i32, .device = device_}) + 1).eval();
  const std::weak_ptr<graph::Node> kept = graph::node_of(large);
  const CallScope call("take", CallSite());
  const Tensor good = graph::gather(table_, 0, sum(large * 0).to(DType::i64).reshape({1}));
  large = Tensor();
  graph::flush(device_);
  EXPECT_TRUE(kept.expired());
  EXPECT_EQ(good.item<float>(), 0);
}

TEST_F(IndexChecks, ManyInOneWindowAreToldApart) {
  std::vector<Tensor> values;
  for (std::int64_t i = 0; i < 150; ++i) values.push_back(picked({i % 10}) + 1.0);
  graph::flush(device_);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 10 < 4) {
      EXPECT_EQ(values[i].item<float>(), static_cast<float>(i % 10) + 1.0F);
    } else {
      expect_error<IndexError>([&] { values[i].item<float>(); }, {"index " + std::to_string(i % 10)});
    }
  }
}

}  // namespace
}  // namespace lockstep
