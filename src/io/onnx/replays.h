// Runs of a model that come again: with inputs of the same shapes as before, and the same weights, the kernels of a
// recorded run are run on the new elements, and no node is looked at (graph/captured.h). The third run of its kind is
// recorded; before, what depends on weights alone is not there yet.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/io/weights.h>
#include <lockstep/nn/cell.h>

#include "graph/captured.h"

namespace lockstep {
inline namespace v0 {
namespace io::onnx {

class Replays {
 public:
  /// What tells runs apart: shapes, dtypes, and the values of inputs that are known on the host.
  static std::string kind_of(const TensorMap& inputs);

  /// The outputs of a run like one that was recorded; nothing if there is none, or it does not fit. From any thread.
  std::optional<TensorMap> run(const std::vector<Cell>& weights, const std::string& kind, const TensorMap& inputs);
  /// Whether a run should be recorded, and given to keep().
  bool wants(const std::string& kind);
  /// `captured`: null if the run cannot come again.
  void keep(const std::vector<Cell>& weights, std::string kind, const TensorMap& outputs,
            std::unique_ptr<graph::Captured> captured);
  /// For runs of another sort, such as steps of training: lets go of the weights.
  void clear();

 private:
  struct Entry {
    std::string kind;
    std::vector<std::uint64_t> weights;  ///< numbers of their nodes
    std::vector<std::string> outputs;
    std::shared_ptr<graph::Captured> captured;
  };

  std::mutex mutex_;
  std::vector<Entry> entries_;           ///< oldest first
  std::map<std::string, int> ordinary_;  ///< runs that recorded nodes, by kind
};

/// An input whose only element, a number of integers or a truth, is known without waiting: models ask for it.
bool is_known(const Tensor& input);
/// The others: what a run that comes again is given.
std::vector<Tensor> unknown_of(const TensorMap& inputs);
std::vector<Tensor> tensors_of(const TensorMap& map);

}  // namespace io::onnx
}  // namespace v0
}  // namespace lockstep
