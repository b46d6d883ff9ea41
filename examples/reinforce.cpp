// REINFORCE (Williams, 1992) balances a pole on a cart (Barto, Sutton, Anderson, 1983): 16 carts at once, one update of
// the policy per round of episodes.
//   example_reinforce [rounds = 60]
#include <lockstep/lockstep.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <vector>

namespace ls = lockstep;

namespace {

constexpr std::int64_t kCarts = 16;
constexpr int kLongest = 200;
constexpr double kDiscount = 0.99;

struct Cart {
  std::array<double, 4> state{};  ///< place, speed, the pole's angle and its speed
  bool up = true;

  void push(bool right) {
    constexpr double kGravity = 9.8, kPole = 0.1, kTotal = 1.1, kHalf = 0.5, kForce = 10, kTime = 0.02;
    auto& [x, speed, angle, turning] = state;
    const double sine = std::sin(angle), cosine = std::cos(angle);
    const double push = ((right ? kForce : -kForce) + kPole * kHalf * turning * turning * sine) / kTotal;
    const double torque = (kGravity * sine - cosine * push) / (kHalf * (4.0 / 3 - kPole * cosine * cosine / kTotal));
    const double acceleration = push - kPole * kHalf * torque * cosine / kTotal;
    x += kTime * speed;
    speed += kTime * acceleration;
    angle += kTime * turning;
    turning += kTime * torque;
    up = std::abs(x) < 2.4 && std::abs(angle) < 12 * 3.14159265358979 / 180;
  }
};

struct Policy : ls::nn::Module {
  ls::nn::Linear hidden{*this, "hidden", 4, 32};
  ls::nn::Linear out{*this, "out", 32, 2};
  ls::Tensor forward(const ls::Tensor& states) const { return out(ls::relu(hidden(states))); }
};

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 60;
  ls::manual_seed(1);
  Policy policy;
  ls::optim::Adam optimizer(policy.parameters(), {.lr = 1e-2});
  double steps = 0;
  for (int round = 0; round < rounds; ++round) {
    // Play, without gradients.
    std::vector<Cart> carts(kCarts);
    const std::vector<double> starts =
        ls::uniform(-0.05, 0.05, {kCarts * 4}, {.dtype = ls::DType::f64}).to_vector<double>();
    for (std::size_t i = 0; i < starts.size(); ++i) carts[i / 4].state[i % 4] = starts[i];
    std::vector<float> seen;
    std::vector<std::int64_t> actions;
    std::vector<std::size_t> player;
    std::vector<std::size_t> length(kCarts, 0);
    for (int t = 0; t < kLongest; ++t) {
      std::vector<float> now;
      for (const Cart& cart : carts) now.insert(now.end(), cart.state.begin(), cart.state.end());
      const ls::NoGrad no_grad;
      const ls::Tensor scores = policy.forward(ls::Tensor::from(now, {kCarts, 4}));
      const std::vector<std::int64_t> chosen = ls::multinomial(ls::softmax(scores, 1), 1).to_vector<std::int64_t>();
      for (std::size_t i = 0; i < carts.size(); ++i) {
        if (!carts[i].up) continue;
        seen.insert(seen.end(), now.begin() + static_cast<std::ptrdiff_t>(4 * i),
                    now.begin() + static_cast<std::ptrdiff_t>(4 * i + 4));
        actions.push_back(chosen[i]);
        player.push_back(i);
        ++length[i];
        carts[i].push(chosen[i] == 1);
      }
      if (std::none_of(carts.begin(), carts.end(), [](const Cart& cart) { return cart.up; })) break;
    }
    // Each step in which the pole stands is worth 1; what an action earns is the discounted rest of its episode.
    std::vector<float> earned(actions.size());
    std::vector<double> rest(kCarts, 0);
    for (std::size_t i = actions.size(); i-- > 0;) {
      rest[player[i]] = 1 + kDiscount * rest[player[i]];
      earned[i] = static_cast<float>(rest[player[i]]);
    }
    const auto count = static_cast<std::int64_t>(actions.size());
    const ls::Tensor gain = ls::Tensor::from(earned, {count});
    const ls::Tensor advantage = (gain - ls::mean(gain)) / (ls::std(gain) + 1e-6);
    const ls::Tensor scores = policy.forward(ls::Tensor::from(seen, {count, 4}));
    const ls::Tensor surprise =
        ls::cross_entropy(scores, ls::Tensor::from(actions, {count}), {.reduction = ls::Reduction::none});
    optimizer.step(ls::mean(surprise * advantage));

    steps = static_cast<double>(count) / kCarts;
    if (round % 10 == 0 || round + 1 == rounds)
      std::cout << "round " << round << ": upright for " << steps << " steps\n";
  }
  return rounds < 60 || steps > 100 ? EXIT_SUCCESS : EXIT_FAILURE;
}
