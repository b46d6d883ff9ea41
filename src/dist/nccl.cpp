// The engine of GPUs of CUDA: tensors go from one's memory to another's by NCCL, grouped sends and receives alone,
// since its sums depend on the topology. Everything else goes by another engine: how ranks find each other, what they
// call, tensors of CPUs. The communicator does not block, so that a deadline holds: docs/distributed.md.
#include "dist/nccl_calls.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/dist.h>

#include "backends/backend.h"
#include "backends/side_work.h"
#include "core/hash.h"
#include "core/os.h"
#include "core/os_process.h"
#include "dist/engines.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace nccl {
namespace {

struct Loader {
  Calls calls;

  Loader() {
    // Multicast of NVLink adds in the switches and is of no use here; a program that ends badly can leave it unusable.
    ::setenv("NCCL_NVLS_ENABLE", "0", 1);
    const std::vector<std::string> names{"libnccl.so.2", "libnccl.so"};
    const os::SharedLibrary library(names);
    if (!library.is_open()) {
      calls.missing = library.error();
      return;
    }
    const auto find = [&](const char* name, auto& function) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(library.function(name));
      if (function == nullptr) calls.missing = fmt::format("libnccl.so.2 is too old: it lacks {}", name);
    };
    find("ncclGetVersion", calls.version);
    find("ncclGetUniqueId", calls.unique_id);
    find("ncclCommInitRankConfig", calls.init);
    find("ncclCommFinalize", calls.finalize);
    find("ncclCommDestroy", calls.destroy);
    find("ncclCommAbort", calls.abort);
    find("ncclCommGetAsyncError", calls.async_error);
    find("ncclGroupStart", calls.group_start);
    find("ncclGroupEnd", calls.group_end);
    find("ncclSend", calls.send);
    find("ncclRecv", calls.receive);
    find("ncclGetErrorString", calls.error_text);
  }
};

}  // namespace

std::string Calls::version_text() const {
  int number = 0;
  if (!missing.empty() || version(&number) != kSuccess) return {};
  return fmt::format("{}.{}.{}", number / 10000, number / 100 % 100, number % 100);
}

const Calls& calls() {
  static const Loader* const instance = new Loader;
  return instance->calls;
}

}  // namespace nccl

namespace {

int cuda_devices() {
  return static_cast<int>(
      std::ranges::count_if(Device::all(), [](const Device& device) { return device.kind == DeviceKind::cuda; }));
}

constexpr const char* kNcclFix =
    "install NCCL (libnccl2, or pip install nvidia-nccl-cu13 and its folder in LD_LIBRARY_PATH), or use the engine tcp";

class NcclEngine final : public Engine {
 public:
  NcclEngine(std::unique_ptr<Engine> base, const Launch& launch, std::chrono::milliseconds deadline, Device device)
      : calls_(nccl::calls()),
        deadline_(deadline),
        device_(device),
        rank_(launch.rank),
        size_(launch.size),
        base_(std::move(base)) {}

  ~NcclEngine() override {
    if (communicator_ == nullptr) return;
    const Inside inside(*queue_);
    nccl::Status state = calls_.finalize(communicator_);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    while (state == nccl::kInProgress && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (calls_.async_error(communicator_, &state) != nccl::kSuccess) break;
    }
    state == nccl::kSuccess ? calls_.destroy(communicator_) : calls_.abort(communicator_);
  }

  std::string name() const override {
    return fmt::format("NCCL {}, {} for other tensors", calls_.version_text(), base_->name());
  }

  void exchange(const std::string& call, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming) override {
    const std::lock_guard lock(mutex_);
    base_->exchange(call, outgoing, incoming);
  }

  bool reaches(Device device) const override {
    if (device == device_) return true;
    lockstep::check<DeviceError>(
        device.kind != device_.kind,
        fmt::format("a tensor on {}, but this rank's NCCL was made for {}", device.to_string(), device_.to_string()),
        {}, fmt::format("move the model and the data to {}", device_.to_string()));
    return false;
  }

