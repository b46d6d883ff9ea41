// What `lockstep train` can be told: data sets, networks, optimisers and schedules by name, and how each network is
// trained unless told otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/data.h>
#include <lockstep/models.h>
#include <lockstep/optim.h>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// Pictures to learn from and to test with, as the loader takes them: f32, normalised.
struct TrainingData {
  data::DatasetPtr train;
  data::DatasetPtr test;
  std::int64_t channels = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::vector<std::string> labels;
};

struct DataOptions {
  std::string source;      ///< "digits", "mnist:DIR", ...
  std::int64_t side = 0;   ///< of pictures in folders; 0: the network's
  std::int64_t limit = 0;  ///< take only so many to train with, and a tenth to test with; 0: all
  std::uint64_t seed = 0;  ///< decides which pictures of one folder are for testing
  bool augment = true;     ///< crops and mirror images, where they keep the meaning
};

/// Throws UsageError if the source is of no known form; otherwise what the readers throw.
TrainingData training_data(const DataOptions& options, const std::string& architecture);

/// How a network is trained unless told otherwise.
struct Recipe {
  std::string optimizer;
  double lr = 0;
  double weight_decay = 0;
  std::string schedule;
  std::int64_t batch = 64;
};

/// "lenet", "mlp", or one of models::architectures(); "resnet20" for "resnet20-cifar". UsageError lists them.
std::string known_architecture(const std::string& name);
Recipe recipe_of(const std::string& architecture);
/// A new network for the data, in training mode. UsageError if it does not take such pictures.
std::unique_ptr<nn::Layer> build_network(const std::string& architecture, const TrainingData& data);

const std::vector<std::string>& optimizer_names();
const std::vector<std::string>& schedule_names();
std::unique_ptr<optim::Optimizer> make_optimizer(const Recipe& recipe, const nn::Layer& model);
std::unique_ptr<optim::Schedule> make_schedule(const Recipe& recipe, optim::Optimizer& optimizer, std::int64_t steps);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
