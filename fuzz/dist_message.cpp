// Headers of messages between ranks. What is read and written again is the same.
#include <cstring>

#include "dist/message.h"
#include "fuzz_target.h"

LOCKSTEP_FUZZ_TARGET(dist_message) {
  using namespace lockstep;
  dist::HeaderBytes bytes{};
  if (size != bytes.size()) return 0;
  std::memcpy(bytes.data(), data, size);
  return fuzz::expect_error_or_success([&] {
    if (dist::encoded(dist::parse_header(bytes)) != bytes) __builtin_trap();
  });
}
