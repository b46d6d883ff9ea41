#include <lockstep/train/trainer.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include <lockstep/autograd.h>
#include <lockstep/check.h>
#include <lockstep/ops.h>
#include <lockstep/train/checkpoint.h>
#include <lockstep/train/progress.h>

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

// Sums over batches, so that means weigh every example alike.
class Totals {
 public:
  void add(double loss, std::optional<double> right, std::int64_t examples, std::int64_t predictions) {
    loss_ += loss * static_cast<double>(examples);
    examples_ += examples;
    if (right) {
      right_ += *right;
      predictions_ += predictions;
    }
  }
  std::int64_t examples() const { return examples_; }
  double loss() const { return examples_ > 0 ? loss_ / static_cast<double>(examples_) : Record::kNone; }
  double accuracy() const { return predictions_ > 0 ? right_ / static_cast<double>(predictions_) : Record::kNone; }

 private:
  double loss_ = 0;
  double right_ = 0;
  std::int64_t examples_ = 0;
  std::int64_t predictions_ = 0;
};

class Fit {
 public:
  Fit(const Model& model, optim::Optimizer& optimizer, data::DataLoader& loader, const FitOptions& options,
      CallSite site)
      : model_(model), optimizer_(optimizer), loader_(loader), options_(options), site_(site) {
    if (options.epochs < 1) fail("fit", fmt::format("{} epochs are none", options.epochs), "", site);
    if (options.max_steps < 0 || options.checkpoint_every < 0) fail("fit", "a number of steps is negative", "", site);
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
  void run_epoch() {
    Totals totals;
    const Clock::time_point epoch_start = Clock::now();
    const auto epoch = static_cast<std::int64_t>(loader_.epoch()) + 1;
    for (const data::Batch& batch : loader_) {
      Record record{.epoch = epoch, .lr = optimizer_.lr()};
      step(batch, record, totals);
      if (options_.schedule != nullptr) options_.schedule->step(site_);
      record.samples_per_second = static_cast<double>(totals.examples()) / seconds_since(epoch_start);
      record.seconds = seconds_since(start_);
      put(record);

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
      if (!ends && going_ && options_.stop && options_.stop()) {
        going_ = false;
        result_.stopped = true;
      }
      if (ends || !going_) break;
    }
  }

  // One step; fills in what it measured.
  void step(const data::Batch& batch, Record& record, Totals& totals) {
    const Tensor output = model_.forward(Operand(batch.input, site_));
    const Tensor loss = loss_of(options_.loss, output, batch.target, site_);
    Tensor right;
    if (are_classes(output, batch.target)) {
      const NoGrad no_grad;
      const CallScope call("fit", site_);
      right = sum(hits(output, batch.target));
    }
    // Held, and so computed with the step: reading them afterwards costs nothing.
    const Tensor value = detach(loss);
    optimizer_.step(loss, site_);
    record.step = ++result_.steps;
    record.loss = value.item<double>(site_);
    if (!std::isfinite(record.loss)) {
      bar_.clear();
      fail("fit",
           fmt::format("the loss of step {} (epoch {}) is {}{}", record.step, record.epoch, record.loss, saved_text()),
           "a lower learning rate, clipped gradients, or inputs and targets without NaN; CheckFinite finds the op that "
           "made the first one",
           site_);
    }
    const std::int64_t examples = batch.input.size(0);
    std::optional<double> count;
    if (right.defined()) {
      count = static_cast<double>(right.item<std::int64_t>(site_));
      record.accuracy = *count / static_cast<double>(batch.target.numel());
    }
    totals.add(record.loss, count, examples, right.defined() ? batch.target.numel() : 0);
  }

  Record measure(std::int64_t epoch) {
    Record record{.step = result_.steps, .epoch = epoch, .split = "test"};
    if (options_.test == nullptr) return record;
    result_.test = evaluate(model_, *options_.test, options_.loss, site_);
    record.loss = result_.test.loss;
    record.accuracy = result_.test.accuracy;
    record.seconds = seconds_since(start_);
    put(record);
    return record;
  }

  void put(const Record& record) {
    for (Log* log : options_.logs) log->write(record);
    result_.records.push_back(record);
    if (options_.on_record && !options_.on_record(record)) going_ = false;
  }

  void save() {
    if (options_.checkpoints.empty()) return;
    Checkpoint checkpoint{.step = result_.steps};
    checkpoint.add("model", model_.module()).add("optimizer", optimizer_).add("loader", loader_);
    if (options_.schedule != nullptr) checkpoint.add("schedule", *options_.schedule);
    checkpoint.add("generator", default_generator());
    checkpoint.texts["run"] = options_.run;
    save_checkpoint(options_.checkpoints, checkpoint, {.keep = options_.keep_checkpoints}, site_);
    saved_at_ = result_.steps;
  }

  void resume() {
    const std::optional<Checkpoint> found = load_latest(options_.checkpoints);
    if (!found) return;
    const auto run = found->texts.find("run");
    const std::string saved = run == found->texts.end() ? "" : run->second;
    if (saved != options_.run) {
      fail("fit",
           fmt::format("the checkpoint in {} is of another run: \"{}\", not \"{}\"", options_.checkpoints, saved,
                       options_.run),
           "another folder, or the options that the run was started with", site_);
    }
    found->restore("model", model_.module(), site_);
    found->restore("optimizer", optimizer_, site_);
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
  const NoGrad no_grad;
  const EvaluationMode mode(model.module());
  Totals totals;
  for (const data::Batch& batch : loader) {
    const Tensor output = model.forward(Operand(batch.input, site));
    const Tensor value = loss_of(loss, output, batch.target, site);
    const CallScope call("evaluate", site);
    std::optional<double> right;
    if (are_classes(output, batch.target)) {
      right = static_cast<double>(sum(hits(output, batch.target)).item<std::int64_t>());
    }
    totals.add(value.item<double>(), right, batch.input.size(0), right ? batch.target.numel() : 0);
  }
  return {totals.loss(), totals.accuracy(), totals.examples()};
}

FitResult fit(const Model& model, optim::Optimizer& optimizer, data::DataLoader& loader, const FitOptions& options,
              CallSite site) {
  return Fit(model, optimizer, loader, options, site).run();
}

}  // namespace train
}  // namespace v0
}  // namespace lockstep
