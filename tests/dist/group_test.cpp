#include "dist/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <thread>

#include <lockstep/ops.h>

#include "core/os_socket.h"
#include "dist/engine.h"
#include "dist/orders.h"
#include "support/ranks.h"

namespace lockstep {
inline namespace v0 {
namespace dist {
namespace {

using ::testing::HasSubstr;

// Long enough for ranks to meet on a machine that has much else to do.
constexpr auto kShort = std::chrono::milliseconds(2500);

using test::expect_success;
using test::run_ranks;

Tensor of_rank(int rank, std::int64_t count = 3) {
  return arange(static_cast<double>(count)).to(DType::f32) + static_cast<float>(100 * rank);
}

class DistGroup : public ::testing::TestWithParam<int> {};

TEST_P(DistGroup, CollectivesMoveWhatTheySay) {
  expect_success(run_ranks(GetParam(), [](const Group& group) {
    const int size = group.size();
    const Tensor mine = of_rank(group.rank());
    for (int from = 0; from < size; ++from) EXPECT_TRUE(equal(group.broadcast(mine, from), of_rank(from)));
    const std::vector<Tensor> all = group.all_gather(mine);
    ASSERT_EQ(static_cast<int>(all.size()), size);
    for (int other = 0; other < size; ++other) EXPECT_TRUE(equal(all[static_cast<std::size_t>(other)], of_rank(other)));
    std::vector<Tensor> parts;
    for (int to = 0; to < size; ++to) parts.push_back(of_rank(10 * group.rank() + to));
    const std::vector<Tensor> got = group.all_to_all(parts);
    for (int from = 0; from < size; ++from) {
      EXPECT_TRUE(equal(got[static_cast<std::size_t>(from)], of_rank(10 * from + group.rank())));
    }
    group.barrier();
  }));
}
INSTANTIATE_TEST_SUITE_P(Sizes, DistGroup, ::testing::Values(1, 2, 3, 4));

TEST(DistGroups, MessagesThatFillEveryBufferPassEachOther) {
  expect_success(run_ranks(2, [](const Group& group) {
    constexpr std::int64_t kCount = 4'000'000;  // 16 MB each way
    const std::vector<Tensor> all = group.all_gather(of_rank(group.rank(), kCount));
    EXPECT_TRUE(equal(all[static_cast<std::size_t>(1 - group.rank())], of_rank(1 - group.rank(), kCount)));
  }));
}

TEST(DistGroups, OneSendsToAnother) {
  expect_success(run_ranks(3, [](const Group& group) {
    const Tensor like = zeros({3});
    if (group.rank() == 0) group.send(of_rank(7), 2);
    if (group.rank() == 2) {
      EXPECT_TRUE(equal(group.recv(like, 0), of_rank(7)));
    }
    EXPECT_THROW(group.send(like, group.rank()), ValueError);
    EXPECT_THROW(group.recv(like, 3), ValueError);
    EXPECT_THROW(group.broadcast(like, -1), ValueError);
    EXPECT_THROW(group.all_to_all({like}), ValueError);
    group.barrier();
  }));
}

TEST(DistGroups, CollectivesUnderWayKeepTheirOrder) {
  expect_success(run_ranks(3, [](const Group& group) {
    std::vector<Result> results;
    const std::vector<Shape> shapes(3, Shape{1000});
    for (int i = 0; i < 20; ++i)
      results.push_back(GroupAccess::start_all_gather(group, of_rank(group.rank() + i, 1000), shapes));
    EXPECT_TRUE(equal(group.broadcast(of_rank(group.rank()), 1), of_rank(1)));  // after them
    for (int i = 0; i < 20; ++i) {
      const std::vector<Tensor> all = results[static_cast<std::size_t>(i)]();
      for (int rank = 0; rank < 3; ++rank)
        EXPECT_TRUE(equal(all[static_cast<std::size_t>(rank)], of_rank(rank + i, 1000)));
    }
  }));
}

TEST(DistGroups, WhatFailsUnderWayIsToldWhoWaits) {
  const std::vector<std::string> ends = run_ranks(2, [](const Group& group) {
    const std::vector<Shape> shapes(2, Shape{group.rank() + 3});
    const Result result = GroupAccess::start_all_gather(group, of_rank(0, group.rank() + 3), shapes);
    result();
  });
  EXPECT_THAT(ends[0] + ends[1], HasSubstr("all_gather f32, 6 elements in all"));
  EXPECT_THAT(ends[0] + ends[1], HasSubstr("all_gather f32, 8 elements in all"));
}

TEST(DistGroups, ALaterCallTellsWhatFailedUnderWay) {
  const std::vector<std::string> ends = run_ranks(2, [](const Group& group) {
    const std::vector<Shape> shapes(2, Shape{group.rank() + 3});
    const Result result = GroupAccess::start_all_gather(group, of_rank(0, group.rank() + 3), shapes);
    group.barrier();
  });
  for (const std::string& end : ends) {
    EXPECT_THAT(end, HasSubstr("all_gather f32"));
    EXPECT_THAT(end, HasSubstr("failed before this call"));
  }
}

TEST(DistEngines, AreChosenByNameOrLauncher) {
  const auto none = [](const std::string&) { return std::optional<std::string>(); };
  const auto says = [](const char* value) {
    return [value](const std::string& name) {
      return name == "LOCKSTEP_DIST_ENGINE" ? std::optional<std::string>(value) : std::nullopt;
    };
  };
  Launch launch;
  EXPECT_EQ(chosen_engine("", none, launch), EngineKind::tcp);
  EXPECT_EQ(chosen_engine("", says("nccl"), launch), EngineKind::nccl);
  EXPECT_EQ(chosen_engine("tcp", says("nccl"), launch), EngineKind::tcp);
  EXPECT_THROW(chosen_engine("gloo", none, launch), ValueError);
  EXPECT_THROW(chosen_engine("", says("gloo"), launch), ValueError);
  for (const char* mpi : {"openmpi", "mpich"}) {
    launch.launcher = mpi;
    EXPECT_EQ(chosen_engine("", none, launch), has_mpi(mpi) ? EngineKind::mpi : EngineKind::tcp);
  }
}

TEST(DistEngines, NcclIsChosenWhereEveryRankHasAGpuToItself) {
  const auto can = [](std::vector<NcclAbility> ranks) { return can_use_nccl(ranks); };
  EXPECT_TRUE(can({{.gpu = 5, .version = 23004}, {.gpu = 9, .version = 23004}}));
  EXPECT_FALSE(can({{.gpu = 5, .version = 23004}, {.gpu = 5, .version = 23004}})) << "one GPU";
  EXPECT_FALSE(can({{.gpu = 5, .version = 23004}, {.gpu = 9, .version = 22809}})) << "two versions";
  EXPECT_FALSE(can({{.gpu = 5, .version = 23004}, {}})) << "one has none";
  const auto says = [](const char* value) {
    return [value](const std::string&) { return std::optional<std::string>(value); };
  };
  EXPECT_TRUE(is_auto("", says("auto")));
  EXPECT_TRUE(is_auto("auto", says("tcp")));
  EXPECT_FALSE(is_auto("", says("tcp")));
  EXPECT_FALSE(is_auto("tcp", says("auto")));
}

TEST(DistEngines, OneThatCannotBeUsedIsAnError) {
  const Launch launch{
      .rank = 0, .size = 2, .local_rank = 0, .launcher = "torchrun", .address = "127.0.0.1", .port = 1, .secret = "s"};
  EXPECT_THROW(connect_mpi(launch, kShort), ValueError);  // no mpirun has started this process
  const EngineInfo nccl = nccl_info();
  if (!nccl.problem.empty()) {
    try {
      connect(EngineKind::nccl, launch, kShort);
      ADD_FAILURE() << "there is none";
    } catch (const ValueError& error) {
      EXPECT_THAT(error.what(), HasSubstr("libnccl"));
      EXPECT_THAT(error.what(), HasSubstr("fix"));
    }
  }
}

TEST(DistGroups, EveryDtypeAndEmptyTensors) {
  expect_success(run_ranks(2, [](const Group& group) {
    for (const DType dtype : {DType::f64, DType::f16, DType::bf16, DType::i64, DType::u8, DType::boolean}) {
      const Tensor mine = of_rank(group.rank()).to(dtype);
      EXPECT_TRUE(equal(group.broadcast(mine, 0), of_rank(0).to(dtype))) << name_of(dtype);
    }
    EXPECT_EQ(group.all_gather(zeros({0, 2}))[1].shape(), (Shape{0, 2}));
  }));
}

TEST(DistGroups, CallsThatDifferAreNamed) {
  const std::vector<std::string> ends = run_ranks(2, [](const Group& group) {
    group.barrier();
    group.all_gather(zeros({group.rank() == 0 ? 3 : 4}));
  });
  EXPECT_THAT(ends[0] + ends[1], HasSubstr("all_gather f32 [3]"));
  EXPECT_THAT(ends[0] + ends[1], HasSubstr("all_gather f32 [4]"));
  for (const std::string& end : ends) {
    EXPECT_THAT(end, HasSubstr("in call #2"));
    EXPECT_THAT(end, HasSubstr("#1 barrier"));
  }
}

TEST(DistGroups, WhoDoesNotCallIsNamedToAll) {
  const std::vector<std::string> ends = run_ranks(
      3,
      [](const Group& group) {
        if (group.rank() == 2) {
          std::this_thread::sleep_for(2 * kShort);
          return;
        }
        group.all_gather(zeros({3}));
      },
      kShort);
  EXPECT_THAT(ends[0], HasSubstr("rank 2 has not answered"));
  EXPECT_THAT(ends[1], HasSubstr("rank 2 has not answered"));
  EXPECT_EQ(ends[2], "");
}

TEST(DistGroups, AGroupThatFailedStaysSo) {
  const std::vector<std::string> ends = run_ranks(
      2,
      [](const Group& group) {
        if (group.rank() == 1) return;
        EXPECT_THROW(group.barrier(), DistributedError);
        group.barrier();
      },
      kShort);
  EXPECT_THAT(ends[0], HasSubstr("failed before"));
}

TEST(DistGroups, AnotherSecretIsRefused) {
  const os::HeldPort port("127.0.0.1");
  const auto launch = [&](int rank, const char* secret) {
    return Launch{
        .rank = rank, .size = 2, .local_rank = 0, .address = "127.0.0.1", .port = port.number(), .secret = secret};
  };
  std::thread other([&] { EXPECT_THROW(connect_tcp(launch(1, "wrong"), kShort), DistributedError); });
  try {
    connect_tcp(launch(0, "right"), kShort);
    ADD_FAILURE() << "it was taken";
  } catch (const DistributedError& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_THAT(error.what(), HasSubstr("another secret"));
  }
  other.join();
}

// A rank of two in a process of its own, which meets signal `number` after the first call.
void expect_named(int number, const char* expected) {
  const os::HeldPort port("127.0.0.1");
  const auto launch = [&](int rank) {
    return Launch{
        .rank = rank, .size = 2, .local_rank = rank, .address = "127.0.0.1", .port = port.number(), .secret = "s"};
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::unique_ptr<Engine> engine = connect_tcp(launch(1), test::kLongDeadline);
    std::byte byte{};
    const Outgoing outgoing[] = {{0, {&byte, 1}}};
    engine->exchange("first", outgoing, {});
    ::raise(number);
    ::_exit(0);
  }
  const std::unique_ptr<Engine> engine = connect_tcp(launch(0), kShort);
  std::byte byte{};
  const Incoming incoming[] = {{1, {&byte, 1}}};
  engine->exchange("first", {}, incoming);
  try {
    engine->exchange("second", {}, incoming);
    ADD_FAILURE() << "nobody noticed";
  } catch (const DistributedError& error) {
    EXPECT_EQ(error.rank(), 1);
    EXPECT_THAT(error.what(), HasSubstr(expected));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}
TEST(DistGroups, AProcessThatWasKilledIsNamed) {
  expect_named(SIGKILL, "rank 1 has ended");
}
TEST(DistGroups, AProcessThatStoppedIsNamed) {
  expect_named(SIGSTOP, "rank 1 has not answered for 2.5 s");
}

using namespace std::chrono_literals;

// Between two of them there are many words of nothing to do.
TEST(DistOrders, AreTakenInOrder) {
  expect_success(run_ranks(3, [&](const Group& group) {
    Orders orders(group, 2ms);
    if (group.rank() == 0) {
      for (std::int64_t i = 0; i < 3; ++i) {
        const std::vector<Tensor> all =
            orders.carry_out({7, i}, [&] { return group.all_gather(of_rank(static_cast<int>(i))); });
        EXPECT_EQ(all.size(), 3u);
        orders.note(5);
        std::this_thread::sleep_for(30ms);
      }
      orders.carry_out({}, [] {});
      orders.end();
      EXPECT_EQ(orders.failure(), nullptr);
      return;
    }
    for (std::int64_t i = 0; i < 3; ++i) {
      EXPECT_EQ(orders.take(), (Orders::Words{7, i}));
      group.all_gather(of_rank(0));
      orders.note(5);
    }
    EXPECT_EQ(orders.take(), Orders::Words());
    EXPECT_EQ(orders.take(), std::nullopt);
  }));
}

TEST(DistOrders, AnotherResultAndARankThatIsGoneAreTold) {
  const auto ends = run_ranks(2, [&](const Group& group) {
    Orders orders(group, 20ms);
    orders.note(static_cast<std::uint64_t>(group.rank()));
    if (group.rank() == 1) orders.take();
    while (orders.failure() == nullptr) std::this_thread::sleep_for(5ms);
    EXPECT_THROW(orders.carry_out({1}, [] {}), DistributedError);
    std::rethrow_exception(orders.failure());
  });
  for (const std::string& end : ends) EXPECT_THAT(end, HasSubstr("rank 1 has got another result than rank 0"));

  const auto gone = run_ranks(2, [&](const Group& group) {
    Orders orders(group, 20ms);
    if (group.rank() == 1) return;
    while (orders.failure() == nullptr) std::this_thread::sleep_for(5ms);
    std::rethrow_exception(orders.failure());
  });
  EXPECT_THAT(gone[0], HasSubstr("rank 1 "));
}

}  // namespace
}  // namespace dist
}  // namespace v0
}  // namespace lockstep
