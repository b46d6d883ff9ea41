// What the command says of an exception.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {
inline namespace v0 {
namespace cli {

/// An error's message without the places in source files that the library adds for those who call it ("  at net.cpp:41"):
/// here they are the command's own, which its users do not have.
std::string without_sources(std::string_view message);

/// The message of the exception that is being handled, for the terminal.
std::string message_of_current_exception();

}  // namespace cli
}  // namespace v0
}  // namespace lockstep
