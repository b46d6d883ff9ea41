// Shadow: runs each kernel of a flush again on another device.
#include <lockstep/shadow.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdio>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include <lockstep/check.h>

#include "core/os.h"
#include "graph/difference.h"
#include "graph/kernel_case.h"
#include "graph/kernel_rows.h"
#include "graph/kernel_watch.h"
#include "graph/shadow_kernels.h"
#include "graph/window.h"

namespace lockstep {
inline namespace v0 {
namespace {

constexpr std::size_t kKept = 100;

std::atomic<bool> has_shadow{false};

std::size_t place(int entry) {
  return static_cast<std::size_t>(entry);
}

/// Attention of blocked or fast numerics as one kernel, which the other device composes.
const AttentionKernel* whole_attention(const Kernel& kernel) {
  const auto* attention = std::get_if<AttentionKernel>(&kernel);
  return attention != nullptr && attention->numerics != Numerics::exact ? attention : nullptr;
}

/// A product that has a bound in place of bits.
const ContractionKernel* fast_product(const Kernel& kernel) {
  const auto* product = std::get_if<ContractionKernel>(&kernel);
  return product != nullptr && product->numerics == Numerics::fast ? product : nullptr;
}

bool can_compare(const Kernel& kernel) {
  return whole_attention(kernel) != nullptr || fast_product(kernel) != nullptr ||
         (!is_fast(kernel) && !is_whole(kernel));
}

}  // namespace

struct Shadow::Impl : graph::KernelWatch {
  Device device;
  ShadowOptions options;
  mutable std::mutex mutex;
  Counts counts;
  std::vector<ShadowDifference> differences;
  std::map<std::string, std::int64_t> seen;  ///< kernels by their ops
  std::string last_module;
  bool has_case = false;  ///< of the first difference
  std::uint64_t rows_drawn = 0;

  std::unique_ptr<graph::FlushWatch> begin(Backend& backend, const graph::Window& window,
                                           const graph::Plan& plan) override;
  /// Whether this kernel is one to be compared.
  bool is_chosen(const graph::KernelNames& names, const graph::Step& step);
  void add_passed_over() {
    const std::lock_guard lock(mutex);
    ++counts.passed_over;
  }
  /// Notes a comparison; throws where the policy says so.
  void add(std::optional<ShadowDifference> difference);
  /// True once, if cases are wanted.
  bool takes_case() {
    const std::lock_guard lock(mutex);
    return !options.cases.empty() && !std::exchange(has_case, true);
  }
  std::uint64_t next_draw() {
    const std::lock_guard lock(mutex);
    return rows_drawn++;
  }
  bool is_named(const graph::KernelNames& names, const graph::Step& step) const;
};

bool Shadow::Impl::is_named(const graph::KernelNames& names, const graph::Step& step) const {
  if (options.ops.empty()) return true;
  const std::vector<std::string> called = names.called_by(step);
  return std::ranges::any_of(
      called, [&](const std::string& op) { return std::ranges::find(options.ops, op) != options.ops.end(); });
}

bool Shadow::Impl::is_chosen(const graph::KernelNames& names, const graph::Step& step) {
  const std::string module = names.module_of(step);
  const std::lock_guard lock(mutex);
  if (!module.empty()) last_module = module;
  if (!is_named(names, step) || !can_compare(step.kernel)) return false;
  return options.every == 1 || seen[names.ops_of(step)]++ % options.every == 0;
}

void Shadow::Impl::add(std::optional<ShadowDifference> difference) {
  {
    const std::lock_guard lock(mutex);
    ++counts.compared;
    if (!difference) return;
    difference->kernel = counts.compared;
    if (difference->module.empty()) difference->after_module = last_module;
    ++counts.different;
    if (differences.size() < kKept) differences.push_back(*difference);
  }
  if (options.on_difference) {
    options.on_difference(*difference);
  } else if (options.policy != ShadowPolicy::stop) {
    fmt::print(stderr, "{}\n", difference->to_string());
  }
  if (options.policy == ShadowPolicy::stop) throw ShadowError(*difference);
}

namespace graph {

bool is_shadowed() {
  return has_shadow;
}

namespace {

// One flush, seen by the shadow.
template <typename Impl> class ShadowFlush final : public FlushWatch {
 public:
  ShadowFlush(Impl& shadow, const Window& window, const Plan& plan)
      : shadow_(shadow), backend_(backend_of(shadow.device)), names_(window, plan) {
    for (const Plan::Prepared& prepared : plan.steps) check_memory(window, prepared.step);
  }

  void before(const KernelRun& run) override {
    buffers_.clear();
    chosen_ = shadow_.is_chosen(names_, run.step) && is_held(run);
    if (!chosen_) return shadow_.add_passed_over();
    // What the kernel reads, before it may write over it.
    replaced_ = run.in_place && !shadow_.options.cases.empty()
                    ? bytes_of(run.backend, *run.window.nodes[place(run.step.writes[0])],
                               run.buffers[place(run.step.writes[0])])
                    : Bytes();
    for (const int entry : run.step.slots) {
      const Node& node = *run.window.nodes[place(entry)];
      if (run.in_place && is_written(run, entry)) continue;  // shares the memory of what it replaces
      BufferRef copy = backend_.allocate(node.bytes());
      if (!is_written(run, entry)) {
        const std::vector<std::byte> bytes = bytes_of(run.backend, node, run.buffers[place(entry)]);
        if (!bytes.empty()) backend_.upload(*copy, bytes.data(), bytes.size());
      }
      buffers_[entry] = std::move(copy);
    }
    if (run.in_place) buffers_[run.step.writes[0]] = in_place_copy(run);
  }

  void after(const KernelRun& run) override {
    if (!chosen_) return;
    low_.clear();
    high_.clear();
    if (const AttentionKernel* attention = whole_attention(run.step.kernel)) {
      compose(run, *attention);
    } else if (const ContractionKernel* product = fast_product(run.step.kernel)) {
      run_between(run, *product);
    } else {
      run_again(run);
    }
    for (const int entry : run.step.writes) compare(run, entry);
    buffers_.clear();
  }

 private:
  // Before the first kernel runs.
  void check_memory(const Window& window, const Step& step) const {
    std::size_t needed = 0;
    for (const int entry : step.slots) needed += window.nodes[place(entry)]->bytes();
    if (needed <= backend_.memory_bytes() || !shadow_.is_named(names_, step)) return;
    fail<OutOfMemoryError>(
        fmt::format("the shadow on {} needs {} bytes for {}, and the device has {}", shadow_.device.to_string(), needed,
                    names_.ops_of(step), backend_.memory_bytes()),
        {}, "another shadow device, or ops that leave this one out");
  }
  static bool is_written(const KernelRun& run, int entry) {
    return std::ranges::find(run.step.writes, entry) != run.step.writes.end();
  }
  bool is_held(const KernelRun& run) const {
    return std::ranges::all_of(run.step.slots,
                               [&](int entry) { return backend_.holds(run.window.nodes[place(entry)]->dtype); });
  }

  // The copy of what is replaced, which may be no slot of its own.
  BufferRef in_place_copy(const KernelRun& run) {
    const auto found = buffers_.find(run.step.replaces);
    if (found != buffers_.end()) return found->second;
    const Node& node = *run.window.nodes[place(run.step.writes[0])];
    BufferRef copy = backend_.allocate(node.bytes());
    const std::vector<std::byte> bytes = bytes_of(run.backend, node, run.buffers[place(run.step.writes[0])]);
    if (!bytes.empty()) backend_.upload(*copy, bytes.data(), bytes.size());
    return copy;
  }

  void run_again(const KernelRun& run) {
    is_sampled_ = false;
    if (shadow_.options.rows > 0) {
      if (const auto part = some_rows(run.step.kernel, shadow_.options.rows, shadow_.next_draw()))
        return run_part(run, *part);
    }
    run_kernel(run, run.step.kernel);
  }

  // What is not computed is what the device made.
  void run_part(const KernelRun& run, const Kernel& part) {
    is_sampled_ = true;
    for (const int entry : run.step.writes) {
      const Bytes made = bytes_of(run.backend, *run.window.nodes[place(entry)], run.buffers[place(entry)]);
      if (!made.empty()) backend_.upload(*buffers_.at(entry), made.data(), made.size());
    }
    run_kernel(run, part);
  }

  // Results, and where they may lie.
  void run_between(const KernelRun& run, const ContractionKernel& product) {
    FastProduct exact(backend_, product, slots_of(run), [&](const Kernel& kernel, const std::vector<BufferRef>& slots) {
      run_kernel(run, kernel, slots);
    });
    for (const auto& [ends, bounds] : {std::pair{&low_, -1.0}, {&high_, 1.0}}) {
      exact.make(bounds);
      for (const int entry : run.step.writes) {
        (*ends)[entry] = bytes_of(backend_, *run.window.nodes[place(entry)], buffers_.at(entry));
      }
    }
    exact.make(0);
  }

  // What the kernel keeps for its gradients is as the device made it.
  void compose(const KernelRun& run, const AttentionKernel& attention) {
    std::vector<Bytes> operands;
    std::vector<int> slots{attention.query.slot, attention.key.slot, attention.value.slot};
    if (attention.gradients) slots.push_back(attention.upstream.slot);
    for (const int slot : slots) {
      const int entry = run.step.slots[place(slot)];
      operands.push_back(bytes_of(backend_, *run.window.nodes[place(entry)], buffers_.at(entry)));
    }
    const auto scale = std::bit_cast<float>(static_cast<std::uint32_t>(run.parameters[place(attention.scale)].bits));
    const ComposedAttention made = composed_attention(shadow_.device, attention, operands, scale);
    const int entry = run.step.writes[0];
    Bytes all = bytes_of(run.backend, *run.window.nodes[place(entry)], run.buffers[place(entry)]);
    for (const auto& [ends, bytes] : {std::pair{&low_, &made.low}, {&high_, &made.high}}) {
      if (bytes->empty()) continue;
      std::ranges::copy(*bytes, all.begin());
      (*ends)[entry] = all;
    }
    std::ranges::copy(made.results, all.begin());
    backend_.upload(*buffers_.at(entry), all.data(), all.size());
  }

  std::vector<BufferRef> slots_of(const KernelRun& run) const {
    std::vector<BufferRef> slots;
    for (const int entry : run.step.slots) slots.push_back(buffers_.at(entry));
    return slots;
  }

  void run_kernel(const KernelRun& run, const Kernel& kernel) { run_kernel(run, kernel, slots_of(run)); }
  void run_kernel(const KernelRun& run, const Kernel& kernel, const std::vector<BufferRef>& memory) {
    std::vector<std::byte*> slots;
    for (const BufferRef& buffer : memory) slots.push_back(buffer->data());
    const std::size_t count = faults_of(kernel);
    BufferRef words;
    std::span<std::uint32_t> faults;
    if (count > 0) {
      const std::vector<std::uint32_t> zeros(count);
      words = backend_.allocate(count * sizeof(std::uint32_t));
      backend_.upload(*words, zeros.data(), count * sizeof(std::uint32_t));
      faults = {reinterpret_cast<std::uint32_t*>(words->data()), count};
    }
    const std::unique_ptr<Executable> executable = backend_.compile(kernel);
    const std::vector<Buffer*> given(slots.size());
    run_exclusively(shadow_.device, [&] {
      executable->run({slots, run.parameters, faults, 0, given});
      backend_.finish();
    });
  }

  void compare(const KernelRun& run, int entry) {
    const Node& node = *run.window.nodes[place(entry)];
    const std::vector<std::byte> here = bytes_of(run.backend, node, run.buffers[place(entry)]);
    const std::vector<std::byte> there = bytes_of(backend_, node, buffers_.at(entry));
    const auto low = low_.find(entry);
    const std::optional<ElementDifference> found =
        low == low_.end() ? first_difference(node.dtype, here, there)
                          : first_outside(node.dtype, here, low->second, there, high_.at(entry));
    if (!found) return shadow_.add(std::nullopt);
    // A case is for devices that have the kernel, and its bits.
    const bool has_case = !is_fast(run.step.kernel) && !is_whole(run.step.kernel);
    const std::string file = has_case && shadow_.takes_case() ? save(run) : "";
    if (shadow_.options.policy == ShadowPolicy::follow) {
      run.backend.upload(*run.buffers[place(entry)], there.data(), there.size());
    }
    shadow_.add(ShadowDifference{.ops = names_.ops_of(run.step),
                                 .module = names_.module_of(run.step),
                                 .after_module = {},
                                 .file = node.where.file,
                                 .line = static_cast<int>(node.where.line),
                                 .device = node.device,
                                 .shadow = shadow_.device,
                                 .dtype = node.dtype,
                                 .shape = node.shape,
                                 .index = index_of(found->position, node.shape),
                                 .value = found->a,
                                 .shadow_value = found->b,
                                 .ulps = found->ulps,
                                 .count = found->count,
                                 .case_file = file});
  }

  // The kernel with what it read and both results. A case that cannot be written is told, and hides no difference.
  std::string save(const KernelRun& run) {
    const auto given = [&](int entry) -> std::optional<Bytes> {
      const Node& node = *run.window.nodes[place(entry)];
      if (run.in_place && entry == run.step.replaces) return replaced_;
      if (std::ranges::find(run.step.slots, entry) != run.step.slots.end() && !is_written(run, entry)) {
        return bytes_of(backend_, node, buffers_.at(entry));
      }
      return std::nullopt;
    };
    if (std::exchange(is_sampled_, false)) run_kernel(run, run.step.kernel);  // a case is whole
    KernelCase work = case_of(run.window, run.step.writes, given);
    for (std::size_t i = 0; i < work.results.size(); ++i) {
      const int entry = run.step.writes[i];
      const Node& node = *run.window.nodes[place(entry)];
      work.results[i].expected = bytes_of(backend_, node, buffers_.at(entry));
      work.results[i].actual = bytes_of(run.backend, node, run.buffers[place(entry)]);
    }
    const Node& first = *run.window.nodes[place(run.step.writes[0])];
    work.story = {{"ops", names_.ops_of(run.step)},
                  {"module", names_.module_of(run.step)},
                  {"called_at", fmt::format("{}:{}", first.where.file, first.where.line)},
                  {"device", first.device.to_string()},
                  {"reference", shadow_.device.to_string()}};
    const std::vector<std::string> called = names_.called_by(run.step);
    const std::string file =
        fmt::format("{}/shadow-{}.safetensors", shadow_.options.cases, called.empty() ? "kernel" : called.back());
    try {
      os::make_directories(shadow_.options.cases);
      write_case(file, work);
      return file;
    } catch (const Error& error) {
      fmt::print(stderr, "shadow: the case of the first difference could not be written: {}\n", error.what());
      return {};
    }
  }

  Impl& shadow_;
  Backend& backend_;
  KernelNames names_;
  bool chosen_ = false;
  bool is_sampled_ = false;           ///< only some rows of this kernel were computed
  Bytes replaced_;                    ///< what an update wrote over, where cases are wanted
  std::map<int, BufferRef> buffers_;  ///< on the shadow device, by entry
  std::map<int, Bytes> low_, high_;   ///< of results that have bounds instead of bits
};

}  // namespace
}  // namespace graph

std::unique_ptr<graph::FlushWatch> Shadow::Impl::begin(Backend& backend, const graph::Window& window,
                                                       const graph::Plan& plan) {
  if (backend.device() == device) return nullptr;
  return std::make_unique<graph::ShadowFlush<Impl>>(*this, window, plan);
}

Shadow::Shadow(Device device, ShadowOptions options, CallSite site) : impl_(std::make_shared<Impl>()) {
  const CallScope call("Shadow", site);
  backend_of(device);
  check<ValueError>(options.every >= 1, fmt::format("every is {}", options.every), {}, "use 1 or more");
  check<ValueError>(options.rows >= 0, fmt::format("rows is {}", options.rows), {}, "use 0, for all, or more");
  check<ValueError>(!has_shadow.exchange(true), "there is a Shadow already", {}, "let that one end first");
  impl_->device = device;
  impl_->options = std::move(options);
  graph::add_watch(impl_);
}

Shadow::~Shadow() {
  graph::remove_watch(impl_.get());
  has_shadow = false;
}

Shadow::Counts Shadow::counts() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->counts;
}

std::vector<ShadowDifference> Shadow::differences() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->differences;
}

