// The engine of processes on CPUs: a TCP connection between any two.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <lockstep/dist.h>

#include "dist/engine.h"
#include "dist/meeting.h"
#include "dist/message.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

using Clock = std::chrono::steady_clock;

// A message on its way out.
struct Writing {
  int rank;
  std::string head;  ///< header and text
  std::span<const std::byte> bytes;
  std::size_t done = 0;

  bool is_done() const { return done == head.size() + bytes.size(); }
  bool has_begun() const { return done > 0; }
  std::span<const std::byte> rest() const {
    const std::span<const std::byte> first = std::as_bytes(std::span(head));
    return done < first.size() ? first.subspan(done) : bytes.subspan(done - first.size());
  }
};

// A message on its way in: header, text, bytes, one after another.
struct Reading {
  int rank;
  std::span<std::byte> bytes;
  HeaderBytes header_bytes{};
  MessageHeader header;
  std::string text;
  enum class Part : std::uint8_t { header, text, bytes, end } part = Part::header;
  std::size_t done = 0;  ///< of the part

  bool is_done() const { return part == Part::end; }
  std::span<std::byte> rest() {
    switch (part) {
      case Part::header: return std::span<std::byte>(header_bytes).subspan(done);
      case Part::text: return std::as_writable_bytes(std::span(text)).subspan(done);
      case Part::bytes: return bytes.subspan(done);
      case Part::end: break;
    }
    return {};
  }
};

struct Failure {
  int rank;
  std::string why;
};

std::string head_of(const MessageHeader& header, const std::string& text) {
  const HeaderBytes bytes = encoded(header);
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) + text;
}

