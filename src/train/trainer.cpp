#include <lockstep/train/trainer.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include <lockstep/autocast.h>
#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/data/local_batches.h>
#include <lockstep/ops.h>
#include <lockstep/optim/clip.h>
#include <lockstep/parallel.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/progress.h>

#include "graph/numerics.h"

namespace lockstep {
inline namespace v0 {
namespace train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void fail(const char* op, const std::string& what, const char* fix, CallSite site) {
  const CallScope call(op, site);
  lockstep::fail<ValueError>(what, {}, fix);
}

bool are_classes(const Tensor& output, const Tensor& target) {
  return output.rank() >= 2 && (target.dtype() == DType::i64 || target.dtype() == DType::i32);
}

Tensor hits(const Operand& output, const Tensor& target) {
  return argmax(output, 1) == target.to(DType::i64);
}

// Of how many targets that counts: those that the loss leaves out by their class do not.
Tensor predictions_of(const Tensor& target) {
  return sum(target != static_cast<double>(ClassLossOptions().ignore_index));
}

Tensor loss_of(const Loss& loss, const Tensor& output, const Tensor& target, CallSite site) {
  return loss ? loss(output, target) : cross_entropy(Operand(output, site), target);
}

class EvaluationMode {
 public:
  explicit EvaluationMode(nn::Module& model) : model_(model), before_(model.training()) { model.eval(); }
  ~EvaluationMode() { model_.train(before_); }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  nn::Module& model_;
  bool before_;
};

Numerics numerics_of(const FitOptions& options) {
  return options.numerics == Numerics::exact ? current_numerics() : options.numerics;
}

// What model and loss compute in. Options that ask for nothing leave the caller's scopes as they are.
class Arithmetic {
 public:
  Arithmetic(const FitOptions& options, CallSite site) : numerics_(numerics_of(options), site) {
    if (options.autocast != DType::f32) autocast_.emplace(options.autocast, site);
  }

 private:
  std::optional<Autocast> autocast_;
  NumericsScope numerics_;
};

std::string arithmetic_text(const FitOptions& options) {
  return fmt::format("{} {}", name_of(options.autocast), name_of(numerics_of(options)));
}

// What was found of a batch: means over its examples, and sums.
struct Counted {
  double loss = 0;
  double examples = 0;
  double right = 0;
  double predictions = 0;
};

// Sums over batches, so that means weigh every example alike.
class Totals {
 public:
  void add(const Counted& batch) {
    loss_ += batch.loss * batch.examples;
    examples_ += batch.examples;
    right_ += batch.right;
    predictions_ += batch.predictions;
  }
  double examples() const { return examples_; }
  double loss() const { return examples_ > 0 ? loss_ / examples_ : Record::kNone; }
  double accuracy() const { return predictions_ > 0 ? right_ / predictions_ : Record::kNone; }

 private:
  double loss_ = 0;
  double examples_ = 0;
  double right_ = 0;
  double predictions_ = 0;
};

Counted counted(const Model& model, const data::Batch& batch, const Loss& loss, CallSite site) {
  const Tensor output = model.forward(Operand(batch.input, site));
  const Tensor value = loss_of(loss, output, batch.target, site);
  const CallScope call("evaluate", site);
  Counted result{.examples = static_cast<double>(batch.input.size(0))};
  if (are_classes(output, batch.target)) {
    result.right = static_cast<double>(sum(hits(output, batch.target)).item<std::int64_t>());
    result.predictions = predictions_of(batch.target).item<double>();
  }
  result.loss = value.item<double>();
  return result;
}

// Of all batches, in their order; each was counted by one rank.
std::vector<Counted> of_all_ranks(const std::vector<Counted>& own, const dist::Group& group, std::int64_t batches,
                                  CallSite site) {
  constexpr std::int64_t kNumbers = 4;
  std::vector<double> numbers;
  for (const Counted& one : own) numbers.insert(numbers.end(), {one.loss, one.examples, one.right, one.predictions});
  std::vector<Shape> shapes;
  for (int rank = 0; rank < group.size(); ++rank) {
    shapes.push_back({(batches - rank + group.size() - 1) / group.size(), kNumbers});
  }
  const Tensor mine = Tensor::from(numbers, shapes[static_cast<std::size_t>(group.rank())], Device{});
  std::vector<Counted> all(static_cast<std::size_t>(batches));
  std::size_t rank = 0;
  for (const Tensor& theirs : group.all_gather(mine, shapes, site)) {
    const std::vector<double> values = theirs.to_vector<double>();
    std::size_t batch = rank++;
    for (std::size_t i = 0; i < values.size(); i += kNumbers, batch += static_cast<std::size_t>(group.size())) {
      all[batch] = {values[i], values[i + 1], values[i + 2], values[i + 3]};
    }
  }
  return all;
}

// Ranks take turns with the batches.
Evaluation evaluated(const Model& model, data::DataLoader& loader, const Loss& loss, dist::Parallel* parallel,
                     CallSite site) {
  const NoGrad no_grad;
  const EvaluationMode mode(model.module());
  const std::int64_t ranks = parallel ? parallel->group().size() : 1;
  const std::int64_t own = parallel ? parallel->group().rank() : 0;
  const std::int64_t batches = loader.batches() - loader.position();
  std::vector<Counted> all;
  std::int64_t number = 0;
  const auto count = [&](const data::Batch& batch) { all.push_back(counted(model, batch, loss, site)); };
  for (const data::Batch& batch : loader) {
    if (number++ % ranks != own) continue;
    if (parallel) {
      parallel->together(
          true, [&] { count(batch); }, site);
    } else {
      count(batch);
    }
  }
  if (parallel && batches % ranks != 0 && own >= batches % ranks) parallel->together(false, {}, site);
  if (parallel) all = of_all_ranks(all, parallel->group(), batches, site);
  Totals totals;
  for (const Counted& batch : all) totals.add(batch);
  return {totals.loss(), totals.accuracy(), static_cast<std::int64_t>(totals.examples())};
}

class Fit {
 public:
  Fit(const Model& model, optim::Optimizer& optimizer, data::DataLoader& loader, const FitOptions& options,
      CallSite site)
      : model_(model), optimizer_(optimizer), loader_(loader), options_(options), parallel_(options.parallel), site_(site) {
    if (options.epochs < 1) fail("fit", fmt::format("{} epochs are none", options.epochs), "", site);
    if (options.clip_norm && parallel_) {
      fail("fit", "clip_norm is given twice", "only ParallelOptions::clip_norm where there is a Parallel", site);
    }
    if (options.max_steps < 0 || options.checkpoint_every < 0) fail("fit", "a number of steps is negative", "", site);
    if (options.autocast != DType::f32 && options.autocast != DType::bf16) {
      fail("fit", fmt::format("autocast to {} is not for fit()", name_of(options.autocast)),
           "DType::bf16; f16 needs a loop of one's own with optim::GradScaler", site);
    }
    check_numerics();
    total_ = options.epochs * loader.batches();
    if (options.max_steps > 0) total_ = std::min(total_, options.max_steps);
  }

  FitResult run() {
    if (options_.resume) resume();
    model_.module().train();
    while (result_.steps < total_ && going_) run_epoch();
    bar_.clear();
    if (saved_at_ != result_.steps) save();
    result_.seconds = seconds_since(start_);
    return std::move(result_);
  }

 private:
  // Before anything is read or written, not at the first product.
  void check_numerics() const {
    const CallScope call("fit", site_);
    for (const nn::Parameter& parameter : model_.module().parameters())
      graph::check_numerics(numerics_of(options_), parameter.tensor().device());
  }

  void run_epoch() {
    Totals totals;
    const Clock::time_point epoch_start = Clock::now();
    const auto epoch = static_cast<std::int64_t>(loader_.epoch()) + 1;
    for (const data::LocalBatch& batch : data::LocalBatches(loader_, parallel_ ? parallel_->own_shards() : data::ShardRange{})) {
      Record record{.epoch = epoch, .lr = optimizer_.lr()};
      step(batch, record, totals);
      if (options_.schedule != nullptr) options_.schedule->step(site_);
      record.samples_per_second = totals.examples() / seconds_since(epoch_start);
      record.seconds = seconds_since(start_);
      put(record);
      if (parallel_) going_ = !parallel_->any(!going_, site_);

      Progress progress{.epoch = epoch,
                        .epochs = options_.epochs,
                        .batch = loader_.position(),
                        .batches = loader_.batches(),
                        .loss = totals.loss(),
                        .accuracy = totals.accuracy(),
                        .samples_per_second = record.samples_per_second};
      const std::int64_t own_steps = result_.steps - result_.resumed_at;
      progress.seconds_left =
          record.seconds / static_cast<double>(own_steps) * static_cast<double>(total_ - result_.steps);
      if (options_.progress) bar_.show(progress);

      const bool epoch_ends = loader_.position() == loader_.batches();
      const bool ends = result_.steps == total_ || !going_;
      if (epoch_ends || ends) {
        const double seconds = seconds_since(epoch_start);
        const Record test = measure(epoch);
        if (options_.progress) bar_.end_epoch(progress, test, seconds);
      }
      const bool due = options_.checkpoint_every > 0 ? result_.steps % options_.checkpoint_every == 0 : epoch_ends;
      if (due) save();
      if (!ends && going_ && asked_to_stop()) {
        going_ = false;
        result_.stopped = true;
      }
      if (ends || !going_) break;
    }
  }

  bool asked_to_stop() const {
    const bool here = options_.stop && options_.stop();
    return parallel_ ? parallel_->any(here, site_) : here;
  }

  // The loss of examples, and how many of their predictions are right, out of how many; no sums where they are no classes.
  dist::Measured measured(const data::Batch& batch) const {
    const Arithmetic arithmetic(options_, site_);
    const Tensor output = model_.forward(Operand(batch.input, site_));
    const Tensor loss = loss_of(options_.loss, output, batch.target, site_);
    if (!are_classes(output, batch.target)) return loss;
    const NoGrad no_grad;
    const CallScope call("fit", site_);
    return {loss, {sum(hits(output, batch.target)), predictions_of(batch.target)}};
  }

  dist::StepResult change(const data::LocalBatch& batch) const {
    const auto measure = [this](const data::Batch& shard) { return measured(shard); };
    const NumericsScope numerics(numerics_of(options_), site_);  // so that gradients lie in memory as values do
    if (parallel_) return parallel_->step(batch, measure, site_);
    const dist::Measured found = measured(batch.shards.front());
    // Held, and so computed with the step: reading them afterwards costs nothing.
    const Tensor value = detach(found.loss);
    if (options_.clip_norm) {
      optimizer_.zero_grad();
      found.loss.backward(site_);
      optim::clip_grad_norm(optimizer_.parameters(), *options_.clip_norm, {}, site_);
      optimizer_.step(site_);
      optimizer_.zero_grad();
    } else {
      optimizer_.step(found.loss, site_);
    }
    dist::StepResult result{.loss = value.item<double>(site_), .sums = {}};
    for (const Tensor& sum : found.sums) result.sums.push_back(sum.item<double>(site_));
    return result;
  }

  // One step; fills in what it measured.
  void step(const data::LocalBatch& batch, Record& record, Totals& totals) {
    const dist::StepResult found = change(batch);
    record.step = ++result_.steps;
    record.loss = found.loss;
    if (!std::isfinite(record.loss)) {
      bar_.clear();
      fail("fit",
           fmt::format("the loss of step {} (epoch {}) is {}{}", record.step, record.epoch, record.loss, saved_text()),
           "a lower learning rate, clipped gradients, or inputs and targets without NaN; CheckFinite finds the op that "
           "made the first one",
           site_);
    }
    Counted counted{.loss = record.loss, .examples = static_cast<double>(batch.examples)};
    if (!found.sums.empty()) {
      counted.right = found.sums[0];
      counted.predictions = found.sums[1];
      record.accuracy = counted.right / counted.predictions;
    }
    totals.add(counted);
  }

  Record measure(std::int64_t epoch) {
    Record record{.step = result_.steps, .epoch = epoch, .split = "test"};
    if (options_.test == nullptr) return record;
    const Arithmetic arithmetic(options_, site_);
    result_.test = evaluated(model_, *options_.test, options_.loss, parallel_, site_);
    record.loss = result_.test.loss;
    record.accuracy = result_.test.accuracy;
    record.seconds = seconds_since(start_);
    put(record);
    return record;
  }

  void put(Record record) {
    record.numerics = arithmetic_text(options_);
    for (Log* log : options_.logs) log->write(record);
    result_.records.push_back(record);
    if (options_.on_record && !options_.on_record(record)) going_ = false;
  }

  void save() {
    if (options_.checkpoints.empty()) return;
    saved_at_ = result_.steps;
    Checkpoint checkpoint{.step = result_.steps};
    checkpoint.parts["model"] = parallel_ ? parallel_->own_module_state(site_) : model_.module().state_dict();
    checkpoint.parts["optimizer"] = parallel_ ? parallel_->own_optimizer_state(site_) : optimizer_.state_dict();
    if (!parallel_ || parallel_->group().rank() == 0) {  // of all ranks alike
      checkpoint.add("loader", loader_).add("generator", default_generator());
      if (options_.schedule != nullptr) checkpoint.add("schedule", *options_.schedule);
    }
    checkpoint.texts["run"] = options_.run;
    checkpoint.texts["shards"] = fmt::to_string(shards());
    checkpoint.texts["numerics"] = arithmetic_text(options_);
    const SaveCheckpointOptions saving{.keep = options_.keep_checkpoints};
    if (parallel_) {
      save_checkpoint(options_.checkpoints, checkpoint, parallel_->group(), saving, site_);
    } else {
      save_checkpoint(options_.checkpoints, checkpoint, saving, site_);
    }
  }

  int shards() const { return parallel_ ? parallel_->options().shards : 1; }

  void resume() {
    const std::optional<Checkpoint> found = load_latest(options_.checkpoints);
    if (parallel_) {
      parallel_->check_same("the checkpoint in " + options_.checkpoints + " (a folder that all ranks see is needed)",
                            found ? nn::state_hash(found->part("model")) : 0, site_);
    }
    if (!found) return;
    const auto run = found->texts.find("run");
    const std::string saved = run == found->texts.end() ? "" : run->second;
    if (saved != options_.run) {
      fail("fit",
           fmt::format("the checkpoint in {} is of another run: \"{}\", not \"{}\"", options_.checkpoints, saved,
                       options_.run),
           "another folder, or the options that the run was started with", site_);
    }
    const auto cut = found->texts.find("shards");
    const std::string shards_then = cut == found->texts.end() ? "1" : cut->second;
    if (shards_then != fmt::to_string(shards())) {
      fail("fit", fmt::format("the checkpoint in {} is of a run with {} shards, not {}", options_.checkpoints, shards_then, shards()),
           "the number of shards that the run was started with", site_);
    }
    const auto arithmetic = found->texts.find("numerics");
    const std::string computed_in = arithmetic == found->texts.end() ? "f32 exact" : arithmetic->second;
    if (computed_in != arithmetic_text(options_)) {
      fail("fit",
           fmt::format("the checkpoint in {} is of a run in {} numerics, not {}", options_.checkpoints, computed_in,
                       arithmetic_text(options_)),
           "the autocast and the numerics that the run was started with", site_);
    }
    if (parallel_) {
      found->check_dtypes("model", model_.module(), site_);
      parallel_->load_module_state(found->part("model"), site_);
      parallel_->load_optimizer_state(found->part("optimizer"), site_);
    } else {
      found->restore("model", model_.module(), site_);
      found->restore("optimizer", optimizer_, site_);
    }
    if (options_.schedule != nullptr) found->restore("schedule", *options_.schedule, site_);
    found->restore("loader", loader_, site_);
    found->restore("generator", default_generator(), site_);
    result_.steps = result_.resumed_at = saved_at_ = found->step;
  }

  std::string saved_text() const {
    if (options_.checkpoints.empty() || saved_at_ <= 0) return "";
    return fmt::format("; the last checkpoint in {} is of step {}", options_.checkpoints, saved_at_);
  }

  const Model& model_;
  optim::Optimizer& optimizer_;
  data::DataLoader& loader_;
  const FitOptions& options_;
  dist::Parallel* const parallel_;
  CallSite site_;
  FitResult result_;
  ProgressBar bar_;
  Clock::time_point start_ = Clock::now();
  std::int64_t total_ = 0;
  std::int64_t saved_at_ = -1;
  bool going_ = true;
};

}  // namespace

Tensor accuracy(const Operand& output, const Operand& target) {
  const CallScope call("accuracy", output);
  const NoGrad no_grad;
  return mean(hits(output.tensor(), target.tensor()).to(DType::f32));
}

Evaluation evaluate(const Model& model, data::DataLoader& loader, const Loss& loss, CallSite site) {
  return evaluated(model, loader, loss, nullptr, site);
}

FitResult fit(const Model& model, optim::Optimizer& optimizer, data::DataLoader& loader, const FitOptions& options,
              CallSite site) {
  return Fit(model, optimizer, loader, options, site).run();
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
