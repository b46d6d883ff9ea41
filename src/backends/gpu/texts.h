// The kernel texts (src/kernels/*.h) as strings, and of them the functions that a kernel needs.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace gpu {

/// The texts, in the order in which they depend on each other. Generated at build time: cmake/EmbedTexts.cmake.
std::span<const std::string_view> embedded_texts();

/// The functions of the texts that `body` calls, and those that they call, in their order. Overloads for doubles are
/// left out where nothing computes in double. A kernel compiles faster, and asks less of its device, without the rest.
std::string needed_functions(std::string_view body);

/// A macro that stands for a function of the texts on devices whose own operation is not exact.
struct Substitute {
  std::string macro;
  std::string function;
};
/// Also what these stand for, wherever they are used.
std::string needed_functions(const std::string& body, std::span<const Substitute> substitutes);

}  // namespace gpu
}  // namespace v0
}  // namespace lockstep
