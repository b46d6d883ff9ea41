// Where the time goes: what every device computes, as a timeline to look at.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {

namespace graph {
class TraceLog;
}

/// What a trace saw of one kind of work.
struct TraceTotal {
  std::string what;         ///< of kernels the ops that were called, their steps, and what they make:
                            ///< "linear + gelu: contraction + add + gelu_erf f32 [8, 64]"; else "compile", "upload", "download"
  std::string device;       ///< e.g. "cuda:0"
  std::uint64_t count = 0;  ///< how often
  double seconds = 0;       ///< in all
};

/// While it lives, it records what the process computes on every device: each kernel with its ops, the line that called,
/// shapes and bytes; compilation, transfers, and memory in use. The file is in Chrome's trace format: open it at
/// ui.perfetto.dev or chrome://tracing. Devices that collect work are waited for after every kernel, so that times are
/// the kernels' own; the whole takes longer meanwhile, and gives the same bits.
/// PyTorch: profiler.profile and export_chrome_trace.
class LOCKSTEP_API Trace {
 public:
  /// Throws ValueError while another trace is recorded, and IoError if the file cannot be made.
  explicit Trace(std::string file);
  /// Like finish(), but what goes wrong is not told.
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  /// Ends the recording and writes the file, whole or not at all. Throws IoError.
  void finish();
  /// What was recorded so far, the longest first.
  std::vector<TraceTotal> totals() const;

 private:
  std::string file_;
  std::shared_ptr<graph::TraceLog> log_;
};

}  // namespace v0
}  // namespace lockstep
