#include "parallel/shard_scope.h"

#include <lockstep/ops.h>

#include "data/random.h"
#include "dist/group.h"
#include "graph/tape.h"
#include "parallel/flat_sum.h"

namespace lockstep {
inline namespace v0 {
namespace dist {

ShardGenerators::ShardGenerators(int shards) : is_one_(shards == 1), seed_(default_generator().seed()), draw_(0) {
  if (!is_one_) draw_ = default_generator().next_draw();
}

ShardGenerators::~ShardGenerators() {
  if (!is_one_) default_generator().restore(seed_, draw_ + 1);
}

void ShardGenerators::begin(std::int64_t shard) const {
  if (is_one_) return;
  data::RandomStream stream(seed_, data::Purpose::shard, static_cast<std::uint64_t>(shard), draw_);
  default_generator().restore(stream.word64(), 0);
}

ShardBuffers::ShardBuffers(const nn::Module& module) {
  for (const auto& [name, buffer] : module.named_buffers()) {
    buffers_.push_back(buffer);
    before_.push_back(graph::untraced(buffer.tensor()));
  }
  changed_.resize(buffers_.size());
}

void ShardBuffers::begin() {
  nodes_.clear();
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    if (changed_[b]) buffers_[b].set(before_[b]);
    nodes_.push_back(graph::Access::node(buffers_[b].tensor()));
  }
}

void ShardBuffers::end(double weight) {
  Shard shard{.weight = weight, .values = {}};
  for (std::size_t b = 0; b < buffers_.size(); ++b) {
    const Tensor value = graph::untraced(buffers_[b].tensor());
    if (graph::Access::node(buffers_[b].tensor()) != nodes_[b]) changed_[b] = true;
    shard.values.push_back(value);
  }
  shards_.push_back(std::move(shard));
}

void ShardBuffers::combine(const Group& group, const data::ShardRange& own, const std::vector<bool>& changed) {
  std::vector<bool> floats(changed.size());
  std::vector<bool> others(changed.size());
  for (std::size_t b = 0; b < changed.size(); ++b) {
    (is_float(before_[b].dtype()) ? floats : others)[b] = changed[b];
  }
  combine_floats(group, own, floats);
  take_from_first(group, others);
}

void ShardBuffers::combine_floats(const Group& group, const data::ShardRange& own, const std::vector<bool>& chosen) {
  for (const FlatKind& kind : flat_kinds(before_, chosen)) {
    ShardTree tree;
    for (std::int64_t i = 0; i < own.count; ++i) {
      Tensor flat = kind.zeros();
      if (i < static_cast<std::int64_t>(shards_.size())) {
        const Shard& shard = shards_[static_cast<std::size_t>(i)];
        std::vector<Tensor> parts;
        for (const std::size_t member : kind.members) parts.push_back(shard.values[member]);
        flat = kind.layout.pack(parts, optim::Layout::Gaps::zero);
        if (shard.weight != 1) flat = flat * shard.weight;
      }
      tree.add({{own.first + i, 1}, flat});
    }
    const Cuts cuts = equal_cuts(kind.layout.size(), group.size());
    const Tensor own_part = sum_of_shards(group, static_cast<int>(own.of), tree, {cuts.begin(), cuts.end() - 1},
                                          {cuts.begin() + 1, cuts.end()});
    const Tensor mean = gathered(group, own_part, cuts);
    for (std::size_t m = 0; m < kind.members.size(); ++m) buffers_[kind.members[m]].set(kind.layout.part(mean, m));
  }
}

void ShardBuffers::take_from_first(const Group& group, const std::vector<bool>& chosen) {
  for (const FlatKind& kind : flat_kinds(before_, chosen)) {
    std::vector<Tensor> parts;
    for (const std::size_t member : kind.members) {
      parts.push_back(shards_.empty() ? before_[member] : shards_.front().values[member]);
    }
    const Tensor values =
        GroupAccess::start_broadcast(group, kind.layout.pack(parts, optim::Layout::Gaps::zero), 0)().front();
    for (std::size_t m = 0; m < kind.members.size(); ++m) buffers_[kind.members[m]].set(kind.layout.part(values, m));
  }
}

}  // namespace dist
}  // namespace v0
}  // namespace lockstep
