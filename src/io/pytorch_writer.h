// The writer behind save_pytorch, with the system calls as a parameter so that tests can make them fail.
#pragma once

#include <string>

#include <lockstep/io/tensor_file.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace io {

void write_pytorch(const std::string& path, const TensorMap& tensors, os::SystemCalls& calls);

/// The program of data.pkl: an OrderedDict of the tensors, storage k being that of the k-th.
std::string pickle_of(const TensorMap& tensors);

}  // namespace io
}  // namespace v0
}  // namespace lockstep
