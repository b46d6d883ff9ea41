// What goes over a connection: a header of fixed size, the text of the call, the bytes. Everything that another process
// sent is checked here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace dist {

enum class MessageKind : std::uint8_t {
  data,  ///< of a collective
  abort  ///< the sender gave up; its text says why
};
struct MessageHeader {
  MessageKind kind = MessageKind::data;
  std::uint64_t number = 0;      ///< of the messages of this connection and direction
  std::uint32_t text_bytes = 0;  ///< of the call, at most kMostText
  std::uint64_t bytes = 0;
};
inline constexpr std::size_t kHeaderBytes = 28;
inline constexpr std::uint32_t kMostText = 4096;
using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes encoded(const MessageHeader& header);
/// Throws FormatError if these bytes are no header.
MessageHeader parse_header(std::span<const std::byte, kHeaderBytes> bytes);

/// Both sides of a new connection prove that they know the secret without sending it: each answers the other's random
/// challenge with HMAC-SHA256 over both challenges, its role and what it says of itself.
inline constexpr std::size_t kChallengeBytes = 32;
using Challenge = std::array<std::byte, kChallengeBytes>;
using Proof = std::array<std::byte, 32>;
Challenge random_challenge();
struct Handshake {
  Challenge of_listener{};
  Challenge of_caller{};
};
Proof proof_of(std::string_view secret, std::string_view role, const Handshake& handshake, std::string_view said);
/// In time that does not depend on where they differ.
bool equal_proofs(const Proof& a, const Proof& b);

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
