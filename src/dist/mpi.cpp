// The engine of clusters: messages by MPI, through a plug-in for the implementation that has started this process
// (dist/mpi_calls.h). MPI only moves data; what a rank calls is checked here as the TCP engine does.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include <lockstep/check.h>
#include <lockstep/dist.h>

#include "core/os.h"
#include "dist/engines.h"
#include "dist/message.h"
#include "dist/mpi_calls.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

using MpiClock = std::chrono::steady_clock;

// Beside the library, or in the lib directory beside the programs'; and, for a static library, where CMake puts it.
std::string mpi_library(const std::string& implementation) {
  std::vector<std::string> places;
  for (const char* place : {"/", "/../lib/", "/../../lib/"}) places.push_back(os::own_directory() + place);
#ifdef LOCKSTEP_MPI_PLACES
  for (const char* place : {LOCKSTEP_MPI_PLACES}) places.push_back(std::string(place) + "/");
#endif
  for (const std::string& place : places) {
    const std::string path = fmt::format("{}liblockstep_mpi_{}.so", place, implementation);
    std::error_code unknown;
    if (std::filesystem::exists(path, unknown)) return path;
  }
  return {};
}

struct MpiPlugin {
  const MpiCalls* calls = nullptr;
  std::string problem;
};

MpiPlugin open_mpi_plugin(const std::string& implementation) {
  const std::string path = mpi_library(implementation);
  if (path.empty()) {
    return {
        .calls = nullptr,
        .problem = fmt::format("this build of Lockstep has no liblockstep_mpi_{}.so: it is made where {} is installed",
                               implementation, implementation == "openmpi" ? "libopenmpi-dev" : "libmpich-dev")};
  }
  const std::vector<std::string> names{path};
  const os::SharedLibrary library(names);
  if (!library.is_open()) return {.calls = nullptr, .problem = library.error()};
  const auto entry = reinterpret_cast<MpiEntry>(library.function(kMpiEntry));
  if (entry == nullptr) return {.calls = nullptr, .problem = fmt::format("{} is none of Lockstep's", path)};
  return {.calls = entry(), .problem = {}};
}

// Opened once in a process.
const MpiPlugin& mpi_plugin(const std::string& implementation) {
  static std::mutex& mutex = *new std::mutex;
  static auto& plugins = *new std::map<std::string, MpiPlugin>;
  const std::lock_guard lock(mutex);
  const auto found = plugins.find(implementation);
  return found != plugins.end() ? found->second
                                : plugins.emplace(implementation, open_mpi_plugin(implementation)).first->second;
}

// The one that this process has begun, to be ended with the process unless a rank is lost: then MPI would wait for it.
const MpiCalls* begun_mpi = nullptr;
std::atomic<bool> has_lost_ranks{false};

class MpiEngine final : public Engine {
 public:
  MpiEngine(const MpiCalls& calls, const Launch& launch, std::chrono::milliseconds deadline)
      : calls_(calls), deadline_(deadline), own_rank_(launch.rank), peers_(static_cast<std::size_t>(launch.size)) {
    int rank = 0;
    int size = 0;
    if (!calls_.begin(&rank, &size)) throw DistributedError(fmt::format("dist::init: MPI: {}", calls_.error()), -1);
    if (begun_mpi == nullptr) {
      begun_mpi = &calls_;
      std::atexit([] {
        if (!has_lost_ranks) begun_mpi->end();
      });
    }
    if (rank != launch.rank || size != launch.size) {
      throw DistributedError(
          fmt::format("dist::init: this process is rank {} of {} ({}), but rank {} of {} for {}\n  fix: use "
                      "the mpirun of that MPI, or LOCKSTEP_DIST_ENGINE=tcp",
                      launch.rank, launch.size, launch.launcher, rank, size, calls_.version()),
          -1);
    }
    static std::atomic<int> engines{0};
    first_tag_ = engines.fetch_add(1) % kMostEngines * 2;
    // Nobody is said to be there before all are.
    std::vector<Outgoing> outgoing;
    std::vector<Incoming> incoming;
    for (int other = 0; other < size; ++other) {
      if (other == rank) continue;
      outgoing.push_back({other, {}});
      incoming.push_back({other, {}});
    }
    exchange("dist::init", outgoing, incoming);
  }

  ~MpiEngine() override {
    if (!is_broken_) tell_all(-1, fmt::format("rank {} has ended, or closed its connection", own_rank_), own_rank_);
  }

  std::string name() const override { return fmt::format("MPI ({})", calls_.version()); }

