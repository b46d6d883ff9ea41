// Runs of a model that come again: with inputs of the same shapes as before, and the same weights, the kernels of a
// recorded run are run on the new elements, and no node is looked at (graph/captured.h). The third run of its kind is
// recorded; before, what depends on weights alone is not there yet. Used by nn::Replayed and by ONNX models.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <lockstep/nn/cell.h>
#include <lockstep/nn/module.h>

#include "graph/captured.h"

namespace lockstep {
inline namespace v0 {
namespace nn {

class Replays {
 public:
  /// Values by their names.
  using Map = StateDict::Map;

  /// The outputs of a run like one that was recorded; nothing if there is none, or it does not fit. From any thread.
  /// `kind` is what tells runs apart beside their inputs' elements.
  /// `given_up`: more inputs, as of Captured::run.
  std::optional<Map> run(const std::vector<Cell>& weights, const std::string& kind, std::span<const Tensor> inputs,
                         std::span<const Tensor> given_up = {});
  /// Whether a run should be recorded, and given to keep(). `at_once`: what depends on weights alone is there already.
  bool wants(const std::string& kind, bool at_once = false);
  /// `captured`: null if the run cannot come again.
  void keep(const std::vector<Cell>& weights, std::string kind, const Map& outputs,
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

/// Adds a number to a kind, or the dtype and shape of an input.
void append_kind(std::string& kind, std::int64_t number);
void append_kind(std::string& kind, const Tensor& input);
std::vector<Tensor> tensors_of(const Replays::Map& map);

/// Whether somebody wants gradients of a run, or to see its nodes.
bool is_followed(std::span<const Tensor> inputs, const std::vector<Cell>& weights);
/// Whether a run is more than its outputs: somebody wants gradients, other arithmetic, or to see nodes.
bool looks_at_nodes(std::span<const Tensor> inputs, const std::vector<Cell>& weights);
/// Whether scopes of the thread change what ops compute: values that were kept outside of them are not theirs.
bool changes_arithmetic();

}  // namespace nn
}  // namespace v0
}  // namespace lockstep
