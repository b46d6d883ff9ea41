// CIFAR-10 in its binary form: records of a label byte and 3 x 32 x 32 planar RGB bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/export.h>
#include <lockstep/io/image.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// All records of one file, in memory.
struct LOCKSTEP_API CifarFile {
  static constexpr int kSide = 32;
  static constexpr int kClasses = 10;
  static constexpr std::size_t kImageBytes = 3 * kSide * kSide;

  std::vector<std::uint8_t> labels;  ///< One per record, below kClasses.
  std::vector<std::uint8_t> planes;  ///< kImageBytes per record.

  /// Throws IoError if the file cannot be read; FormatError if it is empty, not a whole number of records, or holds a
  /// label above 9.
  static CifarFile load(const std::string& path);

  std::size_t size() const { return labels.size(); }
  /// Record `index` as a picture. Throws IndexError.
  Image image(std::size_t index) const;
  /// u8 [size, 3, 32, 32].
  Tensor images_tensor(Device device = {}) const;
  /// i64 [size].
  Tensor labels_tensor(Device device = {}) const;
};

}  // namespace io
}  // namespace v0
}  // namespace lockstep
