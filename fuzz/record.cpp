// Recordings of kernels (lockstep/recorder.h). What can be read can be compared.
#include <string_view>

#include "fuzz_target.h"
#include "graph/kernel_record.h"

LOCKSTEP_FUZZ_TARGET(record) {
  using namespace lockstep;
  const os::FileBytes file = fuzz::file_of(data, size);
  return fuzz::expect_error_or_success([&] {
    const std::string_view text(reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size());
    const auto kernels = graph::parse_record(text, "input");
    if (compare_records(kernels, kernels)) __builtin_trap();
    if (!kernels.empty() && !compare_records(kernels, {})) __builtin_trap();
  });
}
