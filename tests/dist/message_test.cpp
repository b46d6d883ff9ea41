#include "dist/message.h"

#include <gtest/gtest.h>

#include <algorithm>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

TEST(DistMessage, HeadersAreReadAsTheyWereWritten) {
  const MessageHeader header{.kind = MessageKind::abort, .number = 0x0123456789abcdef, .text_bytes = 4096, .bytes = 0};
  const HeaderBytes bytes = encoded(header);
  const MessageHeader read = parse_header(bytes);
  EXPECT_EQ(read.kind, header.kind);
  EXPECT_EQ(read.number, header.number);
  EXPECT_EQ(read.text_bytes, header.text_bytes);
  EXPECT_EQ(read.bytes, header.bytes);
  EXPECT_EQ(parse_header(encoded({.kind = MessageKind::data, .number = 1, .text_bytes = 2, .bytes = 1ULL << 40})).bytes,
            1ULL << 40);
}

TEST(DistMessage, WhatIsNoHeaderIsRefused) {
  const HeaderBytes valid = encoded({.kind = MessageKind::data, .number = 1, .text_bytes = 2, .bytes = 3});
  const auto with = [&](std::size_t at, int value) {
    HeaderBytes bytes = valid;
    bytes[at] = static_cast<std::byte>(value);
    return bytes;
  };
  EXPECT_NO_THROW(parse_header(valid));
  EXPECT_THROW(parse_header(with(0, 'X')), FormatError);
  EXPECT_THROW(parse_header(with(4, 2)), FormatError);   // kind
  EXPECT_THROW(parse_header(with(18, 1)), FormatError);  // a text of 65538 bytes
  EXPECT_THROW(parse_header(with(4, 1)), FormatError);   // an end with data
}

TEST(DistMessage, ProofsDependOnAllThatTheyProve) {
  const Handshake handshake{.of_listener = random_challenge(), .of_caller = random_challenge()};
  EXPECT_NE(handshake.of_listener, handshake.of_caller);
  const Proof proof = proof_of("secret", "caller", handshake, "rank 1");
  EXPECT_TRUE(equal_proofs(proof, proof_of("secret", "caller", handshake, "rank 1")));
  EXPECT_FALSE(equal_proofs(proof, proof_of("Secret", "caller", handshake, "rank 1")));
  EXPECT_FALSE(equal_proofs(proof, proof_of("secret", "listener", handshake, "rank 1")));
  EXPECT_FALSE(equal_proofs(proof, proof_of("secret", "caller", handshake, "rank 2")));
  const Handshake swapped{.of_listener = handshake.of_caller, .of_caller = handshake.of_listener};
  EXPECT_FALSE(equal_proofs(proof, proof_of("secret", "caller", swapped, "rank 1")));
}

}  // namespace
}  // namespace dist
}  // namespace v0
}  // namespace lockstep
