// The `lockstep` command with a network of one's own: `example_own_network train --data digits --arch
// two_convolutions`, and classify, checkpoints, logs and all else that the command does. Links lockstep::cli.
#include <lockstep/cli.h>
#include <lockstep/lockstep.h>

#include <memory>

namespace ls = lockstep;

struct TwoConvolutions : ls::nn::Layer {
  explicit TwoConvolutions(const ls::models::ImageClassifierConfig& config)
      : first(*this, "first", config.channels, 8, 3),
        second(*this, "second", 8, 16, 3),
        out(*this, "out", 16, config.classes) {}
  ls::Tensor forward(const ls::Operand& x) const override {
    return out(ls::mean(ls::relu(second(ls::relu(first(x)))), {2, 3}));
  }
  ls::nn::Conv2d first, second;
  ls::nn::Linear out;
};

int main(int argc, char** argv) {
  ls::models::ImageClassifier mine{.name = "two_convolutions", .classifier = "out.weight", .any_pictures = true};
  mine.recipe = {.optimizer = "adam", .lr = 4e-3, .schedule = "onecycle", .batch = 32};
  mine.build = [](const auto& config) { return std::make_unique<TwoConvolutions>(config); };
  return ls::cli::main(argc, argv, {mine});
}
