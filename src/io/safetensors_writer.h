// The writer behind save_safetensors, with the system calls as a parameter so that tests can make them fail.
#pragma once

#include <map>
#include <string>

#include <lockstep/io/tensor_file.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {

void write_safetensors(const std::string& path, const TensorMap& tensors,
                       const std::map<std::string, std::string>& metadata, os::SystemCalls& calls);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
