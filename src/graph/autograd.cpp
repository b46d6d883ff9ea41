#include <lockstep/autograd.h>

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <lockstep/random.h>

#include "core/call.h"
#include "core/pool.h"
#include "graph/address_index.h"
#include "graph/autocast.h"
#include "graph/gradient_rules.h"
#include "graph/leaf_watch.h"
#include "graph/make.h"
#include "graph/numerics.h"
#include "graph/slice_sums.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

using RecordRef = std::shared_ptr<Record>;

thread_local const LeafWatch* leaf_watch = nullptr;

const RecordRef& record_of(const Tensor& tensor) {
  return Access::handle(tensor)->record;
}

// The gradients of one value, from all that it went into.
class GradientSum {
 public:
  bool defined() const { return total_.defined() || !slices_.empty(); }
  void add_gradient(const Tensor& gradient, bool is_tracked) {
    if (!is_tracked && is_slice(gradient)) {
      slices_.push_back(gradient);
      return;
    }
    add_slices();
    total_ = total_.defined() ? add(total_, gradient) : gradient;
  }
  Tensor sum() {
    add_slices();
    return total_;
  }

 private:
  void add_slices() {
    if (const Tensor joined = joined_slices(slices_); joined.defined()) slices_ = {joined};
    for (const Tensor& slice : slices_) total_ = total_.defined() ? add(total_, slice) : slice;
    slices_.clear();
  }

  Tensor total_;
  std::vector<Tensor> slices_;  ///< since the last other gradient
};

// Walks from a value to its leaves: every record once, consumers before what they consume.
class Backward {
 public:
  Backward(const Tensor& value, const GradientOptions& options) : options_(options) {
    check_defined({{"value", value}});
    root_ = record_of(value);
    if (root_ == nullptr) {
      fail<ValueError>("the value is not tracked", {{"value", value}},
                       "compute it from tensors made with requires_grad, outside of NoGrad");
    }
    if (options.seed.defined()) {
      check_same_device({{"value", value}, {"seed", options.seed}});
      check_same_dtype({{"value", value}, {"seed", options.seed}});
      if (options.seed.shape() != value.shape()) {
        fail<ShapeError>("the seed must have the value's shape", {{"value", value}, {"seed", options.seed}});
      }
      seed_ = options.seed;
    } else {
      if (value.numel() != 1) {
        fail<ValueError>("only a value of one element has gradients without a seed", {{"value", value}},
                         "reduce it first, e.g. sum(loss), or give a seed");
      }
      seed_ = ones_like(value);
    }
  }

  /// Only records for which `wanted` holds, and what leads to them, are visited.
  template <typename IsWanted> void find_paths(IsWanted wanted) {
    // Depth first without recursion: a record leads somewhere if it is wanted or one of its operands leads there.
    std::vector<std::pair<const Record*, std::size_t>> stack;
    const auto visit = [&](const Record* record) {
      if (!index_.add(record)) return;
      on_path_.push_back(false);
      visited_.push_back(record);
      stack.emplace_back(record, 0);
    };
    visit(root_.get());
    while (!stack.empty()) {
      auto& [record, next] = stack.back();
      if (next == record->operands.size()) {
        on_path_[index_of(record)] = wanted(*record) || std::any_of(record->operands.begin(), record->operands.end(),
                                                                    [&](const Record::Operand& operand) {
                                                                      return reaches(operand.record.get());
                                                                    });
        stack.pop_back();
        continue;
      }
      const Record* const operand = record->operands[next++].record.get();
      if (operand != nullptr) visit(operand);
    }
  }
  bool reaches(const Record* record) const { return record != nullptr && on_path_[index_of(record)]; }

