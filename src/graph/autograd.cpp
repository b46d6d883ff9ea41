#include <lockstep/autograd.h>

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include <lockstep/random.h>

#include "core/pool.h"
#include "graph/gradient_rules.h"
#include "graph/make.h"
#include "graph/numbers.h"

namespace lockstep {
inline namespace v0 {

using namespace graph;

namespace {

using RecordRef = std::shared_ptr<Record>;

const RecordRef& record_of(const Tensor& tensor) {
  return Access::handle(tensor)->record;
}

// Walks from a value to its leaves: every record once, consumers before what they consume.
class Backward {
 public:
  Backward(const char* op, const Tensor& value, const GradientOptions& options, CallSite site)
      : op_(op), options_(options), site_(site) {
    check_defined(op, {{"value", value}}, site);
    root_ = record_of(value);
    if (root_ == nullptr) {
      fail<ValueError>(op, "the value is not tracked", {{"value", value}},
                       "compute it from tensors made with requires_grad, outside of NoGrad", site);
    }
    if (options.seed.defined()) {
      check_same_device(op, {{"value", value}, {"seed", options.seed}}, site);
      check_same_dtype(op, {{"value", value}, {"seed", options.seed}}, site);
      if (options.seed.shape() != value.shape()) {
        fail<ShapeError>(op, "the seed must have the value's shape", {{"value", value}, {"seed", options.seed}}, "",
                         site);
      }
      seed_ = options.seed;
    } else {
      if (value.numel() != 1) {
        fail<ValueError>(op, "only a value of one element has gradients without a seed", {{"value", value}},
                         "reduce it first, e.g. sum(loss), or give a seed", site);
      }
      seed_ = ones_like(value, site);
    }
  }

  /// Only records for which `wanted` holds, and what leads to them, are visited.
  template <typename IsWanted> void find_paths(IsWanted wanted) {
    // Depth first without recursion: a record leads somewhere if it is wanted or one of its operands leads there.
    std::vector<std::pair<const Record*, std::size_t>> stack;
    const auto visit = [&](const Record* record) {
      if (!numbers_.add(record)) return;
      on_path_.push_back(false);
      stack.emplace_back(record, 0);
    };
    visit(root_.get());
    while (!stack.empty()) {
      auto& [record, next] = stack.back();
      if (next == record->operands.size()) {
        on_path_[number(record)] = wanted(*record) || std::any_of(record->operands.begin(), record->operands.end(),
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
  bool reaches(const Record* record) const { return record != nullptr && on_path_[number(record)]; }

  /// Calls done(record, gradient) for each record on the way, with its whole gradient.
  template <typename Done> void run(Done done) {
    const bool before = set_gradients_on(options_.create_graph);
    struct Restore {
      bool value;
      ~Restore() { set_gradients_on(value); }
    } restore{before};
    // The root keeps all records alive. Those with a gradient, the one with the highest id first.
    std::priority_queue<std::pair<std::uint64_t, Record*>> pending;
    std::vector<Tensor> sums(on_path_.size());
    const auto add_to = [&](Record* record, const Tensor& gradient) {
      Tensor& sum = sums[number(record)];
      if (!sum.defined()) pending.emplace(record->id, record);
      sum = sum.defined() ? add(sum, gradient) : gradient;
    };
    if (reaches(root_.get())) add_to(root_.get(), seed_);
    while (!pending.empty()) {
      Record* const record = pending.top().second;
      pending.pop();
      Tensor g = std::exchange(sums[number(record)], Tensor());
      for (const auto& hook : record->hooks) {
        const Tensor changed = hook(g);
        if (!changed.defined()) continue;
        if (changed.shape() != record->shape || changed.dtype() != record->dtype) {
          fail<ShapeError>(op_, "a hook returned a gradient of another shape or dtype",
                           {{"gradient", g}, {"returned", changed}}, "", site_);
        }
        g = changed;
      }
      done(*record, g);
      if (record->is_leaf) continue;
      pass_on(*record, g, add_to);
    }
  }

 private:
  template <typename Give> void pass_on(Record& record, const Tensor& g, Give give) {
    std::vector<bool> wanted;
    for (const Record::Operand& operand : record.operands) wanted.push_back(reaches(operand.record.get()));
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;
    if (record.released) {
      fail<ValueError>(op_, fmt::format("what the gradient of {} reads was released by an earlier call", record.name),
                       {}, "pass {.retain_graph = true} to the earlier call", site_);
    }
    Tensor result;
    if (record.result != nullptr) {
      // With its history, so that gradients of gradients reach it.
      result = Access::from_handle(make_pooled<Handle>(record.result->node, keep_alive(record)));
    }
    const std::vector<Tensor> gradients = record.rule(g, wanted, result);
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      if (!wanted[i] || !gradients[i].defined()) continue;
      const Record::Operand& operand = record.operands[i];
      give(operand.record.get(), cast(sum_to(gradients[i], operand.shape, site_), operand.dtype, site_));
    }
    if (!options_.retain_graph && !options_.create_graph) {
      record.released = true;
      record.rule = nullptr;
      record.result = nullptr;
    }
  }

  // The shared pointer behind a record that is being visited.
  RecordRef keep_alive(Record& record) { return options_.create_graph ? record.shared_from_this() : nullptr; }

  std::size_t number(const Record* record) const { return static_cast<std::size_t>(numbers_.find(record)); }

  const char* op_;
  const GradientOptions& options_;
  CallSite site_;
  RecordRef root_;
  Tensor seed_;
  Numbers<Record> numbers_;
  std::vector<bool> on_path_;  ///< by number
};

const RecordRef& leaf_of(const char* op, const Tensor& leaf, CallSite site) {
  check_defined(op, {{"tensor", leaf}}, site);
  const RecordRef& record = record_of(leaf);
  if (record == nullptr || !record->is_leaf) {
    fail<ValueError>(op, "the tensor is no leaf", {{"tensor", leaf}},
                     "leaves are made by requires_grad; one that is changed in place stays a leaf under NoGrad", site);
  }
  return record;
}

}  // namespace

std::vector<Tensor> gradients(const Tensor& value, const std::vector<Tensor>& tensors, const GradientOptions& options,
                              CallSite site) {
  Backward backward("gradients", value, options, site);
  std::unordered_map<const Record*, std::size_t> position;
  std::vector<const Record*> records;
  for (const Tensor& tensor : tensors) {
    check_defined("gradients", {{"tensor", tensor}}, site);
    records.push_back(record_of(tensor).get());
    if (records.back() == nullptr) {
      fail<ValueError>("gradients", "the tensor is not tracked", {{"tensor", tensor}}, "make it with requires_grad",
                       site);
    }
  }
  std::unordered_map<const Record*, Tensor> found;
  for (const Record* record : records) found.emplace(record, Tensor());
  backward.find_paths([&](const Record& record) { return found.contains(&record); });
  backward.run([&](const Record& record, const Tensor& g) {
    if (const auto entry = found.find(&record); entry != found.end()) entry->second = g;
  });
  std::vector<Tensor> result;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    Tensor g = found.at(records[i]);
    if (!g.defined()) {
      if (!options.allow_unused) {
        fail<ValueError>("gradients", "the value does not depend on the tensor",
                         {{"value", value}, {"tensor", tensors[i]}}, "pass {.allow_unused = true} to get zeros", site);
      }
      g = zeros_like(tensors[i], site);
    }
    result.push_back(std::move(g));
  }
  return result;
}

void backward(const Tensor& value, const GradientOptions& options, CallSite site) {
  Backward backward("backward", value, options, site);
  backward.find_paths([](const Record& record) { return record.is_leaf && record.sink != nullptr; });
  backward.run([](const Record& record, const Tensor& g) {
    if (!record.is_leaf || record.sink == nullptr) return;
    Tensor& sink = *record.sink;
    sink = sink.defined() ? add(sink, g) : g;
  });
}

Tensor requires_grad(const Tensor& tensor, CallSite site) {
  check_defined("requires_grad", {{"tensor", tensor}}, site);
  check_float("requires_grad", {"tensor", tensor}, site);
  return leaf(tensor, std::make_shared<Tensor>(), site);
}

bool is_tracked(const Tensor& tensor) {
  return tensor.defined() && record_of(tensor) != nullptr;
}

Tensor detach(const Tensor& tensor, CallSite site) {
  check_defined("detach", {{"tensor", tensor}}, site);
  return untraced(tensor);
}

Tensor grad(const Tensor& leaf, CallSite site) {
  return *leaf_of("grad", leaf, site)->sink;
}
void zero_grad(const Tensor& leaf, CallSite site) {
  *leaf_of("zero_grad", leaf, site)->sink = {};
}

void register_hook(const Tensor& tensor, std::function<Tensor(const Tensor&)> hook, CallSite site) {
  check_defined("register_hook", {{"tensor", tensor}}, site);
  if (record_of(tensor) == nullptr) {
    fail<ValueError>("register_hook", "the tensor is not tracked", {{"tensor", tensor}}, "make it with requires_grad",
                     site);
  }
  record_of(tensor)->hooks.push_back(std::move(hook));
}

NoGrad::NoGrad() : before_(set_gradients_on(false)) {}
NoGrad::~NoGrad() {
  set_gradients_on(before_);
}

Tensor custom_gradient(const Tensor& value, const std::vector<Tensor>& inputs,
                       std::function<std::vector<Tensor>(const Tensor&)> gradient, CallSite site) {
  check_defined("custom_gradient", {{"value", value}}, site);
  check_float("custom_gradient", {"value", value}, site);
  std::vector<const Tensor*> operands;
  for (const Tensor& input : inputs) {
    check_defined("custom_gradient", {{"input", input}}, site);
    operands.push_back(&input);
  }
  const Tensor bare = untraced(value);
  if (!is_tracing(operands)) return bare;
  return traced(bare, "custom_gradient", operands,
                [gradient = std::move(gradient), count = inputs.size(), site](const Tensor& g, const std::vector<bool>&,
                                                                              const Tensor&) {
                  std::vector<Tensor> result = gradient(g);
                  if (result.size() != count) {
                    fail<ValueError>(
                        "custom_gradient",
                        fmt::format("the gradient returned {} tensors for {} inputs", result.size(), count), {},
                        "return one per input, undefined ones where there is none", site);
                  }
                  return result;
                });
}

Tensor checkpoint(const std::function<Tensor(const std::vector<Tensor>&)>& function, const std::vector<Tensor>& inputs,
                  CallSite site) {
  const std::uint64_t seed = default_generator().seed();
  const std::uint64_t draws = default_generator().draws();
  std::vector<Tensor> bare;
  for (const Tensor& input : inputs) {
    check_defined("checkpoint", {{"input", input}}, site);
    bare.push_back(untraced(input));
  }
  const Tensor value = [&] {
    const NoGrad scope;
    return function(bare);
  }();
  return custom_gradient(
      value, inputs,
      [function, bare, seed, draws](const Tensor& g) {
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
        std::vector<Tensor> floats;
        for (const Tensor& input : bare) {
          leaves.push_back(is_float(input.dtype()) ? requires_grad(input) : input);
          if (is_float(input.dtype())) floats.push_back(leaves.back());
        }
        const Tensor again = function(leaves);
        const std::vector<Tensor> found = lockstep::gradients(again, floats, {.seed = g, .allow_unused = true});
        std::vector<Tensor> result;
        std::size_t next = 0;
        for (const Tensor& input : bare) result.push_back(is_float(input.dtype()) ? found[next++] : Tensor());
        return result;
      },
      site);
}

}  // namespace v0
}  // namespace lockstep
