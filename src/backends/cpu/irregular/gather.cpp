// Gathers of whole rows (embeddings, index_select): where a row program does nothing but gather, and its index is the
// same for runs of neighbours, each run is one copy. Other gathers are steps of row programs (row/indexed.h).
#include <algorithm>
#include <array>
#include <cstring>

#include "backends/cpu/irregular/elements.h"
#include "backends/cpu/irregular/irregular.h"
#include "backends/cpu/row/space.h"
#include "backends/cpu/threads.h"
#include "core/fp_state.h"

namespace lockstep {
inline namespace v0 {
namespace irregular {
namespace {

constexpr std::int64_t kShortestRun = 16;  // elements
constexpr std::int64_t kTaskBytes = 1 << 16;
constexpr std::int64_t kStreamBytes = 16 << 20;  // of a result that is larger than the caches
constexpr std::int64_t kStreamedRun = 512;       // bytes; shorter ones leave cache lines half written
constexpr std::int64_t kTile = 256;

/// The one gather of a program, if the program is nothing else.
struct LoneGather {
  const Input* index = nullptr;
  const Position* first = nullptr;
  const Table* table = nullptr;
  const Output* output = nullptr;
};

bool find_gather(const Program& program, LoneGather& found) {
  if (program.outputs.size() != 1) return false;
  found.output = &program.outputs[0];
  const auto at = [&](int value) -> const Instruction& { return program.code[static_cast<std::size_t>(value)]; };
  const Instruction& gather = at(found.output->value);
  if (gather.kind != Instruction::Kind::gather_bits || !found.output->bits) return false;
  found.table = &program.tables[static_cast<std::size_t>(gather.index)];
  if (found.table->dtype != found.output->dtype || program.tables.size() != 1) return false;
  if (found.table->encoding != Encoding::dense) return false;
  const Instruction& index = at(gather.a);
  const Instruction& first = at(gather.b);
  if (index.kind != Instruction::Kind::load || first.kind != Instruction::Kind::iota) return false;
  found.index = &program.inputs[static_cast<std::size_t>(index.index)];
  found.first = &program.positions[static_cast<std::size_t>(first.index)];
  return found.index->dtype == DType::i64 || found.index->dtype == DType::i32;
}

/// How many of the last dims are one run on both sides, with the same index; `run` receives its elements.
int dims_of_run(const LoneGather& gather, const Shape& dims, std::int64_t& run) {
  run = 1;
  int count = 0;
  for (int d = dims.rank() - 1; d >= 0; --d, ++count) {
    if (dims[d] == 1) continue;
    const View& index = gather.index->view;
    const bool varies = index.strides[d] != 0 || std::any_of(index.bounds.begin(), index.bounds.end(),
                                                             [&](const Bound& bound) { return bound.m[d] != 0; });
    if (varies || gather.first->strides[d] != run || gather.output->strides[d] != run) break;
    run *= dims[d];
  }
  return count;
}

class GatherExecutable final : public Executable {
 public:
  GatherExecutable(const Program& program, const LoneGather& gather, int key_dims, std::int64_t run, Isa isa)
      : table_(*gather.table),
        out_(gather.output->slot),
        run_(run * static_cast<std::int64_t>(size_of(table_.dtype))),
        index_(keys_only(*gather.index, key_dims), 0, Form::value, isa),
        convert_(convert_table(isa)) {
    Program keys;
    for (int d = 0; d < key_dims; ++d) keys.inner.push_back(dims_of(program)[d]);
    keys_ = keys.inner.numel();
    keys.positions.push_back({gather.first->offset, gather.first->strides.slice(0, key_dims)});
    keys.positions.push_back({0, gather.output->strides.slice(0, key_dims)});
    Mapping mapping = map_space(keys, Layout::rows, false);
    first_ = mapping.positions[0];
    place_ = mapping.positions[1];
  }

  static Shape dims_of(const Program& program) {
    Shape dims = program.rows;
    for (const std::int64_t size : program.inner) dims.push_back(size);
    return dims;
  }

  void run(const Binding& binding) const override {
    const FloatingPointScope scope;
    parallel_for(keys_, std::max<std::int64_t>(1, kTaskBytes / run_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t key = begin; key < end; key += kTile) copy(binding, key, std::min(kTile, end - key));
    });
  }

 private:
  static Input keys_only(const Input& input, int key_dims) {
    Shape dims;
    for (int d = 0; d < key_dims; ++d) dims.push_back(d);
    Input result = input;
    result.view = with_dims(input.view, dims);
    return result;
  }

  void copy(const Binding& binding, std::int64_t begin, std::int64_t count) const {
    std::array<std::int64_t, kTile> from, to, index;
    count_along(first_, convert_, 0, begin, count, from.data());
    count_along(place_, convert_, 0, begin, count, to.data());
    if (index_.access().dtype == DType::i64) {
      index_.fetch(binding, 0, begin, count, index.data());
    } else {
      std::array<std::int32_t, kTile> narrow;
      index_.fetch(binding, 0, begin, count, narrow.data());
      std::copy_n(narrow.begin(), count, index.begin());
    }
    const auto size = static_cast<std::int64_t>(size_of(table_.dtype));
    const std::byte* table = slot_of(binding, table_.slot);
    std::byte* out = slot_of(binding, out_);
    const bool streams = keys_ * run_ >= kStreamBytes && run_ >= kStreamedRun;
    const auto bytes = static_cast<std::size_t>(run_);
    bool good = true;
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
      std::byte* place = out + to[i] * size;
      if (index[i] < 0 || index[i] >= table_.size) {
        std::memset(place, 0, bytes);
        good = false;
        continue;
      }
      const std::byte* row = table + (from[i] + table_.stride * index[i]) * size;
      if (streams) {
        convert_.stream(place, row, bytes);
      } else {
        std::memcpy(place, row, bytes);
      }
    }
    if (!good) report_fault(binding, 0);
  }

  Table table_;
  int out_;
  std::int64_t run_;  ///< bytes
  std::int64_t keys_ = 0;
  Reader index_;
  const ConvertTable& convert_;
  Access first_, place_;
};

}  // namespace
}  // namespace irregular

std::unique_ptr<Executable> compile_gather(const Program& program, Isa isa) {
  irregular::LoneGather gather;
  if (!irregular::find_gather(program, gather)) return nullptr;
  const Shape dims = irregular::GatherExecutable::dims_of(program);
  std::int64_t run = 1;
  const int count = irregular::dims_of_run(gather, dims, run);
  if (run < irregular::kShortestRun || dims.numel() == 0) return nullptr;
  return std::make_unique<irregular::GatherExecutable>(program, gather, dims.rank() - count, run, isa);
}

}  // namespace v0
}  // namespace lockstep
