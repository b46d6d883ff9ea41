// clang++-19 and ld as processes, and the files between them. Every file is named by a hash of what it was made from,
// and appears whole or not at all, so processes can share a directory.
#pragma once

#include <string>

namespace emulator {
namespace toolchain {

/// The path of a shared library with the code. Throws std::runtime_error with the compiler's words.
/// `contracts`: a * b + c is fused, as Apple's compiler does unless a text forbids it. `compiled` is set when it was.
std::string shared_library(const std::string& code, bool contracts, bool& compiled);
/// Compiles the code with address spaces, for its errors alone; throws them. `checked` is set unless it was known as
/// good.
void check_address_spaces(const std::string& code, bool& checked);

}  // namespace toolchain
}  // namespace emulator