ShadowError::ShadowError(ShadowDifference difference)
    : Error(difference.to_string()), difference_(std::make_shared<const ShadowDifference>(std::move(difference))) {}
ShadowError::~ShadowError() = default;

std::string ShadowDifference::to_string() const {
  const std::string where = !module.empty() ? " in " + module : !after_module.empty() ? " after " + after_module : "";
  const std::string distance = ulps ? fmt::format(", {} ulp apart", *ulps) : "";
  return fmt::format(
      "shadow: {} and {} differ in {}{}\n  kernel {}, {} {}, {} of {} elements, the first at {}\n"
      "  {:8} {}\n  {:8} {}{}\n  at {}:{}{}",
      device.to_string(), shadow.to_string(), ops, where, kernel, name_of(dtype), shape.to_string(), count,
      shape.numel(), index.to_string(), device.to_string(), value, shadow.to_string(), shadow_value, distance, file,
      line, case_file.empty() ? "" : "\n  case: lockstep replay " + case_file);
}

ShadowPolicy parse_shadow_policy(const std::string& text) {
  if (text == "stop") return ShadowPolicy::stop;
  if (text == "report") return ShadowPolicy::report;
  if (text == "follow") return ShadowPolicy::follow;
  throw ValueError(fmt::format("\"{}\" is no policy of a shadow: stop, report or follow", text));
}

}  // namespace v0
}  // namespace lockstep
