#include "dist/meeting.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <string>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <lockstep/dist.h>

#include "dist/message.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

// What a caller says of itself, as little-endian numbers.
struct Introduction {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t port = 0;  ///< where it listens
};
using IntroductionBytes = std::array<std::byte, 12>;

IntroductionBytes encoded_introduction(const Introduction& said) {
  IntroductionBytes bytes{};
  const std::uint32_t values[] = {said.rank, said.size, said.port};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(values[i / 4] >> (8 * (i % 4)) & 0xff);
  return bytes;
}
Introduction parse_introduction(const IntroductionBytes& bytes) {
  std::uint32_t values[3] = {};
  for (std::size_t i = 0; i < bytes.size(); ++i) values[i / 4] |= static_cast<std::uint32_t>(bytes[i]) << (8 * (i % 4));
  return {.rank = values[0], .size = values[1], .port = values[2]};
}
std::string_view text_of(const IntroductionBytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

[[noreturn]] void fail_meeting(const std::string& message, int rank = -1) {
  throw DistributedError("dist::init: " + message, rank);
}

// The caller's side of a new connection.
void introduce(const os::Socket& socket, const Launch& launch, int port, int listener, os::Deadline deadline) {
  Handshake handshake{.of_listener = {}, .of_caller = random_challenge()};
  const IntroductionBytes said = encoded_introduction({.rank = static_cast<std::uint32_t>(launch.rank),
                                                       .size = static_cast<std::uint32_t>(launch.size),
                                                       .port = static_cast<std::uint32_t>(port)});
  Proof answer{};
  bool done = socket.read_all(handshake.of_listener, deadline);
  if (done) {
    const Proof proof = proof_of(launch.secret, "caller", handshake, text_of(said));
    done = socket.write_all(handshake.of_caller, deadline) && socket.write_all(said, deadline) &&
           socket.write_all(proof, deadline) && socket.read_all(answer, deadline);
  }
  if (!done || !equal_proofs(answer, proof_of(launch.secret, "listener", handshake, text_of(said)))) {
    fail_meeting(fmt::format("rank {} at {} does not take this rank ({} of {}): is LOCKSTEP_DIST_SECRET the same?",
                             listener, socket.other_address(), launch.rank, launch.size),
                 listener);
  }
}

// The listener's side; nothing where the caller is none of the group.
std::optional<Introduction> introduced(const os::Socket& socket, const Launch& launch, os::Deadline deadline) {
  // Who says nothing must not keep the others waiting.
  deadline = std::min(deadline, std::chrono::steady_clock::now() + std::chrono::seconds(2));
  Handshake handshake{.of_listener = random_challenge(), .of_caller = {}};
  IntroductionBytes said{};
  Proof proof{};
  const bool done = socket.write_all(handshake.of_listener, deadline) &&
                    socket.read_all(handshake.of_caller, deadline) && socket.read_all(said, deadline) &&
                    socket.read_all(proof, deadline);
  if (!done || !equal_proofs(proof, proof_of(launch.secret, "caller", handshake, text_of(said)))) return std::nullopt;
  if (!socket.write_all(proof_of(launch.secret, "listener", handshake, text_of(said)), deadline)) return std::nullopt;
  return parse_introduction(said);
}

// Where each rank above 0 listens, as lines "ADDRESS PORT".
constexpr std::size_t kMostPlace = 128;
struct Place {
  std::string address;
  int port;
};
std::string encoded_places(const std::vector<Place>& places) {
  std::string text;
  for (const Place& place : places) text += fmt::format("{} {}\n", place.address, place.port);
  text.resize(places.size() * kMostPlace, ' ');
  return text;
}
std::vector<Place> parse_places(std::string_view text, std::size_t count) {
  std::vector<Place> places;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t space = text.find(' ');
    const std::size_t end = text.find('\n');
    if (space >= end || end == std::string_view::npos) fail_meeting("rank 0 sent no list of ranks", 0);
    int port = 0;
    std::from_chars(text.data() + space + 1, text.data() + end, port);
    places.push_back({std::string(text.substr(0, space)), port});
    text.remove_prefix(end + 1);
  }
  return places;
}

// Takes calls until each rank above this one has called; `places`, if given, of who called.
void take_calls(const os::Socket& listener, const Launch& launch, std::vector<os::Socket>& ranks,
                std::vector<Place>* places, os::Deadline deadline) {
  std::vector<int> missing;
  for (int rank = launch.rank + 1; rank < launch.size; ++rank) missing.push_back(rank);
  int strangers = 0;
  while (!missing.empty()) {
    std::optional<os::Socket> caller = listener.accept(deadline);
    if (!caller) {
      fail_meeting(fmt::format("rank {} waited for ranks {} in vain{}", launch.rank, fmt::join(missing, ", "),
                               strangers > 0 ? "; somebody called with another secret" : ""),
                   missing.front());
    }
    const std::optional<Introduction> said = introduced(*caller, launch, deadline);
    if (!said) {
      ++strangers;
      continue;
    }
    const auto rank = std::ranges::find(missing, static_cast<std::int64_t>(said->rank));
    if (static_cast<int>(said->size) != launch.size || rank == missing.end() || said->port > 65535) {
      fail_meeting(fmt::format("rank {} of {} called rank {} of {}, which waits for ranks {}", said->rank, said->size,
                               launch.rank, launch.size, fmt::join(missing, ", ")),
                   static_cast<int>(said->rank));
    }
    const auto index = static_cast<std::size_t>(*rank);
    missing.erase(rank);
    if (places != nullptr) (*places)[index - 1] = {caller->other_address(), static_cast<int>(said->port)};
    ranks[index] = std::move(*caller);
  }
}

os::Socket called(const Place& place, int rank, os::Deadline deadline) {
  std::optional<os::Socket> socket = os::Socket::connect(place.address, place.port, deadline);
  if (!socket) fail_meeting(fmt::format("rank {} does not listen at {}:{}", rank, place.address, place.port), rank);
  return std::move(*socket);
}

}  // namespace

std::vector<os::Socket> meet(const Launch& launch, os::Deadline deadline) {
  std::vector<os::Socket> ranks(static_cast<std::size_t>(launch.size));
  const auto others = static_cast<std::size_t>(launch.size - 1);
  if (launch.rank == 0) {
    const os::Socket listener = os::Socket::listen(launch.address, launch.port);
    std::vector<Place> places(others);
    take_calls(listener, launch, ranks, &places, deadline);
    const std::string text = encoded_places(places);
    for (std::size_t rank = 1; rank <= others; ++rank) {
      if (!ranks[rank].write_all(std::as_bytes(std::span(text)), deadline)) {
        fail_meeting(fmt::format("rank {} is gone", rank), static_cast<int>(rank));
      }
    }
    return ranks;
  }
  ranks[0] = called({launch.address, launch.port}, 0, deadline);
  // On the way to rank 0, and nowhere else.
  const os::Socket listener = os::Socket::listen(ranks[0].own_address(), 0);
  introduce(ranks[0], launch, listener.own_port(), 0, deadline);
  std::string text(others * kMostPlace, ' ');
  if (!ranks[0].read_all(std::as_writable_bytes(std::span(text)), deadline))
    fail_meeting("rank 0 sent no list of ranks", 0);
  const std::vector<Place> places = parse_places(text, others);
  for (int rank = 1; rank < launch.rank; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    ranks[index] = called(places[index - 1], rank, deadline);
    introduce(ranks[index], launch, 0, rank, deadline);
  }
  take_calls(listener, launch, ranks, nullptr, deadline);
  return ranks;
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
