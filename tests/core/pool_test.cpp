#include "core/pool.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace lockstep {
namespace {

struct Counted {
  explicit Counted(int& count) : alive(count) { ++alive; }
  ~Counted() { --alive; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  int& alive;
  long payload[13] = {};
};

TEST(Pool, ObjectsAreDestroyedAndTheirMemoryIsUsedAgain) {
  int alive = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<std::shared_ptr<Counted>> objects;
    for (int i = 0; i < 10'000; ++i) objects.push_back(make_pooled<Counted>(alive));  // more than a list keeps
    EXPECT_EQ(alive, 10'000);
    objects.clear();
    EXPECT_EQ(alive, 0);
  }
}

TEST(Pool, ThreadsFreeWhatOthersMade) {
  for (int round = 0; round < 20; ++round) {
    std::vector<std::shared_ptr<long>> made(500);
    std::thread maker([&] {
      for (std::size_t i = 0; i < made.size(); ++i) made[i] = make_pooled<long>(static_cast<long>(i));
    });
    maker.join();
    std::vector<std::thread> users;
    for (std::size_t part = 0; part < 4; ++part) {
      users.emplace_back([&, part] {
        for (std::size_t i = part; i < made.size(); i += 4) {
          EXPECT_EQ(*made[i], static_cast<long>(i));
          made[i] = nullptr;
          EXPECT_EQ(*make_pooled<long>(7L), 7);
        }
      });
    }
    for (std::thread& user : users) user.join();
  }
}

// Destroyed after the main thread's list.
std::shared_ptr<long> kept_to_the_end = make_pooled<long>(1L);

TEST(Pool, ObjectsMayOutliveTheirThread) {
  std::shared_ptr<long> left;
  std::thread([&] { left = make_pooled<long>(5L); }).join();
  EXPECT_EQ(*left, 5);
  left = nullptr;
  EXPECT_EQ(*kept_to_the_end, 1);
}

}  // namespace
}  // namespace lockstep
