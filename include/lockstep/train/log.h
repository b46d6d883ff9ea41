// What training measures, written down as it goes: CSV, JSON lines, and TensorBoard's event files.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/export.h>

namespace lockstep {
inline namespace v0 {
namespace train {

/// One measurement. NaN: not measured (which a loss of NaN is not told from: training stops at one).
struct Record {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  std::int64_t step = 0;        ///< steps done, from 1
  std::int64_t epoch = 0;       ///< of that step, from 1
  std::string split = "train";  ///< what was measured: "train" or "test"
  double loss = kNone;
  double accuracy = kNone;  ///< part of the examples that were right, 0 to 1
  double lr = kNone;
  double samples_per_second = kNone;
  double seconds = kNone;  ///< since training started
  std::string numerics = {};  ///< in which products were computed: "f32 exact", "bf16 blocked"; of json_log alone
};

/// Takes records and writes them where others can follow. write() throws IoError if the medium is full or gone.
class LOCKSTEP_API Log {
 public:
  Log() = default;
  virtual ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  virtual void write(const Record& record) = 0;
};

// Where a file exists already, what it says about steps up to `keep_steps` stays and the rest goes: a run that was
// killed and continues from a checkpoint repeats the steps since then. 0 starts anew.

/// A header and a line a record; what was not measured is empty. Throws IoError.
LOCKSTEP_API std::unique_ptr<Log> csv_log(const std::string& path, std::int64_t keep_steps = 0);
/// An object a line; what was not measured is left out. Throws IoError.
LOCKSTEP_API std::unique_ptr<Log> json_log(const std::string& path, std::int64_t keep_steps = 0);
/// A file events.out.tfevents.* in `folder`, which is created: scalars "<split>/loss", "<split>/accuracy", "lr" and
/// "samples_per_second". TensorBoard shows nothing of older files in the folder after step `keep_steps`. Throws
/// IoError.
LOCKSTEP_API std::unique_ptr<Log> tensorboard_log(const std::string& folder, std::int64_t keep_steps = 0);

/// The records of a json_log up to a step. IoError if the file cannot be read, FormatError naming the line that is no
/// record; a last line that was cut short is left out.
LOCKSTEP_API std::vector<Record> read_json_log(const std::string& path,
                                               std::int64_t up_to_step = std::numeric_limits<std::int64_t>::max());

}  // namespace train
}  // namespace v0
}  // namespace lockstep
