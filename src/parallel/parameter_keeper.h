// Parameters whose values lie with their owners alone (ZeRO 3). They are cut into units that lie side by side in the
// module; an op that reads one brings its unit here, from all owners at once, and the next one is on its way
// meanwhile. The two that were read last stay, until what reads the others is computed.
//
// Bringing is a collective, so all ranks bring the same units in the same order: in passes, in which a rank that has
// nothing to compute follows another one.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <lockstep/dist.h>
#include <lockstep/nn/module.h>

#include "dist/group.h"
#include "graph/away.h"
#include "optim/arena.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

class ParameterKeeper final : public graph::Keeper, public std::enable_shared_from_this<ParameterKeeper> {
 public:
  struct Limits {
    std::int64_t unit_bytes = 0;   ///< of a unit of several parameters
    std::int64_t whole_bytes = 0;  ///< smaller parameters stay on every rank
  };
  ParameterKeeper(const Group& group, std::vector<nn::Parameter> parameters, const std::vector<int>& owners,
                  Limits limits);

  /// Whether this parameter's value is with its owner alone.
  bool is_divided(std::size_t parameter) const { return divided_[parameter]; }
  /// Lets go of the values that other ranks own.
  void divide();
  /// Brings all values, to stay. Every rank calls it.
  void make_whole();

  /// Runs `work` on the ranks that are `here`, and lets the others follow. Every rank calls it; at least one is here.
  void pass(const std::vector<bool>& here, const std::function<void()>& work);

  void bring(const std::vector<const graph::Node*>& nodes) override;

 private:
  /// What one rank owns of a unit, in one flat tensor.
  struct Piece {
    std::vector<std::size_t> members;
    optim::Layout layout;
    Tensor flat;  ///< of other ranks: away but while the unit is here
  };
  /// Own values in a pass: away, too, for the owner is to notice when a unit is read. No copy.
  struct Hidden {
    int unit = 0;
    graph::NodeRef real;
    Tensor away;
  };
  struct Unit {
    std::string name;  ///< of its first parameter
    DType dtype = DType::f32;
    Device device;
    std::vector<Piece> pieces;  ///< by rank
  };
  static constexpr int kNone = -1;
  static constexpr std::size_t kStay = 2;

  void fetch(int unit, const std::set<int>& needed);
  Result start(const Unit& unit) const;
  void park(int unit);
  void hide_own();
  void show_own();
  void end_pass();
  void flush() const;
  void follow(int leader);

  Group group_;
  std::vector<nn::Parameter> parameters_;
  std::vector<bool> divided_;
  std::vector<Unit> units_;
  std::map<const graph::Node*, int> unit_of_;  ///< of what is away or comes
  std::map<std::size_t, Tensor> own_;          ///< in a pass: the values of this rank's own parameters
  std::vector<Hidden> hidden_;
  std::set<Device> devices_;

  bool is_in_pass_ = false;
  std::vector<int> followers_;  ///< who is to be told what this rank brings
  std::deque<int> present_;     ///< the latest last
  int before_ = kNone;          ///< the units brought last in this pass
  int last_ = kNone;
  std::map<std::pair<int, int>, int> next_;  ///< what came after these two in the pass before
  int expected_ = kNone;                     ///< on its way
  Result under_way_;
};

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
