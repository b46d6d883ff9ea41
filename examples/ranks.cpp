// One sum by 1, 2, 4 or 8 processes, with the same bits: the work is cut into 8 shards, whatever the number of
// processes, and their results are added in one order. docs/distributed.md says how to start it.
#include <lockstep/dist.h>
#include <lockstep/lockstep.h>

#include <exception>
#include <iostream>

namespace ls = lockstep;

int main() try {
  constexpr int kShards = 8;
  const ls::dist::Group group = ls::dist::init();
  if (kShards % group.size() != 0) return std::cerr << "start 1, 2, 4 or 8 processes\n", 2;

  const int own = kShards / group.size();
  std::vector<ls::Tensor> sums;
  for (int shard = group.rank() * own; shard < (group.rank() + 1) * own; ++shard) {
    const ls::Tensor x = ls::sin(ls::arange(100'000).to(ls::DType::f32) * (shard + 1));
    sums.push_back((x * x).sum());
  }
  ls::Tensor all = ls::cat(group.all_gather(ls::stack(sums)));
  for (int half = kShards / 2; half >= 1; half /= 2) all = all.narrow(0, 0, half) + all.narrow(0, half, half);
  std::cout << "rank " + std::to_string(group.rank()) + " of " + std::to_string(group.size()) + ": " + all.to_string() +
                   '\n';
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
