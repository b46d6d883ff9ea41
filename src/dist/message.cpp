#include "dist/message.h"

#include <string>

#include <fmt/format.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

constexpr std::uint32_t kMagic = 0x3144534c;  // "LSD1"

template <typename T> void put(HeaderBytes& bytes, std::size_t at, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) bytes[at + i] = static_cast<std::byte>(value >> (8 * i) & 0xff);
}
template <typename T> T get(std::span<const std::byte, kHeaderBytes> bytes, std::size_t at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(bytes[at + i]) << (8 * i);
  return value;
}

}  // namespace

HeaderBytes encoded(const MessageHeader& header) {
  HeaderBytes bytes{};
  put(bytes, 0, kMagic);
  put(bytes, 4, static_cast<std::uint32_t>(header.kind));
  put(bytes, 8, header.number);
  put(bytes, 16, header.text_bytes);
  put(bytes, 20, header.bytes);
  return bytes;
}

MessageHeader parse_header(std::span<const std::byte, kHeaderBytes> bytes) {
  const auto kind = get<std::uint32_t>(bytes, 4);
  const MessageHeader header{.kind = static_cast<MessageKind>(kind),
                             .number = get<std::uint64_t>(bytes, 8),
                             .text_bytes = get<std::uint32_t>(bytes, 16),
                             .bytes = get<std::uint64_t>(bytes, 20)};
  if (get<std::uint32_t>(bytes, 0) != kMagic) throw FormatError("this is no message of lockstep");
  if (kind > static_cast<std::uint32_t>(MessageKind::abort))
    throw FormatError(fmt::format("no message has kind {}", kind));
  if (header.text_bytes > kMostText) throw FormatError(fmt::format("a text of {} bytes", header.text_bytes));
  if (header.kind == MessageKind::abort && header.bytes != 0) throw FormatError("an end with data");
  return header;
}

Challenge random_challenge() {
  Challenge challenge;
  if (RAND_bytes(reinterpret_cast<unsigned char*>(challenge.data()), static_cast<int>(challenge.size())) != 1) {
    throw IoError("libcrypto has no random bytes");
  }
  return challenge;
}

Proof proof_of(std::string_view secret, std::string_view role, const Handshake& handshake, std::string_view said) {
  std::string text(role);
  text += '\0';
  text.append(reinterpret_cast<const char*>(handshake.of_listener.data()), handshake.of_listener.size());
  text.append(reinterpret_cast<const char*>(handshake.of_caller.data()), handshake.of_caller.size());
  text += said;
  Proof proof;
  unsigned length = 0;
  const unsigned char* done = HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
                                   reinterpret_cast<const unsigned char*>(text.data()), text.size(),
                                   reinterpret_cast<unsigned char*>(proof.data()), &length);
  if (done == nullptr || length != proof.size()) throw IoError("libcrypto cannot compute a proof");
  return proof;
}

bool equal_proofs(const Proof& a, const Proof& b) {
  return CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