class TcpEngine final : public Engine {
 public:
  TcpEngine(const Launch& launch, std::chrono::milliseconds deadline)
      : deadline_(deadline),
        own_rank_(static_cast<std::size_t>(launch.rank)),
        peers_(static_cast<std::size_t>(launch.size)) {
    std::vector<os::Socket> sockets = meet(launch, Clock::now() + deadline);
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) peers_[rank].socket = std::move(sockets[rank]);
  }

  std::string name() const override { return "TCP"; }
  std::optional<int> lost_rank() override {
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      if (rank != own_rank_ && peers_[rank].socket.is_closed()) return static_cast<int>(rank);
    }
    return std::nullopt;
  }
  void close() override {
    is_broken_ = true;
    for (Peer& peer : peers_) const os::Socket closed = std::move(peer.socket);
  }

  void exchange(const std::string& call, std::span<const Outgoing> outgoing,
                std::span<const Incoming> incoming) override {
    if (is_broken_) throw DistributedError("the group failed before, and cannot be used any more", -1);
    std::vector<Writing> writings;
    for (const Outgoing& one : outgoing) {
      const MessageHeader header{.kind = MessageKind::data,
                                 .number = peer(one.to).sent++,
                                 .text_bytes = static_cast<std::uint32_t>(call.size()),
                                 .bytes = one.bytes.size()};
      writings.push_back({.rank = one.to, .head = head_of(header, call), .bytes = one.bytes});
    }
    std::vector<Reading> readings;
    for (const Incoming& one : incoming)
      readings.push_back({.rank = one.from, .bytes = one.bytes, .header = {}, .text = {}});
    try {
      run(call, writings, readings);
    } catch (const Failure& failure) {
      is_broken_ = true;
      tell_others(failure, writings);
      throw DistributedError(failure.why, failure.rank);
    }
  }

 private:
  struct Peer {
    os::Socket socket;
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
  };
  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }

  void run(const std::string& call, std::vector<Writing>& writings, std::vector<Reading>& readings) {
    os::Deadline deadline = Clock::now() + deadline_;
    for (;;) {
      bool has_progress = false;
      std::vector<os::SocketWait> waits;
      int waits_for = -1;
      for (Reading& reading : readings) {
        has_progress = advance(reading, call) || has_progress;
        if (reading.is_done()) continue;
        waits.push_back({.socket = &peer(reading.rank).socket});
        waits_for = waits_for < 0 ? reading.rank : waits_for;
      }
      for (Writing& writing : writings) {
        has_progress = advance(writing) || has_progress;
        if (writing.is_done()) continue;
        waits.push_back({.socket = &peer(writing.rank).socket, .to_write = true});
        waits_for = waits_for < 0 ? writing.rank : waits_for;
      }
      if (waits.empty()) return;
      if (has_progress) deadline = Clock::now() + deadline_;
      if (!os::wait_for(waits, deadline)) {
        throw Failure{waits_for, fmt::format("rank {} has not answered for {} s", waits_for,
                                             std::chrono::duration<double>(deadline_).count())};
      }
    }
  }

  // Whether bytes went, or came.
  bool advance(Writing& writing) {
    const std::size_t before = writing.done;
    while (!writing.is_done()) {
      const std::size_t count =
          guarded(writing.rank, [&] { return peer(writing.rank).socket.write_some(writing.rest()); });
      if (count == 0) break;
      writing.done += count;
    }
    return writing.done != before;
  }
  bool advance(Reading& reading, const std::string& call) {
    bool has_progress = false;
    for (;;) {
      while (!reading.is_done() && reading.rest().empty()) end_part(reading, call);
      if (reading.is_done()) return has_progress;
      const std::optional<std::size_t> count =
          guarded(reading.rank, [&] { return peer(reading.rank).socket.read_some(reading.rest()); });
      if (!count) throw Failure{reading.rank, fmt::format("rank {} has ended, or closed its connection", reading.rank)};
      if (*count == 0) return has_progress;
      reading.done += *count;
      has_progress = true;
    }
  }

  void end_part(Reading& reading, const std::string& call) {
    reading.done = 0;
    switch (reading.part) {
      case Reading::Part::header:
        reading.header = guarded(reading.rank, [&] { return parse_header(reading.header_bytes); });
        reading.text.resize(reading.header.text_bytes);
        reading.part = Reading::Part::text;
        return;
      case Reading::Part::text:
        check_call(reading, call);
        reading.part = Reading::Part::bytes;
        return;
      case Reading::Part::bytes: reading.part = Reading::Part::end; return;
      case Reading::Part::end: return;
    }
  }

  void check_call(const Reading& reading, const std::string& call) {
    const MessageHeader& header = reading.header;
    if (header.kind == MessageKind::abort) {
      const auto blamed = header.number < peers_.size() ? static_cast<int>(header.number) : -1;
      throw Failure{blamed, fmt::format("rank {} gave up: {}", reading.rank, reading.text)};
    }
    if (reading.text != call) {
      throw Failure{reading.rank, fmt::format("rank {} calls {}, this rank {}", reading.rank, reading.text, call)};
    }
    const std::uint64_t number = peer(reading.rank).received++;
    if (header.number != number || header.bytes != reading.bytes.size()) {
      throw Failure{reading.rank, fmt::format("rank {} sent message {} of {} bytes where number {} of {} was due",
                                              reading.rank, header.number, header.bytes, number, reading.bytes.size())};
    }
  }

  template <typename Do> auto guarded(int rank, Do&& act) -> decltype(act()) {
    try {
      return act();
    } catch (const Error& error) {
      throw Failure{rank, fmt::format("the connection with rank {} broke: {}", rank, error.what())};
    }
  }

  // So that those who wait for this rank hear who is to blame. Where a message has been half written there is no way.
  void tell_others(const Failure& failure, const std::vector<Writing>& writings) {
    const std::string why = failure.why.substr(0, kMostText);
    const std::string message = head_of({.kind = MessageKind::abort,
                                         .number = static_cast<std::uint64_t>(failure.rank),
                                         .text_bytes = static_cast<std::uint32_t>(why.size()),
                                         .bytes = 0},
                                        why);
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
      const auto half_written = std::ranges::find_if(writings, [&](const Writing& writing) {
        return writing.rank == static_cast<int>(rank) && writing.has_begun() && !writing.is_done();
      });
      os::Socket socket = std::move(peers_[rank].socket);  // closed here: nobody waits for this rank any more
      if (half_written != writings.end() || rank == own_rank_) continue;
      try {
        socket.write_some(std::as_bytes(std::span(message)));
      } catch (const Error&) {
        // It is gone, too.
      }
    }
  }

  std::chrono::milliseconds deadline_;
  std::size_t own_rank_;
  std::vector<Peer> peers_;
  bool is_broken_ = false;
};

}  // namespace

std::unique_ptr<Engine> connect_tcp(const Launch& launch, std::chrono::milliseconds deadline) {
  return std::make_unique<TcpEngine>(launch, deadline);
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
