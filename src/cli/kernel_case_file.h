// Files of kernel cases (graph/kernel_case.h), and which kind of case a file is.
#pragma once

#include <string>

#include <lockstep/io/tensor_file.h>

#include "graph/kernel_case.h"

namespace lockstep {
inline namespace v0 {
namespace cli {

/// "lockstep-case-1", "lockstep-check-1", "lockstep-kernel-1", whatever the file says; "" where it says nothing.
/// IoError, and FormatError if it is no safetensors file.
std::string case_format(const std::string& path);

/// FormatError unless it is one that can be run.
graph::KernelCase load_kernel_case(const std::string& path);

/// Runs the case on both devices: nothing where they agree. Both refusing with the same type of error is agreement.
std::optional<graph::CaseDifference> compare_devices(const graph::KernelCase& work, Device reference, Device device);
/// For people: "result 0, f32 [2, 3] at [1, 2]: ref 1 (0x3f800000), cpu 2 (0x40000000), ...".
std::string difference_text(const graph::KernelCase& work, const graph::CaseDifference& found,
                            const std::string& expected_by, const std::string& actual_by);
/// "linear + gelu in net.0" as far as the case tells it, and its size.
std::string summary_of(const graph::KernelCase& work);

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
