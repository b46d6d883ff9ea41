// A computation as a file that anybody can run again: `lockstep replay FILE --device cuda:0`.
#pragma once

#include <string>
#include <vector>

#include <lockstep/error.h>
#include <lockstep/export.h>
#include <lockstep/tensor.h>

namespace lockstep {
inline namespace v0 {

/// Writes what `results` are computed from since the last values that were read or evaluated, with these values, and
/// the results' bits as their device computes them. A safetensors file; whole or not at all. Save before reading: what
/// is computed already has forgotten how (ValueError). The results are computed by it. `lockstep minimize` makes it
/// smaller. IoError.
LOCKSTEP_API void save_case(const std::string& file, const std::vector<Tensor>& results, CallSite site = {});

}  // namespace v0
}  // namespace lockstep
