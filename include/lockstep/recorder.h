// Recordings: a hash of what every kernel has made, small enough to keep and to send. Two of them say where two runs
// part: of two devices, two machines, two versions of a program.
//
//   { const ls::Recorder recorder("a.rec"); model.forward(x).eval(); }
//   const auto parted = ls::compare_records(ls::read_record("a.rec"), ls::read_record("b.rec"));
//
// For a program that cannot be edited: LOCKSTEP_RECORD=a.rec in its environment; for the command: --record a.rec, and
// `lockstep diff a.rec b.rec`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/dtype.h>
#include <lockstep/error.h>
#include <lockstep/shape.h>

namespace lockstep {
inline namespace v0 {

/// A value that a kernel has made.
struct RecordedKernel {
  std::string device;
  std::string ops;     ///< as in ShadowDifference
  std::string module;  ///< whose parameter the kernel reads; empty where it reads none
  std::string file;    ///< and line: where the op was called
  std::int64_t line = 0;
  DType dtype = DType::f32;
  Shape shape;
  std::uint64_t hash = 0;  ///< as Tensor::hash
  /// Of a module's output: up to kRecordedSample of its elements, evenly spaced from the first. Kernels have none.
  std::vector<double> sample = {};
};
inline constexpr std::int64_t kRecordedSample = 256;

struct RecorderOptions {
  /// Instead of kernels the outputs of layers: nn::Layer, when it is called. Each is computed there.
  bool modules = false;
  /// The kernel of that number, from 1, is kept with what it read: FILE.case-N.safetensors. 0: none. On a second pass,
  /// for the kernel where compare_records says that two runs part.
  std::int64_t case_of = 0;
};

/// While it lives, it records what all devices of the process compute, in their order. Windows of pending work have one
/// size on all devices meanwhile, so that they make the same kernels.
class LOCKSTEP_API Recorder {
 public:
  /// ValueError while another Recorder lives, IoError if the file cannot be made.
  explicit Recorder(std::string file, RecorderOptions options = {}, CallSite site = {});
  /// Like finish(), but what goes wrong is not told.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  /// Ends the recording and writes the file, whole or not at all, unless nothing was computed. IoError.
  void finish();
  std::size_t size() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// A recording: one JSON object a line, the first says the version. IoError, and FormatError that names the line and
/// the field.
LOCKSTEP_API std::vector<RecordedKernel> read_record(const std::string& file);

/// Where two recordings part.
struct RecordDifference {
  std::size_t position = 0;  ///< of the first kernel that is not the same in both
  /// That kernel; nothing where a recording ends before it.
  std::optional<RecordedKernel> a;
  std::optional<RecordedKernel> b;
  std::string module;      ///< of the last kernel up to it that read a parameter
  bool same_work = false;  ///< both made the same of values that were equal so far: only the bits differ
};
/// Nothing where they are the same. Devices and places in sources do not count.
LOCKSTEP_API std::optional<RecordDifference> compare_records(const std::vector<RecordedKernel>& a,
                                                             const std::vector<RecordedKernel>& b);

/// An output of a module in two recordings of one model, such as ours and one of tools/record_torch.py.
struct ModuleError {
  std::string module;
  std::string ops;  ///< the class of the module in the first recording
  Shape a, b;       ///< where they differ, nothing is compared
  double error =
      0;  ///< root of the mean square of the samples' differences, of that of the first's values; inf for NaN in one
  bool is_equal = false;  ///< all bits
};
/// For each call of a module that both have, in the order of the first. ValueError if they have none in common.
LOCKSTEP_API std::vector<ModuleError> compare_modules(const std::vector<RecordedKernel>& a,
                                                      const std::vector<RecordedKernel>& b);

}  // namespace v0
}  // namespace lockstep