  std::shared_ptr<const WorkMark> exchange_on(const DeviceMemory& memory, const std::string& call,
                                              std::span<const Outgoing> outgoing,
                                              std::span<const Incoming> incoming) override {
    const std::lock_guard lock(mutex_);
    begin();
    const Inside inside(*queue_);
    try {
      agree(call, outgoing, incoming);
      // A rank may leave when all that it has to do is done, while the end of it is still on its way here.
      if (under_way_.empty()) next_look_ = Clock::now() + kBetweenLooks;
      if (memory.after != nullptr) queue_->wait_for(*memory.after);
      check(calls_.group_start(), "ncclGroupStart");
      for (const Outgoing& one : outgoing) {
        if (one.bytes.empty()) continue;
        tolerate(calls_.send(one.bytes.data(), one.bytes.size(), nccl::kBytes, one.to, communicator_, queue_->handle()),
                 "ncclSend");
      }
      for (const Incoming& one : incoming) {
        if (one.bytes.empty()) continue;
        tolerate(
            calls_.receive(one.bytes.data(), one.bytes.size(), nccl::kBytes, one.from, communicator_, queue_->handle()),
            "ncclRecv");
      }
      tolerate(calls_.group_end(), "ncclGroupEnd");
      wait_until(call, [&] { return is_ready(); });
      const std::shared_ptr<const WorkMark> done = queue_->mark();
      under_way_.push_back({call, memory.after, done, {}});
      return done;
    } catch (const DistributedError&) {
      give_up();
      throw;
    } catch (const BackendError& error) {
      give_up();
      throw DistributedError(error.what(), -1);
    }
  }

  bool is_under_way() override {
    const std::lock_guard lock(mutex_);
    try {
      while (!under_way_.empty() && under_way_.front().done->is_reached()) under_way_.pop_front();
      if (under_way_.empty()) return false;
      const Clock::time_point now = Clock::now();
      if (now > next_look_) look(now);
      UnderWay& first = under_way_.front();
      if (!first.since && (first.after == nullptr || first.after->is_reached())) first.since = now;
      if (first.since && now - *first.since > deadline_) fail_late(first.call);
      return true;
    } catch (const BackendError& error) {
      throw DistributedError(error.what(), -1);
    }
  }

