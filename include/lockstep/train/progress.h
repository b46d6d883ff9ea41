// How far training is, for people: one line that is drawn again on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <lockstep/export.h>
#include <lockstep/train/log.h>

namespace lockstep {
inline namespace v0 {
namespace train {

/// What the line says.
struct Progress {
  std::int64_t epoch = 1;  ///< from 1
  std::int64_t epochs = 1;
  std::int64_t batch = 0;  ///< done in this epoch
  std::int64_t batches = 1;
  double loss = Record::kNone;      ///< mean of the epoch so far
  double accuracy = Record::kNone;  ///< part of 1, of the epoch so far
  double samples_per_second = Record::kNone;
  double seconds_left = Record::kNone;
};

/// "epoch 2/3 [=====>    ] 55 %  loss 0.1234  accuracy 97.12 %  4321 samples/s  0:12 left", at most `columns` long:
/// what does not fit goes from the end.
LOCKSTEP_API std::string progress_line(const Progress& progress, int columns);
/// The line that stays when an epoch has ended; `test` may have been not measured.
LOCKSTEP_API std::string epoch_line(const Progress& progress, const Record& test, double seconds);

/// Writes those lines to standard error: at most ten times a second on a terminal, every ten seconds and after each
/// epoch elsewhere.
class LOCKSTEP_API ProgressBar {
 public:
  ProgressBar();
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void show(const Progress& progress);
  void end_epoch(const Progress& progress, const Record& test, double seconds);
  /// Removes the line, so that others can print.
  void clear();

 private:
  bool terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace train
}  // namespace v0
}  // namespace lockstep
