// Those who look at every kernel that is run, at what it reads and what it makes: shadows, records, planted faults.
// Without any it costs a look at one flag per flush.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/backend.h"
#include "graph/describe.h"
#include "graph/live_tensors.h"
#include "graph/plan.h"

namespace lockstep {
inline namespace v0 {
namespace graph {

/// One kernel of a flush.
struct KernelRun {
  Backend& backend;
  const Window& window;
  const Step& step;
  std::span<const BufferRef> buffers;  ///< by entry; of the step's slots all are there
  std::span<const Scalar> parameters;
  bool in_place;  ///< the result takes the memory of step.replaces
};

/// A look at the kernels of one flush.
class FlushWatch {
 public:
  virtual ~FlushWatch() = default;
  virtual void before(const KernelRun& /*run*/) {}
  virtual void after(const KernelRun& run) = 0;
};

class KernelWatch {
 public:
  virtual ~KernelWatch() = default;
  /// Null: not at this one. Flushes of several devices may run at once.
  virtual std::unique_ptr<FlushWatch> begin(Backend& backend, const Window& window, const Plan& plan) = 0;
};

/// For all flushes of the process from now on. They see kernels in the order in which they were added, but `first` ones
/// before all others.
void add_watch(std::shared_ptr<KernelWatch> watch, bool first = false);
void remove_watch(const KernelWatch* watch);

/// While it lives nobody sees what this thread computes: for watches that compute.
class Unwatched {
 public:
  Unwatched();
  ~Unwatched();
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;

 private:
  bool before_;
};

/// For execute().
std::vector<std::unique_ptr<FlushWatch>> watches_of(Backend& backend, const Window& window, const Plan& plan);

/// Whether anybody looks, such as a Shadow or a Recorder.
bool is_watched();
/// Whether a Shadow lives.
bool is_shadowed();

/// Begins what the environment asks for (watch_environment.cpp); true. Throws what Shadow and Recorder throw.
bool watch_by_environment();

/// What the kernels of a flush are for people.
class KernelNames {
 public:
  KernelNames(const Window& window, const Plan& plan);

  /// The ops that users called, and the steps that these are made of where that is not the same; each once, in their
  /// order: "linear + gelu: contraction + add + gelu_erf".
  std::string ops_of(const Step& step) const;
  /// Of the ops in it, what a public op is called.
  std::vector<std::string> called_by(const Step& step) const;
  /// The module whose parameter the kernel reads, "layer1.0.conv1"; empty where it reads none.
  std::string module_of(const Step& step) const;

 private:
  std::vector<std::size_t> members_of(const Step& step) const;

  std::string module_read_by(const Node& node) const;

  const Window& window_;
  std::vector<bool> stored_;                                   ///< values that have a buffer: where a kernel's ops end
  std::unordered_multimap<const Node*, NamedElements> named_;  ///< members of modules, by who owns their elements
};

/// The bytes of a value.
std::vector<std::byte> bytes_of(Backend& backend, const Node& node, const BufferRef& buffer);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
