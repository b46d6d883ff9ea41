#include "core/os_socket.h"

#include <gtest/gtest.h>

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include <lockstep/error.h>

namespace lockstep {
inline namespace v0 {
namespace os {
namespace {

const Deadline kSoon = std::chrono::steady_clock::now() + std::chrono::seconds(60);

sockaddr_in local(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

TEST(HeldPort, IsThereForWhoListensAndForNobodyElse) {
  const HeldPort held("127.0.0.1");
  const sockaddr_in address = local(held.number());
  const int other = ::socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_GE(other, 0);
  EXPECT_NE(::bind(other, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ::close(other);
  for (int i = 0; i < 2; ++i) {  // again after the first has ended, as after a restart
    const Socket listener = Socket::listen("127.0.0.1", held.number());
    EXPECT_THROW(Socket::listen("127.0.0.1", held.number()), IoError);
    const std::optional<Socket> caller = Socket::connect("127.0.0.1", held.number(), kSoon);
    ASSERT_TRUE(caller);
    const std::optional<Socket> taken = listener.accept(kSoon);
    ASSERT_TRUE(taken);
    const std::array<std::byte, 1> sent{std::byte{7}};
    std::array<std::byte, 1> came{};
    EXPECT_TRUE(caller->write_all(sent, kSoon));
    EXPECT_TRUE(taken->read_all(came, kSoon));
    EXPECT_EQ(came, sent);
  }
}

}  // namespace
}  // namespace os
}  // namespace v0
}  // namespace lockstep
