// Whole files of torch.save in the old form: five pickles and the storages.
#include "pickle_walk.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] { fuzz::walk(io::parse_pytorch(fuzz::file_of(data, size), true)); });
}
