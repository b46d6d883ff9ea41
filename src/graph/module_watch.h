// Those who look at what layers return: recordings of modules. Without any a layer's call costs a look at one flag.
#pragma once

#include <functional>
#include <string>

#include <lockstep/export.h>
#include <lockstep/recorder.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

using ModuleWatch = std::function<void(const std::string& module, const std::string& kind, const Tensor& output,
                                       const CallSite& called)>;
/// For all layers of the process from now on; empty: nobody looks.
void set_module_watch(ModuleWatch watch);
/// For nn::Layer: whether anybody looks, or asks for module_now().
bool has_module_watch();
void show_output(const std::string& module, const std::string& kind, const Tensor& output, const CallSite& called);

/// The layer that this thread is in, by its path; "" outside of all, and where nobody asked before it was called.
const std::string& module_now();
void ask_for_modules(bool asks);
/// Its calls.
class ModuleScope {
 public:
  explicit ModuleScope(const std::string& path);
  ~ModuleScope();
  ModuleScope(const ModuleScope&) = delete;
  ModuleScope& operator=(const ModuleScope&) = delete;

 private:
  const std::string* before_;
};

/// The output as a recording has it: computed, hashed, and sampled.
RecordedKernel recorded_output(const std::string& module, const std::string& kind, const Tensor& output,
                               const CallSite& called);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
