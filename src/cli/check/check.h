// Every op, dtype, layout and size against the reference, by equality of bits.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <lockstep/tensor.h>

#include "cli/check/ops.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

enum class CellStatus : std::uint8_t { equal, different, unsupported };
const char* name_of(CellStatus status);

std::vector<DType> all_dtypes();

/// What was found for an op and a dtype.
struct Cell {
  std::string op;
  DType dtype = DType::f32;
  CellStatus status = CellStatus::equal;
  int probes = 0;                ///< calls whose bits were compared
  int refused = 0;               ///< calls that both devices refused with the same error
  int different = 0;             ///< calls that differ
  std::string detail;            ///< of the first difference, or why the op does not take the dtype
  std::string file;              ///< the case of the first difference
  double seconds = 0;            ///< of all calls on the device
  double reference_seconds = 0;  ///< and on the reference
};

struct CheckOptions {
  Device reference = {DeviceKind::ref, 0};
  Device device;
  Extent extent = Extent::quick;
  std::vector<std::string> only;  ///< names of ops; none: all
  std::vector<DType> dtypes = all_dtypes();
  std::int64_t most_elements = std::numeric_limits<std::int64_t>::max();  ///< of the sizes that are tried
  std::size_t part = 1, parts = 1;  ///< every parts-th op, beginning with number `part`, counted from 1
  std::string folder;               ///< where cases of differences go; empty: nowhere
  std::function<void(std::size_t done, std::size_t total)> progress;
};

/// A cell per op and dtype, in the order of the table; the dtypes of an op stand together.
std::vector<Cell> check_device(const CheckOptions& options, const std::vector<CheckOp>& ops);

/// One call on both devices. Empty: the same bits, or the same refusal; else what differs.
struct CallComparison {
  bool compared = false;     ///< neither device refused
  bool wrong_dtype = false;  ///< both refused with DTypeError
  std::string refusal;       ///< what was said
  std::string difference;
  double seconds = 0;  ///< on the device
  double reference_seconds = 0;
};
CallComparison compare_call(const CheckOp& op, DType dtype, const Point& point, Device reference, Device device);

/// A difference as a file: operands, both results, and the point in the metadata. Returns its path.
std::string save_check_case(const std::string& folder, const CheckOp& op, DType dtype, const Point& point,
                            Device reference, Device device);
void save_check_case_as(const std::string& path, const CheckOp& op, DType dtype, const Point& point, Device reference,
                        Device device);
struct CheckCase {
  CheckOp op;
  DType dtype;
  Point point;
};
/// Throws FormatError if the file is no such case, or of an op that is not in the table.
CheckCase read_check_case(const std::string& path);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
