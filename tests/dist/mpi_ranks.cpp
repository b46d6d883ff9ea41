// A rank under mpirun (tests/CMakeLists.txt). Without an argument: collectives and a
// training by MPI are right. "mismatch": ranks call different things. "stop": rank 1 stops.
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include <lockstep/lockstep.h>
#include <lockstep/parallel.h>

#include "dist/group.h"

namespace ls = lockstep;

namespace {

void expect(bool holds, const char* what) {
  if (!holds) throw ls::Error(std::string("does not hold: ") + what);
}

ls::Tensor of_rank(int rank, std::int64_t count) {
  return ls::arange(static_cast<double>(count)).to(ls::DType::f32) + static_cast<float>(100 * rank);
}

void check_collectives(const ls::dist::Group& group) {
  for (const std::int64_t count : {std::int64_t{0}, std::int64_t{3}, std::int64_t{500'000}}) {
    const std::vector<ls::Tensor> all = group.all_gather(of_rank(group.rank(), count));
    std::vector<ls::Tensor> parts;
    for (int rank = 0; rank < group.size(); ++rank) {
      expect(ls::equal(all[static_cast<std::size_t>(rank)], of_rank(rank, count)), "all_gather");
      expect(ls::equal(group.broadcast(of_rank(group.rank(), count), rank), of_rank(rank, count)), "broadcast");
      parts.push_back(of_rank(10 * group.rank() + rank, count));
    }
    const std::vector<ls::Tensor> got = group.all_to_all(parts);
    for (int rank = 0; rank < group.size(); ++rank) {
      expect(ls::equal(got[static_cast<std::size_t>(rank)], of_rank(10 * rank + group.rank(), count)), "all_to_all");
    }
  }
  if (group.size() > 1 && group.rank() == 0) group.send(of_rank(7, 5), 1);
  if (group.rank() == 1) expect(ls::equal(group.recv(of_rank(0, 5), 0), of_rank(7, 5)), "recv");
  group.barrier();
}

std::uint64_t trained(const ls::dist::Group& group, int zero) {
  ls::manual_seed(1);
  struct Net : ls::nn::Module {
    ls::nn::Linear a{*this, "a", 20, 30};
    ls::nn::Linear b{*this, "b", 30, 5};
  } net;
  ls::optim::AdamW optimizer(net.parameters(), {.lr = 1e-2});
  ls::dist::Parallel parallel(net, optimizer, group,
                              {.shards = 4, .zero = zero, .clip_norm = 1.0, .bucket_bytes = 700});
  ls::Generator generator(5);
  for (int step = 0; step < 3; ++step) {
    const ls::data::Batch batch{ls::randn({12, 20}, {}, &generator),
                                ls::randint(0, 5, {12}, {.dtype = ls::DType::i64}, &generator)};
    parallel.step(batch, [&](const ls::data::Batch& shard) {
      return ls::cross_entropy(net.b(ls::relu(net.a(shard.input))), shard.target);
    });
  }
  parallel.compare();
  return ls::nn::state_hash(net.state_dict());
}

int run(const char* what) {
  const ls::dist::Group group =
      ls::dist::init({.deadline = std::chrono::seconds(std::strcmp(what, "stop") == 0 ? 3 : 60)});
  if (group.size() > 1) expect(group.engine().starts_with("MPI"), "the engine is MPI");
  if (std::strcmp(what, "mismatch") == 0) {
    group.all_gather(of_rank(0, group.rank() == 0 ? 3 : 4));
    return 2;
  }
  if (std::strcmp(what, "stop") == 0) {
    group.barrier();
    if (group.rank() == 1) std::raise(SIGSTOP);
    group.barrier();
    return 2;
  }
  check_collectives(group);
  const std::uint64_t one = trained(ls::dist::GroupAccess::make({}), 0);
  for (const int zero : {0, 1}) expect(trained(group, zero) == one, "the weights are those of one rank");
  std::printf("rank %d of %d: right\n", group.rank(), group.size());
  return 0;
}

}  // namespace

int main(int count, char** words) try { return run(count > 1 ? words[1] : ""); } catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
