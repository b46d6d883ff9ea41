// Whole files of torch.save in the old form: five pickles and the storages.
#include "pickle_walk.h"

LOCKSTEP_FUZZ_TARGET(pytorch_legacy) {
  using namespace lockstep;
  return fuzz::expect_error_or_success([&] { fuzz::walk(io::parse_pytorch(fuzz::file_of(data, size), true)); });
}
