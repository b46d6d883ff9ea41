// The writers behind save_checkpoint, with the system calls as a parameter so that tests can make them fail.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/io/tensor_file.h>
#include <lockstep/train/checkpoint.h>

#include "core/os.h"

namespace lockstep {
inline namespace v0 {
namespace train {

/// A file beside a checkpoint's, which says its name and the hash of what is in it.
struct Slice {
  std::string name;
  std::string hash;
};

std::string write_checkpoint(const std::string& directory, const Checkpoint& checkpoint, SaveCheckpointOptions options,
                             os::SystemCalls& calls, const std::vector<Slice>& slices = {});
std::string write_checkpoint(const std::string& directory, const Checkpoint& own, const dist::Group& group,
                             SaveCheckpointOptions options, os::SystemCalls& calls);

/// Writes the tensors of all parts; the file gets this name.
Slice write_slice(const std::string& directory, const std::string& name, const Checkpoint& checkpoint,
                  os::SystemCalls& calls);
/// The tensors of a slice, with the hash that they have. FormatError if it is none.
std::pair<io::TensorMap, std::string> read_slice(const std::string& path);
/// Of the checkpoint in this file; none where it is in one file.
std::vector<Slice> slices_of(const std::string& path);
/// Removes slices that no checkpoint of the directory names: of saves that were killed, or were replaced.
void remove_lost_slices(const std::string& directory);
inline constexpr std::string_view kSlicePrefix = "slice-";

}  // namespace train
}  // namespace v0
}  // namespace lockstep
