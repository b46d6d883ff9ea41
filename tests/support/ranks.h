// A group of ranks, each a thread of the test.
#pragma once

#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "core/os_socket.h"
#include "dist/group.h"

namespace lockstep::test {

inline constexpr auto kLongDeadline = std::chrono::milliseconds(60'000);

/// What each rank ended with: "" or an error.
inline std::vector<std::string> run_ranks(int size, const std::function<void(const dist::Group&)>& work,
                                          std::chrono::milliseconds deadline = kLongDeadline) {
  const os::HeldPort port("127.0.0.1");
  std::vector<std::string> ends(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        work(dist::GroupAccess::make({.rank = rank,
                                      .size = size,
                                      .local_rank = rank,
                                      .address = "127.0.0.1",
                                      .port = port.number(),
                                      .secret = "s"},
                                     {.deadline = deadline}));
      } catch (const std::exception& error) {
        ends[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return ends;
}

inline void expect_success(const std::vector<std::string>& ends) {
  for (const std::string& end : ends) EXPECT_EQ(end, "");
}

}  // namespace lockstep::test
