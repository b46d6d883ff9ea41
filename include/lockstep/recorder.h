// Recordings: a hash of what every kernel has made, small enough to keep and to send. Two of them say where two runs part:
// of two devices, two machines, two versions of a program.
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
};

/// While it lives, it records what all devices of the process compute, in their order. Windows of pending work have one
/// size on all devices meanwhile, so that they make the same kernels.
class LOCKSTEP_API Recorder {
 public:
  /// ValueError while another Recorder lives, IoError if the file cannot be made.
  explicit Recorder(std::string file, CallSite site = {});
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

/// A recording: one JSON object a line, the first says the version. IoError, and FormatError that names the line and the
/// field.
LOCKSTEP_API std::vector<RecordedKernel> read_record(const std::string& file);

/// Where two recordings part.
struct RecordDifference {
  std::size_t position = 0;  ///< of the first kernel that is not the same in both
  /// That kernel; nothing where a recording ends before it.
  std::optional<RecordedKernel> a;
  std::optional<RecordedKernel> b;
  std::string module;  ///< of the last kernel up to it that read a parameter
  bool same_work = false;  ///< both made the same of values that were equal so far: only the bits differ
};
/// Nothing where they are the same. Devices and places in sources do not count.
LOCKSTEP_API std::optional<RecordDifference> compare_records(const std::vector<RecordedKernel>& a,
                                                             const std::vector<RecordedKernel>& b);

}  // namespace v0
}  // namespace lockstep
