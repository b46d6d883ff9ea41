// The text of a recording, for those who read one that is no file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <lockstep/recorder.h>

namespace lockstep {
inline namespace v0 {
namespace graph {

/// `file`; where several ranks of a program run, "file.rank1" for rank 1 and so on: they do not write one file.
std::string file_of_rank(const std::string& file);

/// Where a recording keeps the case of a kernel.
std::string case_file_of(const std::string& file, std::int64_t kernel);

/// FormatError that begins with `name`.
std::vector<RecordedKernel> parse_record(std::string_view text, const std::string& name);

}  // namespace graph
}  // namespace v0
}  // namespace lockstep
