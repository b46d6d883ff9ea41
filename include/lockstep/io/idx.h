// The idx format of MNIST and its relatives: a type, up to eight sizes and big-endian elements, plain or in gzip.
#pragma once

#include <string>

#include <lockstep/export.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {
namespace io {

/// The array of an idx file, on the CPU: u8, i8, i16, i32, f32 or f64. Whether the file is compressed is seen from its
/// content. Throws IoError if the file cannot be read; FormatError if it is no idx file, is damaged, or holds fewer or
/// more bytes than its sizes say.
LOCKSTEP_API Tensor load_idx(const std::string& path);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