  /// Calls done(record, gradient) for each record on the way, with its whole gradient.
  template <typename Done> void run(Done done) {
    run(done, [](const Record&) { return false; });
  }
  /// The same, but what was computed before `ends` hold is another's: records there are given their gradients, hooks
  /// do not see them, and nothing passes on.
  template <typename Done, typename Ends> void run(Done done, Ends ends) {
    if (!options_.create_graph) flush_if_large(seed_.device());
    const bool before = set_gradients_on(options_.create_graph);
    struct Restore {
      bool value;
      ~Restore() { set_gradients_on(value); }
    } restore{before};
    // The root keeps all records alive. Those with a gradient, the one with the highest id first.
    std::priority_queue<std::pair<std::uint64_t, Record*>> pending;
    std::vector<GradientSum> sums(on_path_.size());
    const auto add_to = [&](Record* record, const Tensor& gradient) {
      GradientSum& sum = sums[index_of(record)];
      if (!sum.defined()) pending.emplace(record->id, record);
      sum.add_gradient(gradient, options_.create_graph);
    };
    if (reaches(root_.get())) add_to(root_.get(), seed_);
    const auto take = [&](Record* record) {
      Tensor g = std::exchange(sums[index_of(record)], GradientSum()).sum();
      for (const auto& hook : record->hooks) {
        const Tensor changed = [&] {
          const CallExchange users(nullptr);
          return hook(g);
        }();
        if (!changed.defined()) continue;
        if (changed.shape() != record->shape || changed.dtype() != record->dtype) {
          fail<ShapeError>("a hook returned a gradient of another shape or dtype",
                           {{"gradient", g}, {"returned", changed}});
        }
        g = changed;
      }
      done(*record, g);
      return g;
    };
    std::vector<int> missing = leaf_watch == nullptr ? std::vector<int>() : consumers_of_leaves();
    while (!pending.empty()) {
      Record* const record = pending.top().second;
      pending.pop();
      if (!sums[index_of(record)].defined()) continue;  // a leaf that was taken before its turn
      if (ends(*record)) {
        done(*record, std::exchange(sums[index_of(record)], GradientSum()).sum());
        continue;
      }
      const Tensor g = take(record);
      if (record->is_leaf) continue;
      pass_on(*record, g, add_to);
      if (missing.empty()) continue;
      for (const Record::Operand& operand : record->operands) {
        Record* const leaf = operand.record.get();
        if (!reaches(leaf) || !leaf->is_leaf || ends(*leaf) || --missing[index_of(leaf)] > 0) continue;
        if (sums[index_of(leaf)].defined()) take(leaf);
      }
    }
  }

 private:
  template <typename Give> void pass_on(Record& record, const Tensor& g, Give give) {
    std::vector<bool> wanted(record.operands.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = reaches(record.operands[i].record.get());
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;
    if (record.released) {
      fail<ValueError>(fmt::format("what the gradient of {} reads was released by an earlier call", record.name), {},
                       "pass {.retain_graph = true} to the earlier call");
    }
    const Call call{record.name, record.where, true};
    const CallExchange exchange(&call);
    Tensor result;
    // With its history, so that gradients of gradients reach it.
    if (record.result.is_set()) result = record.result.tensor(keep_alive(record));
    const std::vector<Tensor> gradients = record.rule(g, wanted, result);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i] || !gradients[i].defined()) continue;
      const Record::Operand& operand = record.operands[i];
      give(operand.record.get(), cast(sum_to(gradients[i], operand.shape), operand.dtype));
    }
    if (!options_.retain_graph && !options_.create_graph) {
      record.released = true;
      record.rule = nullptr;
      record.result = {};
    }
  }

  // By number, of leaves: from how many places gradients may come.
  std::vector<int> consumers_of_leaves() const {
    std::vector<int> count(on_path_.size());
    for (const Record* record : visited_) {
      if (!reaches(record)) continue;
      for (const Record::Operand& operand : record->operands) {
        if (reaches(operand.record.get()) && operand.record->is_leaf) ++count[index_of(operand.record.get())];
      }
    }
    return count;
  }

  // The shared pointer behind a record that is being visited.
  RecordRef keep_alive(Record& record) { return options_.create_graph ? record.shared_from_this() : nullptr; }

  std::size_t index_of(const Record* record) const { return static_cast<std::size_t>(index_.find(record)); }

  const GradientOptions& options_;
  RecordRef root_;
  Tensor seed_;
  AddressIndex<Record> index_;
  std::vector<bool> on_path_;  ///< by number
  std::vector<const Record*> visited_;
};

const RecordRef& leaf_of(const Tensor& leaf) {
  check_defined({{"tensor", leaf}});
  const RecordRef& record = record_of(leaf);
  if (record == nullptr || !record->is_leaf) {
    fail<ValueError>("the tensor is no leaf", {{"tensor", leaf}},
                     "leaves are made by requires_grad; one that is changed in place stays a leaf under NoGrad");
  }
  return record;
}