  void close() override {
    const std::lock_guard lock(mutex_);
    give_up();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kBetweenLooks{100};
  struct UnderWay {
    std::string call;
    std::shared_ptr<const WorkMark> after;
    std::shared_ptr<const WorkMark> done;
    std::optional<Clock::time_point> since;  ///< the work before it was done, and what was under way before it
  };

  // With the first exchange, which all ranks reach: those whose tensors are elsewhere are told by another text.
  void begin() {
    if (queue_ != nullptr) return;
    auto& backend = dynamic_cast<HasSideQueues&>(backend_of(device_));
    queue_ = backend.side_queue();
    lockstep::check<ValueError>(queue_ != nullptr, "the CUDA driver is too old for the engine nccl", {},
                                "update it, or use the engine tcp");
    const char* const what = "beginning of NCCL, for tensors of GPUs";
    nccl::UniqueId id;
    if (rank_ == 0) {
      check(calls_.unique_id(&id), "ncclGetUniqueId");
      std::vector<Outgoing> outgoing;
      for (int other = 1; other < size_; ++other) outgoing.push_back({other, std::as_bytes(std::span(id.bytes))});
      base_->exchange(what, outgoing, {});
    } else {
      const Incoming incoming[] = {{0, std::as_writable_bytes(std::span(id.bytes))}};
      base_->exchange(what, {}, incoming);
    }
    const Inside inside(*queue_);
    nccl::Config config;
    const nccl::Status status = calls_.init(&communicator_, size_, id, rank_, &config);
    try {
      if (status != nccl::kInProgress) check(status, "ncclCommInitRankConfig");
      wait_until(what, [&] { return is_ready(); });
    } catch (const DistributedError&) {
      give_up();
      throw;
    }
  }

  // NCCL works in the calling thread's current context.
  struct Inside {
    explicit Inside(SideQueue& entered) : queue(entered) { queue.enter(); }
    ~Inside() { queue.leave(); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;
    SideQueue& queue;
  };

  void check(nccl::Status status, const char* call) const {
    if (status != nccl::kSuccess) {
      throw DistributedError(fmt::format("{} failed: {}", call, calls_.error_text(status)), -1);
    }
  }
  void tolerate(nccl::Status status, const char* call) const {
    if (status != nccl::kInProgress) check(status, call);
  }

  bool is_ready() const {
    nccl::Status state = nccl::kSuccess;
    check(calls_.async_error(communicator_, &state), "ncclCommGetAsyncError");
    if (state == nccl::kInProgress) return false;
    check(state, "NCCL");
    return true;
  }

  // The ranks compare what they call and how much they give before NCCL hears of it: it would wait for ever.
  void agree(const std::string& call, std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
    if (communicator_ == nullptr) throw DistributedError("the group failed before, and cannot be used any more", -1);
    std::vector<std::uint64_t> given(outgoing.size());
    std::vector<std::uint64_t> coming(incoming.size());
    std::vector<Outgoing> sizes;
    std::vector<Incoming> theirs;
    for (std::size_t i = 0; i < outgoing.size(); ++i) {
      given[i] = outgoing[i].bytes.size();
      sizes.push_back({outgoing[i].to, std::as_bytes(std::span(given).subspan(i, 1))});
    }
    for (std::size_t i = 0; i < incoming.size(); ++i) {
      theirs.push_back({incoming[i].from, std::as_writable_bytes(std::span(coming).subspan(i, 1))});
    }
    base_->exchange(call, sizes, theirs);
    for (std::size_t i = 0; i < incoming.size(); ++i) {
      if (coming[i] == incoming[i].bytes.size()) continue;
      const int rank = incoming[i].from;
      throw DistributedError(
          fmt::format("rank {} gives {} bytes, this rank expects {}", rank, coming[i], incoming[i].bytes.size()), rank);
    }
  }

  // NCCL does not notice a process that is gone.
  void look(Clock::time_point now) {
    if (const std::optional<int> rank = base_->lost_rank()) {
      throw DistributedError(fmt::format("rank {} has ended, or closed its connection", *rank), *rank);
    }
    is_ready();
    next_look_ = now + kBetweenLooks;
  }

  [[noreturn]] void fail_late(const std::string& call) const {
    throw DistributedError(fmt::format("{} has not come to an end for {} s: a rank hangs", call,
                                       std::chrono::duration<double>(deadline_).count()),
                           -1);
  }

  template <typename IsDone> void wait_until(const std::string& call, IsDone is_done) {
    const Clock::time_point deadline = Clock::now() + deadline_;
    for (int polls = 0; !is_done(); ++polls) {
      if (polls < 200) {
        std::this_thread::yield();
        continue;
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
      const Clock::time_point now = Clock::now();
      if (now > next_look_) look(now);
      if (now > deadline) fail_late(call);
    }
  }

  // Ends what the GPU waits for, without the other ranks, as ncclCommFinalize() does not; the others see that this
  // rank's connections are closed.
  void give_up() {
    under_way_.clear();
    base_->close();
    if (communicator_ == nullptr) return;
    const Inside inside(*queue_);
    calls_.abort(communicator_);
    communicator_ = nullptr;
  }

  const nccl::Calls& calls_;
  std::chrono::milliseconds deadline_;
  Device device_;
  int rank_;
  int size_;
  std::unique_ptr<Engine> base_;
  std::unique_ptr<SideQueue> queue_;
  nccl::Communicator communicator_ = nullptr;
  std::deque<UnderWay> under_way_;
  Clock::time_point next_look_;
  std::mutex mutex_;  ///< whoever looks after what is under way may be another thread
};

}  // namespace

EngineInfo nccl_info() {
  const nccl::Calls& calls = nccl::calls();
  return {.name = "nccl", .version = calls.version_text(), .problem = calls.missing};
}

void check_nccl() {
  lockstep::check<ValueError>(nccl::calls().missing.empty(), "the engine nccl cannot be used: " + nccl::calls().missing,
                              {}, kNcclFix);
  lockstep::check<ValueError>(cuda_devices() > 0, "the engine nccl cannot be used: there is no GPU of CUDA", {},
                              "use the engine tcp");
}

NcclAbility nccl_ability(const Launch& launch) {
  int version = 0;
  if (!nccl::calls().missing.empty() || nccl::calls().version(&version) != nccl::kSuccess) return {};
  const int count = cuda_devices();
  if (launch.local_rank >= count) return {};
  const std::string place = fmt::format("{} {}", os::host_name(), launch.local_rank);
  return {std::max<std::uint64_t>(1, hash_bytes(std::as_bytes(std::span(place)))), static_cast<std::uint64_t>(version)};
}

std::unique_ptr<Engine> nccl_over(std::unique_ptr<Engine> base, const Launch& launch,
                                  std::chrono::milliseconds deadline) {
  const Device device{DeviceKind::cuda, launch.local_rank % cuda_devices()};
  return std::make_unique<NcclEngine>(std::move(base), launch, deadline, device);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
