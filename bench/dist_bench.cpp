// Training steps by one rank of a group, started by examples/run_ranks.sh, mpirun, torchrun or srun: how a step's time
// grows with the number of ranks, and whether the weights stay the same. Every rank has `--batch` examples, in one
// shard, unless `--shards` says another number for the whole batch; so N ranks of B examples have the weights of one
// rank with
// --batch N*B --shards N. Rank 0 prints one JSON object.
//
// --misbehave kill|stop|mismatch: after warming up the last rank is killed, is stopped, or calls something else; what
// the others say within --deadline seconds is the result.
// --sums nccl: the gradients are added by ncclAllReduce, beside the backward pass, too; only to compare with.
// --trace FILE: one more step is traced, and what took longest goes to the standard error, in ms.
// --model copies measures copies between the devices of one process instead.
//   run_ranks.sh 2 dist_bench --model resnet50 --device cuda --batch 64 [--bf16] [--numerics fast] [--zero 1]
//     [--steps 20] [--buckets BYTES]
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <lockstep/autocast.h>
#include <lockstep/lockstep.h>
#include <lockstep/memory.h>
#include <lockstep/models/registry.h>
#include <lockstep/parallel.h>

#include "library_sums.h"
#include "parallel/flat_sum.h"
#include "parallel/shard_tree.h"

namespace ls = lockstep;

namespace {

struct Options {
  std::string model = "small";
  std::string device = "cpu";
  std::int64_t batch = 8;
  int shards = 0;
  int zero = 0;
  int steps = 20;
  int warm_up = 5;
  std::int64_t buckets = ls::dist::ParallelOptions{}.bucket_bytes;
  int deadline = 120;
  std::string misbehave;
  std::string trace;
  std::string sums = "ours";
  std::int64_t gather = 16 << 20;
  int depth = 12;
  std::int64_t width = 768;
  std::int64_t length = 1024;  // tokens of an example of a GPT
  bool bf16 = false;
  bool checkpoint = false;  // blocks of a GPT compute again what their gradients read
  ls::Numerics numerics = ls::Numerics::exact;
};

Options options_of(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--bf16") {
      options.bf16 = true;
      continue;
    }
    if (word == "--checkpoint") {
      options.checkpoint = true;
      continue;
    }
    if (i + 1 == count) throw std::invalid_argument(word);
    const std::string value = words[++i];
    if (word == "--model")
      options.model = value;
    else if (word == "--device")
      options.device = value;
    else if (word == "--batch")
      options.batch = std::stoll(value);
    else if (word == "--shards")
      options.shards = std::stoi(value);
    else if (word == "--zero")
      options.zero = std::stoi(value);
    else if (word == "--steps")
      options.steps = std::stoi(value);
    else if (word == "--warm-up")
      options.warm_up = std::stoi(value);
    else if (word == "--buckets")
      options.buckets = std::stoll(value);
    else if (word == "--deadline")
      options.deadline = std::stoi(value);
    else if (word == "--numerics")
      options.numerics = ls::numerics_from_name(value);
    else if (word == "--misbehave")
      options.misbehave = value;
    else if (word == "--trace")
      options.trace = value;
    else if (word == "--sums")
      options.sums = value;
    else if (word == "--gather")
      options.gather = std::stoll(value);
    else if (word == "--depth")
      options.depth = std::stoi(value);
    else if (word == "--width")
      options.width = std::stoll(value);
    else if (word == "--length")
      options.length = std::stoll(value);
    else
      throw std::invalid_argument(word);
  }
  return options;
}