// Undefined for those on which the value does not depend. `partial`: with all of them held fixed but one at a time;
// they are inputs of something that has its own gradients.
std::vector<Tensor> gradients_at(const Tensor& value, const std::vector<const Record*>& records,
                                 const GradientOptions& options, bool partial) {
  const AutocastExchange outside(DType::f32);  // the dtypes are those of the values
  Backward backward(value, options);
  std::unordered_map<const Record*, Tensor> found;
  for (const Record* record : records) found.emplace(record, Tensor());
  backward.find_paths([&](const Record& record) { return found.contains(&record); });
  const auto keep = [&](const Record& record, const Tensor& g) {
    if (const auto entry = found.find(&record); entry != found.end()) entry->second = g;
  };
  backward.run(keep, [&](const Record& record) { return partial && found.contains(&record); });
  std::vector<Tensor> result;
  for (const Record* record : records) result.push_back(found.at(record));
  return result;
}

}  // namespace

std::vector<Tensor> gradients(const Tensor& value, const std::vector<Tensor>& tensors, const GradientOptions& options,
                              CallSite site) {
  const CallScope call("gradients", site);
  std::vector<const Record*> records;
  for (const Tensor& tensor : tensors) {
    check_defined({{"tensor", tensor}});
    records.push_back(record_of(tensor).get());
    if (records.back() == nullptr) {
      fail<ValueError>("the tensor is not tracked", {{"tensor", tensor}}, "make it with requires_grad");
    }
  }
  std::vector<Tensor> result = gradients_at(value, records, options, false);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (result[i].defined()) continue;
    if (!options.allow_unused) {
      fail<ValueError>("the value does not depend on the tensor", {{"value", value}, {"tensor", tensors[i]}},
                       "pass {.allow_unused = true} to get zeros");
    }
    result[i] = zeros_like(tensors[i]);
  }
  return result;
}

void backward(const Tensor& value, const GradientOptions& options, CallSite site) {
  const CallScope call("backward", site);
  const AutocastExchange outside(DType::f32);  // the dtypes are those of the values
  Backward backward(value, options);
  backward.find_paths([](const Record& record) { return record.is_leaf && record.sink != nullptr; });
  backward.run([](const Record& record, const Tensor& g) {
    if (!record.is_leaf || record.sink == nullptr) return;
    Tensor& sink = *record.sink;
    sink = sink.defined() ? add(sink, g) : g;
    if (leaf_watch != nullptr) (*leaf_watch)(&sink);
  });
}

Tensor requires_grad(const Tensor& tensor, CallSite site) {
  const CallScope call("requires_grad", site);
  check_defined({{"tensor", tensor}});
  check_float({"tensor", tensor});
  return leaf(tensor, std::make_shared<Tensor>());
}

bool is_tracked(const Tensor& tensor) {
  return tensor.defined() && record_of(tensor) != nullptr;
}

Tensor detach(const Tensor& tensor, CallSite site) {
  const CallScope call("detach", site);
  check_defined({{"tensor", tensor}});
  return untraced(tensor);
}

Tensor grad(const Tensor& leaf, CallSite site) {
  const CallScope call("grad", site);
  return *leaf_of(leaf)->sink;
}
void zero_grad(const Tensor& leaf, CallSite site) {
  const CallScope call("zero_grad", site);
  *leaf_of(leaf)->sink = {};
}

void register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook, CallSite site) {
  const CallScope call("register_hook", site);
  check_defined({{"tensor", tensor}});
  if (record_of(tensor) == nullptr) {
    fail<ValueError>("the tensor is not tracked", {{"tensor", tensor}}, "make it with requires_grad");
  }
  record_of(tensor)->hooks.push_back(std::move(hook));
}

graph::WatchedLeaves::WatchedLeaves(const LeafWatch& watch) : before_(std::exchange(leaf_watch, &watch)) {}
graph::WatchedLeaves::~WatchedLeaves() {
  leaf_watch = before_;
}

NoGrad::NoGrad() : before_(set_gradients_on(false)) {}
NoGrad::~NoGrad() {
  set_gradients_on(before_);
}

namespace {

// Whether a tensor of `shape` is one of `smaller` that was broadcast.
bool sums_to(const Shape& shape, const Shape& smaller) {
  const int more = shape.rank() - smaller.rank();
  for (int d = 0; more >= 0 && d < smaller.rank(); ++d) {
    if (smaller[d] != shape[more + d] && smaller[d] != 1) return false;
  }
  return more >= 0;
}

}  // namespace