  void exchange(const std::string& call, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming) override {
    if (is_broken_) throw DistributedError("the group failed before, and cannot be used any more", -1);
    std::vector<Writing> writings;
    for (const Outgoing& one : outgoing)
      writings.push_back({.rank = one.to, .bytes = one.bytes, .control = {}, .requests = {}});
    std::vector<Reading> readings;
    for (const Incoming& one : incoming)
      readings.push_back({.rank = one.from, .bytes = one.bytes, .control = {}, .requests = {}});
    try {
      for (Writing& writing : writings) begin(writing, call);
      for (Reading& reading : readings) begin(reading);
      run(call, writings, readings);
    } catch (const Failure& failure) {
      is_broken_ = true;
      has_lost_ranks = true;
      tell_all(failure.rank, failure.why, failure.rank);
      for (Writing& writing : writings) drop(writing.requests);
      for (Reading& reading : readings) drop(reading.requests);
      throw DistributedError(failure.why, failure.rank);
    }
  }

 private:
  static constexpr int kMostEngines = 4096;  // MPI promises tags up to 32,767

  struct Failure {
    int rank;
    std::string why;
  };
  struct Peer {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  // A message is one of control, which is a header and the call, and the bytes in pieces.
  struct Writing {
    int rank;
    std::span<const std::byte> bytes;
    std::string control;
    std::vector<MpiRequest*> requests;
  };
  struct Reading {
    int rank;
    std::span<std::byte> bytes;
    std::string control;
    std::vector<MpiRequest*> requests;
    bool is_checked = false;
  };

  int control_tag() const { return first_tag_; }
  int data_tag() const { return first_tag_ + 1; }
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  void check(bool succeeded, int rank) const {
    if (!succeeded) throw Failure{rank, fmt::format("MPI with rank {}: {}", rank, calls_.error())};
  }

  static std::string control_of(const MessageHeader& header, const std::string& text) {
    const HeaderBytes bytes = encoded(header);
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + text;
  }

  void begin(Writing& writing, const std::string& call) {
    writing.control = control_of({.kind = MessageKind::data,
                                  .number = peer(writing.rank).sent++,
                                  .text_bytes = static_cast<std::uint32_t>(call.size()),
                                  .bytes = writing.bytes.size()},
                                 call);
    check(calls_.send(writing.rank, control_tag(), writing.control.data(), writing.control.size(),
                      &writing.requests.emplace_back()),
          writing.rank);
    for (std::size_t at = 0; at < writing.bytes.size(); at += kMostMpiBytes) {
      const std::size_t count = std::min(kMostMpiBytes, writing.bytes.size() - at);
      check(calls_.send(writing.rank, data_tag(), writing.bytes.data() + at, count, &writing.requests.emplace_back()),
            writing.rank);
    }
  }
  void begin(Reading& reading) {
    reading.control.resize(kHeaderBytes + kMostText);
    check(calls_.receive(reading.rank, control_tag(), reading.control.data(), reading.control.size(),
                         &reading.requests.emplace_back()),
          reading.rank);
  }

  void run(const std::string& call, std::vector<Writing>& writings, std::vector<Reading>& readings) {
    MpiClock::time_point deadline = MpiClock::now() + deadline_;
    for (int idle = 0;; ++idle) {
      bool has_progress = false;
      int waits_for = -1;
      for (Reading& reading : readings) {
        std::size_t bytes = 0;
        has_progress = advance(reading.requests, reading.rank, bytes) || has_progress;
        if (reading.requests.empty() && !reading.is_checked) take_control(reading, bytes, call);
        if (!reading.requests.empty() && waits_for < 0) waits_for = reading.rank;
      }
      for (Writing& writing : writings) {
        std::size_t bytes = 0;
        has_progress = advance(writing.requests, writing.rank, bytes) || has_progress;
        if (!writing.requests.empty() && waits_for < 0) waits_for = writing.rank;
      }
      if (waits_for < 0) return;
      if (has_progress) {
        idle = 0;
        deadline = MpiClock::now() + deadline_;
      } else if (MpiClock::now() > deadline) {
        throw Failure{waits_for, fmt::format("rank {} has not answered for {} s", waits_for,
                                             std::chrono::duration<double>(deadline_).count())};
      }
      // Ranks may share processors.
      if (idle > 2000)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      else if (idle > 20)
        std::this_thread::yield();
    }
  }

  // Takes out what is done; whether any was. `bytes`: of the last one.
  bool advance(std::vector<MpiRequest*>& requests, int rank, std::size_t& bytes) {
    const std::size_t before = requests.size();
    std::size_t kept = 0;
    for (std::size_t i = 0; i < before; ++i) {
      bool is_done = false;
      check(calls_.done(requests[i], &is_done, &bytes), rank);
      if (!is_done) requests[kept++] = requests[i];
    }
    requests.resize(kept);
    return kept != before;
  }

