// What `lockstep train` can be told: data sets, optimisers and schedules by name. Networks, and how each is trained
// unless told otherwise, are rows of the models' registry.
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
  models::Preprocessing preprocessing;  ///< That makes the same of a picture; channels and size, too.
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
TrainingData training_data(const DataOptions& options, const models::ImageClassifier& architecture);

/// A new network for the data, in training mode. UsageError if it does not take such pictures.
std::unique_ptr<nn::Layer> build_network(const models::ImageClassifier& architecture, const TrainingData& data);

const std::vector<std::string>& optimizer_names();
const std::vector<std::string>& schedule_names();
std::unique_ptr<optim::Optimizer> make_optimizer(const models::Recipe& recipe, const nn::Layer& model);
std::unique_ptr<optim::Schedule> make_schedule(const models::Recipe& recipe, optim::Optimizer& optimizer,
                                               std::int64_t steps);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