// GPT-2's shape: pre-norm blocks, learned positions, the head shares the embedding's weights.
struct Gpt : ls::nn::Module {
  struct Block : ls::nn::Module {
    std::int64_t heads;
    ls::nn::LayerNorm norm1;
    ls::nn::Linear qkv;
    ls::nn::Linear out;
    ls::nn::LayerNorm norm2;
    ls::nn::Linear up;
    ls::nn::Linear down;
    Block(ls::nn::Module& parent, const std::string& name, std::int64_t width, std::int64_t head_count)
        : ls::nn::Module(parent, name),
          heads(head_count),
          norm1(*this, "norm1", width),
          qkv(*this, "qkv", width, 3 * width),
          out(*this, "out", width, width),
          norm2(*this, "norm2", width),
          up(*this, "up", width, 4 * width),
          down(*this, "down", 4 * width, width) {}
    ls::Tensor forward(const ls::Tensor& x) {
      const std::int64_t batch = x.size(0);
      const std::int64_t words = x.size(1);
      const std::int64_t width = x.size(2);
      const ls::Tensor all = qkv(norm1(x)).reshape({batch, words, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
      const ls::Tensor seen =
          ls::scaled_dot_product_attention(all.select(0, 0), all.select(0, 1), all.select(0, 2), {.causal = true});
      const ls::Tensor h = x + out(seen.transpose(1, 2).reshape({batch, words, width}));
      return h + down(ls::gelu(up(norm2(h))));
    }
  };

  std::int64_t length;
  bool checkpoint;
  ls::nn::Embedding tokens;
  ls::nn::Embedding positions;
  std::vector<std::unique_ptr<Block>> blocks;
  ls::nn::LayerNorm norm;
  Gpt(std::int64_t words, std::int64_t context, std::int64_t width, std::int64_t heads, int depth, bool is_checkpointed)
      : length(context),
        checkpoint(is_checkpointed),
        tokens(*this, "tokens", words, width),
        positions(*this, "positions", context, width),
        norm(*this, "norm", width) {
    for (int i = 0; i < depth; ++i) {
      blocks.push_back(std::make_unique<Block>(*this, "block" + std::to_string(i), width, heads));
    }
  }
  ls::Tensor forward(const ls::Tensor& x) {
    ls::Tensor h = tokens(x) + positions.weight.tensor();
    for (const std::unique_ptr<Block>& block : blocks) {
      const auto forward = [one = block.get()](const std::vector<ls::Tensor>& in) { return one->forward(in[0]); };
      h = checkpoint ? ls::checkpoint(forward, {h}) : forward({h});
    }
    return ls::linear(norm(h), tokens.weight.tensor());
  }
};

struct Work {
  std::shared_ptr<ls::nn::Module> module;
  std::function<ls::Tensor(const ls::data::Batch&)> loss;
  std::function<ls::data::Batch(std::int64_t examples, ls::Generator& generator)> batch;
};

Work pictures_of(const std::string& name, std::int64_t size, std::int64_t classes) {
  const std::shared_ptr<ls::nn::Layer> model = ls::models::architecture(name).create(classes);
  return {.module = model,
          .loss = [model](const ls::data::Batch& b) { return ls::cross_entropy(model->forward(b.input), b.target); },
          .batch =
              [=](std::int64_t examples, ls::Generator& generator) {
                return ls::data::Batch{ls::randn({examples, 3, size, size}, {}, &generator),
                                       ls::randint(0, classes, {examples}, {.dtype = ls::DType::i64}, &generator)};
              }};
}

Work text_of(std::int64_t words, std::int64_t length, std::int64_t width, std::int64_t heads, int depth,
             bool checkpoint) {
  const auto model = std::make_shared<Gpt>(words, length, width, heads, depth, checkpoint);
  return {.module = model,
          .loss =
              [=](const ls::data::Batch& b) {
                return ls::cross_entropy(model->forward(b.input).reshape({-1, words}), b.target.reshape({-1}));
              },
          .batch =
              [=](std::int64_t examples, ls::Generator& generator) {
                const ls::Tensor text =
                    ls::randint(0, words, {examples, length + 1}, {.dtype = ls::DType::i64}, &generator);
                return ls::data::Batch{text.narrow(1, 0, length), text.narrow(1, 1, length)};
              }};
}

Work work_of(const Options& options) {
  const std::string& name = options.model;
  const std::int64_t length = options.length;
  if (name == "gpt")
    return text_of(50'304, length, options.width, options.width / 64, options.depth, options.checkpoint);
  if (name == "resnet50") return pictures_of(name, 224, 1000);
  if (name == "resnet20") return pictures_of("resnet20-cifar", 32, 10);
  if (name == "gpt124m") return text_of(50'304, length, 768, 12, 12, options.checkpoint);
  if (name == "small") return text_of(101, 16, 32, 2, 2, options.checkpoint);
  throw std::invalid_argument(name);
}

// From each GPU of this process to each other one: right, and how fast.
int copy_between_devices() {
  for (const ls::dist::Link& link : ls::dist::links()) {
    ls::Generator generator(3);
    const ls::Tensor x = ls::randn({64 << 20}, {.device = link.from}, &generator).eval();  // 256 MB
    const ls::Tensor y = x.to(link.to);
    const bool is_right = x.hash() == y.hash();
    const auto start = std::chrono::steady_clock::now();
    constexpr int kCopies = 10;
    for (int i = 0; i < kCopies; ++i) (x.to(link.to).narrow(0, 0, 1) + 0).item<float>();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("{\"from\": \"%s\", \"to\": \"%s\", \"direct\": %s, \"right\": %s, \"GB_per_s\": %.1f}\n",
                link.from.to_string().c_str(), link.to.to_string().c_str(), link.is_direct ? "true" : "false",
                is_right ? "true" : "false", kCopies * 4e-9 * static_cast<double>(x.numel()) / seconds);
  }
  return 0;
}

// How long the ranks take to give each other all gradients and add them, with nothing beside it.
double exchange_alone(const ls::dist::Group& group, const std::vector<ls::nn::Parameter>& parameters) {
  if (group.size() == 1) return 0;
  const ls::NoGrad no_grad;
  std::vector<ls::Tensor> values;
  for (const ls::nn::Parameter& parameter : parameters) values.push_back(ls::detach(parameter));
  const auto kinds = ls::dist::flat_kinds(values, std::vector<bool>(values.size(), true));
  std::vector<double> seconds;
  for (int i = 0; i < 7; ++i) {
    for (const ls::dist::FlatKind& kind : kinds) {
      ls::dist::ShardTree tree;
      tree.add({{group.rank(), 1}, kind.zeros().eval()});
      const ls::dist::Cuts cuts = ls::dist::equal_cuts(kind.layout.size(), group.size());
      (values.front().flatten().narrow(0, 0, 1) + 0).item<float>();
      group.barrier();
      const auto start = std::chrono::steady_clock::now();
      const ls::Tensor sum = ls::dist::sum_of_shards(group, group.size(), tree, {cuts.begin(), cuts.end() - 1},
                                                     {cuts.begin() + 1, cuts.end()});
      ls::dist::gathered(group, sum, cuts).narrow(0, 0, 1).to(ls::DType::f64).item<double>();
      const double taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (&kind == &kinds.front()) seconds.push_back(0);
      seconds.back() += taken;
    }
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

void misbehave(const std::string& how, const ls::dist::Group& group, ls::Device device) {
  const bool is_last = group.rank() == group.size() - 1;
  if (how == "mismatch") {
    group.all_gather(ls::zeros({is_last ? 5 : 4}, {.device = device}));
  } else if (how == "kill" || how == "stop") {
    if (is_last) std::raise(how == "kill" ? SIGKILL : SIGSTOP);
  } else if (!how.empty()) {
    throw std::invalid_argument(how);
  }
}

template <typename Step> void trace_of(const std::string& file, Step step) {
  ls::Trace trace(file);
  step();
  double rest = 0;
  int left = 60;
  for (const ls::TraceTotal& total : trace.totals()) {
    if (left-- > 0) {
      std::fprintf(stderr, "%8.3f %5llu %s\n", 1e3 * total.seconds, static_cast<unsigned long long>(total.count),
                   total.what.c_str());
    } else {
      rest += 1e3 * total.seconds;
    }
  }
  std::fprintf(stderr, "%8.3f all others\n", rest);
}

int run(const Options& options) {
  if (options.model == "copies") return copy_between_devices();
  const ls::dist::Group group = ls::dist::init({.deadline = std::chrono::seconds(options.deadline)});
  ls::Device device = ls::Device::parse(options.device);
  int count = 0;
  for (const ls::Device one : ls::Device::all()) count += one.kind == device.kind ? 1 : 0;
  if (options.device.find(':') == std::string::npos) device.index = group.local_rank() % count;

  ls::manual_seed(1);
  const Work work = work_of(options);
  work.module->to(device);
  ls::optim::AdamW optimizer(work.module->parameters(), {.lr = 1e-3});
  const int shards = options.shards > 0 ? options.shards : group.size();
  ls::dist::Parallel parallel(*work.module, optimizer, group,
                              {.shards = shards,
                               .zero = options.zero,
                               .bucket_bytes = options.buckets,
                               .gather_bytes = options.gather,
                               .compare_every = 0});
  ls::Generator generator(7);
  const std::int64_t examples = options.batch * group.size();
  ls::data::Batch batch = work.batch(examples, generator);
  batch = {batch.input.to(device).eval(), batch.target.to(device).eval()};

  const ls::NumericsScope numerics(options.numerics);
  const bool is_library = options.sums == "nccl" && group.size() > 1;
  std::optional<ls::bench::LibrarySums> library;
  if (is_library) library.emplace(group, device, work.module->parameters(), options.buckets);
  const auto measured = [&](const ls::data::Batch& shard) {
    const ls::Autocast autocast(options.bf16 ? ls::DType::bf16 : ls::DType::f32);
    return work.loss(shard);
  };
  const std::int64_t first = options.batch * group.rank();
  const ls::data::Batch own{batch.input.narrow(0, first, options.batch), batch.target.narrow(0, first, options.batch)};
  const auto step_once = [&] {
    if (!is_library) return parallel.step(batch, measured).loss;
    optimizer.zero_grad();
    const double own_loss = library->step(measured(own));
    optimizer.step();
    optimizer.zero_grad();
    return own_loss;
  };

  std::vector<double> seconds;
  double loss = 0;
  for (int step = 0; step < options.warm_up + options.steps; ++step) {
    const auto start = std::chrono::steady_clock::now();
    loss = step_once();
    if (step + 1 == options.warm_up) {
      ls::reset_peak_memory(device);
      group.barrier();
      misbehave(options.misbehave, group, device);
    }
    if (step >= options.warm_up) {
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
  }
  const double peak = static_cast<double>(ls::memory_statistics(device).peak) / 1e6;
  if (!options.trace.empty()) trace_of(options.trace, step_once);
  const double alone = options.zero == 0 ? exchange_alone(group, work.module->parameters()) : 0;
  const std::uint64_t hash = ls::nn::state_hash(parallel.module_state());
  if (!is_library) parallel.compare();
  std::ranges::sort(seconds);
  if (group.rank() == 0) {
    std::printf(
        "{\"model\": \"%s\", \"device\": \"%s\", \"dtype\": \"%s\", \"numerics\": \"%s\", \"ranks\": %d, \"engine\": "
        "\"%s\", \"batch\": %lld, "
        "\"shards\": %d, \"zero\": %d, \"buckets\": %lld, \"sums\": \"%s\", \"peak_mb\": %.1f, \"exchange_ms\": %.3f, "
        "\"median_ms\": %.3f, "
        "\"least_ms\": %.3f, \"loss\": %.6f, \"weights\": \"%016llx\"}\n",
        options.model.c_str(), device.to_string().c_str(), options.bf16 ? "bf16" : "f32", ls::name_of(options.numerics),
        group.size(), group.engine().c_str(), static_cast<long long>(options.batch), shards, options.zero,
        static_cast<long long>(options.buckets), options.sums.c_str(), peak, 1e3 * alone,
        1e3 * seconds[seconds.size() / 2], 1e3 * seconds.front(), loss, static_cast<unsigned long long>(hash));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int count, char** words) try { return run(options_of(count, words)); } catch (const std::exception& error) {
  std::fprintf(stderr, "dist_bench: %s\n", error.what());
  return 1;
}