Tensor custom_gradient(const Tensor& value, const std::vector<Tensor>& inputs,
                       std::function<std::vector<Tensor>(const Tensor&)> gradient, CallSite site) {
  const CallScope call("custom_gradient", site);
  check_defined({{"value", value}});
  check_float({"value", value});
  std::vector<const Tensor*> operands;
  std::vector<Shape> shapes;
  for (const Tensor& input : inputs) {
    check_defined({{"input", input}});
    operands.push_back(&input);
    shapes.push_back(input.shape());
  }
  const Tensor bare = untraced(value);
  if (!is_tracing(operands)) return bare;
  return traced(
      bare, operands,
      [gradient = std::move(gradient), shapes = std::move(shapes)](const Tensor& g, const std::vector<bool>&,
                                                                   const Tensor&) {
        std::vector<Tensor> result = [&] {
          const CallExchange users(nullptr);
          return gradient(g);
        }();
        if (result.size() != shapes.size()) {
          fail<ValueError>(fmt::format("the gradient returned {} tensors for {} inputs", result.size(), shapes.size()),
                           {}, "return one per input, undefined ones where there is none");
        }
        for (std::size_t i = 0; i < result.size(); ++i) {
          if (!result[i].defined() || sums_to(result[i].shape(), shapes[i])) continue;
          fail<ShapeError>(fmt::format("the function returned a gradient of another shape than input {}, which "
                                       "is {}",
                                       i, shapes[i].to_string()),
                           {{"gradient", g}, {"returned", result[i]}}, "return a gradient of the input's shape");
        }
        return result;
      });
}

namespace {

bool has_gradient(const Tensor& tensor) {
  return is_float(tensor.dtype()) && tensor.encoding() == Encoding::dense;
}

}  // namespace

Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function, const std::vector<Tensor>& inputs,
                  CallSite site) {
  const CallScope call("checkpoint", site);
  const std::uint64_t seed = default_generator().seed();
  const std::uint64_t draws = default_generator().draws();
  std::vector<Tensor> bare;
  std::vector<const Tensor*> operands;
  for (const Tensor& input : inputs) {
    check_defined({{"input", input}});
    bare.push_back(untraced(input));
    operands.push_back(&input);
  }
  ReadRecords read;  // besides the inputs: parameters of modules, and what else the function knows
  const Tensor value = [&] {
    const NoGrad scope;
    const CallExchange users(nullptr);
    return function(bare);
  }();
  check_defined({{"value", value}});
  check_float({"value", value});
  if (record_of(value) != nullptr) read.add(record_of(value));  // returned as it is
  const bool is_tracing_any = is_tracing(operands) || (gradients_are_on() && !read.records().empty());
  if (!is_tracing_any) return untraced(value);
  const std::uint8_t numerics = numerics_state();
  const auto gradient = [=, others = read.records(), scope = autocast_dtype()](
                            const Tensor& g, const std::vector<bool>&, const Tensor&) {
    const CallExchange users(nullptr);
    Generator& generator = default_generator();
    const std::uint64_t seed_now = generator.seed();
    const std::uint64_t draws_now = generator.draws();
    const bool before = set_gradients_on(true);
    struct Restore {
      Generator& generator;
      std::uint64_t seed, draws;
      bool on;
      ~Restore() {
        generator.restore(seed, draws);
        set_gradients_on(on);
      }
    } restore{generator, seed_now, draws_now, before};
    generator.restore(seed, draws);
    std::vector<Tensor> leaves;
    std::vector<const Record*> wanted;
    for (const Tensor& input : bare) {
      leaves.push_back(has_gradient(input) ? requires_grad(input) : input);
      if (has_gradient(input)) wanted.push_back(record_of(leaves.back()).get());
    }
    for (const RecordRef& other : others) wanted.push_back(other.get());
    const Tensor again = [&] {
      const AutocastExchange as_before(scope);
      const NumericsExchange multiplied_as_before(numerics);
      return function(leaves);
    }();
    // It may have read values and not depend on them.
    const std::vector<Tensor> found = record_of(again) == nullptr ? std::vector<Tensor>(wanted.size())
                                                                  : gradients_at(again, wanted, {.seed = g}, true);
    std::vector<Tensor> result;
    std::size_t next = 0;
    for (const Tensor& input : bare) result.push_back(has_gradient(input) ? found[next++] : Tensor());
    for (; next < found.size(); ++next) result.push_back(found[next]);
    return result;
  };
  return traced(untraced(value), operands, read.records(), gradient);
}

}  // namespace v0
}  // namespace lockstep