  void take_control(Reading& reading, std::size_t bytes, const std::string& call) {
    reading.is_checked = true;
    const int rank = reading.rank;
    HeaderBytes header_bytes{};
    if (bytes < kHeaderBytes) throw Failure{rank, fmt::format("rank {} sent {} bytes for a header", rank, bytes)};
    std::copy_n(reinterpret_cast<const std::byte*>(reading.control.data()), kHeaderBytes, header_bytes.begin());
    MessageHeader header;
    try {
      header = parse_header(header_bytes);
    } catch (const FormatError& error) {
      throw Failure{rank, fmt::format("rank {}: {}", rank, error.what())};
    }
    if (header.text_bytes != bytes - kHeaderBytes) throw Failure{rank, fmt::format("rank {} sent half a header", rank)};
    const std::string text = reading.control.substr(kHeaderBytes, header.text_bytes);
    if (header.kind == MessageKind::abort) {
      const auto blamed = header.number < peers_.size() ? static_cast<int>(header.number) : -1;
      throw Failure{blamed, blamed == rank ? text : fmt::format("rank {} gave up: {}", rank, text)};
    }
    if (text != call) throw Failure{rank, fmt::format("rank {} calls {}, this rank {}", rank, text, call)};
    const std::uint64_t number = peer(rank).received++;
    if (header.number != number || header.bytes != reading.bytes.size()) {
      throw Failure{rank, fmt::format("rank {} sent message {} of {} bytes where number {} of {} was due", rank,
                                      header.number, header.bytes, number, reading.bytes.size())};
    }
    for (std::size_t at = 0; at < reading.bytes.size(); at += kMostMpiBytes) {
      const std::size_t count = std::min(kMostMpiBytes, reading.bytes.size() - at);
      check(calls_.receive(rank, data_tag(), reading.bytes.data() + at, count, &reading.requests.emplace_back()), rank);
    }
  }

  // So that those who wait for this rank hear who is to blame; `except` is not told.
  void tell_all(int except, const std::string& why, int blamed) {
    // MPI may read it after this engine is gone: kept to the end of the process.
    const std::string& message = *new std::string(
        control_of({.kind = MessageKind::abort,
                    .number = static_cast<std::uint64_t>(blamed),
                    .text_bytes = static_cast<std::uint32_t>(std::min<std::size_t>(why.size(), kMostText)),
                    .bytes = 0},
                   why.substr(0, kMostText)));
    std::vector<MpiRequest*> requests;
    for (int rank = 0; rank < static_cast<int>(peers_.size()); ++rank) {
      if (rank == own_rank_ || rank == except) continue;
      MpiRequest* request = nullptr;
      if (calls_.send(rank, control_tag(), message.data(), message.size(), &request)) requests.push_back(request);
    }
    const MpiClock::time_point end = MpiClock::now() + std::chrono::milliseconds(200);
    while (!requests.empty() && MpiClock::now() < end) {
      std::erase_if(requests, [&](MpiRequest* request) {
        bool is_done = false;
        std::size_t bytes = 0;
        return !calls_.done(request, &is_done, &bytes) || is_done;
      });
    }
  }

  void drop(std::vector<MpiRequest*>& requests) const {
    for (MpiRequest* request : requests) calls_.drop(request);
    requests.clear();
  }

  const MpiCalls& calls_;
  std::chrono::milliseconds deadline_;
  int own_rank_;
  int first_tag_ = 0;
  std::vector<Peer> peers_;
  bool is_broken_ = false;
};

}  // namespace

std::optional<std::string> mpi_of(const Launch& launch) {
  if (launch.launcher == "openmpi" || launch.launcher == "mpich") return launch.launcher;
  return std::nullopt;
}

bool has_mpi(const std::string& implementation) {
  return mpi_plugin(implementation).calls != nullptr;
}

EngineInfo mpi_info(const std::string& implementation) {
  const MpiPlugin& plugin = mpi_plugin(implementation);
  return {.name = fmt::format("mpi ({})", implementation),
          .version = plugin.calls == nullptr ? "" : plugin.calls->version(),
          .problem = plugin.problem};
}

std::unique_ptr<Engine> connect_mpi(const Launch& launch, std::chrono::milliseconds deadline) {
  const std::optional<std::string> implementation = mpi_of(launch);
  lockstep::check<ValueError>(implementation.has_value(),
                              fmt::format("the engine mpi was asked for, but {} has started this process",
                                          launch.launcher.empty() ? "no launcher" : launch.launcher),
                              {}, "start it by mpirun, or use the engine tcp");
  const MpiPlugin& plugin = mpi_plugin(*implementation);
  lockstep::check<ValueError>(plugin.calls != nullptr, "the engine mpi cannot be used: " + plugin.problem, {},
                              "install it and build again, or use the engine tcp");
  return std::make_unique<MpiEngine>(*plugin.calls, launch, deadline);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
