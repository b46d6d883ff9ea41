#include "graph/module_watch.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include <lockstep/autograd.h>
#include <lockstep/ops.h>

namespace lockstep {
inline namespace v0 {
namespace graph {
namespace {

// Never destroyed: threads may compute while static objects go.
struct ModuleWatches {
  std::atomic<int> lookers{0};
  std::mutex mutex;
  std::shared_ptr<const ModuleWatch> watch;
};
ModuleWatches& module_watches() {
  static ModuleWatches* const instance = new ModuleWatches;
  return *instance;
}

thread_local const std::string* innermost_module = nullptr;

// Elements i * n / count of n.
std::vector<double> sample_of(const Tensor& output) {
  const std::int64_t n = output.numel();
  const std::int64_t count = std::min(n, kRecordedSample);
  std::vector<std::int64_t> places;
  for (std::int64_t i = 0; i < count; ++i) places.push_back(i * n / count);
  const Tensor chosen = index_select(output.flatten(), 0, Tensor::from(places, {count}, output.device()));
  const std::vector<float> values = chosen.to(DType::f32).to_vector<float>();
  return {values.begin(), values.end()};
}

}  // namespace

void set_module_watch(ModuleWatch watch) {
  ModuleWatches& all = module_watches();
  const std::lock_guard lock(all.mutex);
  all.lookers -= all.watch != nullptr ? 1 : 0;
  all.watch = watch ? std::make_shared<const ModuleWatch>(std::move(watch)) : nullptr;
  all.lookers += all.watch != nullptr ? 1 : 0;
}

bool has_module_watch() {
  return module_watches().lookers.load(std::memory_order_relaxed) > 0;
}

void show_output(const std::string& module, const std::string& kind, const Tensor& output, const CallSite& called) {
  std::shared_ptr<const ModuleWatch> watch;
  {
    ModuleWatches& all = module_watches();
    const std::lock_guard lock(all.mutex);
    watch = all.watch;
  }
  if (watch == nullptr) return;
  const NoGrad no_grad;
  (*watch)(module, kind, output, called);
}

const std::string& module_now() {
  static const std::string& none = *new std::string;
  return innermost_module == nullptr ? none : *innermost_module;
}
void ask_for_modules(bool asks) {
  module_watches().lookers += asks ? 1 : -1;
}
ModuleScope::ModuleScope(const std::string& path) : before_(std::exchange(innermost_module, &path)) {}
ModuleScope::~ModuleScope() {
  innermost_module = before_;
}

RecordedKernel recorded_output(const std::string& module, const std::string& kind, const Tensor& output,
                               const CallSite& called) {
  RecordedKernel line{.device = output.device().to_string(),
                      .ops = kind,
                      .module = module,
                      .file = called.file,
                      .line = static_cast<std::int64_t>(called.line),
                      .dtype = output.dtype(),
                      .shape = output.shape(),
                      .hash = output.hash()};
  if (is_float(output.dtype()) && !is_storage_only(output.dtype())) line.sample = sample_of(output);
  return line;
}

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
