// What the fuzz targets share. A parser may answer any bytes with one of the library's errors; everything else (another
// exception, a crash, a sanitizer's report, a hang, too much memory) is a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <lockstep/error.h>

#include "core/hash.h"
#include "core/os.h"
#include "io/raw_tensor.h"

/// Defines the target of a name, which is its source's: what is done with one input, `data` of `size` bytes.
#define LOCKSTEP_FUZZ_TARGET(name)                                                                    \
  static int fuzz_##name(const std::uint8_t* data, std::size_t size);                                 \
  static const bool name##_is_known = ::lockstep::fuzz::targets().emplace(#name, fuzz_##name).second; \
  static int fuzz_##name(const std::uint8_t* data, [[maybe_unused]] std::size_t size)

namespace lockstep::fuzz {

using Target = int (*)(const std::uint8_t* data, std::size_t size);

/// All of this program, by name.
inline std::map<std::string_view, Target>& targets() {
  static std::map<std::string_view, Target> all;
  return all;
}

/// The input in memory of exactly its size, so that AddressSanitizer sees a read past its end.
inline os::FileBytes file_of(const std::uint8_t* data, std::size_t size) {
  auto copy = std::make_shared<std::vector<std::byte>>(size);
  if (size != 0) std::memcpy(copy->data(), data, size);
  const std::span<const std::byte> bytes(*copy);
  return {"input", bytes, std::move(copy)};
}

/// Reads every byte of the tensor; stops the program unless there are as many as type and shape say.
inline std::uint64_t touch(const io::RawTensor& tensor) {
  if (!(io::element_count(tensor.shape) * io::size_of(tensor.type)).equals(tensor.bytes.size())) __builtin_trap();
  return hash_bytes(tensor.bytes);
}

/// Runs `parse`; the library's own errors are the expected answer to a bad input.
template <typename Parse> int expect_error_or_success(Parse parse) {
  try {
    parse();
  } catch (const Error&) {
  }
  return 0;
}

}  // namespace lockstep::fuzz
